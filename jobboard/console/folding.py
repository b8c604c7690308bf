"""Findings that are alike as one line: that three names have jobs in the trash, and behind it which. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: What is said of several of a kind; those of other kinds stand alone.
_ALIKE = {
    "trash": "{} names have jobs in the trash",
    "name_paused": "{} names are paused",
    "lane_paused": "{} lanes are paused",
    "waits_long": "Jobs of {} names wait for long",
    "no_conductor": "No conductor that is alive claims jobs of {} names",
    "parent_failed": "Jobs wait for {} that are in the trash",
    "conductor_gone": "{} conductors are gone, and did not stop in good order",
    "stuck": "{} conductors have stuck slots",
    "runs_long": "{} conductors run jobs for long",
    "unsent": "Of {} conductors the store refuses the ends of jobs",
    "lane_idle": "No conductor that is alive claims jobs of {} lanes",
    "lane_held": "{} strict lanes wait for a job that fails, or runs, again and again",
    "no_handler": "Schedules post jobs of {} names that nobody has a handler for",
}
#: How many of them are named in the line.
_MAX_NAMED = 4


@dataclass(frozen=True, slots=True)
class Fold:
    """One line of the overview.

    :ivar parts: the findings behind it; a single one is the line itself.
    """

    verdict: str
    kind: str
    text: str
    parts: tuple[Mapping[str, Any], ...]


def folded(findings: Sequence[Mapping[str, Any]]) -> list[Fold]:
    """Return a line for each kind of finding, in the order of the first of each; the worst stays first."""
    groups: dict[object, list[Mapping[str, Any]]] = {}
    for number, finding in enumerate(findings):
        is_alike = finding["kind"] in _ALIKE
        groups.setdefault((finding["verdict"], finding["kind"], None if is_alike else number), []).append(finding)
    return [_fold(group) for group in groups.values()]


def _fold(group: Sequence[Mapping[str, Any]]) -> Fold:
    first = group[0]
    if len(group) == 1:
        return Fold(first["verdict"], first["kind"], first["text"], (first,))
    text = _ALIKE[first["kind"]].format(len(group))
    # The uuids of parents say nothing in a line.
    abouts = [str(each["about"]) for each in group if each["about"] and first["kind"] != "parent_failed"]
    named = ", ".join(abouts[:_MAX_NAMED])
    more = f" and {len(abouts) - _MAX_NAMED} more" if len(abouts) > _MAX_NAMED else ""
    return Fold(first["verdict"], first["kind"], f"{text}{': ' * bool(named)}{named}{more}", tuple(group))
