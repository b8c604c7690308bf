"""What producers and consumers do most, in one round trip on MariaDB and MySQL, which begins and commits, or in two.

A statement that fails keeps those after it, and so the commit, from being run. Where what was changed is not all that
was asked for, the line in the journal has no board, which fails.

Unusual requests take the long path. The differential test holds these statements to ``jobboard.backends.lifecycle``.
"""

from __future__ import annotations

import functools
import heapq
import itertools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from jobboard.backends import lifecycle
from jobboard.backends.rows import (
    ClaimAnswer,
    ClaimRequest,
    Consumption,
    Fence,
    JobRow,
    NewJob,
    Posted,
    PostOutcome,
    Verdict,
)
from jobboard.backends.sql.claimed_jobs import ClaimedJobs, fit_one_statement
from jobboard.backends.sql.claiming import Claiming, claimed_by
from jobboard.backends.sql.floors import Look
from jobboard.backends.sql.job_statements import FIND_MANY
from jobboard.backends.sql.mysql.errors import DUPLICATE, LOCK_TIMEOUT, NO_NULL, code_of
from jobboard.backends.sql.mysql.fast_statements import (
    BEGIN_CLAIM,
    BEGIN_NOW,
    CLAIM,
    CLAIM_ONE,
    CLAIM_ONE_FROM_FLOOR,
    CLAIM_ONE_OF_NAME,
    CLAIM_ONE_OF_NAME_FROM_FLOOR,
    CONSUME,
    CONSUME_ONE,
    FIRST,
    FIRST_FROM_FLOOR,
    FIRST_OF_NAME,
    FIRST_OF_NAME_FROM_FLOOR,
    FIRST_PLACE,
    FIRST_POSTED,
    FORGET_FIRST,
    HEADS,
    HEADS_OF_NAME,
    ID,
    LINES,
    POST,
    POST_LINES,
    POSTED,
)
from jobboard.backends.sql.mysql.replies import Script
from jobboard.backends.sql.mysql.transaction import MAX_TEXT, MysqlTransaction, SqlText
from jobboard.backends.sql.posting import Posting
from jobboard.backends.sql.rows import Row, is_tied, job_of, options_of, place_in_sql, position_of
from jobboard.backends.sql.schema import DELAYED, UNCLAIMED
from jobboard.backends.sql.server_database import ServerDatabase
from jobboard.backends.sql.server_errors import not_empty
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.transaction import LongPath
from jobboard.errors import BoardUnavailable

#: The heads of this many names at most are read in one round trip.
MAX_NAMES = 100
#: These transactions learn the server's time with their first answer; before that they have none.
UNKNOWN_TIME = 0.0


def transaction_on(database: ServerDatabase, cursor: Any) -> MysqlTransaction:
    return MysqlTransaction(cursor, database.driver.dialect, database.board, UNKNOWN_TIME)


def _write(
    database: ServerDatabase, statements: Sequence[Statement], **parameters: Any
) -> AbstractContextManager[MysqlTransaction]:
    """Return a transaction that is begun by one request: these statements and its own first one."""

    def begin(cursor: Any) -> MysqlTransaction:
        transaction = transaction_on(database, cursor)
        transaction.begin_with_next(*statements, **parameters)
        return transaction

    return database.transaction(begin)


def run_script(database: ServerDatabase, script: Script, **parameters: Any) -> list[Sequence[Row]]:
    """Run a script; return the rows of each statement that has any."""
    with database.transaction(functools.partial(transaction_on, database)) as transaction:
        transaction.commit_by(script, **parameters)
    return transaction.answers


class MysqlPosting(Posting):
    """Posts in one round trip what has no key, if no uuid of the batch is on the board."""

    _transactions: ServerDatabase

    def post(self, rows: Sequence[NewJob]) -> list[Posted]:
        # Keys are often taken, and then another try would cost more than it saves.
        if not rows or any(new.key is not None or is_tied(new) for new in rows):
            return super().post(rows)
        try:
            with _write(self._transactions, BEGIN_NOW) as transaction:
                _post(transaction, rows)
        except LongPath:
            return super().post(rows)
        except BoardUnavailable as error:
            if code_of(error.__cause__) not in (NO_NULL, DUPLICATE, LOCK_TIMEOUT):
                raise
            return self._posted_before(rows) or super().post(rows)
        [posted] = not_empty(transaction.answers, self._transactions.driver.where)
        [(now, first, step)] = posted
        return [
            Posted(PostOutcome.POSTED, lifecycle.posted(new, float(now), first + number * step))
            for number, new in enumerate(rows)
        ]

    def _posted_before(self, rows: Sequence[NewJob]) -> list[Posted]:
        """Return the answers in one round trip if all of these are on the board and nothing is due, else []."""
        look = self._transactions.floors.look_for_due()
        with _write(self._transactions, BEGIN_CLAIM, **asked_by(look)) as transaction:
            transaction.do(FIND_MANY, uuids=transaction.list_of(new.uuid for new in rows))
            transaction.changed = False
        [(status, *_)], found = transaction.answers
        jobs = {job.uuid: job for job in map(job_of, found)}
        if status or any(new.uuid not in jobs for new in rows):
            return []
        return [Posted(PostOutcome.SAME, jobs[new.uuid]) for new in rows]


#: By whether any name is asked for, and by whether that is from the start.
_CLAIM_ONE = {
    (True, True): CLAIM_ONE,
    (True, False): CLAIM_ONE_FROM_FLOOR,
    (False, True): CLAIM_ONE_OF_NAME,
    (False, False): CLAIM_ONE_OF_NAME_FROM_FLOOR,
}


class MysqlClaiming(Claiming):
    """Claims where nothing is due, nothing is paused, and any or not too many names are wanted.

    One job takes one round trip, several take two.
    """

    _transactions: ServerDatabase

    def claim_next(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        if names is not None and not 1 <= len(names) <= MAX_NAMES:
            return super().claim_next(claim, names, limit)
        try:
            if limit == 1 and (names is None or len(names) == 1):
                return self._claim_one(claim, names)
            look = self._transactions.floors.look(names)
            with _write(self._transactions, BEGIN_CLAIM, **asked_by(look)) as transaction:
                found = transaction.rows_of_all(_heads(look, limit))
                status, *rows = not_empty(found, self._transactions.driver.where)
                rows = heapq.nsmallest(limit, rows, key=position_of)
                _check(status, rows)
                claimed = _claim(transaction, claim, status, rows)
            return self._answer(claim, look, limit, status, rows, claimed)
        except LongPath:
            return super().claim_next(claim, names, limit)

    def _claim_one(self, claim: ClaimRequest, names: frozenset[str] | None) -> list[JobRow]:
        look = self._transactions.floors.look(names)
        [(name, floor)] = floors_of(look).items()
        asked = {"name": name, "limit": 1, "floor": floor, **claimed_by(claim), **asked_by(look)}
        script = _CLAIM_ONE[name is None, floor is None]
        statuses, rows = run_script(self._transactions, script, **asked)
        [status] = not_empty(statuses, self._transactions.driver.where)
        _check(status, rows)
        if rows:
            self._transactions.notify(False)
        return self._answer(claim, look, 1, status, rows, _claimed(claim, status, rows))

    def _answer(
        self, claim: ClaimRequest, look: Look, limit: int, status: Row, rows: Sequence[Row], claimed: list[JobRow]
    ) -> list[JobRow]:
        _, is_any_blocked, mark, now = status
        self._transactions.floors.note(look, mark, float(now), [row[1:3] for row in rows], limit)
        return self._exchange(claim, look.names, limit, claimed) if is_any_blocked else claimed


class MysqlClaimedJobs(ClaimedJobs):
    """Consumes in one round trip if all of the batch can be consumed."""

    _transactions: ServerDatabase

    def consume(self, ends: Sequence[Consumption]) -> list[ClaimAnswer]:
        if not ends or not fit_one_statement(ends):
            return super().consume(ends)
        try:
            if len(ends) == 1:
                self._consume_one(ends[0])
                return [Verdict.DONE]
            with _write(self._transactions, BEGIN_NOW) as transaction:
                for (result, retention), group in itertools.groupby(ends, lambda end: (end.result, end.retention)):
                    _consume(transaction, [end.fence for end in group], result, retention)
        except BoardUnavailable as error:
            if code_of(error.__cause__) != NO_NULL:
                raise
            return super().consume(ends)
        return [Verdict.DONE] * len(ends)

    def _consume_one(self, end: Consumption) -> None:
        """Consume, or fail."""
        fence = end.fence
        run_script(
            self._transactions,
            CONSUME_ONE,
            uuid=fence.uuid,
            token=fence.token,
            who=fence.who,
            result=end.result,
            retention=end.retention,
        )
        self._transactions.notify(False)


def _post(transaction: MysqlTransaction, rows: Sequence[NewJob]) -> None:
    board, literal = transaction.literal(transaction.board), functools.cache(transaction.literal)
    values = [
        f"({board},{transaction.literal(new.uuid)},{literal(new.name)},NULL,{-new.priority},"
        f"{_place(new, literal)},{literal(new.body)},{','.join(map(literal, options_of(new)))},"
        "@jobboard_now,@jobboard_now,0,0,0,"
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


def _place(new: NewJob, literal: Callable[[object], str]) -> str:
    run_at = _run_at(new, literal)
    became_due = "@jobboard_now" if run_at is None else f"greatest(@jobboard_now, {run_at})"
    return place_in_sql(str(-new.priority), became_due, "SIGNED")


def _run_at(new: NewJob, literal: Callable[[object], str]) -> str | None:
    if new.delay:
        return f"@jobboard_now + {literal(new.delay)}"
    return None if new.run_at is None else literal(new.run_at)


def _state_and_moments(new: NewJob, literal: Callable[[object], str]) -> str:
    """Return the columns that follow from when the job is to run: its state, ``due_at`` and ``run_at``."""
    run_at = _run_at(new, literal)
    if run_at is None:
        return f"{UNCLAIMED},NULL,NULL"
    is_delayed = f"{run_at} > @jobboard_now"
    return f"IF({is_delayed}, {DELAYED}, {UNCLAIMED}),IF({is_delayed}, {run_at}, NULL),{run_at}"


def asked_by(look: Look) -> dict[str, Any]:
    """Return the parameters that say where to look, but for the floors."""
    better = FIRST_PLACE if look.better is None else look.better
    return {"mark": look.mark, "due_floor": look.due, "better": better}


def floors_of(look: Look) -> dict[str | None, int | None]:
    """Return the floor of each name, or by None that of all jobs; None where nothing is known."""
    names = [None] if look.names is None else list(look.names)
    floors = look.floors(names)
    if not floors:
        return dict.fromkeys(names)
    return {name: None if floor == look.better else floor for name, floor in zip(names, floors, strict=True)}


def first_of(name: str | None, floor: int | None) -> Statement:
    """Return what finds the first job of a name, or of all."""
    if name is None:
        return FIRST if floor is None else FIRST_FROM_FLOOR
    return FIRST_OF_NAME if floor is None else FIRST_OF_NAME_FROM_FLOOR


def _heads(look: Look, limit: int) -> list[tuple[Statement, dict[str, Any]]]:
    """Return what asks for the best jobs of each name, with its parameters."""
    asked: list[tuple[Statement, dict[str, Any]]] = []
    for name, floor in floors_of(look).items():
        given = {"limit": limit, "name": name, "floor": floor}
        heads = HEADS if name is None else HEADS_OF_NAME
        asked += [(statement, given) for statement in (FORGET_FIRST, first_of(name, floor), heads)]
    return asked


def _check(status: Row, heads: Sequence[Row]) -> None:
    """
    :raises LongPath: something is due or paused, or a head is of a limited name.
    """
    if status[0] or any(head[-1] is None for head in heads):
        raise LongPath


def _claimed(claim: ClaimRequest, status: Row, heads: Sequence[Row]) -> list[JobRow]:
    """Return the jobs of heads: they are locked, so the statements make of them just what this does."""
    now = float(status[-1])
    jobs = [job_of(row[:-2]) for row in heads]
    for job, (*_, token, _) in zip(jobs, heads, strict=True):
        lifecycle.claim(job, claim, now, int(token))
    return jobs


def _claim(transaction: MysqlTransaction, claim: ClaimRequest, status: Row, heads: Sequence[Row]) -> list[JobRow]:
    if not heads:
        return []
    jobs = _claimed(claim, status, heads)
    ids = transaction.list_of(job.sequence for job in jobs)
    transaction.do(CLAIM, ids=ids, **claimed_by(claim))
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
        uuids=transaction.list_of(fence.uuid for fence in fences),
        fences=SqlText(f"({','.join(held)})"),
        result=result,
        retention=retention,
    )
    job = transaction.part_of(ID)
    lines = [
        f"{job.format(board=board, uuid=transaction.literal(fence.uuid))},'CONSUMED',{literal(fence.who)},{fence.token}"
        for fence in fences
    ]
    boards = [f"IF(ROW_COUNT() = {len(fences)}, {board}, NULL)", *[board] * (len(fences) - 1)]
    rows = ",".join(f"({its},{line},@jobboard_now)" for its, line in zip(boards, lines, strict=True))
    transaction.do(LINES, rows=SqlText(rows))
