"""The statements about schedules."""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, func, insert, literal_column, select, update

from jobboard.backends.sql.schema import schedules
from jobboard.backends.sql.statement import Statement, either, for_each_of, in_list, p, parameters

_mine = schedules.c.board == p("board")
_in_order = (schedules.c.next_at, schedules.c.id)

#: What makes a ScheduleRow, in the order of its fields.
SCHEDULE = [schedules.c.id, schedules.c.version, schedules.c.next_at, schedules.c.body]


# PostgreSQL's planner is told to avoid sorting (see its driver). In this order only the primary index has a range of
# one id; of that one alone, a plan for few schedules might read all of the index of what is due.
def _of_id(id: Any) -> Any:
    return (schedules.c.id >= id) & (schedules.c.id <= id)


_by_id = select(*SCHEDULE).where(_mine).order_by(schedules.c.id)
# In one order, so that two who lock several rows don't wait for each other.
_versions = _by_id.with_only_columns(schedules.c.id, schedules.c.version).with_for_update()
_these = in_list(schedules.c.id, "ids")
READ_VERSIONS = Statement(_versions.where(_these), postgresql=for_each_of("ids", _versions, _of_id))
ADD = Statement(insert(schedules).values(parameters("board", "id", "version", "next_at", "body")))
# It is locked, and so has its place (ctid) until it is changed.
_place = _by_id.with_only_columns(literal_column("ctid")).where(_of_id(p("id"))).scalar_subquery()
_this = either(_mine & (schedules.c.id == p("id")), postgresql=literal_column("ctid") == _place)
CHANGE = Statement(update(schedules).where(_this).values(parameters("version", "next_at", "body")))
DELETE = Statement(delete(schedules).where(_this))

READ = Statement(select(*SCHEDULE).where(_mine, _these), postgresql=for_each_of("ids", _by_id, _of_id))
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
