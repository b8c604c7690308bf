"""The operators' work in SQL: release, run now, reprioritize, restore, purge, pause, resume, tidy, audit."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from jobboard.backends import lifecycle, roles
from jobboard.backends.base import ENTITY_TTL
from jobboard.backends.findings import AuditFinding, Holder, Persistence
from jobboard.backends.rows import JobRow, Pause, TrashOutcome, Verdict
from jobboard.backends.sql import (
    admin_statements,
    edge_statements,
    job_statements,
    journal_statements,
    lanes,
    marks,
    step_statements,
    windows,
)
from jobboard.backends.sql.audit import audit
from jobboard.backends.sql.database import Transactions
from jobboard.backends.sql.expiry import expire_and_promote
from jobboard.backends.sql.journal_lines import journal_event, write_events
from jobboard.backends.sql.lane_limits import FORGET_STARTS
from jobboard.backends.sql.limits import Limits, all_limits
from jobboard.backends.sql.name_limits import barred
from jobboard.backends.sql.resolving import ending
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.sequences import behind_their_rows
from jobboard.backends.sql.stored_jobs import LockedJobs
from jobboard.backends.sql.transaction import Transaction
from jobboard.backends.sql.transitions import carry_out, save
from jobboard.backends.sweep import tidy_limits
from jobboard.events import EventKind
from jobboard.validation import moment

#: How many steps and edges one transaction deletes with their jobs, unless one job alone has more.
MAX_PARTS = 10_000

#: Delete what belongs to these jobs.
_OF_JOBS = step_statements.FORGET_STEPS, step_statements.FORGET_SIGNALS, windows.FREE, edge_statements.FORGET


class Maintenance(roles.Maintenance):
    """Release, run now, reprioritize, restore, purge, pause, resume, tidy, audit."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def release(self, uuid: str, token: int, reason: str) -> Verdict:
        with ending(self._transactions) as transaction:
            expire_and_promote(transaction)
            jobs = LockedJobs.lock(transaction, [uuid])
            job = jobs.get(uuid)
            change = lifecycle.release(job, token, reason, transaction.now, jobs.limits.of(job))
            (verdict,) = save(transaction, [(job, change)])
            return verdict

    def run_now(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[Verdict]:
        with self._transactions.write() as transaction:
            expire_and_promote(transaction)
            jobs = LockedJobs.lock(transaction, uuids)
            changes = (
                (job, lifecycle.run_now(job, transaction.now, by, reason, jobs.limits.of(job)))
                for job in (jobs.get(uuid) for uuid in uuids)
            )
            return save(transaction, changes)

    def reprioritize(self, uuids: Sequence[str], priority: int, by: str | None, reason: str | None) -> list[Verdict]:
        with self._transactions.write() as transaction:
            expire_and_promote(transaction)
            jobs = LockedJobs.lock(transaction, uuids)
            changes = (
                (job, lifecycle.reprioritize(job, priority, by, reason, transaction.now))
                for job in (jobs.get(uuid) for uuid in uuids)
            )
            return carry_out(transaction, job_statements.REPRIORITIZE, changes)

    def restore(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[TrashOutcome]:
        with ending(self._transactions) as transaction:
            expire_and_promote(transaction)
            return [_restore(transaction, uuid, by, reason) for uuid in uuids]

    def purge(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[TrashOutcome]:
        with ending(self._transactions) as transaction:
            expire_and_promote(transaction)
            return [_purge(transaction, uuid, by, reason) for uuid in uuids]

    def pause(self, name: str | None, by: str | None = None, reason: str | None = None) -> None:
        with self._transactions.write() as transaction:
            statements = admin_statements.PAUSE, admin_statements.PAUSE_LIMITED
            if any(transaction.run(statement, name=name or "") for statement in statements):
                write_events(transaction, [journal_event(EventKind.PAUSED, None, name, by, reason)])

    def resume(self, name: str | None) -> None:
        with self._transactions.write() as transaction:
            statements = admin_statements.RESUME, admin_statements.RESUME_LIMITED
            if any(transaction.run(statement, name=name or "") for statement in statements):
                write_events(transaction, [journal_event(EventKind.RESUMED, None, name)])

    def paused(self) -> frozenset[str | None]:
        with self._transactions.read() as transaction:
            return barred(transaction).paused

    def pauses(self) -> list[Pause]:
        with self._transactions.read() as transaction:
            # The lines of a name are in order, so its last one stays: earlier ones are those of pauses that are over.
            found = {name: line for name, *line in transaction.rows(admin_statements.PAUSES)}
        return [
            Pause(name or None, by, reason, None if at is None else moment(at))
            for name, (by, reason, at) in found.items()
        ]

    def tidy(self, limit: int) -> int:
        with self._transactions.write() as transaction:
            over = _within_bounds(transaction.rows(job_statements.OVER, limit=limit))
            if over:
                _delete(transaction, over)
            forgotten = transaction.run(admin_statements.FORGET_ENTITIES, before=transaction.now - ENTITY_TTL)
            transaction.run(journal_statements.FORGET_EVENTS)
            transaction.run(windows.FORGET)
            limits, now = all_limits(transaction), transaction.now
            if transaction.moves_others:
                transaction.run(FORGET_STARTS)
            # An idle board is tidied again and again; nobody waits for that.
            transaction.changed = False
            may_sweep = transaction.moves_others
        if may_sweep:
            tidy_limits(Limits(self._transactions), limits, now)
        return len(over) + forgotten

    def audit(self, repair: bool) -> list[AuditFinding]:
        with self._transactions.write() if repair else self._transactions.read() as transaction:
            return audit(transaction, repair)

    def faults(self) -> list[str]:
        """Return what is wrong with the database beside its rows, each with what to do."""
        with self._transactions.read() as transaction:
            return behind_their_rows(transaction)

    def persistence(self) -> Persistence:
        """Return what is lost when a server ends suddenly."""
        with self._transactions.read() as transaction:
            (settings,) = transaction.rows(admin_statements.PERSISTENCE)
        return persistence_of(*map(str, settings))

    def holders(self) -> list[Holder]:
        with self._transactions.read() as transaction:
            if not transaction.rows(admin_statements.MAY_SEE_HOLDERS):
                return []
            return [Holder(*row) for row in transaction.rows(admin_statements.HOLDERS)]

    def server_version(self) -> str:
        with self._transactions.read() as transaction:
            ((text,),) = transaction.rows(admin_statements.SERVER_VERSION)
        return server_name(str(text))


#: What a commit of a server does that does not wait for the disk, by the settings that say so.
_LATE = {
    ("on", "off"): "a crash of the server loses what was committed within the last second (synchronous_commit = off)",
    ("0",): "a crash of the server loses about the last second (innodb_flush_log_at_trx_commit = 0)",
    ("2",): "a crash of its machine loses about the last second (innodb_flush_log_at_trx_commit = 2)",
}


def persistence_of(*settings: str) -> Persistence:
    """Return what these settings of a server mean: PostgreSQL's fsync and synchronous_commit, or MariaDB's flush."""
    if settings[0] == "off":
        remedy = "Set fsync = on in its configuration, and reload it"
        return Persistence(False, f"PostgreSQL does not wait for its disk, and a crash can damage all of it. {remedy}")
    return Persistence(True, _LATE.get(settings, ""))


def server_name(text: str) -> str:
    """Return the product and its version, out of what a database says of itself."""
    number = re.search(r"\d+(\.\d+)+", text)
    product = next((name for name in ("PostgreSQL", "MariaDB", "SQLite") if name.lower() in text.lower()), "MySQL")
    return f"{product} {number[0]}" if number else product


def _restore(transaction: Transaction, uuid: str, by: str | None, reason: str | None) -> TrashOutcome:
    def is_key_taken(job: JobRow) -> bool:
        return bool(transaction.rows(job_statements.FIND_KEY, name=job.name, key=job.key))

    job = LockedJobs.lock(transaction, [uuid]).get(uuid)
    (outcome,) = save(transaction, [(job, lifecycle.restore(job, transaction.now, is_key_taken, by, reason))])
    return outcome


def _purge(transaction: Transaction, uuid: str, by: str | None, reason: str | None) -> TrashOutcome:
    job = LockedJobs.lock(transaction, [uuid]).get(uuid)
    change = lifecycle.purge(job, transaction.now, by, reason)
    if job is not None and change.told:
        if job.lane is not None:
            lanes.look_later(transaction, [job.lane])
        if change.resolve is not None:
            marks.write(transaction, [change.resolve])
        _delete(transaction, [(job.sequence, job.uuid)])
        # Only the event of a purged job is left; it belongs to no job, and tidy deletes it in its time.
        lines = [journal_event(note.kind, job.uuid, job.name, note.who, note.reason) for note in change.told]
        write_events(transaction, lines)
    return change.answer


def _within_bounds(over: Sequence[Row]) -> Sequence[Row]:
    """Return the first jobs that have no more steps and edges than one transaction deletes; at least one job."""
    totals = itertools.accumulate(number for *_, number in over)
    return [row for row, total in zip(over, totals, strict=True) if row is over[0] or total <= MAX_PARTS]


def _delete(transaction: Transaction, jobs: Sequence[Row]) -> None:
    """Delete jobs, by their ids and uuids, with all that is kept of them elsewhere."""
    ids = transaction.list_of(number for number, *_ in jobs)
    uuids = transaction.list_of(uuid for _, uuid, *_ in jobs)
    with transaction.together():
        for statement in _OF_JOBS:
            transaction.do(statement, uuids=uuids)
        transaction.do(journal_statements.DELETE_HISTORY, ids=ids)
        transaction.do(job_statements.DELETE, ids=ids, uuids=uuids)
