"""Schedules: each step is one transaction, with what it posts and tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jobboard.backends.errors import after_a_change
from jobboard.backends.kv.clock import ServerClock
from jobboard.backends.kv.codec import MAX_HISTORY_REASON, pack
from jobboard.backends.kv.read_modify_write import Done, carry_out
from jobboard.backends.roles import ScheduleStore
from jobboard.backends.rows import NewJob, Verdict
from jobboard.backends.schedule_rows import DueSchedules, SchedulePage, ScheduleRow, ScheduleStep
from jobboard.backends.zookeeper.change_log import ChangeLogReader
from jobboard.backends.zookeeper.codec import decode_schedule
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.errors import Conflict, missing
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.listing import Listing
from jobboard.backends.zookeeper.posting import Poster
from jobboard.backends.zookeeper.posting_batch import Plan
from jobboard.backends.zookeeper.requests import Data
from jobboard.backends.zookeeper.transactions import SentTransaction, Transaction, Transactions
from jobboard.text import shortened

_Planner = Callable[[Sequence[NewJob]], Plan]
#: A step that may be taken, and the schedule as it was read.
_Due = tuple[ScheduleStep, Data | None]

MAX_READS = 100
#: How many schedules one transaction removes; fewer once another client was faster, so that some are removed beside it.
MAX_REMOVED, MAX_REMOVED_AGAIN = 500, 20


class Schedules(ScheduleStore):
    """The listing has the order of the schedules, which the log keeps up to date; their bodies are read."""

    def __init__(
        self,
        connection: Connection,
        layout: Layout,
        clock: ServerClock,
        listing: Listing,
        change_log: ChangeLogReader,
        transactions: Transactions,
        poster: Poster,
    ) -> None:
        self._connection, self._layout, self._clock, self._listing = connection, layout, clock, listing
        self._change_log, self._transactions, self._poster = change_log, transactions, poster

    def step(self, steps: Sequence[ScheduleStep]) -> list[Verdict]:
        return carry_out(steps, lambda step: step.id, self._attempt)

    def _attempt(self, steps: Sequence[ScheduleStep], is_again: bool) -> list[Done[Verdict] | None]:
        """Take steps of schedules that are all different; all are on their way before the first answer is awaited."""
        plan = self._poster.certain_plan if is_again else self._poster.likely_plan
        done: dict[str, Done[Verdict]] = {}
        due: list[_Due] = []
        sent: list[tuple[list[_Due], SentTransaction]] = []
        with after_a_change(lambda: sent):
            deletions, found = self._read_counted([step.id for step in steps])
            for step, stored in zip(steps, found, strict=True):
                verdict = step.verdict(None if stored is None else decode_schedule(stored.data)[0])
                if verdict is Verdict.DONE:
                    due.append((step, stored))
                else:
                    done[step.id] = Done(verdict, False)
            for part in _parts(due, MAX_REMOVED_AGAIN if is_again else MAX_REMOVED):
                try:
                    sent.append((part, self._send(part, deletions, plan)))
                except Conflict as conflict:
                    self._poster.note_conflict(conflict)
        with after_a_change(lambda: len(sent) > 1):
            for part, transaction in sent:
                try:
                    self._transactions.finish(transaction)
                    done |= {step.id: Done(Verdict.DONE, True) for step, _ in part}
                except Conflict as conflict:
                    self._poster.note_conflict(conflict)
        return [done.get(step.id) for step in steps]

    def _send(self, part: Sequence[_Due], deletions: int, plan: _Planner) -> SentTransaction:
        """Send steps in one transaction.

        :param deletions: how many times something had been deleted when they were read; a schedule that is removed and
            added again under the same id begins with the same version.
        """
        transaction = self._transactions.begin()
        transaction.check(self._layout.deleted, deletions)
        for step, stored in part:
            self._add(transaction, step, stored, plan)
        if any(step.row is None for step, _ in part):
            transaction.set(self._layout.deleted, b"")
        return self._transactions.send(transaction)

    def _add(self, transaction: Transaction, step: ScheduleStep, stored: Data | None, plan: _Planner) -> None:
        path, version = self._layout.schedule(step.id), None if stored is None else stored.stat.version
        if step.row is None:
            transaction.delete(path, -1 if version is None else version)
            transaction.change.schedules.append((step.id, False, None))
        else:
            data = pack([step.row.version, step.row.next_at, step.row.body])
            if version is None:
                self._transactions.create_parents([path])
                transaction.create(path, data)
            else:
                transaction.set(path, data, version)
            transaction.change.schedules.append((step.id, True, step.row.next_at))
        if step.postings:
            self._poster.add_postings(transaction, plan(step.postings))
        for event in step.events:
            reason = shortened(event.reason, MAX_HISTORY_REASON)
            transaction.change.told.append((event.kind, event.uuid, event.name, event.who, None, reason))

    def _read_counted(self, ids: Sequence[str]) -> tuple[int, list[Data | None]]:
        """Return what is under these ids, and how many times something had been deleted before."""
        found: list[Data | None] = []
        deletions: list[int] = []
        for start in range(0, len(ids), MAX_READS):
            paths = [self._layout.schedule(id) for id in ids[start : start + MAX_READS]]
            deleted, *part = self._connection.read_many([self._layout.deleted, *paths], is_fresh=start == 0)
            if deleted is None:
                raise missing(self._layout.deleted)
            deletions.append(deleted.stat.version)
            found += part
        return min(deletions, default=0), found

    def read(self, ids: Sequence[str]) -> list[ScheduleRow | None]:
        return [_schedule(id, data) for id, data in zip(ids, self._read_counted(ids)[1], strict=True)]

    def due(self, limit: int) -> DueSchedules:
        self._change_log.refresh()
        now = self._clock.now()
        with self._listing.lock:
            ids, next_at = self._listing.schedules.order.due(now, limit)
        # One that has been stepped on meanwhile is not due any more.
        rows = [row for row in self.read(ids) if row and (row.next_at or now) <= now] if ids else []
        return DueSchedules(rows, None if next_at is None else next_at - now, now)

    def page(self, cursor: object | None, size: int) -> SchedulePage:
        self._change_log.refresh()
        with self._listing.lock:
            ids, following = self._listing.schedules.order.page(cursor, size)
        return SchedulePage([row for row in self.read(ids) if row], following)


def _schedule(id: str, data: Data | None) -> ScheduleRow | None:
    return None if data is None else ScheduleRow(id, *decode_schedule(data.data))


def _parts(due: Sequence[_Due], most: int) -> list[list[_Due]]:
    """Return what each transaction is to hold: one step, or up to ``most`` removals.

    Of removals only one transaction is sent at a time: each counts as a deletion, which the next one has to know of.
    """
    parts, removals = list[list[_Due]](), list[_Due]()
    for each in due:
        if each[0].row is None and not each[0].postings:
            removals.append(each)
        else:
            parts.append([each])
    return [*parts, removals[:most]] if removals else parts
