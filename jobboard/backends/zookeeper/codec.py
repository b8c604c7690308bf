"""What znodes hold: msgpack. Anything can be damaged, so every value is checked before it is used."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from jobboard.backends.kv.codec import (
    BYTES,
    LIST,
    NUMBER_OR_NONE,
    TEXT,
    TEXT_OR_NONE,
    check_kinds,
    items_of,
    pack,
    unpack,
)
from jobboard.backends.zookeeper.requests import Data, Stat
from jobboard.errors import BoardUnavailable

#: No moment is further from 0, in seconds; this excludes NaN too, which can't be sorted.
MAX_MOMENT = 1e12

_is_id = re.compile(r"[0-9a-zA-Z-]{1,64}").fullmatch

#: A uuid that no job has.
NOBODY = "nobody"

#: The version of a schedule whose znode is damaged; its body is what the znode holds, and can't be read.
_DAMAGED = "damaged"


def pack_posting(uuid: str, record: bytes) -> bytes:
    """Return what ``ready`` says of the only job that a transaction posts."""
    return pack([uuid, record])


def posting_in(ready: Data) -> tuple[str, Data] | None:
    """Return the uuid of the job that ``ready`` shows, and its znode as it was made; None if it shows none."""
    if not ready.data:
        return None
    try:
        (uuid, record), _ = items_of(ready.data, [TEXT, BYTES])
    except ValueError:
        return None
    zxid, at = ready.stat.mzxid, ready.stat.mtime
    return uuid, Data(record, Stat(zxid, zxid, at, at, 0, 0, 0, 0, len(record), 0, zxid))


def check_moments(*moments: float | None) -> None:
    """Raise ``ValueError`` if one of these moments is out of range."""
    for moment in moments:
        if moment is not None and not -MAX_MOMENT < moment < MAX_MOMENT:
            raise ValueError("it has a moment out of range")


def check_ids(ids: Iterable[Any]) -> None:
    """Raise ``ValueError`` if one of these can't be part of a path."""
    for id in ids:
        if not isinstance(id, str) or not _is_id(id):
            raise ValueError("it has an invalid id")


def uuid_in(holder: Data) -> str:
    """Return the uuid that a key leads to; :data:`NOBODY` if the key is damaged."""
    uuid = holder.data.decode(errors="replace")
    return uuid if _is_id(uuid) else NOBODY


def decode_schedule(data: bytes) -> tuple[str, float | None, bytes]:
    """Return a schedule's version, the moment at which it is due next, and its body."""
    try:
        (version, next_at, body), _ = items_of(data, [TEXT, NUMBER_OR_NONE, BYTES])
        check_moments(next_at)
        return version, next_at, body
    except ValueError:
        return _DAMAGED, None, data


def paused_names(found: Data, path: str) -> frozenset[str | None]:
    """Return the paused names; raises :class:`BoardUnavailable` if it is unknown what may be claimed."""
    try:
        names = unpack(found.data) if found.data else []
        check_kinds([names], [LIST])
        check_kinds(names, [TEXT_OR_NONE] * len(names))
        return frozenset(names)
    except ValueError as error:
        raise BoardUnavailable(f"{path} is damaged: {error}; delete it and connect again") from None
