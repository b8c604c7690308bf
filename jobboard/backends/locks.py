"""Takes a lock within a limited time."""

from __future__ import annotations

import threading
from operator import attrgetter

from jobboard.backends.timelimit import seconds_left
from jobboard.errors import BoardUnavailable


class lock_within:
    """Hold a lock for a block; whatever a signal's handler raises, the lock is free after it.

    Python runs signals' handlers as a function of Python begins, and as one in C returns. So one call in C takes the
    lock and notes that, and the block is left by the lock's own function, in C.

    :param seconds: how long to wait for it at most; less if the time limit of the call is over sooner.
    :param fault: the text of the BoardUnavailable that is raised if it is not free by then.
    """

    __slots__ = ("_fault", "_lock", "_seconds")

    def __init__(self, lock: threading.Lock | threading.RLock, seconds: float, fault: str) -> None:
        self._lock, self._seconds, self._fault = lock, seconds, fault

    def __enter__(self) -> None:
        acquire, taken = self._lock.acquire, list[bool]()
        try:
            # Most often it is free, and then there is no time to reckon.
            taken.extend(map(acquire, [False]))
            if True not in taken:
                taken.extend(map(acquire, [True], [seconds_left(self._seconds)]))
            if True not in taken:
                raise BoardUnavailable(self._fault)
        except BaseException:
            if True in taken:
                self._lock.release()
            raise

    __exit__ = property(attrgetter("_lock.__exit__"))
