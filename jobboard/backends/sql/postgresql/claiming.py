"""Claims on PostgreSQL: one statement where nothing is unusual, and one round trip where names are limited."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from sqlalchemy import text

from jobboard.backends.rows import ClaimRequest, JobRow
from jobboard.backends.sql.claiming import Claiming, claimed_by
from jobboard.backends.sql.expiry import expire_and_promote
from jobboard.backends.sql.floors import Look
from jobboard.backends.sql.postgresql.fast_path import (
    DUE,
    FLOOR_OF_ALL,
    FLOOR_OF_NAME,
    MARK,
    MOMENT,
    READY,
    WANTED,
    asked_by,
)
from jobboard.backends.sql.postgresql.row_identity import RowIdentity, by_identity
from jobboard.backends.sql.rows import JOB_COLUMNS, Row, position_of, priority_and_moment
from jobboard.backends.sql.schema import CLAIMED
from jobboard.backends.sql.server_database import ServerDatabase
from jobboard.backends.sql.server_errors import not_empty
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.stored_ties import ties_of
from jobboard.backends.sql.tokens import least_token_in_sql, next_token_in_sql
from jobboard.states import JobState

#: What the claim says itself is not read back.
_CLAIMED_COLUMNS = [
    name
    for name in JOB_COLUMNS
    if name not in ("state", "owner", "claim_id", "due_at", "last_modified", "progress", "result")
]
_COLUMNS = ", ".join(f"job.{name}" for name in _CLAIMED_COLUMNS)

#: How many sets of names are remembered of which some are limited.
_MAX_REMEMBERED = 100
#: What a claim meets: nothing unusual, a limited name or a head that has changed, something that is due, a pause.
_AS_ASKED, _LIMITED, _DUE, _PAUSED = range(4)

# A head that another transaction has changed and left UNCLAIMED since this statement began is locked, but not claimed.
# Nor is any where one is of a limited name: the long path counts its claims, once it has the lock for that.
_LEAST_TOKEN = f"(SELECT {least_token_in_sql('now', 'bigint')} FROM moment)"  # nosec B608 # constants


def _claim(identity: RowIdentity, heads: str, none_is_limited: str) -> str:
    return f"""
WITH {MOMENT}, {MARK}, status AS MATERIALIZED (
    SELECT CASE WHEN EXISTS (SELECT FROM jobboard_pauses WHERE board = CAST(:board AS int) AND running IS NULL)
        THEN {_PAUSED} WHEN (SELECT due_at {DUE} AND due_at <= now ORDER BY due_at LIMIT 1) IS NOT NULL
        OR EXISTS (SELECT FROM jobboard_marks WHERE board = CAST(:board AS int) AND due_at <= now)
        THEN {_DUE} ELSE {_AS_ASKED} END AS met
    FROM moment
), heads AS MATERIALIZED ({heads}), claimed AS (
    UPDATE jobboard_jobs AS job SET
        state = {CLAIMED}, attempts = attempts + 1, token = {next_token_in_sql(_LEAST_TOKEN, "job.token")},
        owner = CAST(:who AS text), claim_id = CAST(:claim_id AS text), progress = NULL,
        due_at = (SELECT now FROM moment) + CAST(:expiry AS float8), last_modified = (SELECT now FROM moment)
    {identity.from_heads} {none_is_limited}
    RETURNING {_COLUMNS}
), lines AS (
    INSERT INTO jobboard_journal (board, job, kind, uuid, name, who, token, at)
    SELECT CAST(:board AS int), id, 'CLAIMED', uuid, name, CAST(:who AS text), token, (SELECT now FROM moment)
    FROM claimed
)
SELECT job.*, (SELECT value FROM mark), (SELECT now FROM moment),
    (SELECT count(*) FROM claimed) < CAST(:limit AS int) AND EXISTS (
        SELECT FROM jobboard_lanes WHERE board = CAST(:board AS int) AND blocked_name IS NOT NULL
    ),
    CASE WHEN job.id IS NULL AND EXISTS (SELECT FROM heads) THEN {_LIMITED} ELSE met END
FROM status LEFT JOIN claimed AS job ON true
"""  # nosec B608 # made of this module's constants only; values are bound parameters


_LOCKED = "LIMIT CAST(:limit AS int) FOR UPDATE SKIP LOCKED"
_AS_USUAL = f"AND (SELECT met FROM status) = {_AS_ASKED}"  # nosec B608 # a constant
_NONE_IS_LIMITED = """
    AND NOT EXISTS (
        SELECT FROM jobboard_pauses WHERE board = CAST(:board AS int) AND name = ANY (ARRAY(SELECT name FROM heads))
    )
"""


def _heads(identity: RowIdentity) -> str:
    return (
        f"SELECT {identity.columns}, name {READY} AND place >= {FLOOR_OF_ALL} {_AS_USUAL} ORDER BY place, id {_LOCKED}"  # nosec B608 # constants
    )


CLAIM_NEXT = by_identity(lambda identity: _claim(identity, _heads(identity), _NONE_IS_LIMITED))


# ``job_statements`` says why a name is found in one way by what locks, and in another way by what doesn't.
def _heads_of_names(identity: RowIdentity, limit: str = "CAST(:limit AS int)", rooms: str = "") -> str:
    return f"""
    SELECT head.*, wanted.name {WANTED}, {rooms} LATERAL (
        SELECT {identity.columns}, place, id {READY} AND name <= wanted.name
            AND (name, place) >= (wanted.name, {FLOOR_OF_NAME}) {_AS_USUAL}
        ORDER BY name, place, id LIMIT {limit} FOR UPDATE SKIP LOCKED
    ) AS head ORDER BY head.place, head.id LIMIT CAST(:limit AS int)
"""  # nosec B608 # made of this module's constants only; values are bound parameters


CLAIM_NEXT_OF_NAMES = by_identity(lambda identity: _claim(identity, _heads_of_names(identity), _NONE_IS_LIMITED))

#: Locks the limits of names; in one order, so that two transactions that lock several don't wait for each other.
LOCK_LIMITS = Statement(
    text("""
SELECT name FROM jobboard_pauses
WHERE board = CAST(:board AS int) AND name = ANY (CAST(:names AS text[])) AND running IS NOT NULL
ORDER BY name FOR UPDATE
""")
)


def _rooms(identity: RowIdentity) -> str:
    return f"""
    LATERAL (
        SELECT CAST(least(CAST(:limit AS bigint), (
            SELECT running - (
                SELECT count(*) FROM {identity.claimed} AS job WHERE name = wanted.name
            )
            FROM jobboard_pauses WHERE board = CAST(:board AS int) AND name = wanted.name
        )) AS int) AS room
        OFFSET 0
    ) AS rooms,
"""  # nosec B608 # made of this module's constants only; values are bound parameters


#: The same once the limits of the names are locked: of each name no more than it may have claims.
CLAIM_NEXT_WITHIN_LIMITS = by_identity(
    lambda identity: _claim(identity, _heads_of_names(identity, "greatest(rooms.room, 0)", _rooms(identity)), "")
)


class PostgresqlClaiming(Claiming):
    """Claims in one round trip where nothing is due and nothing is paused.

    That is one statement, or a transaction of names that were found to be limited. What is due is expired and promoted
    before the same statement.
    """

    _transactions: ServerDatabase

    def __init__(self, database: ServerDatabase) -> None:
        super().__init__(database)
        #: What was asked for when a limited name was met.
        self._limited: set[frozenset[str]] = set()

    def claim_next(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        # Asked once: another thread may find meanwhile that they are limited no longer.
        is_limited = names in self._limited
        if not is_limited:
            found, claimed = self._claim(claim, names, limit, self._transactions.at_once)
            if found == _DUE:
                found, claimed = self._claim(claim, names, limit, self._once_nothing_is_due)
        if names is not None and (is_limited or found == _LIMITED):
            found, claimed = self._claim_within_limits(claim, names, limit)
        return claimed if found == _AS_ASKED else super().claim_next(claim, names, limit)

    def _claim(
        self, claim: ClaimRequest, names: frozenset[str] | None, limit: int, execute: Callable[..., list[Row]]
    ) -> tuple[int, list[JobRow]]:
        """Return what was met, and what was claimed."""
        statement = CLAIM_NEXT if names is None else CLAIM_NEXT_OF_NAMES
        look = self._transactions.floors.look(names)
        rows = execute(statement, limit=limit, **claimed_by(claim), **asked_by(look))
        return self._answer(claim, names, limit, rows, look)

    def _once_nothing_is_due(self, statement: Statement, **parameters: Any) -> list[Row]:
        """Expire and promote what is due, and execute a statement in the same transaction."""
        with self._transactions.write() as transaction:
            expire_and_promote(transaction)
            if transaction.is_below_floors:
                # The board's mark changes with the commit only.
                parameters["floors"] = "{}"
            return transaction.rows(statement, **parameters)

    def _claim_within_limits(self, claim: ClaimRequest, names: frozenset[str], limit: int) -> tuple[int, list[JobRow]]:
        # From the start: there is one limit for all priorities of a name.
        parameters: dict[str, Any] = {"limit": limit, **claimed_by(claim), **asked_by(Look(names))}
        limited, rows = self._transactions.in_one_trip([LOCK_LIMITS, CLAIM_NEXT_WITHIN_LIMITS], **parameters)
        if limited and len(self._limited) < _MAX_REMEMBERED:
            self._limited.add(names)
        else:
            self._limited.discard(names)
        return self._answer(claim, names, limit, rows)

    def _answer(
        self,
        claim: ClaimRequest,
        names: frozenset[str] | None,
        limit: int,
        rows: list[Row],
        look: Look | None = None,
    ) -> tuple[int, list[JobRow]]:
        *_, mark, now, is_any_blocked, met = not_empty(rows, self._transactions.driver.where)[0]
        found = sorted((row for row in rows if row[0] is not None), key=position_of)
        if look is not None and met == _AS_ASKED:
            self._transactions.floors.note(look, mark, now, [row[1:3] for row in found], limit)
        if found:
            self._transactions.notify(False)
        claimed = [_claimed(row, claim) for row in found]
        return met, self._exchange(claim, names, limit, claimed) if is_any_blocked and met == _AS_ASKED else claimed


def _claimed(row: Row, claim: ClaimRequest) -> JobRow:
    """Return the job of a row that a claim returns: every column holds what it is meant to."""
    (
        uuid, name, place, sequence, created_on, body, key, run_at, max_attempts, attempts, token, last_error, reason,
        checkpoint, cancel_asked, *more, ties, _, now, _, _,
    ) = row  # fmt: skip
    # The server adds them in the same way.
    expires_at = None if math.isinf(claim.expiry) else now + claim.expiry
    priority, became_due = priority_and_moment(place)
    values = (
        uuid, name, priority, sequence, created_on, body, key, run_at, max_attempts, JobState.CLAIMED, attempts,
        claim.who, token, claim.claim_id, expires_at, now, last_error, reason, checkpoint, None, None,
        bool(cancel_asked), *more, (), became_due, ties_of(ties),
    )  # fmt: skip
    return JobRow(*values)
