"""Schedules in SQL: a step, its postings and its events are one transaction."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import delete, func, insert, literal_column, select, update

from jobboard.backends.roles import ScheduleStore
from jobboard.backends.rows import IfExists, Verdict
from jobboard.backends.schedule_rows import DueSchedules, SchedulePage, ScheduleRow, ScheduleStep
from jobboard.backends.sql.batch import BatchRefused, post_all
from jobboard.backends.sql.database import Transactions
from jobboard.backends.sql.expiry import expire_and_promote
from jobboard.backends.sql.journal_lines import journal_event, write_events
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.schema import schedules
from jobboard.backends.sql.statement import Statement, either, for_each_of, in_list, p, parameters
from jobboard.backends.sql.transaction import Transaction

_mine = schedules.c.board == p("board")
_in_order = (schedules.c.next_at, schedules.c.id)

#: What makes a ScheduleRow, in the order of its fields.
SCHEDULE = [schedules.c.id, schedules.c.version, schedules.c.next_at, schedules.c.body]


# PostgreSQL's planner is told to avoid sorting (see its driver). In this order only the primary index has a range of
# one id; of that one alone, a plan for few schedules might read all of the index of what is due.
def _of_id(id: Any) -> Any:
    return (schedules.c.id >= id) & (schedules.c.id <= id)


_by_id = select(*SCHEDULE).where(_mine).order_by(schedules.c.id)
# In one order, so that two transactions that lock several rows don't wait for each other.
_versions = _by_id.with_only_columns(schedules.c.id, schedules.c.version).with_for_update()
_these = in_list(schedules.c.id, "ids")
READ_VERSIONS = Statement(_versions.where(_these), postgresql=for_each_of("ids", _versions, _of_id))
ADD = Statement(insert(schedules).values(parameters("board", "id", "version", "next_at", "body")))
# It is locked, and so has its place (ctid) until it is changed.
_place = _by_id.with_only_columns(literal_column("ctid")).where(_of_id(p("id"))).scalar_subquery()
_by_key = _mine & (schedules.c.id == p("id"))
_this = either(_by_key, postgresql=literal_column("ctid") == _place, distributed=_by_key)
CHANGE = Statement(update(schedules).where(_this).values(parameters("version", "next_at", "body")))
DELETE = Statement(delete(schedules).where(_this))

READ = Statement(select(*SCHEDULE).where(_mine, _these), postgresql=for_each_of("ids", _by_id, _of_id))
DUE = Statement(select(*SCHEDULE).where(_mine, schedules.c.next_at <= p("now")).order_by(*_in_order).limit(p("limit")))
NEXT_AFTER_NOW = Statement(select(func.min(schedules.c.next_at)).where(_mine, schedules.c.next_at > p("now")))

# A page is what is due at the last one's moment, then what is due later, then what isn't due.
_some = select(*SCHEDULE).where(_mine).order_by(*_in_order).limit(p("size"))
HEAD = Statement(_some.where(schedules.c.next_at.is_not(None)))
AT = Statement(_some.where(schedules.c.next_at == p("at"), schedules.c.id > p("id")))
LATER = Statement(_some.where(schedules.c.next_at > p("at")))
NOT_DUE = Statement(
    select(*SCHEDULE)
    .where(_mine, schedules.c.next_at.is_(None), schedules.c.id > p("id"))
    .order_by(schedules.c.id)
    .limit(p("size"))
)


class Schedules(ScheduleStore):
    """Steps of schedules, and what is due."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def step(self, steps: Sequence[ScheduleStep]) -> list[Verdict]:
        with self._transactions.write() as transaction:
            expire_and_promote(transaction)
            return _Steps(transaction, steps).take()

    def read(self, ids: Sequence[str]) -> list[ScheduleRow | None]:
        with self._transactions.read() as transaction:
            found = {row[0]: ScheduleRow(*row) for row in transaction.rows(READ, ids=transaction.list_of(ids))}
        return [found.get(id) for id in ids]

    def due(self, limit: int) -> DueSchedules:
        with self._transactions.read() as transaction:
            rows = transaction.rows(DUE, limit=limit + 1)
            next_at = rows[limit][2] if len(rows) > limit else _next_at(transaction)
            due = [ScheduleRow(*row) for row in rows[:limit]]
            return DueSchedules(due, None if next_at is None else next_at - transaction.now, transaction.now)

    def page(self, cursor: object | None, size: int) -> SchedulePage:
        with self._transactions.read() as transaction:
            rows = [ScheduleRow(*row) for row in _page(transaction, cursor, size)]
        return SchedulePage(rows, (rows[-1].next_at, rows[-1].id) if len(rows) == size else None)


class _Steps:
    """Steps that are taken together: what can be, is written for all of them at once."""

    def __init__(self, transaction: Transaction, steps: Sequence[ScheduleStep]) -> None:
        self._transaction = transaction
        self._steps = steps
        ids = transaction.list_of(dict.fromkeys(step.id for step in steps))
        self._versions: dict[str, str | None] = dict(transaction.rows(READ_VERSIONS, ids=ids))

    def take(self) -> list[Verdict]:
        verdicts = [self._verdict_on(step) for step in self._steps]
        taken = [step for step, verdict in zip(self._steps, verdicts, strict=True) if verdict is Verdict.DONE]
        self._post(taken)
        for statement, group in groupby(taken, _statement_of):
            self._transaction.run_many(statement, [_row_of(step) for step in group])
        write_events(
            self._transaction,
            [
                journal_event(event.kind, event.uuid, event.name, event.who, event.reason)
                for step in taken
                for event in step.events
            ],
        )
        return verdicts

    def _verdict_on(self, step: ScheduleStep) -> Verdict:
        verdict = step.verdict(self._versions.get(step.id))
        if verdict is Verdict.DONE:
            self._versions[step.id] = None if step.row is None else step.row.version
        return verdict

    def _post(self, taken: list[ScheduleStep]) -> None:
        postings = [new for step in taken for new in step.postings]
        if all(new.key is None or new.if_exists is IfExists.KEEP for new in postings):
            if postings:
                post_all(self._transaction, postings)
            return
        for step in taken:
            # A job that is to be replaced may be claimed; then none of its step is posted, and the step goes on.
            if step.postings:
                with contextlib.suppress(BatchRefused), self._transaction.part():
                    post_all(self._transaction, step.postings)


def _statement_of(step: ScheduleStep) -> Statement:
    if step.row is None:
        return DELETE
    return ADD if step.after is None else CHANGE


def _row_of(step: ScheduleStep) -> dict[str, Any]:
    row = step.row
    if row is None:
        return {"id": step.id}
    return {"id": row.id, "version": row.version, "next_at": row.next_at, "body": row.body}


def _next_at(transaction: Transaction) -> float | None:
    row = transaction.row(NEXT_AFTER_NOW)
    return None if row is None else row[0]


def _page(transaction: Transaction, cursor: object | None, size: int) -> list[Row]:
    """Read what follows a place: its moment, or None among those that are not due, and its id."""
    rows: list[Row] = []
    at, last = cursor if isinstance(cursor, tuple) else (None, None)
    if last is None:
        rows = transaction.rows(HEAD, size=size)
    elif at is not None:
        rows = transaction.rows(AT, at=at, id=last, size=size)
        if len(rows) < size:
            rows += transaction.rows(LATER, at=at, size=size - len(rows))
    if len(rows) < size:
        after = last if at is None and last is not None else ""
        rows += transaction.rows(NOT_DUE, id=after, size=size - len(rows))
    return rows
