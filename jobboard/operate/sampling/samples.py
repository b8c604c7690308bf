"""One look at a board: its status in a size that a logbook takes, and its numbers as figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobboard.operate.sampling.buckets import MAX_NAMES, Figures
from jobboard.stats import COUNTED

#: The most that a status has of each: names, findings, groups of trash, overdue, unhandled and skipping schedules.
MAX_ITEMS = 100
#: The most characters of the example of a group of trash.
_MAX_EXAMPLE = 300


def bounded(status: dict[str, Any]) -> dict[str, Any]:
    """Return a status with the largest names and the first findings, and how many were left out."""
    names, schedules = status["names"], status["schedules"]
    overdue = dict(sorted(schedules["overdue"].items(), key=lambda item: -item[1])[:MAX_ITEMS])
    missed = dict(list(schedules["missed"].items())[:MAX_ITEMS])
    unhandled = dict(list(schedules["unhandled"].items())[:MAX_ITEMS])
    skipped = dict(sorted(schedules["skipped"].items(), key=lambda item: -item[1])[:MAX_ITEMS])
    kept = {
        "names": dict(_largest(names, MAX_ITEMS)),
        "findings": status["findings"][:MAX_ITEMS],
        "trash": [group | {"example": group["example"][:_MAX_EXAMPLE]} for group in status["trash"][:MAX_ITEMS]],
        "schedules": schedules
        | {"overdue": overdue, "unhandled": unhandled, "skipped": skipped, "missed": missed}
        | {"set_aside": list(schedules["set_aside"][:MAX_ITEMS])},
        "conductors": status["conductors"] | {"started": status["conductors"]["started"][-MAX_ITEMS:]},
        "paused": {"board": status["paused"]["board"], "names": status["paused"]["names"][:MAX_ITEMS]},
    }
    left_out = {what: len(status[what]) - len(kept[what]) for what in ("names", "findings", "trash")}
    return status | kept | {"totals": _totals(names), "left_out": left_out}


def gauges_of(status: dict[str, Any]) -> tuple[Figures, dict[str, Figures]]:
    """Return the figures of all, and those of the largest names."""
    paused = status["paused"]
    whole = _figures(_totals(status["names"]), status["oldest_unclaimed"], paused["board"])
    names = {
        name: _figures(numbers, numbers["next_waits"], paused["board"] or name in paused["names"])
        for name, numbers in _largest(status["names"], MAX_NAMES)
    }
    return whole, names


def _totals(names: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    return {state: sum(numbers[state] for numbers in names.values()) for state in COUNTED}


def _figures(numbers: Mapping[str, int], oldest: float | None, paused: int) -> Figures:
    return Figures(
        waiting=numbers["unclaimed"],
        delayed=numbers["delayed"],
        running=numbers["claimed"],
        trashed=numbers["trashed"],
        blocked=numbers["blocked"],
        oldest=int(oldest or 0),
        paused=int(paused),
    )


def _largest(names: Mapping[str, dict[str, Any]], most: int) -> list[tuple[str, dict[str, Any]]]:
    def size(item: tuple[str, dict[str, Any]]) -> tuple[int, str]:
        return -sum(item[1][state] for state in COUNTED), item[0]

    return sorted(names.items(), key=size)[:most]
