"""Pages of jobs, or of schedules, in the order that they have on all shards together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgpack

from jobboard.backends.base import Backend
from jobboard.backends.shards.fleet import Fleet

Row = TypeVar("Row")

#: Reads a page of a shard from its own cursor on, and returns its cursor.
Read = Callable[[Backend, Any, int], tuple[list[Row], Any]]

#: Where a row stands in the order; of two shards no rows but those of one place tie.
Place = tuple[Any, ...]


class _Part(Generic[Row]):
    """The pages of one shard: what was read of them and not returned yet, the next one last, and where that begins."""

    def __init__(self, shard: Backend, cursor: Any, is_over: bool) -> None:
        self._shard = shard
        self.cursor, self.is_over = cursor, is_over
        self.rows: list[tuple[Place, Row]] = []
        self._following: Any = None

    @property
    def is_short(self) -> bool:
        """Whether another page must be read before it is known what comes next."""
        return not self.rows and not self.is_over

    def read(self, read: Read[Row], size: int, place_of: Callable[[Row], Place], last: Place | None) -> None:
        """Read the next page; what the pages before it had is left out."""
        rows, self._following = read(self._shard, self.cursor, size)
        placed = [(place_of(row), row) for row in rows]
        self.rows = [each for each in placed if last is None or each[0] > last][::-1]
        self._go_on_if_empty()

    def take(self) -> tuple[Place, Row]:
        """Take out the next row."""
        found = self.rows.pop()
        self._go_on_if_empty()
        return found

    def _go_on_if_empty(self) -> None:
        if not self.rows:
            self.cursor, self.is_over = self._following, self._following is None


def merged_page(
    fleet: Fleet, cursor: object | None, size: int, read: Read[Row], place_of: Callable[[Row], Place]
) -> tuple[list[Row], bytes | None]:
    """Return the next rows, and where the next page begins; None is the end.

    A shard's page that was not returned whole is read again, without what comes before the last row that was returned.
    So it does no harm if some of that is gone meanwhile. One page costs each shard a request, or two.

    :param cursor: packed, since consoles carry it from page to page as a text.
    :param place_of: says where a row stands; pages of shards come in this order.
    :raises TypeError: that is no cursor of this board.
    """
    last, parts = (None, _first_parts(fleet)) if cursor is None else _unpack(fleet, cursor)
    found: list[Row] = []
    # Each turn reads a page, or takes a row.
    for _ in range(size + 2 * fleet.count):
        if len(found) == size:
            break
        short = next((part for part in parts if part.is_short), None)
        if short is not None:
            short.read(read, size, place_of, last)
            continue
        able = [part for part in parts if part.rows]
        if not able:
            return found, None
        last, row = min(able, key=lambda part: part.rows[-1][0]).take()
        found.append(row)
    return found, None if all(part.is_over for part in parts) else _pack(last, parts)


def _first_parts(fleet: Fleet) -> list[_Part[Any]]:
    return [_Part(shard, None, False) for shard in fleet.shards]


def _pack(last: Place | None, parts: list[_Part[Any]]) -> bytes:
    data: bytes = msgpack.packb([last, [[_plain(part.cursor), part.is_over] for part in parts]])
    return data


def _unpack(fleet: Fleet, cursor: object) -> tuple[Place | None, list[_Part[Any]]]:
    try:
        last, parts = msgpack.unpackb(cursor, use_list=False)
        found = [
            _Part[Any](shard, _cursor_of(inner), is_over)
            for shard, (inner, is_over) in zip(fleet.shards, parts, strict=True)
        ]
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise TypeError(f"not a cursor of this backend: {error}") from None
    return last, found


def _plain(cursor: Any) -> Any:
    """Return a shard's cursor as msgpack carries it: it may be a very large number."""
    return {"number": str(cursor)} if isinstance(cursor, int) else cursor


def _cursor_of(plain: Any) -> Any:
    return int(plain["number"]) if isinstance(plain, dict) else plain
