"""Saves steps by one statement, which locks the claim's row and so waits for whoever ends the claim."""

from __future__ import annotations

from sqlalchemy import text

from jobboard.backends.claim_answers import done
from jobboard.backends.edge_rows import StepRow
from jobboard.backends.rows import ClaimAnswer, Fence
from jobboard.backends.sql.postgresql.fast_path import MOMENT
from jobboard.backends.sql.rows import MAX_INTEGER
from jobboard.backends.sql.schema import CLAIMED
from jobboard.backends.sql.server_database import ServerDatabase
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.steps import Steps

SAVE = Statement(
    text(f"""
WITH {MOMENT}, held AS MATERIALIZED (
    SELECT uuid, cancel_asked FROM jobboard_jobs
    WHERE board = CAST(:board AS int) AND uuid = CAST(:uuid AS text) AND state + 0 = {CLAIMED}
        AND token = CAST(:token AS bigint) AND owner = CAST(:who AS text)
        AND (due_at IS NULL OR due_at > (SELECT now FROM moment))
    FOR NO KEY UPDATE
), saved AS (
    INSERT INTO jobboard_steps (board, uuid, number, name, at, result)
    SELECT CAST(:board AS int), uuid, CAST(:number AS bigint), CAST(:name AS text), (SELECT now FROM moment),
        CAST(:result AS bytea)
    FROM held
    ON CONFLICT (board, uuid, number) DO UPDATE SET name = excluded.name, at = excluded.at, result = excluded.result
)
SELECT cancel_asked FROM held
""")  # nosec B608 # made of this module's constants only; values are bound parameters
)


class PostgresqlSteps(Steps):
    """Looks at a claim that does not hold by the long path."""

    _transactions: ServerDatabase

    def save(self, fence: Fence, step: StepRow) -> ClaimAnswer:
        if fence.token > MAX_INTEGER:
            return super().save(fence, step)
        held = self._transactions.at_once(
            SAVE,
            uuid=fence.uuid,
            token=fence.token,
            who=fence.who,
            number=step.number,
            name=step.name,
            result=step.result,
        )
        if not held:
            return super().save(fence, step)
        return done(held[0][0])
