"""Transactions that the server undid because of others, and that are taken again."""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from jobboard.errors import BoardUnavailable

P = ParamSpec("P")
T = TypeVar("T")

#: Seconds; each is the most of a random pause, so that those who met don't meet again.
_PAUSES = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8)


class Undone(BoardUnavailable):
    """A transaction has certainly changed nothing, and may well succeed if it is taken again.

    A deadlock, a serialization failure, a row of the same key that somebody else inserted meanwhile, or a connection
    that was broken in its midst.
    """


def taken_again(primitive: Callable[P, T]) -> Callable[P, T]:
    """Take a primitive again whose transaction was undone: all that the first try did is gone."""

    @functools.wraps(primitive)
    def insist(*args: P.args, **kwargs: P.kwargs) -> T:
        for longest in _PAUSES:
            try:
                return primitive(*args, **kwargs)
            except Undone:
                time.sleep(random.uniform(0, longest))
        return primitive(*args, **kwargs)

    return insist
