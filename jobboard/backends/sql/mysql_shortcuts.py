"""What consumers do most, in two round trips each on MariaDB and MySQL: the first one begins, and the last one commits.

The server's time stays in a variable of the connection, since nobody here knows it before the first statement. What is
unusual is left alone and goes the long way.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy import text

from jobboard.backends.rows import ClaimRequest, Consumption, JobRow, Verdict
from jobboard.backends.sql.mysql_driver import SET_NOW
from jobboard.backends.sql.mysql_transaction import MysqlTransaction
from jobboard.backends.sql.rows import LARGEST, Row, entry_of
from jobboard.backends.sql.schema import CLAIMED, COMPLETE, UNCLAIMED
from jobboard.backends.sql.server_backend import ServerBackend
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.statements import ENTRY
from jobboard.backends.sql.tokens import NEXT_TOKEN, next_token
from jobboard.backends.sql.transaction import Transaction
from jobboard.states import JobState

# Not by SET, which would lock what it reads.
_SET_LOOK = """
SELECT (SELECT due_at FROM jobboard_jobs FORCE INDEX (jobboard_due)
        WHERE board = {board} AND due_at <= @jobboard_now ORDER BY due_at LIMIT 1) IS NOT NULL
    OR EXISTS (SELECT 1 FROM jobboard_pauses WHERE board = {board})
INTO @jobboard_look
"""
LOOK = Statement(text("SELECT @jobboard_look"))

_COLUMNS = ", ".join(f"`{column.name}`" for column in ENTRY)
_HEADS = f"""
SELECT {_COLUMNS}, @jobboard_now FROM jobboard_jobs FORCE INDEX (%s)
WHERE board = :board AND state = {UNCLAIMED} AND NOT @jobboard_look %s ORDER BY `rank`, id LIMIT :limit
FOR UPDATE SKIP LOCKED
"""  # nosec B608 # made of this module's constants only; values are bound parameters
HEADS = Statement(text(_HEADS % ("jobboard_ready", "")))
HEADS_OF_NAME = Statement(text(_HEADS % ("jobboard_ready_by_name", "AND name = :name")))
OWN = Statement(
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
WHERE board = :board AND uuid IN :uuids AND (uuid, token, owner) IN :holds AND state + 0 = {CLAIMED}
    AND (due_at IS NULL OR due_at > @jobboard_now)
""")  # nosec B608 # made of this module's constants only; values are bound parameters
)
# All of the batch, or none: then nobody needs to know here which of them were not held any more.
CONSUME_LINES = Statement(
    text("""
INSERT INTO jobboard_journal (board, job, kind, who, token, at)
SELECT board, id, 'CONSUMED', owner, token, last_modified FROM jobboard_jobs FORCE INDEX (jobboard_uuid)
WHERE board = :board AND uuid IN :uuids AND ROW_COUNT() = :count
""")
)


#: Nothing here uses the time that a transaction knows otherwise.
_NOT_KNOWN = 0.0


class _Unusual(Exception):
    """Undoes what the short way has done."""


class Shortcuts(ServerBackend):
    """The short ways, and for what they leave alone the long ones."""

    def claim_next(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        if names is not None and len(names) != 1:
            return super().claim_next(claim, names, limit)
        wanted: dict[str, Any] = {} if names is None else {"name": next(iter(names))}
        try:
            with self._transaction(look=True) as transaction:
                rows = transaction.rows(HEADS_OF_NAME if wanted else HEADS, limit=limit, **wanted)
                if not rows and transaction.row(LOOK) != (0,):
                    raise _Unusual
                return _own(transaction, claim, rows)
        except _Unusual:
            return super().claim_next(claim, names, limit)

    def consume(self, ends: Sequence[Consumption]) -> list[Verdict]:
        fences = [end.fence for end in ends]
        if not ends or any(one.token > LARGEST for one in fences) or len({one.uuid for one in fences}) < len(fences):
            return super().consume(ends)
        try:
            with self._transaction() as transaction:
                for (result, retention), group in itertools.groupby(ends, lambda end: (end.result, end.retention)):
                    _consume(transaction, list(group), result, retention)
        except _Unusual:
            return super().consume(ends)
        return [Verdict.DONE] * len(ends)

    def _transaction(self, *, look: bool = False) -> AbstractContextManager[Transaction]:
        """Begin together with the first statement.

        :param look: whether that is to know if anything is due or paused.
        """
        database = self.database
        looks = [database.driver.tongue.naming.apply(_SET_LOOK).format(board=database.board)] if look else []

        def begin(cursor: Any) -> Transaction:
            transaction = MysqlTransaction(cursor, database.driver.tongue, database.board, _NOT_KNOWN)
            transaction.begin_with_next("START TRANSACTION READ WRITE", SET_NOW, *looks)
            return transaction

        return database.transaction(begin)


def _own(transaction: Transaction, claim: ClaimRequest, rows: list[Row]) -> list[JobRow]:
    if not rows:
        return []
    ids = transaction.list_of(row[0] for row in rows)
    expiry = None if math.isinf(claim.expiry) else claim.expiry
    transaction.do(OWN, ids=ids, who=claim.who, claim_id=claim.claim_id, expiry=expiry)
    transaction.do(CLAIM_LINES, ids=ids)
    return [_owned(entry_of(row[:-1]), claim, float(row[-1])) for row in rows]


def _owned(row: JobRow, claim: ClaimRequest, now: float) -> JobRow:
    """Return a locked row's entry as the claim makes it."""
    row.state = JobState.CLAIMED
    row.attempts += 1
    row.token = next_token(row.sequence, row.token)
    row.owner, row.claim_id = claim.who, claim.claim_id
    row.expires_at = None if math.isinf(claim.expiry) else now + claim.expiry
    row.last_modified, row.progress = now, None
    return row


def _consume(transaction: Transaction, ends: list[Consumption], result: bytes | None, retention: float) -> None:
    uuids = transaction.list_of(end.fence.uuid for end in ends)
    holds = tuple((end.fence.uuid, end.fence.token, end.fence.who) for end in ends)
    transaction.do(CONSUME, uuids=uuids, holds=holds, result=result, retention=retention)
    if transaction.run(CONSUME_LINES, uuids=uuids, count=len(ends)) != len(ends):
        raise _Unusual
