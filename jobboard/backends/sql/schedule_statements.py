"""The statements about schedules."""

from __future__ import annotations

from sqlalchemy import delete, func, insert, select, update

from jobboard.backends.sql.schema import schedules
from jobboard.backends.sql.statement import Statement, in_list, p, parameters

_mine = schedules.c.board == p("board")
_this = _mine & (schedules.c.id == p("id"))
_in_order = (schedules.c.next_at, schedules.c.id)

#: What makes a ScheduleRow, in the order of its fields.
SCHEDULE = [schedules.c.id, schedules.c.version, schedules.c.next_at, schedules.c.body]

# In one order, so that two who lock several rows don't wait for each other.
READ_VERSIONS = Statement(
    select(schedules.c.id, schedules.c.version)
    .where(_mine, in_list(schedules.c.id, "ids"))
    .order_by(schedules.c.id)
    .with_for_update()
)
ADD = Statement(insert(schedules).values(parameters("board", "id", "version", "next_at", "body")))
CHANGE = Statement(update(schedules).where(_this).values(parameters("version", "next_at", "body")))
DELETE = Statement(delete(schedules).where(_this))

READ = Statement(select(*SCHEDULE).where(_mine, in_list(schedules.c.id, "ids")))
DUE = Statement(select(*SCHEDULE).where(_mine, schedules.c.next_at <= p("now")).order_by(*_in_order).limit(p("limit")))
NEXT_AFTER_NOW = Statement(select(func.min(schedules.c.next_at)).where(_mine, schedules.c.next_at > p("now")))

# A page is what is due at the last one's moment, then what is due later, then what isn't due.
_page = select(*SCHEDULE).where(_mine).order_by(*_in_order).limit(p("size"))
HEAD = Statement(_page.where(schedules.c.next_at.is_not(None)))
AT = Statement(_page.where(schedules.c.next_at == p("at"), schedules.c.id > p("id")))
LATER = Statement(_page.where(schedules.c.next_at > p("at")))
NOT_DUE = Statement(
    select(*SCHEDULE)
    .where(_mine, schedules.c.next_at.is_(None), schedules.c.id > p("id"))
    .order_by(schedules.c.id)
    .limit(p("size"))
)
