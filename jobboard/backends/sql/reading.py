"""Reading jobs in SQL."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from jobboard.backends.lanes import EXCHANGE_POLL
from jobboard.backends.rows import JobRow, Page
from jobboard.backends.sql import job_statements
from jobboard.backends.sql.claiming import ANY_JOB, claimable_names
from jobboard.backends.sql.database import Transactions
from jobboard.backends.sql.expiry import expire_and_promote, is_any_due, status_of
from jobboard.backends.sql.name_limits import barred, unclaimable_names
from jobboard.backends.sql.rows import Row, history_of, job_of, position_of, priority_and_moment
from jobboard.backends.sql.schema import CODES, STATES
from jobboard.backends.sql.transaction import Transaction
from jobboard.events import HistoryEntry
from jobboard.states import JobState
from jobboard.stats import BoardStats, NameStats

#: Seconds after which to look again at a job that is due and was not promoted: it is new, or others have locked it.
RECHECK_DELAY = 0.05


@contextmanager
def up_to_date(transactions: Transactions) -> Iterator[Transaction]:
    """Read one consistent state of a board on which nothing is due; write only if something is."""
    with transactions.read() as transaction:
        if not is_any_due(transaction):
            yield transaction
            return
    with transactions.write() as transaction:
        expire_and_promote(transaction)
    with transactions.read() as transaction:
        yield transaction


class Reading:
    """Read, find, page and count jobs; say how long to wait for one."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def read(self, uuids: Sequence[str]) -> list[JobRow | None]:
        with up_to_date(self._transactions) as transaction:
            if len(uuids) == 1:
                rows = transaction.rows(job_statements.FIND_VISIBLE, uuid=uuids[0])
            else:
                rows = transaction.rows(job_statements.FIND_MANY_VISIBLE, uuids=transaction.list_of(uuids))
        found = {job.uuid: job for job in map(job_of, rows)}
        return [found.get(uuid) for uuid in uuids]

    def history(self, uuid: str) -> list[HistoryEntry]:
        with up_to_date(self._transactions) as transaction:
            return history_of(transaction.rows(job_statements.HISTORY, uuid=uuid))

    def find(self, name: str, key: str) -> JobRow | None:
        with up_to_date(self._transactions) as transaction:
            row = transaction.row(job_statements.FIND_KEY, name=name, key=key)
        return None if row is None else job_of(row)

    def page(
        self, states: Collection[JobState], names: frozenset[str] | None, cursor: object | None, size: int
    ) -> Page:
        after = cursor if isinstance(cursor, tuple) else ANY_JOB
        with up_to_date(self._transactions) as transaction:
            streams: list[list[Row]] = []
            for state in states:
                code = CODES[state]
                if names is None:
                    streams.append(_page(transaction, job_statements.PAGES[code], after, size))
                else:
                    pages = job_statements.PAGES_OF_NAME[code]
                    streams += [_page(transaction, pages, after, size, name=name) for name in names]
        rows = heapq.nsmallest(size, (row for stream in streams for row in stream), key=position_of)
        return page_of_rows(rows, size)

    def claimable(self, names: frozenset[str] | None, cursor: object | None, size: int) -> Page:
        with self._transactions.read() as transaction:
            closed = unclaimable_names(transaction, barred(transaction, names))
        if None in closed:
            return Page([], None)
        return self.page({JobState.UNCLAIMED}, names, cursor, size).without(closed)

    def stats(self) -> BoardStats:
        with up_to_date(self._transactions) as transaction:
            numbers = transaction.rows(job_statements.NUMBERS)
            oldest = transaction.row(job_statements.OLDEST_UNCLAIMED)
            now = transaction.now
        names: dict[str, dict[str, int]] = {}
        for name, code, number in numbers:
            names.setdefault(name, {})[STATES[code].value.lower()] = number
        age = None if oldest is None or oldest[0] is None else max(0.0, now - priority_and_moment(oldest[0])[1])
        return BoardStats.of({name: NameStats(**found) for name, found in names.items()}, age)

    def count(self) -> int:
        with up_to_date(self._transactions) as transaction:
            row = transaction.row(job_statements.COUNT)
        return int(row[0]) if row else 0

    def outlook(self, names: frozenset[str] | None) -> JobState | None:
        with up_to_date(self._transactions) as transaction:
            known = barred(transaction, names)
            if is_any_ready(transaction, names, unclaimable_names(transaction, known)):
                return JobState.UNCLAIMED
            if None in known.paused or (names is not None and names <= known.paused):
                return None
            return JobState.BLOCKED if status_of(transaction).is_any_blocked else None

    def ready_in(self, names: frozenset[str] | None) -> float | None:
        """Return the seconds until a job of these names can be claimed; reads only the heads of indexes."""
        with up_to_date(self._transactions) as transaction:
            known = barred(transaction, names)
            if is_any_ready(transaction, names, unclaimable_names(transaction, known)):
                return 0.0
            if None in known.paused or (names is not None and names <= known.paused):
                return None
            moments = [moment for (moment,) in transaction.rows(job_statements.NEXT_DUE) if moment is not None]
            due_in = max(RECHECK_DELAY, min(moments) - transaction.now) if moments else None
            return no_later_than_exchange(due_in) if status_of(transaction).is_any_blocked else due_in


def no_later_than_exchange(seconds: float | None) -> float:
    """Return after how many seconds to look again where jobs are BLOCKED: perhaps an exchange lets one be claimed."""
    return EXCHANGE_POLL if seconds is None else min(seconds, EXCHANGE_POLL)


def page_of_rows(rows: Sequence[Row], size: int) -> Page:
    """Return a page of rows that are in order; after a full one there may be more."""
    return Page([job_of(row) for row in rows], position_of(rows[-1]) if len(rows) == size else None)


def is_any_ready(transaction: Transaction, names: frozenset[str] | None, closed: frozenset[str | None]) -> bool:
    """Whether a job of these names can be claimed, but for the closed ones."""
    if names is None and not closed:
        return transaction.row(job_statements.IS_READY) is not None
    claimable = claimable_names(transaction, names, closed)
    if names is None:
        return next(claimable, None) is not None
    return any(transaction.row(job_statements.IS_NAME_READY, name=name) for _, _, name in claimable)


def _page(
    transaction: Transaction, pages: job_statements.Pages, after: tuple[int, int], size: int, **wanted: str
) -> list[Row]:
    place, last = after
    rows = transaction.rows(pages.of_place, place=place, id=last, size=size, **wanted)
    if len(rows) < size:
        rows += transaction.rows(pages.later, place=place, size=size - len(rows), **wanted)
    return rows
