"""Which jobs a statement is about: the conditions that others are made of."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Integer, any_, cast, func, literal_column, or_, select

from jobboard.backends.sql import schema
from jobboard.backends.sql.schema import jobs
from jobboard.backends.sql.statement import Statement, each_of, either, for_each_of, in_array, in_list, p

# States stand in the text, not in parameters: only then can a partial index serve a statement.
BLOCKED, DELAYED, UNCLAIMED, CLAIMED, COMPLETE, TRASHED = (
    literal_column(str(code), Integer)
    for code in (schema.BLOCKED, schema.DELAYED, schema.UNCLAIMED, schema.CLAIMED, schema.COMPLETE, schema.TRASHED)
)


def one_of(column: Any, *values: Any) -> Any:
    return or_(*(column == value for value in values))


def in_state(code: Any) -> Any:
    """Whether a job that was found by its uuid has this state; no index with the state is to find it."""
    return either(jobs.c.state == code, postgresql=jobs.c.state + literal_column("0") == code)


mine = jobs.c.board == p("board")
this = mine & (jobs.c.uuid == p("uuid"))
# A row that was read. On PostgreSQL no index has the id, or each claim and each consume would add an entry to it.
row = either(jobs.c.id == p("id"), postgresql=this)
these_ids = in_list(jobs.c.id, "ids")
# A cancelled job's retention ends at its last change. So it is hidden also from readers whose now is before that,
# because they waited for the row.
visible = or_(
    jobs.c.retain_until.is_(None),
    (jobs.c.retain_until > p("now")) & (jobs.c.retain_until > jobs.c.last_modified),
)


# A planner whose statistics are old must not read all jobs of a state to find one. MySQL's planner is told which index
# to use. PostgreSQL's planner is told to avoid sorting (see its driver), and so uses the only index that has the order;
# hence some orders that seem superfluous, and ranges of one value, which the planner does not drop from an order.


def by_index(wanted: Any, index: str) -> Any:
    return wanted.with_hint(jobs, f"FORCE INDEX ({index})", "mysql")


def in_these(wanted: Any) -> Any:
    """The words of all but PostgreSQL."""
    return by_index(wanted.where(mine, in_list(jobs.c.uuid, "uuids")), "jobboard_uuid")


def each_of_these(wanted: Any) -> Any:
    """PostgreSQL's words; it finds the jobs in the order of their uuids."""
    return for_each_of("uuids", wanted.where(mine), lambda uuid: jobs.c.uuid == uuid)


def of_these(wanted: Any) -> Statement:
    """What is wanted of the jobs of a list, the ``uuids``."""
    return Statement(in_these(wanted), postgresql=each_of_these(wanted))


# What PostgreSQL updates or deletes it finds for another table's rows by a join only. A plan for few jobs would begin
# with all of the board; where the board is the other table's too, and in a list, no index can begin it.
def is_one_of(others: Any) -> Any:
    return in_array(jobs.c.board, others.c.board) & (jobs.c.uuid == others.c.uuid)


_listed = each_of("uuids")
these_rows = is_one_of(
    select(cast(p("board"), Integer).label("board"), _listed.c.value.label("uuid"))
    .offset(literal_column("0"))
    .subquery("these")
)


_found = jobs.alias("found")
_places_of_claimed: Any = (
    select(literal_column("found.ctid"))
    .select_from(_found)
    .where(_found.c.board == p("board"), _found.c.state == CLAIMED)
    .order_by(_found.c.due_at)
)
# On PostgreSQL the index of what is due has them, and is the only one in this order. A row is read from where it was
# found (its ctid), which is safe in what locks nothing; where rows have no such place, the planner finds it.
claimed_now = either(
    mine & (jobs.c.state == CLAIMED),
    postgresql=literal_column("jobboard_jobs.ctid") == any_(func.array(_places_of_claimed.scalar_subquery())),
    distributed=mine & (jobs.c.state == CLAIMED),
)
