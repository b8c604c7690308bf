"""How long a failed job waits for its next attempt."""

from __future__ import annotations

import random
from dataclasses import dataclass

from jobboard.types import Seconds
from jobboard.validation import check_delay, check_number


@dataclass(frozen=True, init=False, slots=True)
class Backoff:
    """The delays between the attempts of a job: they grow by a factor, up to a maximum.

    :param first: seconds after the first failure.
    :param factor: each further delay is this many times the one before; 1 to 1000.
    :param most: seconds of the longest delay.
    :param jitter: the share, 0 to 1, by which a delay is randomly longer or shorter, so that jobs that failed together
        don't run again together.
    :raises ValueError: an argument is out of its range.
    :raises TypeError: an argument is no number.
    """

    first: float
    factor: float
    most: float
    jitter: float

    def __init__(self, first: Seconds = 1.0, factor: float = 2.0, most: Seconds = 300.0, jitter: float = 0.1) -> None:
        if not 1 <= check_number("factor", factor) <= 1000:
            raise ValueError(f"factor must be from 1 to 1000; got {factor!r}")
        if not 0 <= check_number("jitter", jitter) <= 1:
            raise ValueError(f"jitter must be from 0 to 1; got {jitter!r}")
        object.__setattr__(self, "first", check_delay(first, "first"))
        object.__setattr__(self, "factor", factor)
        object.__setattr__(self, "most", check_delay(most, "most"))
        object.__setattr__(self, "jitter", jitter)

    def delay(self, attempt: int) -> float:
        """Return the seconds to wait after the failure of this attempt; the first is 1."""
        # The exponent has a bound, or the float overflows after many failures; and the longest delay with its jitter
        # is ``most``.
        plain = min(self.first * self.factor ** min(attempt - 1, 64), self.most / (1 + self.jitter))
        return plain * (1 + random.uniform(-self.jitter, self.jitter))
