"""Saves steps in one round trip, which locks the claim's row and fails if the claim does not hold."""

from __future__ import annotations

from sqlalchemy import text

from jobboard.backends.claim_answers import done
from jobboard.backends.edge_rows import StepRow
from jobboard.backends.rows import ClaimAnswer, Fence
from jobboard.backends.sql.mysql.errors import NO_NULL, code_of
from jobboard.backends.sql.mysql.fast_path import run_script
from jobboard.backends.sql.mysql.fast_statements import BEGIN_NOW, COMMIT
from jobboard.backends.sql.mysql.replies import Script
from jobboard.backends.sql.rows import MAX_INTEGER
from jobboard.backends.sql.schema import CLAIMED
from jobboard.backends.sql.server_database import ServerDatabase
from jobboard.backends.sql.server_errors import not_empty
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.steps import Steps
from jobboard.errors import BoardUnavailable

SAVE = Script(
    "save_step",
    *BEGIN_NOW,
    Statement(text("SET @jobboard_asked = NULL")),
    Statement(
        text(f"""
SELECT cancel_asked INTO @jobboard_asked FROM jobboard_jobs FORCE INDEX (jobboard_uuid)
WHERE board = :board AND uuid = :uuid AND token = :token AND owner = :who AND state + 0 = {CLAIMED}
    AND (due_at IS NULL OR due_at > @jobboard_now)
FOR UPDATE
""")  # nosec B608 # made of this module's constants only; values are bound parameters
    ),
    Statement(
        text("""
INSERT INTO jobboard_steps (board, uuid, number, name, at, result)
VALUES (IF(@jobboard_asked IS NULL, NULL, :board), :uuid, :number, :name, @jobboard_now, :result)
ON DUPLICATE KEY UPDATE name = VALUES(name), at = VALUES(at), result = VALUES(result)
""")
    ),
    Statement(text("SELECT @jobboard_asked")),
    COMMIT,
)


class MysqlSteps(Steps):
    """Looks at a claim that does not hold by the long path."""

    _transactions: ServerDatabase

    def save(self, fence: Fence, step: StepRow) -> ClaimAnswer:
        if fence.token > MAX_INTEGER:
            return super().save(fence, step)
        try:
            answers = run_script(
                self._transactions,
                SAVE,
                uuid=fence.uuid,
                token=fence.token,
                who=fence.who,
                number=step.number,
                name=step.name,
                result=step.result,
            )
        except BoardUnavailable as error:
            if code_of(error.__cause__) != NO_NULL:
                raise
            return super().save(fence, step)
        [[(asked,)]] = not_empty(answers, self._transactions.driver.where)
        return done(bool(int(asked)))
