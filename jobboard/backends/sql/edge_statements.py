"""The statements about edges."""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, func, insert, literal_column, not_, select, update

from jobboard.backends.edge_rows import MAX_EDGE_RESULT, Outcome, parent_of_graph
from jobboard.backends.sql.job_conditions import each_of_these, in_these, row
from jobboard.backends.sql.job_statements import JOB, SMALL_JOB
from jobboard.backends.sql.schema import OUTCOME_CODES, edges, jobs
from jobboard.backends.sql.statement import Statement, for_each_of, in_list, p, parameters

_mine = edges.c.board == p("board")
_of_parent = _mine & (edges.c.parent == p("parent"))
_is_graph = edges.c.parent.like(parent_of_graph("%"))


def _by_parent(wanted: Any) -> Any:
    return wanted.with_hint(edges, "FORCE INDEX (PRIMARY)", "mysql")


def _by_child(wanted: Any) -> Any:
    return wanted.with_hint(edges, "FORCE INDEX (jobboard_parents)", "mysql")


ADD = Statement(
    insert(edges).inline().values(parameters("board", "parent", "child", "outcome", "name", "is_cut", "result"))
)

# -- parents -----------------------------------------------------------------------------------------------------------

#: A little more of a result than goes with an edge, which says that it is longer.
_result = func.substr(jobs.c.result, 1, MAX_EDGE_RESULT + 1).label("result")
_parents = select(
    *(_result if column is jobs.c.result else small for column, small in zip(JOB, SMALL_JOB, strict=True))
).with_for_update()
#: Jobs that are to be parents, or a child, of others; everybody locks them in the same order.
LOCK = Statement(
    in_these(_parents).order_by(jobs.c.uuid),
    postgresql=each_of_these(_parents),
    sqlite=in_these(_parents),
)
_found = jobs.alias("found")
_of_these = select(_found.c.id).where(_found.c.board == p("board"), in_list(_found.c.uuid, "uuids"))
_ids = _of_these.limit(literal_column("1000000")).subquery("ids")
#: The same by the primary index, in a transaction of the user's: ``job_statements.LOCK_ROW`` says why. Without a limit
#: MySQL would make one join of both, and lock what it reads to find the ids.
LOCK_ROWS = Statement(
    LOCK.clause,
    **{
        **LOCK.otherwise,
        "mysql": _parents.prefix_with("STRAIGHT_JOIN")
        .select_from(_ids.join(jobs, jobs.c.id == _ids.c.id))
        .with_hint(jobs, "FORCE INDEX (PRIMARY)", "mysql")
        .order_by(jobs.c.uuid),
    },
)
#: Lets a job know that it has children.
SET_TIES = Statement(update(jobs).where(row).values(parameters("ties")))

# -- children ----------------------------------------------------------------------------------------------------------

#: The next children of a parent whose edges do not say yet how it stands.
NEXT_CHILDREN = Statement(
    _by_parent(
        select(edges.c.parent, edges.c.child)
        .where(_of_parent, edges.c.child > p("last_child"), edges.c.outcome != p("outcome"))
        .order_by(edges.c.child)
        .limit(p("limit"))
    )
)
_of_children = _of_parent & in_list(edges.c.child, "children")
RESOLVE = Statement(update(edges).where(_of_children).values(parameters("outcome", "name", "is_cut", "result")))
DELETE = Statement(delete(edges).where(_of_children))


def _example(outcome: Outcome, *which: Any) -> Any:
    """Return a parent of a job that stands so."""
    found = select(edges.c.parent).where(
        _mine, edges.c.child == jobs.c.uuid, edges.c.outcome == OUTCOME_CODES[outcome], *which
    )
    return _by_child(found.limit(1)).correlate(jobs).scalar_subquery()


_standing = select(
    jobs.c.uuid,
    _example(Outcome.OPEN, not_(_is_graph)),
    _example(Outcome.OPEN, _is_graph),
    _example(Outcome.FAILED),
    _example(Outcome.GONE, not_(_is_graph)),
    _example(Outcome.GONE, _is_graph),
)
#: Of each of these jobs a parent that is open, its graph if that is open, a parent that failed, one that is gone, and
#: its graph if that was given up.
STANDING = Statement(in_these(_standing), postgresql=each_of_these(_standing))

# -- reading -----------------------------------------------------------------------------------------------------------

LINKED = Statement(
    _by_parent(select(edges.c.parent).where(_mine, edges.c.child == p("child"), in_list(edges.c.parent, "parents")))
)
_PAGE = [edges.c[name] for name in ("child", "parent", "outcome", "name")]
#: The next parents of a job that stand so.
PARENTS = Statement(
    _by_child(
        select(*_PAGE, edges.c.result, edges.c.is_cut)
        .where(
            _mine,
            edges.c.child == p("child"),
            edges.c.outcome == p("outcome"),
            edges.c.parent > p("after"),
            not_(_is_graph),
        )
        .order_by(edges.c.parent)
        .limit(p("size"))
    )
)
CHILDREN = Statement(
    _by_parent(select(*_PAGE).where(_of_parent, edges.c.child > p("after")).order_by(edges.c.child).limit(p("size")))
)
_counts = (
    select(edges.c.child, edges.c.outcome, func.count().label("number"))
    .where(_mine, not_(_is_graph))
    .group_by(edges.c.child, edges.c.outcome)
)
COUNTS = Statement(
    _by_child(_counts.where(in_list(edges.c.child, "children"))),
    postgresql=for_each_of("children", _counts, lambda child: edges.c.child == child),
)

# -- forgetting --------------------------------------------------------------------------------------------------------

FORGET = Statement(delete(edges).where(_mine, in_list(edges.c.child, "uuids")))
