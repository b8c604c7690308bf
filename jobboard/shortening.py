"""Texts that a store can't hold whole: errors and reasons may be of any length, its records may not."""

from __future__ import annotations


def shortened(text: str | None, most: int) -> str | None:
    """Return a text of at most so many bytes; what is longer loses its middle, since errors say most at their ends."""
    if text is None or len(text) * 4 <= most:
        return text
    data = text.encode()
    if len(data) <= most:
        return text
    half = (most - 5) // 2
    return f"{data[:half].decode(errors='ignore')} ... {data[-half:].decode(errors='ignore')}"
