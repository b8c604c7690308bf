"""Posts into a transaction of the user's by one statement, between the two of its savepoint."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import text

from jobboard.backends.rows import IfExists, NewJob, Posted, PostOutcome
from jobboard.backends.sql.postgresql.errors import is_for_the_long_way
from jobboard.backends.sql.postgresql.fast_path import GIVEN_OPTIONS, POST_TEXT, STATEMENT_NOW, job_of_posted
from jobboard.backends.sql.posting import Posting
from jobboard.backends.sql.rows import OPTIONS, is_tied, place_in_sql
from jobboard.backends.sql.schema import COMPLETE, DELAYED, UNCLAIMED
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.user_transaction import UserTransaction
from jobboard.errors import BoardUnavailable

# It posts nothing in another database than the board's, and nothing under a key that is taken. No parameter is a list:
# each driver has its own form for those.
_ONE = f"""
    SELECT CAST(:board AS int), CAST(:uuid AS text), CAST(:name AS text), CAST(:key AS text), CAST(:rank AS int),
        {place_in_sql("CAST(:rank AS bigint)", "greatest(now, at)", "bigint")}, now,
        CAST(:body AS bytea), CASE WHEN at > now THEN {DELAYED} ELSE {UNCLAIMED} END,
        0, 0, CASE WHEN at > now THEN at END, at, now, 0, {GIVEN_OPTIONS}
    FROM (SELECT {STATEMENT_NOW} AS now OFFSET 0) AS moment,
        LATERAL (SELECT coalesce(now + nullif(CAST(:delay AS float8), 0), CAST(:run_at AS float8)) AS at) AS start
    WHERE EXISTS (
            SELECT FROM jobboard_boards WHERE id = CAST(:board AS int) AND name = CAST(:board_name AS text)
        )
        AND EXISTS (SELECT FROM jobboard_meta WHERE name = 'identity' AND value = CAST(:identity AS text))
        AND NOT EXISTS (
            SELECT FROM jobboard_jobs WHERE board = CAST(:board AS int) AND name = CAST(:name AS text)
                AND key = CAST(:key AS text) AND state < {COMPLETE} OFFSET 0
        )
        AND NOT EXISTS (
            SELECT FROM jobboard_windows WHERE board = CAST(:board AS int) AND name = CAST(:name AS text)
                AND key = CAST(:key AS text) AND until > now OFFSET 0
        )
"""  # nosec B608 # made of this module's constants only; values are bound parameters
_POSTED = POST_TEXT.rpartition("SELECT")[0] % _ONE
_POST = Statement(
    text(f"{_POSTED} SELECT uuid, id, created_on, pg_notify(CAST(:channel AS text), '') FROM posted"),  # nosec B608 # constants
    distributed=text(f"{_POSTED} SELECT uuid, id, created_on, NULL FROM posted"),  # nosec B608 # constants
)


class PostgresqlUserPosting(Posting):
    """Posts one job by one statement, if its uuid and its key are not on the board."""

    _transactions: UserTransaction

    def post(self, rows: Sequence[NewJob]) -> list[Posted]:
        new = rows[0]
        if len(rows) > 1 or is_tied(new) or (new.key is not None and new.if_exists is IfExists.REPLACE):
            return super().post(rows)
        return self._post(new) or super().post(rows)

    def _post(self, new: NewJob) -> list[Posted]:
        try:
            posted = self._transactions.at_once(
                _POST,
                uuid=new.uuid,
                name=new.name,
                key=new.key,
                rank=-new.priority,
                body=new.body,
                run_at=new.run_at,
                delay=new.delay,
                **{name: getattr(new, name) for name in OPTIONS},
            )
        except BoardUnavailable as error:
            if is_for_the_long_way(error.__cause__):
                return []
            raise
        return [Posted(PostOutcome.POSTED, job_of_posted(new, row[:-1])) for row in posted]
