"""How a lock is taken that may be waited for only so long."""

from __future__ import annotations

import threading

from jobboard.backends.timelimit import seconds_left


def take_lock(lock: threading.Lock | threading.RLock, taken: list[bool], longest: float) -> bool:
    """Wait for a lock, at most so many seconds or until the time limit is over; return whether it was taken.

    :param taken: has True once the lock is this thread's, whatever a signal's handler raises: one call of a function
        in C takes it and notes that, and no handler runs in between. So the caller releases the lock if it has.
    """
    # Most often it is free, and then there is no time to reckon.
    taken.extend(map(lock.acquire, [False]))
    if True not in taken:
        taken.extend(map(lock.acquire, [True], [seconds_left(longest)]))
    return True in taken
