"""The map of a board's shards, which each shard keeps with its own number, as a logbook that no reader sees.

Boards whose shards never changed have the first form: the number and the count. The map is written to one shard after
the other (:mod:`jobboard.backends.shards.reshaping`); of two of different epochs the later one holds.
"""

from __future__ import annotations

import uuid as uuids
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgpack

from jobboard.backends.base import Backend
from jobboard.backends.book_rows import BookPart, BookSave, SaveOutcome
from jobboard.backends.shards.shard_map import Placement, ShardMap, ShardState
from jobboard.errors import BoardUnavailable, RequestRefused
from jobboard.validation import new_uuid

#: The same on every shard of every board: the table, and on the first shard the limits of names.
TABLE, NAME_LIMITS = "6a6f6262-6f61-4264-8073-686172647301", "6a6f6262-6f61-4264-8073-686172647302"

#: The logbooks that no reader sees.
HIDDEN = frozenset({TABLE, NAME_LIMITS})

#: The epoch of a board whose shards never changed.
_FIRST_EPOCH = 1
_CODES = {state: state.value[0] for state in ShardState}
_STATES = {code: state for state, code in _CODES.items()}
_DIGEST = 8
#: The body of the table of a store that is about to be added.
_MARKED = b""
#: How many digests an entry has, and how many entries one step writes.
_CHUNK, _MAX_STEP = 1000, 50
#: How often a table is read again, since it changes meanwhile; and how many parts it may have.
_MAX_READS, _MAX_PARTS = 20, 10_000


@dataclass(frozen=True)
class Entry:
    """What a shard knows: which one it is, and of which shards. ``version``: that of the logbook."""

    number: int
    map: ShardMap
    version: str


def read(board: str, shard: Backend, *, known: ShardMap | None = None) -> Entry | None:
    """Return what a shard knows; None if it knows nothing of the board.

    :param known: what any shard knew lately; nothing more is read if that is it still.
    """
    for _ in range(_MAX_READS):
        part = shard.books.load(TABLE, None, 1)
        if part is None or part.row.body == _MARKED:
            return None
        try:
            found = _decode(shard, part, known)
        except (ValueError, TypeError, KeyError, msgpack.UnpackException) as error:
            raise BoardUnavailable(f"the table of shards of board {board!r} can't be decoded: {error}") from None
        if found is not None:
            return found
    raise BoardUnavailable(f"the table of shards of board {board!r} changes all the time; try again")


def _decode(shard: Backend, part: BookPart, known: ShardMap | None) -> Entry | None:
    epoch, number, now, *rest = msgpack.unpackb(part.row.body)
    if isinstance(now, int):
        return Entry(number, ShardMap(epoch, Placement.of(now)), part.row.version)
    following, newest = rest
    if known is not None and known.epoch == epoch:
        return Entry(number, known, part.row.version)
    tags = {tag for tag, _, is_holding in filter(None, (now, following)) if is_holding}
    held = _read_held(shard, part.row.version) if tags else {}
    if held is None:
        return None
    placements = [
        plain and Placement(tuple(_STATES[code] for code in plain[1]), held.get(plain[0], {}), plain[0])
        for plain in (now, following)
    ]
    return Entry(number, ShardMap(epoch, placements[0], placements[1] or None, newest), part.row.version)


def _read_held(shard: Backend, version: str) -> dict[int, dict[int, frozenset[bytes]]] | None:
    """Return what shards hold, by the tag of the placement; None if the table has changed meanwhile."""
    found: dict[int, dict[int, set[bytes]]] = {}
    for part in parts(shard, TABLE):
        if part is None or part.row.version != version:
            return None
        for name, data in part.entries:
            tag, number, _ = (int(part) for part in name.split("."))
            digests = (data[at : at + _DIGEST] for at in range(0, len(data), _DIGEST))
            found.setdefault(tag, {}).setdefault(number, set()).update(digests)
    return {tag: {number: frozenset(held) for number, held in parts.items()} for tag, parts in found.items()}


def write_first(board: str, shard: Backend, number: int, count: int) -> None:
    """Tell a shard of a new board which one it is; it must be new, or another client has told it the same just now."""
    check_empty(board, shard, f"shard {number}")
    first = ShardMap(_FIRST_EPOCH, Placement.of(count))
    body = _body(number, first)
    # The version says all: a second client that writes the same finds that it is SAVED.
    version = str(uuids.UUID(bytes=body.rjust(16, b"\0")))
    if shard.books.save(BookSave(TABLE, version, None, body)) is not SaveOutcome.SAVED:
        there = read(board, shard)
        if there is None or (there.number, there.map) != (number, first):
            raise BoardUnavailable(f"another client opened board {board!r} with other shards just now: {there}")


def check_empty(board: str, shard: Backend, what: str) -> None:
    """Refuse a store that has jobs of a board of this name, and is no shard.

    :param what: what the user takes it for.
    """
    if shard.jobs.count() > 0:
        raise RequestRefused(
            f"what is named as {what} of board {board!r} has jobs, and is no shard: a board can't be "
            "divided later; take another name, or let its jobs end first"
        )


def mark(board: str, shard: Backend) -> str:
    """Make a store that is to be added known by a mark, and return that; it is none of the board's shards."""
    for _ in range(_MAX_READS):
        part = shard.books.load(TABLE, None, 1)
        if part is not None and part.row.body == _MARKED:
            return part.row.version
        version = _save_step(shard, None if part is None else part.row.version, _MARKED, {})
        if version is not None:
            return version
    raise BoardUnavailable(f"others add this store to board {board!r} just now; try again")


def _version(shard: Backend) -> str | None:
    part = shard.books.load(TABLE, None, 1)
    return None if part is None else part.row.version


def write(board: str, shard: Backend, number: int, map: ShardMap) -> None:
    """Tell a shard how the shards stand, if it does not know that already.

    :raises RequestRefused: another command has changed them meanwhile.
    """
    for _ in range(_MAX_READS):
        there = read(board, shard)
        if there is not None and there.map.epoch >= map.epoch:
            if (there.number, there.map) != (number, map):
                raise RequestRefused(f"another command changes the shards of board {board!r} just now; repeat this one")
            return
        if _save(shard, number, map, there):
            return
    raise BoardUnavailable(f"others change the shards of board {board!r} all the time; try again")


def _save(shard: Backend, number: int, map: ShardMap, there: Entry | None) -> bool:
    """Write the table; what is held first, which counts for nothing until the body names its tag."""
    entries = dict(_entries(map))
    if there is None:
        return _save_step(shard, _version(shard), _body(number, map), entries) is not None
    stale = [name for name in _names(shard) if name not in entries]
    used = {placement.tag for placement in (there.map.now, there.map.following) if placement is not None}
    before: list[tuple[str, bytes | None]] = [(name, None) for name in stale if _tag_of(name) not in used]
    before += entries.items()
    version: str | None = there.version
    for at in range(0, len(before), _MAX_STEP):
        version = _save_step(shard, version, _body(number, there.map), dict(before[at : at + _MAX_STEP]))
        if version is None:
            return False
    # Those that are too many for one step are stale the next time, too.
    last = dict.fromkeys([name for name in stale if _tag_of(name) in used][:_MAX_STEP])
    return _save_step(shard, version, _body(number, map), last) is not None


def _save_step(shard: Backend, after: str | None, body: bytes, entries: Mapping[str, bytes | None]) -> str | None:
    """Save one step, and return the version that it made; None if another client was faster."""
    version = new_uuid()
    outcome = shard.books.save(BookSave(TABLE, version, after, body, entries))
    return version if outcome is SaveOutcome.SAVED else None


def _tag_of(name: str) -> int:
    return int(name.partition(".")[0])


def _body(number: int, map: ShardMap) -> bytes:
    plain: list[Any] = [map.epoch, number]
    if map.epoch == _FIRST_EPOCH:
        plain.append(len(map.now.states))
    else:
        plain += [_plain(map.now), map.following and _plain(map.following), map.newest]
    data: bytes = msgpack.packb(plain)
    return data


def _plain(placement: Placement) -> list[Any]:
    return [placement.tag, "".join(_CODES[state] for state in placement.states), any(placement.held.values())]


def _entries(map: ShardMap) -> Iterator[tuple[str, bytes]]:
    for placement in filter(None, (map.now, map.following)):
        yield from _entries_of(placement.tag, placement.held)


def _entries_of(tag: int, held: Mapping[int, frozenset[bytes]]) -> Iterator[tuple[str, bytes]]:
    for number, digests in held.items():
        ordered = sorted(digests)
        for at in range(0, len(ordered), _CHUNK):
            yield f"{tag}.{number}.{at}", b"".join(ordered[at : at + _CHUNK])


def _names(shard: Backend) -> Iterator[str]:
    return (name for part in parts(shard, TABLE) if part is not None for name, _ in part.entries)


def parts(shard: Backend, book: str) -> Iterator[BookPart | None]:
    """Yield the parts of a logbook; None, and nothing more, once it is not there."""
    cursor: str | None = None
    for _ in range(_MAX_PARTS):
        part = shard.books.load(book, cursor, 100)
        yield part
        cursor = None if part is None else part.cursor
        if cursor is None:
            return
    raise BoardUnavailable(f"logbook {book} has more than {_MAX_PARTS:,} parts, or its cursors lead in a circle")
