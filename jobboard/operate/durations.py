"""Spans of time as people write and read them: ``90s``, ``15m``, ``1h30m``, ``7d``."""

from __future__ import annotations

import re

_UNITS = {"w": 604_800, "d": 86_400, "h": 3600, "m": 60, "s": 1}
_PART = re.compile(r"(\d+(?:\.\d+)?)([wdhms])")
_SPAN = re.compile(r"(?:\d+(?:\.\d+)?[wdhms])+")


def seconds_of(text: str) -> float:
    """Return the seconds of a span such as ``90s``, ``15m``, ``1h30m``, ``7d`` or ``1w``; a bare number is seconds.

    :raises ValueError: it is none.
    """
    try:
        seconds = float(text)
    except ValueError:
        pass
    else:
        if seconds >= 0:  # and not NaN
            return seconds
    if not _SPAN.fullmatch(text):
        raise ValueError(f"{text!r} is no time span; write 90s, 15m, 1h30m, 7d or 1w")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def duration(seconds: float) -> str:
    """Return a span in its two largest units, as :func:`seconds_of` reads it: ``1h30m``."""
    rest, parts = round(seconds), list[str]()
    for unit in "dhms":
        number, rest = divmod(rest, _UNITS[unit])
        if number or parts:
            parts.append(f"{number}{unit}")
        if len(parts) == 2:
            break
    return "".join(part for part in parts if not part.startswith("0")) or "0s"
