"""Spans of time as people write them: ``90s``, ``15m``, ``1h30m``, ``7d``."""

from __future__ import annotations

import math
import re

from jobboard.validation import MAX_SECONDS

_EXAMPLES = "90s, 15m, 1h30m, 7d or 1w"
_UNITS = {"w": 604_800, "d": 86_400, "h": 3600, "m": 60, "s": 1}
_PART = re.compile(r"(\d+(?:\.\d+)?)([wdhms])")
_SPAN = re.compile(r"(?:\d+(?:\.\d+)?[wdhms])+")


def seconds_of(text: str) -> float:
    """Return the seconds of a span such as ``90s``, ``15m``, ``1h30m``, ``7d`` or ``1w``; a bare number is seconds.

    ``inf`` is a span without an end.

    :raises ValueError: it is none, or negative, or longer than a hundred years.
    """
    span = text.strip().removeprefix("-")
    seconds = _number_of(span)
    if seconds is None:
        raise ValueError(f"{text!r} is no time span; write {_EXAMPLES}")
    if span != text.strip():
        raise ValueError(f"{text!r} is negative; a time span is 0 or more, such as {_EXAMPLES}")
    if MAX_SECONDS < seconds < math.inf:
        raise ValueError(f"{text!r} is more than a hundred years, the longest time span")
    return seconds


def _number_of(span: str) -> float | None:
    """Return the seconds of a span without a sign; None if it is none."""
    if _SPAN.fullmatch(span):
        return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(span))
    try:
        seconds = float(span)
    except ValueError:
        return None
    return seconds if seconds >= 0 else None  # neither a second sign nor NaN
