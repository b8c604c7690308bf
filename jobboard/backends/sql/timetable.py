"""The statements about schedules."""

from __future__ import annotations

from sqlalchemy import delete, func, insert, select, update

from jobboard.backends.sql.schema import schedules
from jobboard.backends.sql.statement import Statement, in_list, p

_mine = schedules.c.board == p("board")
_this = _mine & (schedules.c.id == p("id"))
_in_order = (schedules.c.next_at, schedules.c.id)

#: What makes a ScheduleEntry, in its order.
ENTRY = [schedules.c.id, schedules.c.version, schedules.c.next_at, schedules.c.body]

# In one order, so that two who lock several rows don't wait for each other.
READ_VERSIONS = Statement(
    select(schedules.c.id, schedules.c.version)
    .where(_mine, in_list(schedules.c.id, "ids"))
    .order_by(schedules.c.id)
    .with_for_update()
)
ADD = Statement(
    insert(schedules).values(board=p("board"), id=p("id"), version=p("version"), next_at=p("next_at"), body=p("body"))
)
CHANGE = Statement(update(schedules).where(_this).values(version=p("version"), next_at=p("next_at"), body=p("body")))
DELETE = Statement(delete(schedules).where(_this))

READ = Statement(select(*ENTRY).where(_mine, in_list(schedules.c.id, "ids")))
DUE = Statement(select(*ENTRY).where(_mine, schedules.c.next_at <= p("now")).order_by(*_in_order).limit(p("limit")))
NEXT_AFTER_NOW = Statement(select(func.min(schedules.c.next_at)).where(_mine, schedules.c.next_at > p("now")))

# A page is what is due at the last one's moment, then what is due later, then what isn't due.
_page = select(*ENTRY).where(_mine).order_by(*_in_order).limit(p("size"))
HEAD = Statement(_page.where(schedules.c.next_at.is_not(None)))
AT = Statement(_page.where(schedules.c.next_at == p("at"), schedules.c.id > p("id")))
LATER = Statement(_page.where(schedules.c.next_at > p("at")))
NOT_DUE = Statement(
    select(*ENTRY)
    .where(_mine, schedules.c.next_at.is_(None), schedules.c.id > p("id"))
    .order_by(schedules.c.id)
    .limit(p("size"))
)
