"""What consumers do most, in two round trips on MariaDB and MySQL: the first one begins, and the last one commits.

The server's time stays in a variable of the connection, since it is not known here before the first statement. Unusual
requests take the long path. The differential test holds these statements to ``jobboard.backends.lifecycle``.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy import text

from jobboard.backends import lifecycle
from jobboard.backends.rows import ClaimAnswer, ClaimRequest, Consumption, JobRow, Verdict
from jobboard.backends.sql.claimed_jobs import ClaimedJobs, fit_one_statement
from jobboard.backends.sql.claiming import Claiming
from jobboard.backends.sql.mysql.driver import SET_NOW
from jobboard.backends.sql.mysql.transaction import MysqlTransaction
from jobboard.backends.sql.rows import JOB_COLUMNS, Row, job_of, position_of
from jobboard.backends.sql.schema import CLAIMED, COMPLETE, UNCLAIMED
from jobboard.backends.sql.server_database import ServerDatabase
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.tokens import NEXT_TOKEN, next_token
from jobboard.backends.sql.transaction import Transaction

# Not by SET, which would lock what it reads.
_SET_STATUS = """
SELECT (SELECT due_at FROM jobboard_jobs FORCE INDEX (jobboard_due)
        WHERE board = {board} AND due_at <= @jobboard_now ORDER BY due_at LIMIT 1) IS NOT NULL
    OR EXISTS (SELECT 1 FROM jobboard_pauses WHERE board = {board})
INTO @jobboard_status
"""
STATUS = Statement(text("SELECT @jobboard_status"))

_COLUMNS = ", ".join(f"`{name}`" for name in JOB_COLUMNS)
_HEADS = f"""
SELECT {_COLUMNS}, @jobboard_now FROM jobboard_jobs FORCE INDEX (%s)
WHERE board = :board AND state = {UNCLAIMED} AND NOT @jobboard_status %s ORDER BY `rank`, id LIMIT :limit
FOR UPDATE SKIP LOCKED
"""  # nosec B608 # made of this module's constants only; values are bound parameters
HEADS = Statement(text(_HEADS % ("jobboard_ready", "")))
HEADS_OF_NAME = Statement(text(_HEADS % ("jobboard_ready_by_name", "AND name = :name")))
CLAIM = Statement(
    text(f"""
UPDATE jobboard_jobs SET state = {CLAIMED}, attempts = attempts + 1, token = {NEXT_TOKEN}, owner = :who,
    claim_id = :claim_id, due_at = @jobboard_now + :expiry, last_modified = @jobboard_now,
    progress = NULL
WHERE id IN :ids
""")  # nosec B608 # made of this module's constants only; values are bound parameters
)
CLAIM_LINES = Statement(
    text("""
INSERT INTO jobboard_journal (board, job, kind, who, token, at)
SELECT board, id, 'CLAIMED', owner, token, last_modified FROM jobboard_jobs WHERE id IN :ids ORDER BY `rank`, id
""")
)
CONSUME = Statement(
    text(f"""
UPDATE jobboard_jobs FORCE INDEX (jobboard_uuid) SET state = {COMPLETE}, claim_id = NULL, due_at = NULL,
    last_modified = @jobboard_now, result = :result, retain_until = @jobboard_now + :retention
WHERE board = :board AND uuid IN :uuids AND (uuid, token, owner) IN :fences AND state + 0 = {CLAIMED}
    AND (due_at IS NULL OR due_at > @jobboard_now)
""")  # nosec B608 # made of this module's constants only; values are bound parameters
)
# All of the batch, or none; so it does not matter which of the claims were lost.
CONSUME_LINES = Statement(
    text("""
INSERT INTO jobboard_journal (board, job, kind, who, token, at)
SELECT board, id, 'CONSUMED', owner, token, last_modified FROM jobboard_jobs FORCE INDEX (jobboard_uuid)
WHERE board = :board AND uuid IN :uuids AND ROW_COUNT() = :count
""")
)


#: The heads of so many names at most are read in one round trip.
MAX_NAMES = 100
#: These transactions learn the server's time with their first answer; before that they have none.
UNKNOWN_TIME = 0.0


class _LongPath(Exception):
    """Undoes what the fast path has done, since it met something unusual."""


class _FastTransactions:
    """Transactions that begin together with their first statement."""

    def __init__(self, database: ServerDatabase) -> None:
        self._database = database
        dialect = database.driver.dialect
        self._set_status = dialect.table_names.apply(_SET_STATUS).format(board=database.board)

    def write(self, *statements: str) -> AbstractContextManager[MysqlTransaction]:
        """Begin by these statements."""
        database = self._database

        def begin(cursor: Any) -> MysqlTransaction:
            transaction = MysqlTransaction(cursor, database.driver.dialect, database.board, UNKNOWN_TIME)
            transaction.begin_with_next("START TRANSACTION READ WRITE", SET_NOW, *statements)
            return transaction

        return database.transaction(begin)

    def write_with_status(self) -> AbstractContextManager[MysqlTransaction]:
        """Begin by asking whether anything is due or paused."""
        return self.write(self._set_status)


class MysqlClaiming(Claiming):
    """Claims in two round trips where nothing is due, nothing is paused, and any or not too many names are wanted."""

    def __init__(self, database: ServerDatabase) -> None:
        super().__init__(database)
        self._fast = _FastTransactions(database)

    def claim_next(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        if names is not None and not 1 <= len(names) <= MAX_NAMES:
            return super().claim_next(claim, names, limit)
        try:
            with self._fast.write_with_status() as transaction:
                rows = _heads(transaction, names, limit)
                if not rows and transaction.row(STATUS) != (0,):
                    raise _LongPath
                return _claim(transaction, claim, rows)
        except _LongPath:
            return super().claim_next(claim, names, limit)


class MysqlClaimedJobs(ClaimedJobs):
    """Consumes in two round trips if all of the batch can be consumed."""

    def __init__(self, database: ServerDatabase) -> None:
        super().__init__(database)
        self._fast = _FastTransactions(database)

    def consume(self, ends: Sequence[Consumption]) -> list[ClaimAnswer]:
        if not ends or not fit_one_statement(ends):
            return super().consume(ends)
        try:
            with self._fast.write() as transaction:
                for (result, retention), group in itertools.groupby(ends, lambda end: (end.result, end.retention)):
                    _consume(transaction, list(group), result, retention)
        except _LongPath:
            return super().consume(ends)
        return [Verdict.DONE] * len(ends)


def _heads(transaction: MysqlTransaction, names: frozenset[str] | None, limit: int) -> list[Row]:
    if names is None:
        return transaction.rows(HEADS, limit=limit)
    found = transaction.rows_of_each(HEADS_OF_NAME, [{"name": name, "limit": limit} for name in names])
    return heapq.nsmallest(limit, found, key=position_of)


def _claim(transaction: Transaction, claim: ClaimRequest, rows: list[Row]) -> list[JobRow]:
    if not rows:
        return []
    ids = transaction.list_of(position_of(row)[1] for row in rows)
    expiry = None if math.isinf(claim.expiry) else claim.expiry
    transaction.do(CLAIM, ids=ids, who=claim.who, claim_id=claim.claim_id, expiry=expiry)
    transaction.do(CLAIM_LINES, ids=ids)
    jobs = [job_of(row[:-1]) for row in rows]
    for job, row in zip(jobs, rows, strict=True):
        # The rows are locked, so the statements make of them just what this does.
        lifecycle.claim(job, claim, float(row[-1]), next_token(job.sequence, job.token))
    return jobs


def _consume(transaction: Transaction, ends: list[Consumption], result: bytes | None, retention: float) -> None:
    uuids = transaction.list_of(end.fence.uuid for end in ends)
    fences = tuple((end.fence.uuid, end.fence.token, end.fence.who) for end in ends)
    transaction.do(CONSUME, uuids=uuids, fences=fences, result=result, retention=retention)
    if transaction.run(CONSUME_LINES, uuids=uuids, count=len(ends)) != len(ends):
        raise _LongPath
