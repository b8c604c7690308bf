"""How many attempts of each name have ended lately, and how many of them failed, by the minutes of a history."""

from __future__ import annotations

from collections.abc import Sequence

from jobboard.operate.failing import Attempts
from jobboard.operate.sampling.buckets import Bucket


def attempts_in(minutes: Sequence[Bucket]) -> dict[str, Attempts]:
    """Return the attempts of each name that has any in these minutes, since the first of these in which one failed."""
    found: dict[str, Attempts] = {}
    for minute in sorted(minutes, key=lambda minute: minute.at):
        for name, figures in minute.names.items():
            before = found.get(name, Attempts(0, 0, minute.at))
            if before.failed or figures.failed:
                ended = figures.finished + figures.failed
                found[name] = Attempts(before.ended + ended, before.failed + figures.failed, before.since)
    return found
