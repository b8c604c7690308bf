"""In which order jobs of a graph stand beside each other: those of one name together, by their keys. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobboard.backends.rows import JobRow

_DIGITS = re.compile(r"([0-9]+)")


def in_order(uuids: Iterable[str], rows: Mapping[str, JobRow | None]) -> list[str]:
    """Return jobs by their keys, ``part:2`` before ``part:10``, those without keys as they were posted.

    Names come in the order in which the first job of each was posted; jobs that the board forgot come last.
    """
    given = list(uuids)
    known = {uuid: row for uuid in given if (row := rows[uuid]) is not None}
    first: dict[str, tuple[float, int]] = {}
    for row in known.values():
        posted = (row.created_on, row.sequence)
        first[row.name] = min(posted, first.get(row.name, posted))
    places = {
        uuid: (first[row.name], row.name, _parts_of(row.key or ""), row.created_on, row.sequence)
        for uuid, row in known.items()
    }
    return sorted(places, key=places.__getitem__) + [uuid for uuid in given if uuid not in known]


def _parts_of(key: str) -> list[tuple[int, str]]:
    """Return texts and numbers in turn; a number that is longer is larger, so none is too long to convert."""
    parts = _DIGITS.split(key)
    numbers = (part.lstrip("0") if index % 2 else part for index, part in enumerate(parts))
    return [(len(part) if index % 2 else 0, part) for index, part in enumerate(numbers)]
