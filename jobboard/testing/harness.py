"""What the contract needs to know of a store: how to open a client onto it, and how to damage it."""

from __future__ import annotations

import abc
import gc
import os
import threading
import uuid as uuids
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, ClassVar, Self

from jobboard.backends.address import Address
from jobboard.backends.base import Backend, Capabilities
from jobboard.board import JobBoard
from jobboard.testing.deadline import eventually
from jobboard.testing.faults import LossyBackend

#: How often something is used before its threads and handles are counted, and until they are counted again.
_WARM_UPS, _USES = 3, 35


class Harness(abc.ABC):
    """One store under test; a new one per test, closed at its end.

    All clients that one harness opens see the same store. A test that is given no name works on a fresh board.
    """

    backend_class: ClassVar[type[Backend]]
    #: Given to every backend, such as a short connect timeout.
    backend_options: ClassVar[Mapping[str, Any]] = {}

    def __init__(self) -> None:
        self._boards: list[JobBoard] = []
        #: On a board of shards: whether each job that can go anywhere is to go to the same shard.
        self.together = False

    @property
    def capabilities(self) -> Capabilities:
        return self.backend_class.capabilities

    @abc.abstractmethod
    def uri(self) -> str:
        """Return the store's URI; another process opens the same store with it, if ``capabilities.processes``."""

    @abc.abstractmethod
    def corrupt(self, board: JobBoard, uuid: str) -> None:
        """Overwrite the stored bytes of a posting by garbage, directly in the store."""

    def write_layout(self, board: JobBoard, number: str) -> str:
        """Overwrite the number of the board's layout, or of the schema, directly in the store; return the one before.

        Only stores that several processes share have one.
        """
        raise NotImplementedError(f"{type(self).__name__} has no layout")

    def backend(self, name: str) -> Backend:
        """Return a new backend of the board ``name``, not opened."""
        return self.backend_class(name, Address.parse(self.uri()), **self.backend_options)

    def fresh_name(self) -> str:
        """Return a board name that nobody has used."""
        return f"contract-{uuids.uuid4().hex[:16]}"

    def board(self, name: str | None = None, **options: Any) -> JobBoard:
        """Open and connect a new client; ``options`` are the board's own, such as ``expiry``."""
        name = name or self.fresh_name()
        return self.adopt(JobBoard(name, self.backend(name), **options))

    def lossy_board(self, name: str | None = None, **options: Any) -> tuple[JobBoard, LossyBackend]:
        """Open and connect a new client whose replies can be lost, and whose requests are counted."""
        name = name or self.fresh_name()
        backend = LossyBackend(self.backend(name))
        return self.adopt(JobBoard(name, backend, **options)), backend

    def adopt(self, board: JobBoard) -> JobBoard:
        """Connect a board, and close it at the end."""
        self._boards.append(board)
        board.connect()
        return board

    def handles(self) -> int:
        """Return how many files and sockets this process has open; 0 where that can't be told."""
        return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0

    def check_that_nothing_stays(self, use: Callable[[], object]) -> None:
        """Call ``use`` many times; raises ``AssertionError`` if threads or handles of it stay.

        What else goes on in this process may open a few; what leaks does so each time.
        """
        for _ in range(_WARM_UPS):
            use()
        gc.collect()
        threads, handles = threading.active_count(), self.handles()
        for _ in range(_USES):
            use()
        gc.collect()
        eventually(lambda: threading.active_count() < threads + _USES // 2)
        eventually(lambda: self.handles() < handles + _USES // 2)

    def close(self) -> None:
        """Close every client that was opened."""
        while self._boards:
            self._boards.pop().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
