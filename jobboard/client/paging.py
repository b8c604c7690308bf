"""How many jobs an iteration asks for at once."""

from __future__ import annotations

from collections.abc import Iterator

FIRST_PAGE, MAX_PAGE, _GROWTH = 10, 500, 5


def page_sizes() -> Iterator[int]:
    """Iterate over the sizes of an iteration's pages: it costs what is taken of it, and all of a board few requests."""
    size = FIRST_PAGE
    while True:
        yield size
        size = min(size * _GROWTH, MAX_PAGE)
