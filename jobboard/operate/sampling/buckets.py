"""What a board looked like in a minute, or in ten: numbers that can be put together without loss."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

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


#: A bucket has the figures of this many names, those with most going on; its total is of all.
MAX_NAMES = 20

#: Of a gauge a bucket has the largest value, of a count the sum.
GAUGES = ("waiting", "delayed", "running", "trashed", "oldest", "blocked", "paused")
COUNTS = ("posted", "finished", "failed")
#: The order in which they are stored. A history from before lanes lacks the last two, one from before pauses the last.
_STORED = ("waiting", "delayed", "running", "trashed", "oldest", *COUNTS, "blocked", "paused")
_OLDEST_STORED = len(_STORED) - 2


@dataclass(slots=True)
class Figures:
    """The jobs of one name, or of all, in one span of time.

    :ivar waiting: how many could be claimed; as ``delayed``, ``running``, ``trashed``, ``blocked`` the most that a
        sample saw.
    :ivar paused: 1 if the whole board was paused; of one name, if that or the board was. In a history of before, of all
        jobs, how many pauses there were.
    :ivar oldest: for how many seconds one of them had waited, at most.
    :ivar posted: how many were posted; ``finished``: were consumed; ``failed``: attempts that ended otherwise.
    :ivar wait: from when they could be claimed to when they were.
    :ivar run: from there to the end of the attempt.
    """

    waiting: int = 0
    delayed: int = 0
    running: int = 0
    trashed: int = 0
    oldest: int = 0
    blocked: int = 0
    paused: int = 0
    posted: int = 0
    finished: int = 0
    failed: int = 0
    wait: Histogram = field(default_factory=Histogram)
    run: Histogram = field(default_factory=Histogram)

    def merge(self, other: Figures) -> None:
        for gauge in GAUGES:
            setattr(self, gauge, max(getattr(self, gauge), getattr(other, gauge)))
        for count in COUNTS:
            setattr(self, count, getattr(self, count) + getattr(other, count))
        self.wait.merge(other.wait)
        self.run.merge(other.run)

    def to_plain(self) -> list[Any]:
        return [*(getattr(self, name) for name in _STORED), self.wait.to_plain(), self.run.to_plain()]

    @staticmethod
    def from_plain(plain: list[Any]) -> Figures:
        *numbers, wait, run = plain
        figures = Figures(wait=Histogram.from_plain(wait), run=Histogram.from_plain(run))
        names = _STORED[: max(len(numbers), _OLDEST_STORED)]
        for name, number in zip(names, numbers, strict=True):
            setattr(figures, name, int(number))
        return figures

    @property
    def weight(self) -> int:
        return self.waiting + self.running + self.posted + self.finished + self.failed


@dataclass(slots=True)
class Bucket:
    """The figures of one span of time.

    :ivar at: when it began, in seconds since the epoch by the store's clock.
    :ivar heard: for how many seconds of it somebody listened to events, from which counts and durations come.
    """

    at: int
    total: Figures = field(default_factory=Figures)
    names: dict[str, Figures] = field(default_factory=dict)
    heard: float = 0.0

    @property
    def has_counts(self) -> bool:
        """Whether a count of 0 says that nothing happened, and not that nobody listened."""
        return self.heard >= 1 or any(getattr(self.total, count) for count in COUNTS)

    def merge(self, other: Bucket) -> None:
        self.heard += other.heard
        self.total.merge(other.total)
        for name, figures in other.names.items():
            self.names.setdefault(name, Figures()).merge(figures)
        if len(self.names) > MAX_NAMES:
            most = sorted(self.names, key=lambda name: (-self.names[name].weight, name))[:MAX_NAMES]
            self.names = {name: self.names[name] for name in most}

    def to_plain(self) -> dict[str, Any]:
        names = {name: figures.to_plain() for name, figures in self.names.items()}
        return {"at": self.at, "total": self.total.to_plain(), "names": names, "heard": round(self.heard, 1)}

    @staticmethod
    def from_plain(plain: Any) -> Bucket:
        """Return what :meth:`to_plain` made; raises ``ValueError`` if it can't have made that."""
        try:
            names = {str(name): Figures.from_plain(figures) for name, figures in plain["names"].items()}
            # Of what was saved before this was known it is taken for granted.
            heard = float(plain.get("heard", 60.0))
            return Bucket(int(plain["at"]), Figures.from_plain(plain["total"]), names, heard)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise ValueError(f"this is no bucket: {error!r}") from None


def merged(at: int, buckets: Iterable[Bucket]) -> Bucket:
    """Return one bucket for all."""
    whole = Bucket(at)
    for bucket in buckets:
        whole.merge(bucket)
    return whole
