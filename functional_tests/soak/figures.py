"""What is measured, and when it counts as grown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Slack:
    """By how much a figure may be larger in the last third of a run than in the one before."""

    part: float
    least: float


#: By kind of figure. Allocators and pools round up, and how many jobs a store remembers goes up and down.
SLACKS = {"MB": Slack(0.05, 6.0), "files": Slack(0.0, 6.0), "threads": Slack(0.0, 4.0), "items": Slack(0.1, 100.0)}


@dataclass(frozen=True, slots=True)
class Trend:
    """The largest value in each third of a run; the first one is the warming up."""

    figure: str
    first: float
    middle: float
    last: float
    grew: bool

    def __str__(self) -> str:
        verdict = "GREW" if self.grew else "flat"
        return f"{self.figure:<28} {self.first:>9.1f} {self.middle:>9.1f} {self.last:>9.1f}  {verdict}"


def trends(samples: Sequence[Mapping[str, float]]) -> list[Trend]:
    """Return how each figure went; its name ends with its kind."""
    return [_trend(figure, [sample[figure] for sample in samples if figure in sample]) for figure in samples[-1]]


def _trend(figure: str, values: Sequence[float]) -> Trend:
    third = len(values) // 3
    first, middle, last = max(values[:third]), max(values[third : 2 * third]), max(values[2 * third :])
    slack = SLACKS[figure.rpartition(" ")[2]]
    return Trend(figure, first, middle, last, last > middle + max(slack.least, slack.part * middle))
