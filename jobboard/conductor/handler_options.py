"""How a handler's jobs are run: what it is registered with, and else what its collection says."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from jobboard.conductor.retrying import Backoff, ErrorRules, check_backoff, check_broken_on
from jobboard.types import BackoffFunction
from jobboard.validation import check_count, check_seconds


@dataclass(frozen=True, slots=True)
class HandlerOptions:
    """The checked options of a handler, or the defaults of a collection; spans in seconds, None for no limit."""

    max_attempts: int = 5
    backoff: Backoff | BackoffFunction = field(default_factory=Backoff)
    timeout: float | None = None
    broken_on: tuple[type[Exception], ...] = ()
    give_up_after: float | None = None
    silent_for: float | None = None
    #: What follows from the errors of the handler.
    error_rules: ErrorRules = field(init=False)

    def __post_init__(self) -> None:
        delay = None if isinstance(self.backoff, Backoff) else self.backoff
        object.__setattr__(self, "error_rules", ErrorRules(self.broken_on, delay))

    def changed(self, **given: Any) -> HandlerOptions:
        """Return these with what is given in their place; what is given as None stays.

        :raises ValueError: an option is out of its range. :raises TypeError: one is of another type.
        """
        return replace(self, **{name: _CHECKS[name](value) for name, value in given.items() if value is not None})

    @property
    def plain_backoff(self) -> Backoff:
        """The delays after what no error of the handler tells, such as a timeout."""
        return self.backoff if isinstance(self.backoff, Backoff) else Backoff()


def _check_limit(what: str, value: object) -> float | None:
    seconds = check_seconds(what, value)
    # NaN is not more than 0 either.
    if not seconds > 0:
        raise ValueError(f"a handler's {what} must be more than 0 seconds, or None for no limit; got {value!r}")
    return None if math.isinf(seconds) else seconds


_CHECKS: dict[str, Callable[[object], Any]] = {
    "max_attempts": partial(check_count, "max_attempts"),
    "backoff": check_backoff,
    "timeout": partial(_check_limit, "timeout"),
    "broken_on": check_broken_on,
    "give_up_after": partial(_check_limit, "give_up_after"),
    "silent_for": partial(_check_limit, "silent_for"),
}
