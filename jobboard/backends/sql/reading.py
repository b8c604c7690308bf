"""The lookers-on's primitives in SQL."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from jobboard.backends.base import Backend, Waiter
from jobboard.backends.rows import JobRow, Page
from jobboard.backends.sql import statements
from jobboard.backends.sql.claiming import claimable_names, paused_names
from jobboard.backends.sql.database import Database
from jobboard.backends.sql.rows import UUID, Row, entry_of, history_of, place_of
from jobboard.backends.sql.schema import CODES, STATES
from jobboard.backends.sql.steps import is_any_due, settle
from jobboard.backends.sql.transaction import Transaction
from jobboard.backends.sql.watching import SqlWaiter, Watcher
from jobboard.events import EventKind, HistoryEntry, JobEvent
from jobboard.states import JobState
from jobboard.stats import BoardStats, NameStats

#: What is due and was not settled is so new, or so locked, that another look in so many seconds is soon enough.
AGAIN = 0.05
#: Before every rank, which is minus a priority.
_HEAD = (-1_000_000, 0)


class Reading(Backend):
    """Read, page, count, wait, listen."""

    database: Database
    watcher: Watcher

    @contextmanager
    def settled(self) -> Iterator[Transaction]:
        """A consistent look at a board on which nothing is due; writes only if something is."""
        with self.database.read() as transaction:
            if not is_any_due(transaction):
                yield transaction
                return
        with self.database.write() as transaction:
            settle(transaction)
        with self.database.read() as transaction:
            yield transaction

    def read(self, uuids: Sequence[str]) -> list[JobRow | None]:
        with self.settled() as transaction:
            if len(uuids) == 1:
                rows = transaction.rows(statements.FIND_VISIBLE, uuid=uuids[0])
            else:
                rows = transaction.rows(statements.FIND_MANY_VISIBLE, uuids=transaction.list_of(uuids))
        found = {row[UUID]: row for row in rows}
        return [entry_of(found[uuid]) if uuid in found else None for uuid in uuids]

    def history(self, uuid: str) -> list[HistoryEntry]:
        with self.settled() as transaction:
            return history_of(transaction.rows(statements.HISTORY, uuid=uuid))

    def find(self, name: str, key: str) -> JobRow | None:
        with self.settled() as transaction:
            row = transaction.row(statements.FIND_KEY, name=name, key=key)
        return None if row is None else entry_of(row)

    def page(
        self, states: Collection[JobState], names: frozenset[str] | None, cursor: object | None, size: int
    ) -> Page:
        after = cursor if isinstance(cursor, tuple) else _HEAD
        with self.settled() as transaction:
            streams: list[list[Row]] = []
            for state in states:
                code = CODES[state]
                if names is None:
                    streams.append(_page(transaction, statements.PAGES[code], after, size))
                else:
                    pages = statements.PAGES_OF_NAME[code]
                    streams += [_page(transaction, pages, after, size, name=name) for name in names]
        rows = heapq.nsmallest(size, (row for stream in streams for row in stream), key=place_of)
        cursor = place_of(rows[-1]) if len(rows) == size else None
        return Page([entry_of(row) for row in rows], cursor)

    def stats(self) -> BoardStats:
        with self.settled() as transaction:
            numbers = transaction.rows(statements.NUMBERS)
            oldest = transaction.row(statements.OLDEST_UNCLAIMED)
            now = transaction.now
        names: dict[str, dict[str, int]] = {}
        totals: dict[str, int] = {}
        for name, code, number in numbers:
            state = STATES[code].value.lower()
            names.setdefault(name, {})[state] = number
            totals[state] = totals.get(state, 0) + number
        return BoardStats(
            **totals,
            names={name: NameStats(**found) for name, found in names.items()},
            oldest_unclaimed=None if oldest is None or oldest[0] is None else max(0.0, now - oldest[0]),
        )

    def count(self) -> int:
        with self.settled() as transaction:
            row = transaction.row(statements.COUNT)
        return int(row[0]) if row else 0

    def ready_in(self, names: frozenset[str] | None) -> float | None:
        """Return the seconds until a job of these names can be claimed; looks at the heads of indexes only."""
        with self.settled() as transaction:
            paused = paused_names(transaction)
            if names is None and not paused:
                is_ready = transaction.row(statements.IS_READY) is not None
            else:
                wanted = claimable_names(transaction, names, paused)
                is_ready = any(transaction.row(statements.IS_NAME_READY, name=name) for name in wanted)
            if is_ready:
                return 0.0
            if None in paused or (names is not None and names <= paused):
                return None
            row = transaction.row(statements.NEXT_DUE)
            return None if row is None or row[0] is None else max(AGAIN, row[0] - transaction.now)

    def waiter(self, names: frozenset[str] | None) -> Waiter:
        return SqlWaiter(self.watcher, lambda: self.ready_in(names))

    def listen(self, tell: Callable[[JobEvent], None], kinds: frozenset[EventKind]) -> Callable[[], None]:
        return self.watcher.listen(tell, kinds)


def _page(
    transaction: Transaction, pages: statements.Pages, after: tuple[int, int], size: int, **wanted: str
) -> list[Row]:
    rank, last = after
    rows = transaction.rows(pages.rest_of_rank, rank=rank, id=last, size=size, **wanted)
    if len(rows) < size:
        rows += transaction.rows(pages.later_ranks, rank=rank, size=size - len(rows), **wanted)
    return rows
