"""What producers and consumers do most, in one statement each: on PostgreSQL one statement can do all of it.

Each is a transaction by itself, and tells by what it returns what it left alone; that goes the long way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sqlalchemy import text

from jobboard.backends.rows import ClaimRequest, Consumption, IfExists, JobRow, NewJob, Posted, PostOutcome, Verdict
from jobboard.backends.sql import statements
from jobboard.backends.sql.reading import AGAIN
from jobboard.backends.sql.rows import LARGEST, entry_of, place_of
from jobboard.backends.sql.schema import CLAIMED, COMPLETE, DELAYED, UNCLAIMED
from jobboard.backends.sql.server_backend import ServerBackend
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.tokens import NEXT_TOKEN
from jobboard.errors import BoardUnavailable, ReplyLost
from jobboard.states import JobState

_COLUMNS = ", ".join(f"job.{column.name}" for column in statements.ENTRY)

# Where a column stands in a sum, its index can't be taken for another one, whatever the statistics say.
# The time is read once, so that an index can serve a comparison with it.
_MOMENT = "moment AS MATERIALIZED (SELECT extract(epoch FROM clock_timestamp())::float8 AS now)"

_CLAIM = f"""
WITH {_MOMENT}, look AS MATERIALIZED (
    SELECT now,
        (SELECT due_at FROM jobboard_jobs WHERE board = CAST(:board AS int) AND due_at <= now ORDER BY due_at LIMIT 1)
            IS NOT NULL
        OR EXISTS (SELECT FROM jobboard_pauses WHERE board = CAST(:board AS int)) AS is_due_or_paused
    FROM moment
), heads AS MATERIALIZED (
    SELECT id FROM jobboard_jobs
    WHERE board = CAST(:board AS int) AND state = {UNCLAIMED} %s AND NOT (SELECT is_due_or_paused FROM look)
    ORDER BY %s rank, id LIMIT CAST(:limit AS int) FOR UPDATE SKIP LOCKED
), owned AS (
    UPDATE jobboard_jobs AS job SET
        state = {CLAIMED}, attempts = attempts + 1, token = {NEXT_TOKEN.replace("jobboard_jobs", "job")},
        owner = CAST(:who AS text),
        claim_id = CAST(:claim_id AS text), due_at = look.now + CAST(:expiry AS float8), last_modified = look.now,
        progress = NULL
    FROM look, heads WHERE job.id = heads.id
    RETURNING {_COLUMNS}
), lines AS (
    INSERT INTO jobboard_journal (board, job, kind, who, token, at)
    SELECT CAST(:board AS int), id, 'CLAIMED', owner, token, last_modified FROM owned
)
SELECT job.*, look.is_due_or_paused FROM look LEFT JOIN owned AS job ON true
"""  # nosec B608 # made of this module's constants only; values are bound parameters
CLAIM_NEXT = Statement(text(_CLAIM % ("", "")))
_OF_NAME = ("AND name BETWEEN CAST(:name AS text) AND CAST(:name AS text)", "name,")
CLAIM_NEXT_OF_NAME = Statement(text(_CLAIM % _OF_NAME))

CONSUME = Statement(
    text(f"""
WITH {_MOMENT}, done AS (
    UPDATE jobboard_jobs AS job SET
        state = {COMPLETE}, claim_id = NULL, due_at = NULL, last_modified = now, result = ends.result,
        retain_until = now + retention
    FROM moment, unnest(
        CAST(:uuids AS text[]), CAST(:whos AS text[]), CAST(:tokens AS bigint[]), CAST(:results AS bytea[]),
        CAST(:retentions AS float8[])
    ) AS ends (uuid, who, token, result, retention)
    WHERE job.board = CAST(:board AS int) AND job.uuid = ends.uuid AND job.state + 0 = {CLAIMED}
        AND job.token = ends.token AND job.owner = ends.who AND (job.due_at IS NULL OR job.due_at > now)
    RETURNING job.id, job.uuid, job.owner, job.token, job.last_modified
), lines AS (
    INSERT INTO jobboard_journal (board, job, kind, who, token, at)
    SELECT CAST(:board AS int), id, 'CONSUMED', owner, token, last_modified FROM done
)
SELECT uuid FROM done
""")  # nosec B608 # made of this module's constants only; values are bound parameters
)

POST = Statement(
    text(f"""
WITH {_MOMENT}, given AS (
    SELECT uuid, name, key, rank, body, max_attempts, run_at, n,
        CASE WHEN coalesce(now + delay, run_at) > now THEN coalesce(now + delay, run_at) END AS due_at, now
    FROM moment, unnest(
        CAST(:uuids AS text[]), CAST(:names AS text[]), CAST(:keys AS text[]), CAST(:ranks AS int[]),
        CAST(:bodies AS bytea[]), CAST(:max_attempts AS bigint[]), CAST(:run_ats AS float8[]), CAST(:delays AS float8[])
    ) WITH ORDINALITY AS given (uuid, name, key, rank, body, max_attempts, run_at, delay, n)
), clash AS MATERIALIZED (
    SELECT FROM given JOIN jobboard_jobs AS job ON job.board = CAST(:board AS int) AND job.name = given.name
        AND job.key = given.key AND job.key IS NOT NULL AND job.state < {COMPLETE}
    WHERE given.key IS NOT NULL LIMIT 1
), posted AS (
    INSERT INTO jobboard_jobs (board, uuid, name, key, rank, created_on, body, max_attempts, state, attempts, token,
        due_at, run_at, last_modified, cancel_asked)
    SELECT CAST(:board AS int), uuid, name, key, rank, now, body, max_attempts,
        CASE WHEN due_at IS NULL THEN {UNCLAIMED} ELSE {DELAYED} END, 0, 0, due_at, coalesce(due_at, run_at), now, 0
    FROM given WHERE NOT EXISTS (SELECT FROM clash) ORDER BY n
    ON CONFLICT (board, uuid) DO NOTHING
    RETURNING id, uuid, created_on, state, run_at
), lines AS (
    INSERT INTO jobboard_journal (board, job, kind, at)
    SELECT CAST(:board AS int), id, 'POSTED', created_on FROM posted ORDER BY id
)
SELECT id, uuid, created_on, state, run_at, (SELECT pg_notify(CAST(:channel AS text), '')) FROM posted
""")  # nosec B608 # made of this module's constants only; values are bound parameters
)


_READY_IN = f"""
WITH {_MOMENT}
SELECT now, (
        SELECT due_at FROM jobboard_jobs WHERE board = CAST(:board AS int) AND due_at IS NOT NULL
        ORDER BY due_at LIMIT 1
    ), EXISTS (SELECT FROM jobboard_pauses WHERE board = CAST(:board AS int)), (
        SELECT id FROM jobboard_jobs WHERE board = CAST(:board AS int) AND state = {UNCLAIMED} %s
        ORDER BY %s rank, id LIMIT 1
    )
FROM moment
"""  # nosec B608 # made of this module's constants only; values are bound parameters
READY_IN = Statement(text(_READY_IN % ("", "")))
READY_IN_OF_NAME = Statement(text(_READY_IN % _OF_NAME))


class Shortcuts(ServerBackend):
    """The short ways, and for what they leave alone the long ones."""

    def post(self, entries: Sequence[NewJob]) -> list[Posted]:
        if not _is_simple(entries):
            return super().post(entries)
        rows = self.database.at_once(
            POST,
            channel=self.database.channel,
            uuids=[new.uuid for new in entries],
            names=[new.name for new in entries],
            keys=[new.key for new in entries],
            ranks=[-new.priority for new in entries],
            bodies=[new.body for new in entries],
            max_attempts=[None if new.max_attempts is None else min(new.max_attempts, LARGEST) for new in entries],
            run_ats=[new.run_at for new in entries],
            delays=[new.delay for new in entries],
        )
        self.database.wake()
        posted = {row[1]: row for row in rows}
        if not posted and any(new.key is not None for new in entries):
            return super().post(entries)
        known = self._known([new.uuid for new in entries if new.uuid not in posted], bool(posted))
        return [
            Posted(PostOutcome.POSTED, _entry_of(new, *posted[new.uuid][:5]))
            if new.uuid in posted
            else Posted(PostOutcome.SAME, known[new.uuid])
            for new in entries
        ]

    def _known(self, uuids: list[str], was_posted: bool) -> dict[str, JobRow]:
        """Read what was there before; the rest of the batch may be on the board already."""
        if not uuids:
            return {}
        try:
            with self.database.read() as transaction:
                rows = transaction.rows(statements.FIND_MANY, uuids=transaction.list_of(uuids))
        except BoardUnavailable as error:
            if was_posted:
                raise ReplyLost(str(error)) from error
            raise
        if len(rows) < len(uuids):
            raise ReplyLost("what was posted before was forgotten just now; posting it again is safe")
        return {entry.uuid: entry for entry in map(entry_of, rows)}

    def claim_next(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        if names is not None and len(names) != 1:
            return super().claim_next(claim, names, limit)
        rows = self.database.at_once(
            CLAIM_NEXT if names is None else CLAIM_NEXT_OF_NAME,
            limit=limit,
            who=claim.who,
            claim_id=claim.claim_id,
            expiry=None if math.isinf(claim.expiry) else claim.expiry,
            **({} if names is None else {"name": next(iter(names))}),
        )
        if rows[0][-1]:
            return super().claim_next(claim, names, limit)
        owned = [row[:-1] for row in rows if row[0] is not None]
        if owned:
            self.database.wake()
        return [entry_of(row) for row in sorted(owned, key=place_of)]

    def ready_in(self, names: frozenset[str] | None) -> float | None:
        if names is not None and len(names) != 1:
            return super().ready_in(names)
        [(now, due_at, is_paused, head)] = self.database.look_at_once(
            READY_IN if names is None else READY_IN_OF_NAME, **({} if names is None else {"name": next(iter(names))})
        )
        if is_paused or (due_at is not None and due_at <= now):
            return super().ready_in(names)
        if head is not None:
            return 0.0
        return None if due_at is None else max(AGAIN, float(due_at) - float(now))

    def consume(self, ends: Sequence[Consumption]) -> list[Verdict]:
        holds = [end.fence for end in ends]
        if any(fence.token > LARGEST for fence in holds) or len({fence.uuid for fence in holds}) < len(holds):
            return super().consume(ends)
        rows = self.database.at_once(
            CONSUME,
            uuids=[fence.uuid for fence in holds],
            whos=[fence.who for fence in holds],
            tokens=[fence.token for fence in holds],
            results=[end.result for end in ends],
            retentions=[end.retention for end in ends],
        )
        done = {row[0] for row in rows}
        if done:
            self.database.wake()
        verdicts = self._consume_others([end for end in ends if end.fence.uuid not in done], bool(done))
        return [Verdict.DONE if fence.uuid in done else verdicts[fence.uuid] for fence in holds]

    def _consume_others(self, ends: list[Consumption], was_any_consumed: bool) -> dict[str, Verdict]:
        if not ends:
            return {}
        try:
            verdicts = super().consume(ends)
        except BoardUnavailable as error:
            if was_any_consumed:
                raise ReplyLost(str(error)) from error
            raise
        return {end.fence.uuid: verdict for end, verdict in zip(ends, verdicts, strict=True)}


def _is_simple(entries: Sequence[NewJob]) -> bool:
    """Whether one statement can post all or none: none if a key is taken, an error if it is taken meanwhile."""
    keys = [(new.name, new.key) for new in entries if new.key is not None]
    return (
        len(set(keys)) == len(keys)
        and len({new.uuid for new in entries}) == len(entries)
        and all(new.key is None or new.if_exists is not IfExists.REPLACE for new in entries)
    )


def _entry_of(new: NewJob, number: int, uuid: str, now: float, state: int, run_at: float | None) -> JobRow:
    return JobRow(
        uuid, new.name, new.priority, number, now, new.body, new.key, run_at, new.max_attempts,
        JobState.UNCLAIMED if state == UNCLAIMED else JobState.DELAYED, last_modified=now,
    )  # fmt: skip
