"""Transactions that the server undid because of others, and that are taken again."""

from __future__ import annotations

import functools
import math
import random
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from jobboard.backends.timelimit import is_time_over, time_limit
from jobboard.errors import BoardUnavailable

P = ParamSpec("P")
T = TypeVar("T")

#: Seconds: the most of the random pauses, so that those who met don't meet again, and how long that goes on.
_FIRST_PAUSE, _LONGEST_PAUSE, _PATIENCE = 0.002, 0.5, 10.0


class Undone(BoardUnavailable):
    """A transaction has certainly changed nothing, and may well succeed if it is taken again.

    A deadlock, a serialization failure, a row of the same key that somebody else inserted meanwhile, or a connection
    that was broken in its midst.

    :param is_silent: the server did not reply in time; another try would wait as long.
    """

    def __init__(self, message: str, *, is_silent: bool = False) -> None:
        super().__init__(message)
        self.is_silent = is_silent


def taken_again(primitive: Callable[P, T]) -> Callable[P, T]:
    """Take a primitive again whose transaction was undone: all that the first try did is gone."""

    @functools.wraps(primitive)
    def insist(*args: P.args, **kwargs: P.kwargs) -> T:
        longest, deadline = _FIRST_PAUSE, math.inf
        while True:
            try:
                with time_limit(deadline - time.monotonic()):
                    return primitive(*args, **kwargs)
            except Undone as undone:
                now = time.monotonic()
                deadline = min(deadline, now + _PATIENCE)
                if undone.is_silent or is_time_over() or now > deadline:
                    raise
                time.sleep(random.uniform(0, longest))
                longest = min(longest * 2, _LONGEST_PAUSE)

    return insist
