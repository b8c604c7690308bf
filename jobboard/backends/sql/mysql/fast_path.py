"""What producers and consumers do most, in one round trip on MariaDB and MySQL, which begins and commits, or in two.

A statement that fails keeps those after it, and so the commit, from being run. Where what was changed is not all that
was asked for, the line in the journal has no board, which fails.

The server's time stays in a variable of the connection, since it is not known here before the first statement. Unusual
requests take the long path. The differential test holds these statements to ``jobboard.backends.lifecycle``.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy import text

from jobboard.backends import lifecycle
from jobboard.backends.rows import (
    ClaimAnswer,
    ClaimRequest,
    Consumption,
    Fence,
    JobRow,
    NewJob,
    Posted,
    Verdict,
)
from jobboard.backends.sql.claimed_jobs import ClaimedJobs, fit_one_statement
from jobboard.backends.sql.claiming import Claiming
from jobboard.backends.sql.mysql.driver import SET_NOW
from jobboard.backends.sql.mysql.errors import DUPLICATE, LOCK_TIMEOUT, NO_NULL, code_of
from jobboard.backends.sql.mysql.transaction import MAX_TEXT, MysqlTransaction, SqlText
from jobboard.backends.sql.posting import Posting
from jobboard.backends.sql.rows import JOB_COLUMNS, Row, job_of, position_of, stored_integer
from jobboard.backends.sql.schema import CLAIMED, COMPLETE, DELAYED, UNCLAIMED
from jobboard.backends.sql.server_database import ServerDatabase
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.tokens import NEXT_TOKEN, next_token, row_of
from jobboard.backends.sql.transaction import LongPath
from jobboard.errors import BoardUnavailable

# Not by SET, which would lock what it reads.
_SET_STATUS = """
SELECT (SELECT due_at FROM jobboard_jobs FORCE INDEX (jobboard_due)
        WHERE board = {board} AND due_at <= @jobboard_now ORDER BY due_at LIMIT 1) IS NOT NULL
    OR EXISTS (SELECT 1 FROM jobboard_pauses WHERE board = {board}),
    NULL
INTO @jobboard_status, @jobboard_id
"""
STATUS = Statement(text("SELECT @jobboard_status"))

_COLUMNS = ", ".join(f"`{name}`" for name in JOB_COLUMNS)
_HEADS = f"""
SELECT %s FROM jobboard_jobs FORCE INDEX (%s)
WHERE board = :board AND state = {UNCLAIMED} AND NOT @jobboard_status %s ORDER BY `rank`, id LIMIT :limit
FOR UPDATE SKIP LOCKED
"""  # nosec B608 # made of this module's constants only; values are bound parameters
_BY_READY, _BY_NAME = ("jobboard_ready", ""), ("jobboard_ready_by_name", "AND name = :name")
_AND_NOW = f"{_COLUMNS}, @jobboard_now"
HEADS, HEADS_OF_NAME = (Statement(text(_HEADS % (_AND_NOW, *by))) for by in (_BY_READY, _BY_NAME))
CLAIM = Statement(
    text(f"""
UPDATE jobboard_jobs SET state = {CLAIMED}, attempts = attempts + 1, token = {NEXT_TOKEN}, owner = :who,
    claim_id = :claim_id, due_at = @jobboard_now + :expiry, last_modified = @jobboard_now,
    progress = NULL
WHERE id IN :ids
""")  # nosec B608 # made of this module's constants only; values are bound parameters
)
# One job is claimed without knowing its id here.
HEAD, HEAD_OF_NAME = (Statement(text(_HEADS % ("id INTO @jobboard_id", *by))) for by in (_BY_READY, _BY_NAME))
_HEAD_ID = SqlText("(@jobboard_id)")
CLAIM_LINE = Statement(
    text("""
INSERT INTO jobboard_journal (board, job, kind, who, token, at)
SELECT board, id, 'CLAIMED', owner, token, last_modified FROM jobboard_jobs WHERE id IN :ids
""")
)
CLAIMED_HEAD = Statement(
    text(f"""
SELECT {_COLUMNS}, @jobboard_status FROM (SELECT 1) AS one LEFT JOIN jobboard_jobs ON id IN :ids
""")  # nosec B608 # made of this module's constants only; values are bound parameters
)
CONSUME = Statement(
    text(f"""
UPDATE jobboard_jobs FORCE INDEX (PRIMARY) SET state = {COMPLETE}, claim_id = NULL, due_at = NULL,
    last_modified = @jobboard_now, result = :result, retain_until = @jobboard_now + :retention
WHERE board = :board AND id IN :ids AND (uuid, token, owner) IN :fences AND state + 0 = {CLAIMED}
    AND (due_at IS NULL OR due_at > @jobboard_now)
""")  # nosec B608 # made of this module's constants only; values are bound parameters
)
LINES = Statement(text("INSERT INTO jobboard_journal (board, job, kind, who, token, at) VALUES :rows"))
# Whoever waits for a row that another transaction has locked would wait for that one's end. The long path reads it.
POST = Statement(
    text("""
/*M! SET STATEMENT innodb_lock_wait_timeout = 0 FOR */
INSERT INTO jobboard_jobs (board, uuid, name, `key`, `rank`, body, max_attempts, created_on, last_modified,
    attempts, token, cancel_asked, state, due_at, run_at) VALUES :rows
""")
)
# The rows of one INSERT are numbered in their order, and so without gaps if the last one has the number that it should.
POST_LINES = Statement(
    text("""
INSERT INTO jobboard_journal (board, job, kind, at) VALUES
    (IF((SELECT id FROM jobboard_jobs FORCE INDEX (jobboard_uuid) WHERE board = :board AND uuid = :last)
        = @jobboard_id + :more * @@auto_increment_increment, :board, NULL),
    @jobboard_id, 'POSTED', @jobboard_now) :rows
""")
)
FIRST_POSTED = "SET @jobboard_id = LAST_INSERT_ID()"
POSTED = Statement(text("SELECT @jobboard_now, @jobboard_id, @@auto_increment_increment"))

#: The heads of so many names at most are read in one round trip.
MAX_NAMES = 100
#: These transactions learn the server's time with their first answer; before that they have none.
UNKNOWN_TIME = 0.0


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


class MysqlPosting(Posting):
    """Posts in one round trip what has no key, if no uuid of the batch is on the board."""

    def __init__(self, database: ServerDatabase) -> None:
        super().__init__(database)
        self._fast = _FastTransactions(database)

    def post(self, rows: Sequence[NewJob]) -> list[Posted]:
        # Keys are often taken, and then another try would cost more than it saves.
        if not rows or any(new.key is not None for new in rows):
            return super().post(rows)
        try:
            with self._fast.write() as transaction:
                _post(transaction, rows)
        except LongPath:
            return super().post(rows)
        except BoardUnavailable as error:
            if code_of(error.__cause__) not in (NO_NULL, DUPLICATE, LOCK_TIMEOUT):
                raise
            return super().post(rows)
        [(now, first, step)] = transaction.answer
        return [_posted(new, first + number * step, float(now)) for number, new in enumerate(rows)]


class MysqlClaiming(Claiming):
    """Claims where nothing is due, nothing is paused, and any or not too many names are wanted.

    One job takes one round trip, several take two.
    """

    _transactions: ServerDatabase

    def __init__(self, database: ServerDatabase) -> None:
        super().__init__(database)
        self._fast = _FastTransactions(database)

    def claim_next(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        if names is not None and not 1 <= len(names) <= MAX_NAMES:
            return super().claim_next(claim, names, limit)
        try:
            if limit == 1 and (names is None or len(names) == 1):
                return self._claim_one(claim, names)
            with self._fast.write_with_status() as transaction:
                rows = _heads(transaction, names, limit)
                if not rows and transaction.row(STATUS) != (0,):
                    raise LongPath
                return _claim(transaction, claim, rows)
        except LongPath:
            return super().claim_next(claim, names, limit)

    def _claim_one(self, claim: ClaimRequest, names: frozenset[str] | None) -> list[JobRow]:
        with self._fast.write_with_status() as transaction:
            if names is None:
                transaction.do(HEAD, limit=1)
            else:
                transaction.do(HEAD_OF_NAME, limit=1, name=min(names))
            transaction.do(CLAIM, ids=_HEAD_ID, **_claimed_by(claim))
            transaction.do(CLAIM_LINE, ids=_HEAD_ID)
            transaction.do(CLAIMED_HEAD, ids=_HEAD_ID)
            transaction.changed = False
        [(*row, status)] = transaction.answer
        if row[0] is not None:
            self._transactions.notify(False)
            return [job_of(tuple(row))]
        if status:
            raise LongPath
        return []


class MysqlClaimedJobs(ClaimedJobs):
    """Consumes in one round trip if all of the batch can be consumed."""

    def __init__(self, database: ServerDatabase) -> None:
        super().__init__(database)
        self._fast = _FastTransactions(database)

    def consume(self, ends: Sequence[Consumption]) -> list[ClaimAnswer]:
        if not ends or not fit_one_statement(ends):
            return super().consume(ends)
        try:
            with self._fast.write() as transaction:
                for (result, retention), group in itertools.groupby(ends, lambda end: (end.result, end.retention)):
                    _consume(transaction, [end.fence for end in group], result, retention)
        except BoardUnavailable as error:
            if code_of(error.__cause__) != NO_NULL:
                raise
            return super().consume(ends)
        return [Verdict.DONE] * len(ends)


def _post(transaction: MysqlTransaction, rows: Sequence[NewJob]) -> None:
    board, literal = transaction.literal(transaction.board), functools.cache(transaction.literal)
    values = [
        f"({board},{transaction.literal(new.uuid)},{literal(new.name)},NULL,{-new.priority},"
        f"{literal(new.body)},{literal(stored_integer(new.max_attempts))},@jobboard_now,@jobboard_now,0,0,0,"
        f"{_state_and_moments(new, literal)})"
        for new in rows
    ]
    if sum(map(len, values)) > MAX_TEXT:
        raise LongPath
    lines = [
        f",({board},@jobboard_id+{number}*@@auto_increment_increment,'POSTED',@jobboard_now)"
        for number in range(1, len(rows))
    ]
    transaction.do(POST, rows=SqlText(",".join(values)))
    transaction.do_with_next(FIRST_POSTED)
    transaction.do(POST_LINES, last=rows[-1].uuid, more=len(lines), rows=SqlText("".join(lines)))
    transaction.do(POSTED)
    transaction.notifies = True


def _state_and_moments(new: NewJob, literal: Callable[[object], str]) -> str:
    """Return the columns that follow from when the job is to run: its state, ``due_at`` and ``run_at``."""
    if not new.delay and new.run_at is None:
        return f"{UNCLAIMED},NULL,NULL"
    run_at = f"@jobboard_now + {literal(new.delay)}" if new.delay else literal(new.run_at)
    is_delayed = f"{run_at} > @jobboard_now"
    return f"IF({is_delayed}, {DELAYED}, {UNCLAIMED}),IF({is_delayed}, {run_at}, NULL),{run_at}"


def _posted(new: NewJob, sequence: int, now: float) -> Posted:
    job = JobRow(new.uuid, new.name, new.priority, sequence, now, new.body, new.key)
    return Posted(lifecycle.post(job, new, now).answer, job)


def _heads(transaction: MysqlTransaction, names: frozenset[str] | None, limit: int) -> list[Row]:
    if names is None:
        return transaction.rows(HEADS, limit=limit)
    found = transaction.rows_of_each(HEADS_OF_NAME, [{"name": name, "limit": limit} for name in names])
    return heapq.nsmallest(limit, found, key=position_of)


def _claimed_by(claim: ClaimRequest) -> dict[str, Any]:
    expiry = None if math.isinf(claim.expiry) else claim.expiry
    return {"who": claim.who, "claim_id": claim.claim_id, "expiry": expiry}


def _claim(transaction: MysqlTransaction, claim: ClaimRequest, rows: list[Row]) -> list[JobRow]:
    if not rows:
        return []
    jobs = [job_of(row[:-1]) for row in rows]
    for job, row in zip(jobs, rows, strict=True):
        # The rows are locked, so the statements make of them just what this does.
        lifecycle.claim(job, claim, float(row[-1]), next_token(job.sequence, job.token))
    ids = transaction.list_of(job.sequence for job in jobs)
    transaction.do(CLAIM, ids=ids, **_claimed_by(claim))
    board, who = transaction.literal(transaction.board), transaction.literal(claim.who)
    lines = [f"({board},{job.sequence},'CLAIMED',{who},{job.token},@jobboard_now)" for job in jobs]
    transaction.do(LINES, rows=SqlText(",".join(lines)))
    return jobs


def _consume(transaction: MysqlTransaction, fences: list[Fence], result: bytes | None, retention: float) -> None:
    """Consume all of these, or fail: so it does not matter which of the claims were lost."""
    board, literal = transaction.literal(transaction.board), functools.cache(transaction.literal)
    held = [f"({transaction.literal(fence.uuid)},{fence.token},{literal(fence.who)})" for fence in fences]
    transaction.do(
        CONSUME,
        ids=transaction.list_of(row_of(fence.token) for fence in fences),
        fences=SqlText(f"({','.join(held)})"),
        result=result,
        retention=retention,
    )
    lines = [
        f"{board},{row_of(fence.token)},'CONSUMED',{literal(fence.who)},{fence.token},@jobboard_now" for fence in fences
    ]
    lines[0] = lines[0].replace(board, f"IF(ROW_COUNT() = {len(fences)}, {board}, NULL)", 1)
    transaction.do(LINES, rows=SqlText(f"({'),('.join(lines)})"))
