"""The statements about what has happened on all boards: the end of the journal."""

from __future__ import annotations

from sqlalchemy import func, select

from jobboard.backends.sql.schema import jobs, journal
from jobboard.backends.sql.statement import Statement, in_list, p

LAST_EVENT = Statement(select(func.coalesce(func.max(journal.c.id), 0)))
EVENTS_AT_ONCE = 1000
_events = (
    select(
        journal.c.id, journal.c.kind, func.coalesce(journal.c.uuid, jobs.c.uuid),
        func.coalesce(journal.c.name, jobs.c.name), journal.c.who, journal.c.token, journal.c.at, journal.c.reason,
        journal.c.board,
    )
    .select_from(journal.outerjoin(jobs, journal.c.job == jobs.c.id))
    .order_by(journal.c.id)
    .limit(EVENTS_AT_ONCE)
)  # fmt: skip
EVENTS = Statement(_events.where(journal.c.id > p("last")))
EVENTS_OF = Statement(_events.where(in_list(journal.c.id, "ids")))
#: What differs once anything was written, also if it was numbered earlier than what was there before.
_last = select(journal.c.id).order_by(journal.c.id.desc()).limit(100).subquery("last_lines")
END_OF_JOURNAL = Statement(select(func.count(), func.max(_last.c.id), func.sum(_last.c.id)))
