"""What producers and consumers do most, in one statement each, where PostgreSQL's one statement can do all of it.

Each statement is a transaction by itself, and its answer says what it left alone; that goes the long way. The
differential test holds these statements to ``jobboard.backends.lifecycle``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import psycopg
from sqlalchemy import text

from jobboard.backends import lifecycle
from jobboard.backends.errors import after_a_change
from jobboard.backends.rows import (
    ClaimAnswer,
    Consumption,
    IfExists,
    JobRow,
    NewJob,
    Page,
    Posted,
    PostOutcome,
    Verdict,
)
from jobboard.backends.sql.claimed_jobs import ClaimedJobs, fit_one_statement
from jobboard.backends.sql.claiming import ANY_JOB
from jobboard.backends.sql.expiry import expire_and_promote
from jobboard.backends.sql.floors import Look
from jobboard.backends.sql.postgresql.arrays import blobs, numbers, optional, texts
from jobboard.backends.sql.postgresql.pages import page_of
from jobboard.backends.sql.postgresql.row_identity import RowIdentity, by_identity
from jobboard.backends.sql.posting import Posting
from jobboard.backends.sql.reading import page_of_rows
from jobboard.backends.sql.rows import (
    OPTION_COLUMNS,
    OPTIONS,
    Row,
    is_tied,
    place_in_sql,
    position_of,
)
from jobboard.backends.sql.schema import CLAIMED, CODES, COMPLETE, DELAYED, UNCLAIMED
from jobboard.backends.sql.server_database import ServerDatabase
from jobboard.backends.sql.server_errors import not_empty
from jobboard.backends.sql.server_reading import Found, ServerReading
from jobboard.backends.sql.statement import Statement
from jobboard.errors import BoardUnavailable
from jobboard.states import JobState

# A connection plans each statement once, and perhaps while the board is nearly empty. So a statement leaves the planner
# one way: a lookup that is a value, or has `OFFSET 0`, becomes no join, which a plan for few jobs does by reading all;
# and a row that was found is changed by its place (ctid). `state + 0` keeps the planner off an index with the state.
# The time is read once, so that an index can serve a comparison with it. An UPDATE takes it as a value too, since it
# copies each row that it is joined with.
MOMENT = "moment AS MATERIALIZED (SELECT extract(epoch FROM clock_timestamp())::float8 AS now)"

READY = f"FROM jobboard_jobs WHERE board = CAST(:board AS int) AND state = {UNCLAIMED}"
#: The board's mark, whether it is another one than that of the floors that are given, and whether these mean nothing.
MARK = f"""
mark AS MATERIALIZED (
    SELECT value, is_new, is_new OR (CAST(:better AS bigint) IS NOT NULL AND (
        SELECT place {READY} AND place < CAST(:better AS bigint) ORDER BY place, id LIMIT 1
    ) IS NOT NULL) AS is_from_start
    FROM (
        SELECT value, value IS DISTINCT FROM CAST(:mark AS text) AS is_new FROM (
            SELECT (SELECT value FROM jobboard_meta WHERE name = 'mark ' || CAST(:board AS int)) AS value OFFSET 0
        ) AS found
    ) AS compared
)"""  # nosec B608 # made of this module's constants only; values are bound parameters
DUE = """
FROM jobboard_jobs WHERE board = CAST(:board AS int) AND due_at IS NOT NULL
    AND due_at > CASE WHEN (SELECT is_new FROM mark) THEN '-Infinity' ELSE CAST(:due_floor AS float8) END
"""
_FROM = "coalesce(CASE WHEN NOT (SELECT is_from_start FROM mark) THEN %s END, -9223372036854775807)"
#: From which place on to look for all jobs, or for those of a wanted name (``floors``).
FLOOR_OF_ALL, FLOOR_OF_NAME = _FROM % "(CAST(:floors AS bigint[]))[1]", _FROM % "wanted.floor"
WANTED = "FROM unnest(CAST(:names AS text[]), CAST(:floors AS bigint[])) AS wanted (name, floor)"


_LISTS_OF_ENDS = """
    unnest(
        CAST(:uuids AS text[]), CAST(:whos AS text[]), CAST(:tokens AS bigint[]), CAST(:results AS bytea[]),
        CAST(:retentions AS float8[])
    )"""
_ENDS = "(uuid, who, token, result, retention)"


def _consume(identity: RowIdentity) -> str:
    return f"""
WITH {MOMENT}, done AS (
    UPDATE jobboard_jobs AS job SET
        state = {COMPLETE}, claim_id = NULL, due_at = NULL, result = ends.result,
        last_modified = (SELECT now FROM moment),
        retain_until = greatest((SELECT now FROM moment) + retention, CASE WHEN job.key IS NOT NULL THEN (
            SELECT until FROM jobboard_windows AS kept
            WHERE kept.board = CAST(:board AS int) AND kept.name = job.name AND kept.key = job.key
                AND kept.uuid = job.uuid
        ) END)
    FROM {identity.ends.format(_LISTS_OF_ENDS, _ENDS)}
    WHERE {identity.is_of_end}
        AND job.state + 0 = {CLAIMED} AND job.token = ends.token AND job.owner = ends.who
        AND (job.due_at IS NULL OR job.due_at > (SELECT now FROM moment)) AND job.ties IS NULL
    RETURNING job.id, job.uuid, job.name, job.owner, job.token, job.last_modified
), lines AS (
    INSERT INTO jobboard_journal (board, job, kind, uuid, name, who, token, at)
    SELECT CAST(:board AS int), id, 'CONSUMED', uuid, name, owner, token, last_modified FROM done
)
SELECT uuid, EXISTS (SELECT FROM jobboard_pauses WHERE board = CAST(:board AS int) AND name = done.name) FROM done
"""  # nosec B608 # made of this module's constants only; values are bound parameters


CONSUME = by_identity(_consume)

STATEMENT_NOW = "date_part('epoch', statement_timestamp())"
_PLACE = place_in_sql("CAST(rank AS bigint)", "greatest(now, at)", "bigint")
#: The options of one job, as parameters.
GIVEN_OPTIONS = ", ".join(f"CAST(:{name} AS {type})" for name, type in OPTIONS.items())
_LISTS_OF_OPTIONS = ", ".join(f"CAST(:{name} AS {type}[])" for name, type in OPTIONS.items())
# A known uuid fails: ON CONFLICT would look for each one twice, and write a row twice.
POST_TEXT = f"""
WITH posted AS (
    INSERT INTO jobboard_jobs (board, uuid, name, key, rank, place, created_on, body, state, attempts, token, due_at,
        run_at, last_modified, cancel_asked, {OPTION_COLUMNS})
    %s
    RETURNING id, uuid, name, created_on
), lines AS (
    INSERT INTO jobboard_journal (board, job, kind, uuid, name, at)
    SELECT CAST(:board AS int), id, 'POSTED', uuid, name, created_on FROM posted
)
SELECT uuid, id, created_on FROM posted
"""  # nosec B608 # made of this module's constants only; values are bound parameters
# What `unnest` numbers is in order, so that nothing is sorted.
_MANY = f"""
    SELECT CAST(:board AS int), uuid, name, key, rank, {_PLACE}, now, body,
        CASE WHEN at > now THEN {DELAYED} ELSE {UNCLAIMED} END, 0, 0, CASE WHEN at > now THEN at END, at, now, 0,
        {OPTION_COLUMNS}
    FROM unnest(
        CAST(:uuids AS text[]), CAST(:names AS text[]), CAST(:keys AS text[]), CAST(:ranks AS int[]),
        CAST(:bodies AS bytea[]), CAST(:run_ats AS float8[]), CAST(:delays AS float8[]), {_LISTS_OF_OPTIONS}
    ) WITH ORDINALITY AS given (uuid, name, key, rank, body, run_at, delay, {OPTION_COLUMNS}, n),
        LATERAL (SELECT {STATEMENT_NOW} AS now OFFSET 0) AS moment,
        LATERAL (SELECT coalesce(now + nullif(delay, 0), run_at) AS at) AS start
    %s ORDER BY n
"""  # nosec B608 # made of this module's constants only; values are bound parameters
_NO_KEY_IS_TAKEN = f"""
    WHERE NOT EXISTS (
        SELECT FROM unnest(CAST(:names AS text[]), CAST(:keys AS text[])) AS given (name, key)
        WHERE key IS NOT NULL AND (EXISTS (
            SELECT FROM jobboard_jobs WHERE board = CAST(:board AS int) AND name = given.name AND key = given.key
                AND state < {COMPLETE} OFFSET 0
        ) OR EXISTS (
            SELECT FROM jobboard_windows WHERE board = CAST(:board AS int) AND name = given.name AND key = given.key
                AND until > {STATEMENT_NOW} OFFSET 0
        ))
    )
"""  # nosec B608 # made of this module's constants only; values are bound parameters
_ONE = f"""
    VALUES (CAST(:board AS int), CAST(:uuid AS text), CAST(:name AS text), NULL, CAST(:rank AS int),
        {place_in_sql("CAST(:rank AS bigint)", STATEMENT_NOW, "bigint")}, {STATEMENT_NOW},
        CAST(:body AS bytea), {UNCLAIMED}, 0, 0, NULL, NULL, {STATEMENT_NOW}, 0, {GIVEN_OPTIONS})
"""
POST = Statement(text(POST_TEXT % (_MANY % "")))
POST_WITH_KEYS = Statement(text(POST_TEXT % (_MANY % _NO_KEY_IS_TAKEN)))
#: One job without a key that can be claimed at once. Lists of one take 1.18 times the server's CPU.
POST_ONE = Statement(text(POST_TEXT % _ONE))


_READY_IN = f"""
WITH {MOMENT}, {MARK}
SELECT now, (SELECT value FROM mark), least((SELECT due_at {DUE} ORDER BY due_at LIMIT 1), (
        SELECT due_at FROM jobboard_marks WHERE board = CAST(:board AS int) ORDER BY due_at LIMIT 1)),
    EXISTS (SELECT FROM jobboard_pauses WHERE board = CAST(:board AS int) AND (running IS NULL OR {{barred}})),
    EXISTS (SELECT FROM jobboard_lanes WHERE board = CAST(:board AS int) AND blocked_name IS NOT NULL),
    (SELECT id {{ready}} LIMIT 1)
FROM moment
"""  # nosec B608 # made of this module's constants only; values are bound parameters
READY_IN = Statement(
    text(_READY_IN.format(barred="true", ready=f"{READY} AND place >= {FLOOR_OF_ALL} ORDER BY place, id"))
)
_FIRST_FROM_NAMES_ON = f"""
    {WANTED}, LATERAL (
        SELECT id, name {READY} AND (state, name, place) >= ({UNCLAIMED}, wanted.name, {FLOOR_OF_NAME})
        ORDER BY name, place, id LIMIT 1
    ) AS first WHERE first.name = wanted.name
"""  # nosec B608 # made of this module's constants only; values are bound parameters
_IS_WANTED = "name = ANY (CAST(:names AS text[]))"
READY_IN_OF_NAMES = Statement(text(_READY_IN.format(barred=_IS_WANTED, ready=_FIRST_FROM_NAMES_ON)))


class PostgresqlPosting(Posting):
    """Posts by one statement, if no uuid and no key of the batch is on the board."""

    _transactions: ServerDatabase

    def post(self, rows: Sequence[NewJob]) -> list[Posted]:
        posted = self._post(rows) if _is_simple(rows) else {}
        if not posted:
            return super().post(rows)
        return [Posted(PostOutcome.POSTED, job_of_posted(new, posted[new.uuid])) for new in rows]

    def _post(self, rows: Sequence[NewJob]) -> dict[str, Row]:
        """Post all, and return the row of each uuid; or none if one of them, or a key, is on the board."""
        statement, parameters = _insert_of(rows)
        try:
            posted = self._transactions.at_once(statement, **parameters)
        except BoardUnavailable as error:
            if isinstance(error.__cause__, psycopg.errors.UniqueViolation):
                return {}
            raise
        if posted:
            self._transactions.notify(True)
        return {row[0]: row for row in posted}


class PostgresqlReading(ServerReading):
    """Says how long to wait, and reads a page, by one statement."""

    def page(
        self, states: Collection[JobState], names: frozenset[str] | None, cursor: object | None, size: int
    ) -> Page:
        if not states:
            return Page([], None)
        place, last = cursor if isinstance(cursor, tuple) else ANY_JOB
        asked: dict[str, Any] = {"place": place, "id": last, "size": size, **wanted(names)}
        statement = page_of(frozenset(CODES[state] for state in states), names is not None)
        rows = self._query(statement, **asked)
        if rows[0][-1]:
            with self._transactions.write() as transaction:
                expire_and_promote(transaction)
            rows = self._query(statement, **asked)
        return page_of_rows(sorted((row[:-1] for row in rows if row[0] is not None), key=position_of), size)

    def _look(self, look: Look) -> Found:
        statement = READY_IN if look.names is None else READY_IN_OF_NAMES
        [(now, mark, due_at, is_barred, is_any_blocked, head)] = self._query(statement, **asked_by(look))
        due_at = None if due_at is None else float(due_at)
        return Found(float(now), mark, due_at, is_barred, is_any_blocked, head is not None)

    def _query(self, statement: Statement, **parameters: Any) -> Sequence[Row]:
        return not_empty(self._transactions.query(statement, **parameters), self._transactions.driver.where)


class PostgresqlClaimedJobs(ClaimedJobs):
    """Consumes by one statement."""

    _transactions: ServerDatabase

    def consume(self, ends: Sequence[Consumption]) -> list[ClaimAnswer]:
        if not fit_one_statement(ends):
            return super().consume(ends)
        done = self._consume(ends)
        verdicts = self._consume_others([end for end in ends if end.fence.uuid not in done], bool(done))
        return [verdicts.get(end.fence.uuid, Verdict.DONE) for end in ends]

    def _consume(self, ends: Sequence[Consumption]) -> set[str]:
        """Consume the jobs whose claims hold, and return their uuids."""
        fences = [end.fence for end in ends]
        consumed = self._transactions.at_once(
            CONSUME,
            uuids=texts([fence.uuid for fence in fences]),
            whos=texts([fence.who for fence in fences]),
            tokens=numbers([fence.token for fence in fences]),
            results=optional([end.result for end in ends]),
            retentions=numbers([end.retention for end in ends]),
        )
        if consumed:
            # Somebody may wait until a limited name has fewer claims.
            self._transactions.notify(any(is_limited for _, is_limited in consumed))
        return {uuid for uuid, _ in consumed}

    def _consume_others(self, ends: list[Consumption], was_any_consumed: bool) -> dict[str, ClaimAnswer]:
        if not ends:
            return {}
        with after_a_change(lambda: was_any_consumed):
            verdicts = super().consume(ends)
        return {end.fence.uuid: verdict for end, verdict in zip(ends, verdicts, strict=True)}


def wanted(names: frozenset[str] | None) -> dict[str, list[str]]:
    return {} if names is None else {"names": list(names)}


def asked_by(look: Look) -> dict[str, object]:
    """Return the parameters that say where to look."""
    names = None if look.names is None else list(look.names)
    return {
        "names": None if names is None else texts(names),
        "floors": numbers(look.floors(names or [None])),
        "better": look.better,
        "mark": look.mark,
        "due_floor": look.due,
    }


def _is_simple(rows: Sequence[NewJob]) -> bool:
    """Whether one statement can post all or none."""
    if any(map(is_tied, rows)):
        return False
    if len(rows) == 1 and rows[0].key is None:
        return True
    keys = [(new.name, new.key) for new in rows if new.key is not None]
    return (
        len(set(keys)) == len(keys)
        and len({new.uuid for new in rows}) == len(rows)
        and all(new.key is None or new.if_exists is not IfExists.REPLACE for new in rows)
    )


def _is_plain(new: NewJob) -> bool:
    return new.key is None and new.run_at is None and not new.delay


def _insert_of(rows: Sequence[NewJob]) -> tuple[Statement, dict[str, object]]:
    """Return the statement that posts them, and its parameters."""
    if len(rows) == 1 and _is_plain(new := rows[0]):
        return POST_ONE, {
            "uuid": new.uuid,
            "name": new.name,
            "rank": -new.priority,
            "body": new.body,
            **{name: getattr(new, name) for name in OPTIONS},
        }
    keys = optional([new.key for new in rows])
    return POST if keys is None else POST_WITH_KEYS, {
        "uuids": texts([new.uuid for new in rows]),
        "names": texts([new.name for new in rows]),
        "keys": keys,
        "ranks": numbers([-new.priority for new in rows]),
        "bodies": blobs([new.body for new in rows]),
        "run_ats": optional([new.run_at for new in rows]),
        "delays": optional([new.delay for new in rows]),
        **{name: optional([getattr(new, name) for new in rows]) for name in OPTIONS},
    }


def job_of_posted(new: NewJob, row: Row) -> JobRow:
    """Return a posting as a row of ``POST`` says that it was posted; the server adds its delay in the same way."""
    _, sequence, now = row
    return lifecycle.posted(new, now, sequence)
