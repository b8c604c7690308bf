"""How long things took, counted in ranges that grow by the square root of two: small, and exact to be added up."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

#: What is shorter counts as this many seconds, and what is longer than four weeks as that.
_SHORTEST, _LONGEST = 0.001, 28 * 86_400.0
_STEPS_PER_OCTAVE = 2
_LAST = math.ceil(_STEPS_PER_OCTAVE * math.log2(_LONGEST / _SHORTEST))


class Histogram:
    """Counts durations in 64 ranges at most; a percentile is right within 20 %."""

    __slots__ = ("_counts",)

    def __init__(self, counts: Iterable[tuple[int, int]] = ()) -> None:
        self._counts: Counter[int] = Counter()
        for step, number in counts:
            self._counts[min(max(step, 0), _LAST)] += number

    def add(self, seconds: float) -> None:
        bounded = min(max(seconds, _SHORTEST), _LONGEST)
        self._counts[math.ceil(_STEPS_PER_OCTAVE * math.log2(bounded / _SHORTEST))] += 1

    def merge(self, other: Histogram) -> None:
        self._counts.update(other._counts)

    def __len__(self) -> int:
        """Return how many durations were counted."""
        return sum(self._counts.values())

    def percentile(self, share: float) -> float | None:
        """Return the seconds that this share of all took at most, such as 0.95; None if nothing was counted."""
        left = math.ceil(len(self) * share)
        for step in sorted(self._counts):
            left -= self._counts[step]
            if left <= 0:
                # The middle of the range.
                return float(_SHORTEST * 2 ** ((step - 0.5) / _STEPS_PER_OCTAVE))
        return None

    def to_plain(self) -> list[int]:
        return [part for step in sorted(self._counts) for part in (step, self._counts[step])]

    @staticmethod
    def from_plain(plain: list[int]) -> Histogram:
        return Histogram(zip(plain[::2], plain[1::2], strict=True))
