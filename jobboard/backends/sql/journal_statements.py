"""The statements about the lines of the journal: each job's history, and what happens to all of a board."""

from __future__ import annotations

from sqlalchemy import delete, exists, func, insert, literal_column, not_, or_, select, text

from jobboard.backends.base import RETRY_WINDOW
from jobboard.backends.sql.schema import journal, pauses
from jobboard.backends.sql.statement import Statement, in_list, p, parameters
from jobboard.events import HISTORY_LENGTH

#: A request that is older is not repeated any more.
LONG_AGO = p("now") - literal_column(str(RETRY_WINDOW))
#: No part of the history that is shown.
UNRECORDED = or_(journal.c.kind == "EXTENDED", journal.c.kind == "CHECKPOINTED")

_line = parameters("board", "job", "kind", "who", "token", "reason") | {"at": p("now")}
WRITE_HISTORY = Statement(
    insert(journal).inline().values(_line),
    # PostgreSQL has no index on jobs.id, so readers of events need uuid and name in the line.
    postgresql=insert(journal).inline().values(_line | parameters("uuid", "name")),
)
WRITE_EVENT = Statement(
    insert(journal).inline().values(parameters("board", "kind", "uuid", "name", "who", "reason") | {"at": p("now")})
)
#: Extensions would fill the journal, so each job keeps only the last line of such a kind.
DROP_UNRECORDED = Statement(delete(journal).where(journal.c.job == p("id"), UNRECORDED))
# One line more than the history shows, since the last renewal may be among them. Lines younger than the retry window
# stay, since a repeated request must find them. A few lines at a time are enough, since few are added at a time.
_first_kept = (
    select(journal.c.id).where(journal.c.job == p("id")).order_by(journal.c.id.desc()).limit(1).offset(HISTORY_LENGTH)
)
_oldest = select(journal.c.id).where(journal.c.job == p("id")).order_by(journal.c.id).limit(8)
TRIM_HISTORY = Statement(
    delete(journal).where(
        journal.c.id.in_(_oldest), journal.c.id < _first_kept.scalar_subquery(), journal.c.at < LONG_AGO
    ),
    # A derived table, since MySQL reads from no table that it deletes from.
    mysql=text(
        f"DELETE FROM jobboard_journal WHERE job = :id AND at < :now - {RETRY_WINDOW} AND id <"
        " (SELECT id FROM (SELECT id FROM jobboard_journal WHERE job = :id"
        f" ORDER BY id DESC LIMIT 1 OFFSET {HISTORY_LENGTH}) AS kept) ORDER BY id LIMIT 8"  # nosec B608 # constants
    ),
)
#: By which a repeated end of a claim is known.
NOTES = Statement(
    select(journal.c.token, journal.c.who).where(journal.c.job == p("id"), in_list(journal.c.kind, "kinds"))
)
#: What :func:`~jobboard.backends.sql.kept_time.note` wrote.
EXTENDED_UNTIL = Statement(
    select(journal.c.job, journal.c.token, journal.c.reason).where(
        in_list(journal.c.job, "ids"), journal.c.kind == "EXTENDED", journal.c.reason.is_not(None)
    )
)
DELETE_HISTORY = Statement(delete(journal).where(in_list(journal.c.job, "ids")))
#: The line of a present pause tells by whom, why and since when.
_of_a_pause = (journal.c.kind == literal_column("'PAUSED'")) & exists().where(
    pauses.c.board == p("board"), pauses.c.name == func.coalesce(journal.c.name, literal_column("''"))
)
# They are few; `board + 0` keeps the planner off the index that begins with the board.
FORGET_EVENTS = Statement(
    delete(journal).where(
        journal.c.job.is_(None),
        journal.c.board + literal_column("0") == p("board"),
        journal.c.at <= LONG_AGO,
        not_(_of_a_pause),
    )
)
