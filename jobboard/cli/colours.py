"""What has a colour on a terminal: what is dead, trashed or overdue is red, what wants a look is yellow."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

_RED, _YELLOW = "red", "yellow"
_VALUES: dict[tuple[str, Any], str] = {
    ("state", "TRASHED"): _RED,
    ("state", "set aside"): _RED,
    ("state", "unreadable"): _RED,
    ("state", "paused"): _YELLOW,
    ("alive", False): _RED,
    ("healthy", False): _RED,
    ("quiet", True): _YELLOW,
    ("paused", True): _YELLOW,
    ("cancel_asked", True): _YELLOW,
}
_NUMBERS = {"stuck": _YELLOW, "trashed": _RED, "missed": _YELLOW}
_OVERDUE = {"next_fire_time", "next_expiry"}


def style_of(field: str, value: Any) -> str:
    """Return the style of a value; "" if it has no colour."""
    if field in _NUMBERS and isinstance(value, int) and value > 0:
        return _NUMBERS[field]
    if field in _OVERDUE and isinstance(value, datetime):
        return _RED if value < datetime.now(UTC) else ""
    return _VALUES.get((field, value), "") if isinstance(value, (str, bool)) else ""
