"""How long a failed job waits for its next attempt."""

from __future__ import annotations

import random
from dataclasses import dataclass

from jobboard.validation import check_delay, check_number


@dataclass(frozen=True, slots=True)
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

    first: float = 1.0
    factor: float = 2.0
    most: float = 300.0
    jitter: float = 0.1

    def __post_init__(self) -> None:
        check_delay(self.first, "first")
        check_delay(self.most, "most")
        if not 1 <= check_number("factor", self.factor) <= 1000:
            raise ValueError(f"factor must be from 1 to 1000; got {self.factor!r}")
        if not 0 <= check_number("jitter", self.jitter) <= 1:
            raise ValueError(f"jitter must be from 0 to 1; got {self.jitter!r}")

    def delay(self, attempt: int) -> float:
        """Return the seconds to wait after the failure of this attempt; the first is 1."""
        # The exponent has a bound, or the float overflows after many failures; and the longest delay with its jitter
        # is ``most``.
        plain = min(self.first * self.factor ** min(attempt - 1, 64), self.most / (1 + self.jitter))
        return plain * (1 + random.uniform(-self.jitter, self.jitter))
