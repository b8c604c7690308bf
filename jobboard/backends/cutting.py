"""Cuts what one request can't take as a whole into parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def parts_by_size(items: Iterable[Item], size_of: Callable[[Item], int], most: int) -> Iterator[list[Item]]:
    """Yield the items in parts, in their order, each as large as ``most`` allows; one that is larger is alone."""
    part: list[Item] = []
    size = 0
    for item in items:
        its = size_of(item)
        if part and size + its > most:
            yield part
            part, size = [], 0
        part.append(item)
        size += its
    if part:
        yield part
