"""What a board looked like in a minute, or in ten: numbers that can be put together without loss."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from jobboard.operate.sampling.histogram import Histogram

#: A bucket has the figures of this many names, those with most going on; its total is of all.
MAX_NAMES = 20

#: In the order in which they are stored. Of a gauge a bucket has the largest value, of a count the sum.
GAUGES = ("waiting", "delayed", "running", "trashed", "oldest")
COUNTS = ("posted", "finished", "failed")


@dataclass(slots=True)
class Figures:
    """The jobs of one name, or of all, in one span of time.

    :ivar waiting: how many could be claimed; as ``delayed``, ``running``, ``trashed`` the most that a sample saw.
    :ivar oldest: for how many seconds one of them had waited, at most.
    :ivar posted: how many were posted; ``finished``: were consumed; ``failed``: attempts that ended otherwise.
    :ivar wait: from when they could be claimed to when they were. :ivar run: from there to the end of the attempt.
    """

    waiting: int = 0
    delayed: int = 0
    running: int = 0
    trashed: int = 0
    oldest: int = 0
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
        return [*(getattr(self, name) for name in GAUGES + COUNTS), self.wait.to_plain(), self.run.to_plain()]

    @staticmethod
    def from_plain(plain: list[Any]) -> Figures:
        *numbers, wait, run = plain
        figures = Figures(wait=Histogram.from_plain(wait), run=Histogram.from_plain(run))
        for name, number in zip(GAUGES + COUNTS, numbers, strict=True):
            setattr(figures, name, int(number))
        return figures

    @property
    def weight(self) -> int:
        return self.waiting + self.running + self.posted + self.finished + self.failed


@dataclass(slots=True)
class Bucket:
    """The figures of one span of time.

    :ivar at: when it began, in seconds since the epoch by the store's clock.
    """

    at: int
    total: Figures = field(default_factory=Figures)
    names: dict[str, Figures] = field(default_factory=dict)

    def merge(self, other: Bucket) -> None:
        self.total.merge(other.total)
        for name, figures in other.names.items():
            self.names.setdefault(name, Figures()).merge(figures)
        if len(self.names) > MAX_NAMES:
            most = sorted(self.names, key=lambda name: (-self.names[name].weight, name))[:MAX_NAMES]
            self.names = {name: self.names[name] for name in most}

    def to_plain(self) -> dict[str, Any]:
        names = {name: figures.to_plain() for name, figures in self.names.items()}
        return {"at": self.at, "total": self.total.to_plain(), "names": names}

    @staticmethod
    def from_plain(plain: Any) -> Bucket:
        """Return what :meth:`to_plain` made; raises ``ValueError`` if it can't have made that."""
        try:
            names = {str(name): Figures.from_plain(figures) for name, figures in plain["names"].items()}
            return Bucket(int(plain["at"]), Figures.from_plain(plain["total"]), names)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise ValueError(f"this is no bucket: {error!r}") from None


def merged(at: int, buckets: Iterable[Bucket]) -> Bucket:
    """Return one bucket for all."""
    whole = Bucket(at)
    for bucket in buckets:
        whole.merge(bucket)
    return whole
