"""What producers and consumers do most, where all of a batch is as usual.

Nobody else writes during a transaction, so a statement needs no look before it: it says how many rows it has changed,
and if that is not all of the batch, the transaction is undone and the batch goes the long way. The differential test
holds these statements to ``jobboard.backends.lifecycle``.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from sqlalchemy import literal_column, text

from jobboard.backends import lifecycle
from jobboard.backends.rows import ClaimAnswer, Consumption, IfExists, JobRow, NewJob, Posted, PostOutcome, Verdict
from jobboard.backends.sql.claimed_jobs import ClaimedJobs, fit_one_statement
from jobboard.backends.sql.claiming import Claiming
from jobboard.backends.sql.expiry import expire_and_promote
from jobboard.backends.sql.job_statements import FIND_KEY, IS_READY, STATUS
from jobboard.backends.sql.journal_lines import journal_line
from jobboard.backends.sql.journal_statements import WRITE_HISTORY
from jobboard.backends.sql.posting import Posting
from jobboard.backends.sql.reading import is_any_ready
from jobboard.backends.sql.rows import (
    JOB_COLUMNS,
    OPTION_COLUMNS,
    OPTIONS,
    is_tied,
    options_of,
    place_of,
    row_of,
)
from jobboard.backends.sql.schema import CLAIMED, CODES, COMPLETE, PLACES_OF_A_RANK, UNCLAIMED
from jobboard.backends.sql.sqlite.claim_requests import ClaimRequests, StandingRequest, TakenRequest
from jobboard.backends.sql.sqlite.database import SqliteDatabase
from jobboard.backends.sql.sqlite.transaction import SqliteTransaction
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.tokens import least_token, next_token
from jobboard.backends.sql.transaction import BoardStatus, LongPath, Transaction
from jobboard.backends.sql.windows import HOLDER, IS_ANY
from jobboard.backends.transition import Note

#: How many claims must end alike, on average, to be ended together.
MIN_ALIKE = 4
_COLUMNS = ", ".join(JOB_COLUMNS)
_VALUES = ", ".join("nullif(?, 0)" if name == "id" else "?" for name in JOB_COLUMNS)
#: A job whose number is 0 gets the next one.
POST = f"INSERT INTO jobboard_jobs (board, rank, {_COLUMNS}) VALUES (?, ?, {_VALUES}) ON CONFLICT DO NOTHING"  # nosec B608 # constants
_POST_MANY = """
INSERT INTO jobboard_jobs (board, created_on, last_modified, attempts, token, cancel_asked, {columns})
SELECT ?, ?, ?, 0, 0, 0, {values} FROM (VALUES %s)
WHERE true
ON CONFLICT DO NOTHING
"""
_RANK = f"column3 >> {PLACES_OF_A_RANK.bit_length() - 1}"
POST_MANY = _POST_MANY.format(
    columns=f"uuid, name, place, body, key, state, due_at, run_at, {OPTION_COLUMNS}, rank", values=f"*, {_RANK}"
)
#: Of jobs without a key, a delay and options. It takes two thirds of the time.
POST_MANY_PLAIN = _POST_MANY.format(columns="state, uuid, name, place, body, rank", values=f"{UNCLAIMED}, *, {_RANK}")
_status: Any = STATUS.clause
_ready: Any = IS_READY.clause
#: All that a post of one job has to know: what a claim has, whether a job is ready, and the last number that one got.
BEFORE_POST = Statement(
    _status.add_columns(
        _ready.scalar_subquery().is_not(None),
        literal_column("(SELECT seq FROM sqlite_sequence WHERE name = 'jobboard_jobs')"),
    )
)
POST_LINES = Statement(
    text("""
INSERT INTO jobboard_journal (board, job, kind, at)
SELECT board, id, 'POSTED', created_on FROM jobboard_jobs WHERE id BETWEEN :first AND :last
""")
)
# A list is read in its order, which is that of the batch.
CLAIM_LINES = Statement(
    text("""
INSERT INTO jobboard_journal (board, job, kind, who, token, at)
SELECT board, job.id, 'CLAIMED', owner, token, last_modified
FROM json_each(:ids) AS listed CROSS JOIN jobboard_jobs AS job ON job.id = listed.value
""")
)
_CONSUME = f"""
UPDATE jobboard_jobs
SET state = {COMPLETE}, claim_id = NULL, due_at = NULL, result = {{result}},
    retain_until = max({{retain_until}}, CASE WHEN key IS NULL THEN 0 ELSE coalesce((
        SELECT until FROM jobboard_windows AS kept
        WHERE kept.board = jobboard_jobs.board AND kept.name = jobboard_jobs.name AND kept.key = jobboard_jobs.key
            AND kept.uuid = jobboard_jobs.uuid
    ), 0) END), last_modified = {{now}}
WHERE board = {{board}} AND uuid {{these}} AND owner = {{who}} AND token = {{token}} AND state + 0 = {CLAIMED}
    AND (due_at IS NULL OR due_at > {{now}}) AND ties IS NULL
"""  # nosec B608 # made of this module's constants only; values are bound parameters
_CONSUMED = ("result", "retain_until", "now", "board", "who", "token")
CONSUME = _CONSUME.format(these="= ?", **dict.fromkeys(_CONSUMED, "?"))
#: Of claims that end alike. It takes two thirds of the time.
CONSUME_ALIKE = Statement(
    text(_CONSUME.format(these="IN (SELECT value FROM json_each(:uuids))", **{name: f":{name}" for name in _CONSUMED}))
)
CONSUME_LINES = Statement(
    text("""
INSERT INTO jobboard_journal (board, job, kind, who, token, at)
SELECT board, job.id, 'CONSUMED', owner, token, last_modified
FROM json_each(:uuids) AS listed CROSS JOIN jobboard_jobs AS job ON board = :board AND uuid = listed.value
""")
)


class SqlitePosting(Posting):
    """Posts without looking for uuids before, and of batches not for keys. Replacements go the long way, since they
    repeat by an alias."""

    _transactions: SqliteDatabase

    def __init__(self, database: SqliteDatabase) -> None:
        super().__init__(database)
        self._claim_requests = ClaimRequests(database.path)

    def post(self, rows: Sequence[NewJob]) -> list[Posted]:
        if not rows or any(new.if_exists is IfExists.REPLACE or is_tied(new) for new in rows):
            return super().post(rows)
        try:
            return [self._post_one(*rows)] if len(rows) == 1 else self._post(rows)
        except LongPath:
            return super().post(rows)

    def _post_one(self, new: NewJob) -> Posted:
        """Post a job, and claim it for a waiter, if there is one and it is all that the waiter could claim."""
        with self._transactions.write() as transaction:
            (*status, is_any_ready, last) = transaction.rows(BEFORE_POST)[0]
            transaction.status = BoardStatus(*map(bool, status))
            expire_and_promote(transaction)
            if new.key is not None and _is_taken(transaction, new.name, new.key):
                raise LongPath
            now = transaction.now
            job = lifecycle.draft(new, now)
            told = lifecycle.post(job, new, now).told
            may_be_ready = bool(transaction.status.is_any_due or is_any_ready)
            transaction.taken = taken = self._take_request(transaction, job, may_be_ready)
            if taken is None:
                job.sequence = _insert(transaction, job, told)
                transaction.notifies = True
            else:
                job.sequence = (last or 0) + 1
                # Its poster gets the job as it was posted; what is stored is claimed already.
                stored = lifecycle.posted(new, now, job.sequence)
                claim = lifecycle.claim(stored, taken.request.claim, now, next_token(0, least_token(now)))
                _insert(transaction, stored, told + claim.told)
                taken.announce(row_of(stored))
            return Posted(PostOutcome.POSTED, job)

    def _take_request(self, transaction: SqliteTransaction, job: JobRow, may_be_ready: bool) -> TakenRequest | None:
        """Take the request of a waiter for such a job, for which no other one is ready.

        :param may_be_ready: whether any other job of the board may be.
        """
        assert transaction.status is not None
        if transaction.status.is_any_paused or not lifecycle.is_claimable(job):
            return None
        for taken in self._claim_requests.take():
            if _suits(taken.request, transaction, job, may_be_ready):
                return taken
            taken.put_back()
        return None

    def _post(self, rows: Sequence[NewJob]) -> list[Posted]:
        with self._transactions.write() as transaction:
            expire_and_promote(transaction)
            if any(new.key is not None for new in rows) and transaction.rows(IS_ANY):
                raise LongPath
            now = transaction.now
            jobs = [lifecycle.posted(new, now) for new in rows]
            sql, values_of = (POST_MANY_PLAIN, _plain_of) if all(map(_is_plain, jobs)) else (POST_MANY, _given_of)
            last = transaction.insert_many(sql, (transaction.board, now, now), list(map(values_of, jobs)))
            if last is None:
                raise LongPath
            # Without other writers their numbers follow one another.
            first = last - len(jobs) + 1
            for sequence, job in enumerate(jobs, first):
                job.sequence = sequence
            transaction.run(POST_LINES, first=first, last=last)
            transaction.notifies = True
            posted = PostOutcome.POSTED
            return [Posted(posted, job) for job in jobs]


_of_few_jobs = attrgetter("key", "run_at", *OPTIONS)
_NONE_OF_THEM = (None, None, *[None] * len(OPTIONS))


def _is_plain(job: JobRow) -> bool:
    return _of_few_jobs(job) == _NONE_OF_THEM


def _plain_of(job: JobRow) -> tuple[Any, ...]:
    """Return a new job in the order of ``POST_MANY_PLAIN``."""
    return job.uuid, job.name, place_of(job.priority, job.place), job.body


def _given_of(job: JobRow) -> tuple[Any, ...]:
    """Return a new job in the order of ``POST_MANY``."""
    return (*_plain_of(job), job.key, CODES[job.state], lifecycle.due_at(job), job.run_at, *options_of(job))


def _is_taken(transaction: SqliteTransaction, name: str, key: str) -> bool:
    return any(transaction.rows(statement, name=name, key=key) for statement in (FIND_KEY, HOLDER))


def _insert(transaction: SqliteTransaction, job: JobRow, told: Sequence[Note]) -> int:
    """Write a new job and its history, and return its number."""
    number = transaction.insert(POST, (transaction.board, -job.priority, *row_of(job)))
    if number is None:
        raise LongPath
    transaction.run_many(WRITE_HISTORY, [journal_line(number, job.uuid, job.name, note) for note in told])
    return number


def _suits(request: StandingRequest, transaction: SqliteTransaction, job: JobRow, may_be_ready: bool) -> bool:
    if request.board != transaction.board or request.until <= transaction.now:
        return False
    names = None if request.names is None else frozenset(request.names)
    if names is not None and job.name not in names:
        return False
    return not (may_be_ready and is_any_ready(transaction, names, frozenset()))


class SqliteClaiming(Claiming):
    """Writes the history of all claims of a batch by one statement."""

    def _write_history(self, transaction: Transaction, jobs: list[JobRow]) -> None:
        if jobs:
            transaction.run(CLAIM_LINES, ids=transaction.list_of(job.sequence for job in jobs))


class SqliteClaimedJobs(ClaimedJobs):
    """Consumes without looking at the claims before."""

    _transactions: SqliteDatabase

    def consume(self, ends: Sequence[Consumption]) -> list[ClaimAnswer]:
        if not ends or not fit_one_statement(ends):
            return super().consume(ends)
        try:
            self._consume(ends)
        except LongPath:
            return super().consume(ends)
        return [Verdict.DONE] * len(ends)

    def _consume(self, ends: Sequence[Consumption]) -> None:
        with self._transactions.write() as transaction:
            expire_and_promote(transaction)
            alike = _by_likeness(ends)
            # A list for so few costs more than a statement for each.
            end_all = _end_each if len(ends) < MIN_ALIKE * len(alike) else _end_alike
            if end_all(transaction, alike) != len(ends):
                raise LongPath
            transaction.run(CONSUME_LINES, uuids=transaction.list_of(end.fence.uuid for end in ends))


#: The owner, the token, the result and the retention of ends; one claim gives all of its jobs one token, most often.
_Likeness = tuple[str, int, bytes | None, float]
_Alike = dict[_Likeness, list[str]]


def _by_likeness(ends: Sequence[Consumption]) -> _Alike:
    """Return the uuids of jobs by what else there is to their ends."""
    alike: _Alike = {}
    for end in ends:
        fence = end.fence
        alike.setdefault((fence.who, fence.token, end.result, end.retention), []).append(fence.uuid)
    return alike


def _end_each(transaction: SqliteTransaction, alike: _Alike) -> int:
    """End claims one by one; return how many."""
    now, board = transaction.now, transaction.board
    values = (
        (result, now + retention, now, board, uuid, who, token, now)
        for (who, token, result, retention), uuids in alike.items()
        for uuid in uuids
    )
    return transaction.run_each(CONSUME, values)


def _end_alike(transaction: SqliteTransaction, alike: _Alike) -> int:
    """End those claims together that end alike; return how many."""
    return sum(
        transaction.run(
            CONSUME_ALIKE,
            uuids=transaction.list_of(uuids),
            who=who,
            token=token,
            result=result,
            retain_until=transaction.now + retention,
        )
        for (who, token, result, retention), uuids in alike.items()
    )
