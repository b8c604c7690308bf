"""What keeps the waiting jobs of a name from being claimed, by its numbers in a status. Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any


class Hold(enum.Enum):
    """Why nobody claims them now."""

    PAUSED = "paused"
    UNSERVED = "no conductor"
    LIMIT = "limit of its name"


def hold_of(numbers: Mapping[str, Any], is_served: bool = False) -> Hold | None:
    """Return what holds the jobs of a name; None if it is nothing that its numbers tell.

    :param is_served: whether somebody ends jobs of it who is not registered.
    """
    if numbers.get("paused"):
        return Hold.PAUSED
    if not (numbers["conductors"] or numbers["claimed"] or is_served):
        return Hold.UNSERVED
    limit = numbers.get("limit")
    return Hold.LIMIT if limit is not None and numbers["claimed"] >= limit else None
