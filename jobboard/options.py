"""What the stores' options have in common: values made of text, or taken as they are."""

from __future__ import annotations

from typing import Any

_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off"}


def truth(value: Any) -> bool:
    """Return a bool given as such or as a word."""
    word = str(value).lower()
    if word not in _TRUE | _FALSE:
        raise ValueError(f"must be true or false, not {value!r}")
    return word in _TRUE


def seconds(value: Any) -> float:
    """Return a time span given as a number or as text."""
    number = float(value)
    if not 0 < number < float("inf"):
        raise ValueError(f"must be more than 0 seconds, and finite; got {value!r}")
    return number
