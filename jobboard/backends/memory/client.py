"""A client of one store: open or closed."""

from __future__ import annotations

from jobboard.backends.memory.store import MemoryStore
from jobboard.errors import BoardUnavailable


class MemoryClient:
    """Every primitive takes :attr:`lock`, and calls :meth:`begin` before it looks at the store.

    The lock is reentrant: a signal handler may use the board while its thread holds the lock.
    """

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.lock = store.lock
        self.is_open = False

    def begin(self) -> float:
        """Bring the store up to the present moment, under the lock, and return it.

        :raises BoardUnavailable: this client is closed.
        """
        if not self.is_open:
            raise BoardUnavailable("the board is closed")
        return self.store.expire_and_promote()
