"""Moments and durations as the scripts take them: whole microseconds."""

from __future__ import annotations

import math

#: An expiry of more microseconds is one without end: a double could not hold its moment exactly.
_FOREVER = 2**52


def micros(seconds: float) -> int:
    return round(seconds * 1_000_000)


def span(seconds: float) -> int | None:
    """Return a duration in microseconds, at least one; None for one without end."""
    return None if math.isinf(seconds) or seconds * 1_000_000 > _FOREVER else max(1, micros(seconds))
