"""The number of a board's shards, which each shard keeps with its own number, as a logbook that no reader sees."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Mapping
from dataclasses import dataclass

import msgpack

from jobboard.backends.base import Backend
from jobboard.backends.book_rows import BookSave, SaveOutcome
from jobboard.errors import BoardUnavailable, RequestRefused

#: The same on every shard of every board.
TABLE = "6a6f6262-6f61-4264-8073-686172647301"

#: The first of a board; what moves a board's shards will raise it.
_EPOCH = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """What a shard knows of itself: which one it is, and of how many."""

    number: int
    count: int
    epoch: int = _EPOCH

    def pack(self) -> bytes:
        data: bytes = msgpack.packb([self.epoch, self.number, self.count])
        return data


def strangers(board: str, shards: Mapping[int, Backend], count: int) -> list[int]:
    """Return which of these know nothing of the board, which has ``count`` shards.

    :param shards: those that answer, by the numbers that the user gives them.
    :raises RequestRefused: one of them is another shard than it is taken for; says which.
    """
    found = {number: _read(board, shard) for number, shard in shards.items()}
    for number, there in found.items():
        wanted = Entry(number, count)
        if there is not None and there != wanted:
            raise RequestRefused(_told(board, wanted, there))
    return [number for number, there in found.items() if there is None]


def _told(board: str, wanted: Entry, found: Entry) -> str:
    if found.count != wanted.count:
        return f"board {board!r} has {found.count} shards, not {wanted.count}; name all of them"
    if found.epoch != wanted.epoch:
        return f"the shards of board {board!r} were changed by a newer jobboard; upgrade this one"
    return (
        f"what is named as shard {wanted.number} of board {board!r} is its shard {found.number}; "
        "name the shards in their order"
    )


def _read(board: str, shard: Backend) -> Entry | None:
    part = shard.books.load(TABLE, None, 1)
    if part is None:
        return None
    try:
        epoch, number, count = msgpack.unpackb(part.row.body)
        return Entry(number, count, epoch)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise BoardUnavailable(f"the table of shards of board {board!r} can't be decoded: {error}") from None


def write(board: str, shard: Backend, number: int, count: int) -> None:
    """Tell a shard which one it is; it must be new, or another client has told it the same just now."""
    entry = Entry(number, count)
    if shard.jobs.count() > 0:
        raise RequestRefused(
            f"what is named as shard {entry.number} of board {board!r} has jobs, and is no shard: a board can't be "
            "divided later; take another name, or let its jobs end first"
        )
    # The version says all: a second client that writes the same finds that it is SAVED.
    version = str(uuids.UUID(bytes=entry.pack().rjust(16, b"\0")))
    if shard.books.save(BookSave(TABLE, version, None, entry.pack())) is not SaveOutcome.SAVED:
        there = _read(board, shard)
        if there != entry:
            raise BoardUnavailable(f"another client opened board {board!r} with other shards just now: {there}")
