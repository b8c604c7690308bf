"""The schedules' primitives in SQL: a step, its postings and its announcements are one transaction."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from jobboard.backends.sql import timetable
from jobboard.backends.sql.posting import Posting, Taken, post_all
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.steps import settle, write_loose
from jobboard.backends.sql.transaction import Transaction
from jobboard.entry import Due, IfExists, ScheduleEntry, SchedulePage, ScheduleStep, Verdict


class Scheduling(Posting):
    """Steps of schedules, and what is due."""

    def step_schedules(self, steps: Sequence[ScheduleStep]) -> list[Verdict]:
        with self.database.write() as transaction:
            settle(transaction)
            if len(steps) > 1:
                transaction.rows(timetable.LOCK, ids=transaction.list_of(step.id for step in steps))
            return [_step(transaction, step) for step in steps]

    def read_schedules(self, ids: Sequence[str]) -> list[ScheduleEntry | None]:
        with self.database.read() as transaction:
            found = {
                row[0]: ScheduleEntry(*row) for row in transaction.rows(timetable.READ, ids=transaction.list_of(ids))
            }
        return [found.get(id) for id in ids]

    def due_schedules(self, limit: int) -> Due:
        with self.database.read() as transaction:
            rows = transaction.rows(timetable.DUE, limit=limit + 1)
            next_at = rows[limit][2] if len(rows) > limit else _next_at(transaction)
            entries = [ScheduleEntry(*row) for row in rows[:limit]]
            return Due(entries, None if next_at is None else next_at - transaction.now, transaction.now)

    def page_schedules(self, cursor: object | None, size: int) -> SchedulePage:
        with self.database.read() as transaction:
            rows = _page(transaction, cursor, size)
        return SchedulePage([ScheduleEntry(*row) for row in rows], rows[-1][2::-2] if len(rows) == size else None)


def _step(transaction: Transaction, step: ScheduleStep) -> Verdict:
    row = transaction.row(timetable.READ_VERSION, id=step.id)
    version = None if row is None else row[0]
    if version == (None if step.entry is None else step.entry.version):
        return Verdict.REPEATED
    if version != step.after:
        return Verdict.LOST
    if step.postings:
        _post(transaction, step)
    _put(transaction, step)
    for told in step.announcements:
        write_loose(transaction, told.kind, told.uuid, told.name, who=told.who, reason=told.reason)
    return Verdict.DONE


def _post(transaction: Transaction, step: ScheduleStep) -> None:
    if all(new.key is None or new.if_exists is IfExists.KEEP for new in step.postings):
        post_all(transaction, step.postings)
        return
    # A job that is to be replaced may be claimed; then none of them is posted, and the step goes on.
    with contextlib.suppress(Taken), transaction.part():
        post_all(transaction, step.postings)


def _put(transaction: Transaction, step: ScheduleStep) -> None:
    if step.entry is None:
        transaction.run(timetable.DELETE, id=step.id)
    else:
        entry = step.entry
        statement = timetable.ADD if step.after is None else timetable.CHANGE
        transaction.run(statement, id=step.id, version=entry.version, next_at=entry.next_at, body=entry.body)


def _next_at(transaction: Transaction) -> float | None:
    row = transaction.row(timetable.NEXT_AFTER_NOW)
    return None if row is None else row[0]


def _page(transaction: Transaction, cursor: object | None, size: int) -> list[Row]:
    """Read what follows a place: its moment, or None among those that are not due, and its id."""
    rows: list[Row] = []
    at, last = cursor if isinstance(cursor, tuple) else (None, None)
    if last is None:
        rows = transaction.rows(timetable.HEAD, size=size)
    elif at is not None:
        rows = transaction.rows(timetable.AT, at=at, id=last, size=size)
        if len(rows) < size:
            rows += transaction.rows(timetable.LATER, at=at, size=size - len(rows))
    if len(rows) < size:
        after = last if at is None and last is not None else ""
        rows += transaction.rows(timetable.NOT_DUE, id=after, size=size - len(rows))
    return rows
