"""Texts that are cut or put into one line: errors and reasons may be of any length, records and logs may not."""

from __future__ import annotations

#: How many characters of a text stand in one line.
MAX_LINE = 500


def shortened(text: str | None, most: int) -> str | None:
    """Return a text of at most ``most`` bytes; a longer one loses its middle, since errors say most at their ends."""
    if text is None or len(text) * 4 <= most:
        return text
    data = text.encode()
    if len(data) <= most:
        return text
    half = (most - 5) // 2
    return f"{data[:half].decode(errors='ignore')} ... {data[-half:].decode(errors='ignore')}"


def in_one_line(text: str) -> str:
    """Return the text for a line of a log or a table: what would break or steer that line is escaped, the rest cut."""
    kept = text[:MAX_LINE]
    if not kept.isprintable():
        kept = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in kept)
    return kept if len(text) <= MAX_LINE else f"{kept}..."
