"""What a job has to do with others, as it lies in the column ``ties``.

Of a job that only has a lane this is the lane, and perhaps a moment, as since version 6. All else is a mapping.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import msgpack

from jobboard.backends.rows import IfFailed, Ties

#: Stands between a lane and its moment, and before a mapping; no lane has it.
_SEPARATOR = b"\0"


def _bytes(value: Any) -> bytes:
    # Of a number ``bytes`` would make as many zeros.
    return bytes(memoryview(value))


#: The fields of a mapping, and how each is read; those that are as in ``Ties()`` are left out.
_FIELDS: Mapping[str, Callable[[Any], Any]] = {
    "lane": str,
    "since": float,
    "has_children": bool,
    "has_parents": bool,
    "if_failed": IfFailed.convert,
    "signal": str,
    "latest": float,
    "start_by": float,
    "on_trashed": _bytes,
    "on_complete": _bytes,
}
_NO_TIES = {name: getattr(Ties(), name) for name in _FIELDS}


def pack_ties(ties: Ties) -> bytes | None:
    """Return what is stored; None, as of nearly all jobs, if nothing of it says anything."""
    part = {name: value for name, default in _NO_TIES.items() if (value := getattr(ties, name)) != default}
    if not part:
        return None
    if ties.lane is not None and part.keys() <= {"lane", "since"}:
        lane = ties.lane.encode()
        return lane if ties.since is None else lane + _SEPARATOR + repr(ties.since).encode()
    if "if_failed" in part:
        part["if_failed"] = ties.if_failed.value
    data: bytes = msgpack.packb(part)
    return _SEPARATOR + data


def ties_of(stored: bytes | None) -> Ties | None:
    """Return the ties of a job; an SQLite file may hold anything anywhere, and what can't be read is left out."""
    if stored is None:
        return None
    lane, separator, rest = stored.partition(_SEPARATOR)
    if separator and not lane:
        return Ties(**dict(_readable(rest)))
    since = None
    with contextlib.suppress(ValueError):
        since = float(rest) if rest else None
    return Ties(lane.decode(errors="backslashreplace"), since)


def _readable(data: bytes) -> list[tuple[str, Any]]:
    fields: list[tuple[str, Any]] = []
    with contextlib.suppress(ValueError, TypeError, AttributeError, msgpack.UnpackException):
        for name, value in msgpack.unpackb(data).items():
            if name in _FIELDS:
                fields.append((name, _FIELDS[name](value)))
    return fields
