"""What znodes hold: msgpack. Anything can be damaged, so every value is checked before it is used."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from jobboard.backends.kv.codec import (
    BYTES,
    FLAG,
    LIST,
    MAP,
    NUMBER_OR_NONE,
    TEXT,
    TEXT_OR_NONE,
    WHOLE,
    check_kinds,
    items_of,
    pack,
    unpack,
)
from jobboard.backends.lane_rows import LimitRow
from jobboard.backends.limits import pack_limit, unpack_limit
from jobboard.backends.zookeeper.errors import missing
from jobboard.backends.zookeeper.requests import Data, Stat
from jobboard.backends.zookeeper.timers import ListedGuard
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


class Guard(NamedTuple):
    """What the guard of a lane holds: what its rate has come to, the moment of the next look, and what was offered.

    ``offered`` is that of a :class:`~jobboard.backends.lanes.LaneView`.
    """

    lane: str
    next_at: float | None = None
    look_at: float | None = None
    offered: int = 0

    def pack(self) -> bytes:
        return pack(list(self))

    @property
    def listed(self) -> ListedGuard:
        return ListedGuard(self.lane, True, self.look_at)


def decode_guard(data: bytes) -> Guard | None:
    """Return what a guard holds; None if it is damaged."""
    try:
        (lane, next_at, look_at, offered), _ = items_of(data, [TEXT, NUMBER_OR_NONE, NUMBER_OR_NONE, WHOLE])
        check_moments(next_at, look_at)
        return Guard(lane, next_at, look_at, offered)
    except ValueError:
        return None


def encode_limit(row: LimitRow) -> bytes:
    """Return what the znode of a limit holds."""
    return pack([*row.key, pack_limit(row)])


def decode_limit(data: bytes) -> LimitRow | None:
    """Return a limit; None if it is damaged."""
    try:
        (scope, pattern, packed), _ = items_of(data, [TEXT, TEXT, BYTES])
        return unpack_limit(scope, pattern, packed)
    except ValueError:
        return None


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


class NameRules(NamedTuple):
    """What every claim asks for.

    ``paused`` are the paused names, None the whole board; ``running`` is how many claims a limited name may have.
    ``has_lanes``: a limit of a lane was set at some time. ``version`` is that of the znode, which every change of a
    limit sets, too.
    """

    paused: frozenset[str | None] = frozenset()
    running: Mapping[str, int] = {}
    has_lanes: bool = False
    version: int = 0

    def pack(self) -> bytes:
        """Return what the znode holds: the paused names alone, as long as nothing else was ever set."""
        paused = sorted(self.paused, key=str)
        if not self.running and not self.has_lanes:
            return pack(paused)
        return pack({"paused": paused, "running": dict(self.running), "has_lanes": self.has_lanes})


def name_rules(found: Data | None, path: str) -> NameRules:
    """Return what claims ask for; raises :class:`BoardUnavailable` if it is unknown what may be claimed."""
    if found is None:
        raise missing(path)
    try:
        stored: Any = unpack(found.data) if found.data else []
        if type(stored) is list:
            stored = {"paused": stored, "running": {}, "has_lanes": False}
        check_kinds([stored], [MAP])
        paused, running, has_lanes = map(stored.get, ("paused", "running", "has_lanes"))
        check_kinds([paused, running, has_lanes], [LIST, MAP, FLAG])
        check_kinds(paused, [TEXT_OR_NONE] * len(paused))
        check_kinds([*running, *running.values()], [TEXT] * len(running) + [WHOLE] * len(running))
        return NameRules(frozenset(paused), running, has_lanes, found.stat.version)
    except ValueError as error:
        raise BoardUnavailable(f"{path} is damaged: {error}; delete it and connect again") from None
