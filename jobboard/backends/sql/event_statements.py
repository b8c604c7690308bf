"""The statements about what has happened on all boards: the end of the journal."""

from __future__ import annotations

from sqlalchemy import func, select

from jobboard.backends.sql.schema import jobs, journal
from jobboard.backends.sql.statement import Statement, in_list, p

LAST_EVENT = Statement(select(func.coalesce(func.max(journal.c.id), 0)))
MAX_EVENTS = 1000
_columns = [journal.c[name] for name in ("id", "kind", "who", "token", "at", "reason", "board")]
_of_job = [func.coalesce(journal.c[name], jobs.c[name]) for name in ("uuid", "name")]
_events = (
    select(*_columns, *_of_job)
    .select_from(journal.outerjoin(jobs, journal.c.job == jobs.c.id))
    .order_by(journal.c.id)
    .limit(MAX_EVENTS)
)
EVENTS = Statement(_events.where(journal.c.id > p("last")))
EVENTS_OF = Statement(_events.where(in_list(journal.c.id, "ids")))
#: What differs once anything was written, also if it was numbered earlier than what was there before.
_last = select(journal.c.id).order_by(journal.c.id.desc()).limit(100).subquery("last_lines")
END_OF_JOURNAL = Statement(select(func.count(), func.max(_last.c.id), func.sum(_last.c.id)))
