"""What may stand in a znode: anything can be damaged, and must be found to be before it is used."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from jobboard.backends.zookeeper.requests import Data

#: What a field may be.
TEXT, COUNT, MOMENT, BYTES = (str, type(None)), (int,), (int, float, type(None)), (bytes, type(None))

#: No moment is further from 0, in seconds; this leaves out what is no number, too, which has no place in an order.
_FURTHEST = 1e12

_is_id = re.compile(r"[0-9a-zA-Z-]{1,64}").fullmatch

#: A uuid that no job has.
NOBODY = "nobody"


def check_types(values: Sequence[Any], types: Sequence[tuple[type, ...]]) -> None:
    """Raise ``ValueError`` unless there are just as many values, each of one of its types."""
    if len(values) != len(types) or not all(map(isinstance, values, types)):
        raise ValueError("it has other fields")


def check_moments(*moments: float | None) -> None:
    """Raise ``ValueError`` if one of these is no moment that a calendar has."""
    for moment in moments:
        if moment is not None and not -_FURTHEST < moment < _FURTHEST:
            raise ValueError("it has a moment that is none")


def check_ids(ids: Iterable[Any]) -> None:
    """Raise ``ValueError`` if one of these can be no part of a path."""
    for id in ids:
        if not isinstance(id, str) or not _is_id(id):
            raise ValueError("it has an id that is none")


def uuid_in(holder: Data) -> str:
    """Return the uuid that a key leads to; one that no job has if the key is damaged."""
    uuid = holder.data.decode(errors="replace")
    return uuid if _is_id(uuid) else NOBODY
