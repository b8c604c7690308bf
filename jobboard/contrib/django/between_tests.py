"""Between the tests of Django's test cases: a board in memory begins anew, as the database does."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from jobboard.backends.memory import MemoryBackend
from jobboard.backends.memory.store import MemoryStore
from jobboard.board import JobBoard, client_of


class _Test(NamedTuple):
    """A test of a ``TestCase``: the block that it rolls back at its end, and the connection on which that is open."""

    block: object
    connection: Any

    @property
    def has_ended(self) -> bool:
        return not any(block is self.block for block in self.connection.atomic_blocks)


#: The test in which a store was used last.
_tests: WeakKeyDictionary[MemoryStore, _Test] = WeakKeyDictionary()
_lock = threading.Lock()


def begin_anew(board: JobBoard, connection: Any) -> None:
    """Empty a board in memory at its first use in a test of a ``TestCase``, and at the first use after one.

    :param connection: this thread's connection of Django's. The other threads of a test are in no block of it.
    """
    backend = client_of(board).backend
    if not isinstance(backend, MemoryBackend):
        return
    store, test = backend.store, _test_of(connection)
    with _lock:
        last = _tests.get(store)
        is_new = test is not None and (last is None or last.block is not test.block)
        if is_new or (last is not None and last.has_ended):
            _clear(store)
            _tests.pop(store, None)
            if test is not None:
                _tests[store] = test


def empty_memory(board: JobBoard) -> None:
    """Empty a board if it is in memory: the tables of a ``TransactionTestCase`` were emptied as well."""
    backend = client_of(board).backend
    if isinstance(backend, MemoryBackend):
        _clear(backend.store)


def _clear(store: MemoryStore) -> None:
    with store.lock:
        store.clear()


def _test_of(connection: Any) -> _Test | None:
    """Return the test whose block is open on a connection; Django marks these blocks for itself, too."""
    blocks = [block for block in connection.atomic_blocks if getattr(block, "_from_testcase", False)]
    return _Test(blocks[-1], connection) if blocks else None
