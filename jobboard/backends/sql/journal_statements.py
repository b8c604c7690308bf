"""The statements about the lines of the journal: each job's history, and what happens to all of a board."""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, exists, func, insert, literal_column, not_, or_, select, text

from jobboard.backends.base import RETRY_WINDOW
from jobboard.backends.sql.schema import jobs, journal, pauses
from jobboard.backends.sql.statement import Statement, in_list, p, parameters
from jobboard.events import HISTORY_LENGTH, EventKind

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
    pauses.c.board == p("board"),
    pauses.c.name == func.coalesce(journal.c.name, literal_column("''")),
    pauses.c.running.is_(None),
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

# -- what has happened on all boards: the end of the journal -----------------------------------------------------------

#: What happens to every job, or often.
COMMON_KINDS = frozenset(
    kind.value
    for kind in (
        EventKind.POSTED,
        EventKind.CLAIMED,
        EventKind.CONSUMED,
        EventKind.EXTENDED,
        EventKind.CHECKPOINTED,
    )
)
#: Events that give nobody anything to claim.
UNAWAITED_KINDS = frozenset({EventKind.CLAIMED.value, EventKind.CONSUMED.value})


def _listed(kinds: frozenset[str]) -> str:
    return "(" + ", ".join(f"'{kind}'" for kind in sorted(kinds)) + ")"


LAST_EVENT = Statement(select(func.coalesce(func.max(journal.c.id), 0)))
MAX_EVENTS = 1000
_columns = [journal.c[name] for name in ("id", "kind", "who", "token", "at", "reason", "board")]
_of_job = [func.coalesce(journal.c[name], jobs.c[name]) for name in ("uuid", "name")]
_events = (
    select(*_columns, *_of_job).select_from(journal.outerjoin(jobs, journal.c.job == jobs.c.id)).order_by(journal.c.id)
)
# On PostgreSQL only the lines of an older version have no uuid and no name, and their tables an index by id.
_of_older = [
    func.coalesce(journal.c[name], select(jobs.c[name]).where(jobs.c.id == journal.c.job).scalar_subquery())
    for name in ("uuid", "name")
]
_events_by_uuid = select(*_columns, *_of_older).select_from(journal).order_by(journal.c.id)


def _lines(those: Any, most: int | None = None) -> Statement:
    return Statement(
        _events.where(those).limit(most),
        postgresql=_events_by_uuid.where(those).limit(most),
    )


#: The last line that was read, if it is there still, and the next ones.
EVENTS = _lines(journal.c.id >= p("last"), 1 + MAX_EVENTS)
MAX_SKIMMED = 10_000
#: PostgreSQL's: the numbers of the next lines, those of them that are rare, whether somebody may wait for one, and the
#: number of the last line.
SKIM = Statement(
    text(f"""
SELECT array_agg(id), array_agg(id) FILTER (WHERE kind NOT IN {_listed(COMMON_KINDS)}),
    bool_or(kind NOT IN {_listed(UNAWAITED_KINDS)}),
    (SELECT coalesce(max(id), 0) FROM jobboard_journal)
FROM (SELECT id, kind FROM jobboard_journal WHERE id > :last ORDER BY id LIMIT {MAX_SKIMMED}) AS lines
""")  # nosec B608 # made of this module's constants only
)
EVENTS_OF = _lines(in_list(journal.c.id, "ids"))
#: What differs once anything was written, also if it was numbered earlier than what was there before.
_last = select(journal.c.id).order_by(journal.c.id.desc()).limit(100).subquery("last_lines")
END_OF_JOURNAL = Statement(select(func.count(), func.max(_last.c.id), func.sum(_last.c.id)))
