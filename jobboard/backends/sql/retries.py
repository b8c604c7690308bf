"""Running a transaction again that the server undid because of others."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from jobboard.backends.timelimit import is_time_over, seconds_for_locks, time_limit
from jobboard.errors import RowLocked, TransactionUndone

P = ParamSpec("P")
T = TypeVar("T")

#: Seconds: the longest random pause at first and at last, and for how long to try. Random, so that two transactions
#: that have met don't meet again.
MIN_PAUSE, MAX_PAUSE, RETRY_TIMEOUT = 0.002, 0.5, 10.0
#: Seconds for which one statement waits for a row that others have locked; connections are set to it. MariaDB counts in
#: whole seconds.
LOCK_TIMEOUT = 1


def retry(operation: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run an operation, and again if its transaction was undone: then all that the first try did is gone.

    One that meets a locked row is run again for as long as the present call waits for locks (``lock_wait``).
    """
    longest, deadline, began = MIN_PAUSE, math.inf, time.monotonic()
    while True:
        try:
            with time_limit(deadline - time.monotonic()):
                return operation(*args, **kwargs)
        except RowLocked:
            # A try that a time limit cuts short would leave its statement waiting in the server.
            if is_time_over() or time.monotonic() + LOCK_TIMEOUT > began + seconds_for_locks():
                raise
        except TransactionUndone as undone:
            now = time.monotonic()
            deadline = min(deadline, now + RETRY_TIMEOUT)
            if undone.is_silent or is_time_over() or now > deadline:
                raise
        time.sleep(random.uniform(0, longest))
        longest = min(longest * 2, MAX_PAUSE)
