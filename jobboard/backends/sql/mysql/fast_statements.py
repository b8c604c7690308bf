"""The statements of the fast paths on MariaDB and MySQL.

The server's time stays in a variable of the connection, since it is not known here before the first statement.
"""

from __future__ import annotations

from sqlalchemy import text

from jobboard.backends.sql.mysql.driver import (
    SET_NOW,
    SET_NOW_AND_MARK,
    due_floor,
    is_any_blocked,
    is_over,
    least_due,
    least_due_mark,
)
from jobboard.backends.sql.mysql.replies import Script
from jobboard.backends.sql.rows import JOB_COLUMNS, OPTION_COLUMNS
from jobboard.backends.sql.schema import CLAIMED, COMPLETE, UNCLAIMED
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.tokens import least_token_in_sql, next_token_in_sql

#: Before every job's place.
FIRST_PLACE = -(2**63) + 1

_BEGIN = Statement(text("START TRANSACTION READ WRITE"))
BEGIN_NOW = (_BEGIN, Statement(text(SET_NOW)))
NOW_AND_MARK = Statement(text(SET_NOW_AND_MARK.format(board=":board")))
#: Find out whether anything is due or paused, whether anything is BLOCKED, and whether floors mean anything: the mark
#: is the one that they were made under, and nothing is ready that is better than all that they are about.
SET_STATUS = Statement(
    text(f"""
SELECT {is_over(least_due(":board", due_floor(":mark", ":due_floor")))}
    OR EXISTS (SELECT 1 FROM jobboard_pauses WHERE board = :board AND running IS NULL)
    OR {is_over(least_due_mark(":board"))},
    {is_any_blocked(":board")}, NULL, NULL, @jobboard_mark <=> :mark AND (
        SELECT MAX(place) FROM jobboard_jobs FORCE INDEX (jobboard_ready)
        WHERE board = :board AND state = {UNCLAIMED} AND place < :better
    ) IS NULL
INTO @jobboard_status, @jobboard_is_blocked, @jobboard_id, @jobboard_place, @jobboard_has_floors
""")  # nosec B608 # made of this module's constants only; values are bound parameters
)
_STATUS = Statement(text("SELECT @jobboard_status, @jobboard_is_blocked, @jobboard_mark, @jobboard_now"))
#: Begin to claim, and say what that found.
BEGIN_CLAIM = (_BEGIN, NOW_AND_MARK, SET_STATUS, _STATUS)

_COLUMNS = ", ".join(f"`{name}`" for name in JOB_COLUMNS)


def _in_order(columns: str, index: str, condition: str, more: str) -> Statement:
    """Read jobs that are ready, in claim order."""
    return Statement(
        text(f"""
SELECT {columns} FROM jobboard_jobs FORCE INDEX ({index})
WHERE board = :board AND state = {UNCLAIMED} AND {condition} ORDER BY place, id {more}
""")  # nosec B608 # made of this module's constants only; values are bound parameters
    )


_BY_READY, _BY_NAME = ("jobboard_ready", ""), ("jobboard_ready_by_name", "name = :name AND ")
# Entries of jobs that were claimed lately stay at the front of the index until the server purges it, and a scan that
# locks takes long over them. So one that only reads finds the first job that is ready, and the other begins there. What
# lies before that was posted or given back while this claim was under way.
FORGET_FIRST = Statement(text("SET @jobboard_place = NULL"))


def _first(index: str, of_name: str, *more: str) -> Statement:
    condition = " AND ".join([f"{of_name}NOT @jobboard_status", *more])
    return _in_order("place, id INTO @jobboard_place, @jobboard_first", index, condition, "LIMIT 1")


# A look from the start names no place: it ends where a state or a name ends. From a place on it passes all dead entries
# until one that lives, also those of the next name or state.
_FROM_FLOOR = f"place >= IF(@jobboard_has_floors, :floor, {FIRST_PLACE})"
FIRST, FIRST_OF_NAME = (_first(*by) for by in (_BY_READY, _BY_NAME))
FIRST_FROM_FLOOR, FIRST_OF_NAME_FROM_FLOOR = (_first(*by, _FROM_FLOOR) for by in (_BY_READY, _BY_NAME))
#: As of the same row and moment, it is the same in each statement.
_NEXT_TOKEN = next_token_in_sql(least_token_in_sql("@jobboard_now", "SIGNED"))
# The long path claims jobs of a limited name.
_ID_UNLESS_LIMITED = """
IF(EXISTS (SELECT 1 FROM jobboard_pauses WHERE board = :board AND name = jobboard_jobs.name), NULL, id)
"""
_FROM_FIRST = "(place = @jobboard_place AND id >= @jobboard_first OR place > @jobboard_place)"
HEADS, HEADS_OF_NAME = (
    _in_order(
        f"{_COLUMNS}, {_NEXT_TOKEN}, @jobboard_id := {_ID_UNLESS_LIMITED}",
        index,
        of_name + _FROM_FIRST,
        "LIMIT :limit FOR UPDATE SKIP LOCKED",
    )
    for index, of_name in (_BY_READY, _BY_NAME)
)


def _claim_of(ids: str) -> Statement:
    return Statement(
        text(f"""
UPDATE jobboard_jobs SET state = {CLAIMED}, attempts = attempts + 1, token = {_NEXT_TOKEN}, owner = :who,
    claim_id = :claim_id, due_at = @jobboard_now + :expiry, last_modified = @jobboard_now,
    progress = NULL
WHERE id IN {ids}
""")  # nosec B608 # made of this module's constants only; values are bound parameters
    )


def _consume_of(uuids: str, fences: str) -> Statement:
    return Statement(
        text(f"""
UPDATE jobboard_jobs FORCE INDEX (jobboard_uuid) SET state = {COMPLETE}, claim_id = NULL, due_at = NULL,
    last_modified = @jobboard_now, result = :result,
    retain_until = GREATEST(@jobboard_now + :retention, IF(`key` IS NULL, 0, COALESCE((
        SELECT until FROM jobboard_windows AS kept
        WHERE kept.board = :board AND kept.name = jobboard_jobs.name AND kept.`key` = jobboard_jobs.`key`
            AND kept.uuid = jobboard_jobs.uuid
    ), 0)))
WHERE board = :board AND uuid IN {uuids} AND (uuid, token, owner) IN {fences} AND state + 0 = {CLAIMED}
    AND (due_at IS NULL OR due_at > @jobboard_now) AND ties IS NULL
""")  # nosec B608 # made of this module's constants only; values are bound parameters
    )


#: The number of a job, in the line that is written of it.
ID = "(SELECT id FROM jobboard_jobs FORCE INDEX (jobboard_uuid) WHERE board = {board} AND uuid = {uuid})"
CLAIM, CONSUME = _claim_of(":ids"), _consume_of(":uuids", ":fences")
LINES = Statement(text("INSERT INTO jobboard_journal (board, job, kind, who, token, at) VALUES :rows"))
# A request for a row that another transaction has locked would wait for that one's end. The long path reads it.
POST = Statement(
    text(f"""
/*M! SET STATEMENT innodb_lock_wait_timeout = 0 FOR */
INSERT INTO jobboard_jobs (board, uuid, name, `key`, `rank`, place, body, {OPTION_COLUMNS}, created_on, last_modified,
    attempts, token, cancel_asked, state, due_at, run_at) VALUES :rows
""")  # nosec B608 # made of this module's constants only; values are bound parameters
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

COMMIT = Statement(text("COMMIT"))
# One job is claimed without knowing its id here.
_CLAIM_HEAD = (
    _claim_of("(@jobboard_id)"),
    Statement(
        text("""
INSERT INTO jobboard_journal (board, job, kind, who, token, at)
SELECT board, id, 'CLAIMED', owner, token, last_modified FROM jobboard_jobs WHERE id = @jobboard_id
""")
    ),
    COMMIT,
)
CLAIM_ONE, CLAIM_ONE_FROM_FLOOR, CLAIM_ONE_OF_NAME, CLAIM_ONE_OF_NAME_FROM_FLOOR = (
    Script(name, *BEGIN_CLAIM, first, heads, *_CLAIM_HEAD)
    for name, first, heads in (
        ("claim", FIRST, HEADS),
        ("claim_from_floor", FIRST_FROM_FLOOR, HEADS),
        ("claim_of_name", FIRST_OF_NAME, HEADS_OF_NAME),
        ("claim_of_name_from_floor", FIRST_OF_NAME_FROM_FLOOR, HEADS_OF_NAME),
    )
)
CONSUME_ONE = Script(
    "consume",
    *BEGIN_NOW,
    _consume_of("(:uuid)", "((:uuid, :token, :who))"),
    Statement(
        text(f"""
INSERT INTO jobboard_journal (board, job, kind, who, token, at)
VALUES (IF(ROW_COUNT() = 1, :board, NULL), {ID.format(board=":board", uuid=":uuid")}, 'CONSUMED', :who, :token,
    @jobboard_now)
""")  # nosec B608 # made of this module's constants only; values are bound parameters
    ),
    COMMIT,
)
