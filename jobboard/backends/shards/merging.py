"""Pages of jobs, or of schedules, in the order that they have on all shards together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import msgpack

from jobboard.backends.base import Backend
from jobboard.backends.partial import partial_reads
from jobboard.backends.shards.fleet import Fleet
from jobboard.errors import BoardUnavailable

Row = TypeVar("Row")

#: Reads a page of a shard from its own cursor on, and returns its cursor.
Read = Callable[[Backend, Any, int], tuple[list[Row], Any]]

#: Where a row stands in the order; of two shards no rows but those of one place tie.
Place = tuple[Any, ...]


class _Part(Generic[Row]):
    """The pages of one shard: what was read of them and not returned yet, the next one last, and where that begins."""

    def __init__(self, number: int, cursor: Any, is_over: bool) -> None:
        self.number = number
        self.cursor, self.is_over = cursor, is_over
        self.rows: list[tuple[Place, Row]] = []
        self._following: Any = None

    @property
    def is_short(self) -> bool:
        """Whether another page must be read before it is known what comes next."""
        return not self.rows and not self.is_over

    def put(self, rows: Iterable[tuple[Place, Row]], following: Any, last: Place | None) -> None:
        """Take the page that was read; what the pages before it had is left out."""
        self.rows = [each for each in rows if last is None or each[0] > last][::-1]
        self._following = following
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
    fleet: Fleet,
    cursor: object | None,
    size: int,
    read: Read[Row],
    place_of: Callable[[Row], Place],
) -> tuple[list[Row], bytes | None]:
    """Return the next rows, and where the next page begins; None is the end.

    A shard's page that was not returned whole is read again, without what comes before the last row that was returned.
    So it does no harm if some of that is gone meanwhile. One page costs each shard a request, or two. Within
    ``PartialReads`` a shard that does not answer is left out, also of the pages that follow, unless none does.

    :param cursor: packed, since consoles carry it from page to page as a text.
    :param place_of: says where a row stands; pages of shards come in this order.
    :raises TypeError: that is no cursor of this board.
    """
    last, parts = (None, _first_parts(fleet)) if cursor is None else _unpack(fleet, cursor)
    found: list[Row] = []
    failures, most_failures = 0, sum(not part.is_over for part in parts)
    # Each turn reads a page, or takes a row.
    for _ in range(size + 2 * fleet.count):
        if len(found) == size:
            break
        short = next((part for part in parts if part.is_short), None)
        if short is None:
            able = [part for part in parts if part.rows]
            if not able:
                break
            last, row = min(able, key=lambda part: part.rows[-1][0]).take()
            found.append(row)
            continue
        try:
            rows, following = fleet.ask_needed(short.number, lambda shard, part=short: read(shard, part.cursor, size))  # type: ignore[misc]
        except BoardUnavailable:
            failures += 1
            if partial_reads() is None or failures == most_failures:
                raise
            short.is_over = True
            continue
        short.put([(place_of(row), row) for row in rows], following, last)
    return found, None if all(part.is_over for part in parts) else _pack(last, parts)


def _first_parts(fleet: Fleet) -> list[_Part[Any]]:
    reads = partial_reads()
    able = fleet.present if reads is None else reads.among(fleet.present) or fleet.present
    return [_Part(number, None, number not in able) for number in range(fleet.count)]


def _pack(last: Place | None, parts: list[_Part[Any]]) -> bytes:
    data: bytes = msgpack.packb([last, [[_plain(part.cursor), part.is_over] for part in parts]])
    return data


def _unpack(fleet: Fleet, cursor: object) -> tuple[Place | None, list[_Part[Any]]]:
    try:
        last, parts = msgpack.unpackb(cursor, use_list=False)
        if len(parts) > fleet.count:
            raise TypeError("it has more shards than the board")
        # Shards that were added meanwhile begin with their heads; what is gone is over.
        parts += ((None, False),) * (fleet.count - len(parts))
        found = [
            _Part[Any](number, _cursor_of(inner), is_over or number not in fleet.present)
            for number, (inner, is_over) in enumerate(parts)
        ]
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise TypeError(f"not a cursor of this backend: {error}") from None
    return last, found


def _plain(cursor: Any) -> Any:
    """Return a shard's cursor as msgpack carries it: it may be a very large number."""
    return {"number": str(cursor)} if isinstance(cursor, int) else cursor


def _cursor_of(plain: Any) -> Any:
    return int(plain["number"]) if isinstance(plain, dict) else plain
