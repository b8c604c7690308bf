"""Harnesses of the two embedded stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from jobboard.backends.memory import MemoryBackend
from jobboard.board import JobBoard
from jobboard.testing import Harness

GARBAGE = b"\xc1 no posting"


def kept_open(directory: Path, harness_in: Callable[[Path], Harness]) -> Iterator[Path]:
    """Yield a directory of files for all cases of a module: each has a board of its own in them.

    Another board stays open: the last one that closes a file writes its log back, which takes longer than most cases.
    """
    with harness_in(directory) as harness:
        harness.board()
        yield directory


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
