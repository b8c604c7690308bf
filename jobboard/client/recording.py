"""Reports requests to the store to recorders: which, how they ended, and how long they took."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from jobboard import telemetry
from jobboard.backends.roles import ROLES, name_of
from jobboard.errors import BoardUnavailable, ReplyLost

P = ParamSpec("P")
T = TypeVar("T")


def recorded(board: str, primitive: Callable[P, T]) -> Callable[P, T]:
    """Return the same request, which recorders get each time that it is sent."""

    def request(*args: P.args, **kwargs: P.kwargs) -> T:
        outcome, size = "refused", None
        began = time.perf_counter()
        try:
            answer = primitive(*args, **kwargs)
            outcome, size = "answered", len(answer) if isinstance(answer, list) else None
            return answer
        except ReplyLost:
            outcome = "reply_lost"
            raise
        except BoardUnavailable:
            outcome = "unavailable"
            raise
        finally:
            seconds = time.perf_counter() - began
            telemetry.emit("requested", board, _operation_of(primitive), outcome, seconds, size)

    return request


def _operation_of(primitive: Callable[..., object]) -> str:
    if isinstance(primitive, functools.partial):
        primitive = primitive.func
    of: Any = type(getattr(primitive, "__self__", None))
    return _name_of(of, getattr(primitive, "__name__", "other"))


@functools.lru_cache(1000)
def _name_of(of: type, method: str) -> str:
    """Return a primitive's name; the code has a fixed number of them."""
    return name_of(next((role for role, kind in ROLES.items() if issubclass(of, kind)), "jobs"), method)
