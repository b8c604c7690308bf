"""A page of jobs by one statement, which is a transaction by itself and reads one state of the board."""

from __future__ import annotations

from functools import cache

from jobboard.backends.sql.postgresql.row_identity import RowIdentity, by_identity
from jobboard.backends.sql.rows import JOB_COLUMNS
from jobboard.backends.sql.schema import CLAIMED, UNCLAIMED
from jobboard.backends.sql.statement import Statement

_COLUMNS = ", ".join(JOB_COLUMNS)
_PAGE = """
WITH status AS MATERIALIZED (
    SELECT now, (
        SELECT due_at FROM jobboard_jobs WHERE board = CAST(:board AS int) AND due_at <= now ORDER BY due_at LIMIT 1
    ) IS NOT NULL OR EXISTS (SELECT FROM jobboard_marks WHERE board = CAST(:board AS int) AND due_at <= now)
    AS is_any_due
    FROM (SELECT extract(epoch FROM clock_timestamp())::float8 AS now OFFSET 0) AS moment
), page AS (
    SELECT * FROM (%s) AS found ORDER BY place, id LIMIT CAST(:size AS int)
)
SELECT page.*, is_any_due FROM status LEFT JOIN page ON true
"""
_JOBS = f"SELECT {_COLUMNS} FROM jobboard_jobs WHERE board = CAST(:board AS int)"  # nosec B608 # constants
_VISIBLE = "(retain_until IS NULL OR retain_until > (SELECT now FROM status) AND retain_until > last_modified)"
_PLACE = "CAST(:place AS bigint), CAST(:id AS bigint)"
_FROM_PLACE_ON = f"(place, id) > ({_PLACE}) AND {_VISIBLE} ORDER BY place, id LIMIT CAST(:size AS int)"
_OF_NAMES = "AND name = ANY (CAST(:names AS text[]))"
# ``job_statements`` says why it goes on to the next names.
_READY_OF_NAMES = f"""
    SELECT job.* FROM unnest(CAST(:names AS text[])) AS wanted (name), LATERAL (
        {_JOBS} AND state = {UNCLAIMED} AND (state, name, place, id) > ({UNCLAIMED}, wanted.name, {_PLACE})
        ORDER BY name, place, id LIMIT CAST(:size AS int)
    ) AS job WHERE job.name = wanted.name
"""  # nosec B608 # constants


@cache
def page_of(codes: frozenset[int], is_by_name: bool) -> Statement:
    """Return what reads a page of jobs in these states after a ``place`` and an ``id``, and whether any job is due."""

    def words(identity: RowIdentity) -> str:
        return _PAGE % " UNION ALL ".join(f"({_in_state(code, is_by_name, identity)})" for code in sorted(codes))

    return by_identity(words)


def _in_state(code: int, is_by_name: bool, identity: RowIdentity) -> str:
    if is_by_name and code == UNCLAIMED:
        return _READY_OF_NAMES
    claimed = f"SELECT {_COLUMNS} FROM {identity.claimed} AS claimed WHERE true"  # nosec B608 # constants
    jobs = claimed if code == CLAIMED else f"{_JOBS} AND state = {code}"
    return f"{jobs} {_OF_NAMES if is_by_name else ''} AND {_FROM_PLACE_ON}"
