"""Schedules in SQL: a step, its postings and its events are one transaction."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from jobboard.backends.roles import ScheduleStore
from jobboard.backends.rows import DueSchedules, IfExists, SchedulePage, ScheduleRow, ScheduleStep, Verdict
from jobboard.backends.sql import schedule_statements
from jobboard.backends.sql.database import Transactions
from jobboard.backends.sql.posting import KeyTakenError, post_all
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.transaction import Transaction
from jobboard.backends.sql.transitions import expire_and_promote, journal_event, write_events


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
            found = {
                row[0]: ScheduleRow(*row)
                for row in transaction.rows(schedule_statements.READ, ids=transaction.list_of(ids))
            }
        return [found.get(id) for id in ids]

    def due(self, limit: int) -> DueSchedules:
        with self._transactions.read() as transaction:
            rows = transaction.rows(schedule_statements.DUE, limit=limit + 1)
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
        self._versions: dict[str, str | None] = dict(transaction.rows(schedule_statements.READ_VERSIONS, ids=ids))

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
                with contextlib.suppress(KeyTakenError), self._transaction.part():
                    post_all(self._transaction, step.postings)


def _statement_of(step: ScheduleStep) -> Statement:
    if step.row is None:
        return schedule_statements.DELETE
    return schedule_statements.ADD if step.after is None else schedule_statements.CHANGE


def _row_of(step: ScheduleStep) -> dict[str, Any]:
    row = step.row
    if row is None:
        return {"id": step.id}
    return {"id": row.id, "version": row.version, "next_at": row.next_at, "body": row.body}


def _next_at(transaction: Transaction) -> float | None:
    row = transaction.row(schedule_statements.NEXT_AFTER_NOW)
    return None if row is None else row[0]


def _page(transaction: Transaction, cursor: object | None, size: int) -> list[Row]:
    """Read what follows a place: its moment, or None among those that are not due, and its id."""
    rows: list[Row] = []
    at, last = cursor if isinstance(cursor, tuple) else (None, None)
    if last is None:
        rows = transaction.rows(schedule_statements.HEAD, size=size)
    elif at is not None:
        rows = transaction.rows(schedule_statements.AT, at=at, id=last, size=size)
        if len(rows) < size:
            rows += transaction.rows(schedule_statements.LATER, at=at, size=size - len(rows))
    if len(rows) < size:
        after = last if at is None and last is not None else ""
        rows += transaction.rows(schedule_statements.NOT_DUE, id=after, size=size - len(rows))
    return rows
