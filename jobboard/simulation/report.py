"""Shows two outcomes side by side: as data, and as rows of texts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from jobboard.simulation.tally import Figures, Group, Outcome
from jobboard.text import duration

#: How many groups are shown.
MAX_SHOWN = 20
COLUMNS = (
    "lane",
    "jobs",
    "unstarted",
    "p50_without",
    "p50",
    "p95_without",
    "p95",
    "longest_without",
    "longest",
    "share_without",
    "share",
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What became of the same jobs without the limits, and with them."""

    without: Outcome
    limited: Outcome

    def longest(self) -> list[Group]:
        """Return the groups whose jobs waited longest, in either outcome, longest first."""
        return sorted(self.limited.groups, key=self._longest_wait, reverse=True)[:MAX_SHOWN]

    def _longest_wait(self, group: Group) -> float:
        return max(outcome.groups[group].longest or 0.0 for outcome in (self.without, self.limited))

    def lines(self) -> list[tuple[str, Figures, Figures]]:
        """Return those groups, and all jobs as the last line: a text, and the figures without and with the limits."""
        shown = [(str(group), self.without.groups[group], self.limited.groups[group]) for group in self.longest()]
        return [*shown, ("all", self.without.whole, self.limited.whole)]


def rows_of(comparison: Comparison) -> list[dict[str, Any]]:
    """Return a row of texts and numbers for each line of a table."""
    return [_row_of(label, without, limited) for label, without, limited in comparison.lines()]


def _row_of(label: str, without: Figures, limited: Figures) -> dict[str, Any]:
    row: dict[str, Any] = {"lane": label, "jobs": limited.jobs, "unstarted": limited.unstarted or None}
    for figures, ending in ((without, "_without"), (limited, "")):
        for field in ("p50", "p95", "longest"):
            row[field + ending] = seconds_text(getattr(figures, field))
        row["share" + ending] = percent_text(figures.share)
    return row


def data_of(comparison: Comparison) -> dict[str, Any]:
    """Return all that is known, of every group, as JSON has it."""
    groups = [
        {
            **group._asdict(),
            "without": asdict(comparison.without.groups[group]),
            "with": asdict(figures),
        }
        for group, figures in comparison.limited.groups.items()
    ]
    whole = {"without": asdict(comparison.without.whole), "with": asdict(comparison.limited.whole)}
    ended = {"without": comparison.without.ended, "with": comparison.limited.ended}
    return {"lanes": groups, "all": whole, "ended": ended}


def seconds_text(seconds: float | None) -> str:
    """Return a wait as people read it: ``0.25s``, ``12s``, ``1h30m``; ``-`` if there was none."""
    if seconds is None:
        return "-"
    return duration(seconds) if seconds >= 60 else f"{seconds:.3g}s"


def percent_text(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"
