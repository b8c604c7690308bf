"""Harnesses of the two embedded stores."""

from __future__ import annotations

from jobboard.backends.memory import MemoryBackend
from jobboard.board import JobBoard
from jobboard.testing import Harness

GARBAGE = b"\xc1 no posting"


class MemoryHarness(Harness):
    backend_class = MemoryBackend

    def uri(self) -> str:
        return "memory://"

    def corrupt(self, board: JobBoard, uuid: str) -> None:
        backend = self.backend(board.name)
        backend.open(1.0)
        assert isinstance(backend, MemoryBackend)
        with backend.store.lock:
            backend.store.rows[uuid].body = GARBAGE
        backend.close()
