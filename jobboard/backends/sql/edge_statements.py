"""The statements about edges."""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, func, insert, literal_column, not_, select, tuple_, update

from jobboard.backends.edge_rows import MAX_EDGE_RESULT, Outcome, parent_of_graph
from jobboard.backends.sql.job_conditions import each_of_these, in_these, row
from jobboard.backends.sql.job_statements import JOB, SMALL_JOB
from jobboard.backends.sql.schema import OUTCOME_CODES, edges, jobs
from jobboard.backends.sql.statement import Statement, for_each_of, in_list, is_selective, p, parameters

_mine = edges.c.board == p("board")
_is_parent = edges.c.parent == p("parent")
_of_parent = _mine & _is_parent
_is_graph = edges.c.parent.like(parent_of_graph("%"))


def _by_parent(wanted: Any) -> Any:
    return wanted.with_hint(edges, "FORCE INDEX (PRIMARY)", "mysql")


def _by_child(wanted: Any) -> Any:
    return wanted.with_hint(edges, "FORCE INDEX (jobboard_parents)", "mysql")


# The index of children has all columns of the primary key too. Without statistics, or with those of few edges,
# PostgreSQL takes the two for the same: so what is found by its parent asks for pairs, and what is found by its child
# for an order, that only one of them has.
_pair = tuple_(edges.c.parent, edges.c.child)


def _pair_of(parent: Any, child: str) -> Any:
    return tuple_(parent, p(child))


def _pairs_between(parent: Any, first: str, last: str) -> Any:
    return (_pair >= _pair_of(parent, first)) & (_pair <= _pair_of(parent, last))


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

_next_children = (
    select(edges.c.parent, edges.c.child)
    .where(_mine, edges.c.outcome != p("outcome"))
    .order_by(edges.c.child)
    .limit(p("limit"))
)
_behind = edges.c.child > p("last_child")
#: The next children of a parent whose edges do not say yet how it stands.
NEXT_CHILDREN = Statement(
    _by_parent(_next_children.where(_is_parent, _behind)),
    postgresql=_next_children.where(_is_parent, _pair > _pair_of(p("parent"), "last_child")),
    sqlite=_next_children.where(is_selective(_is_parent), _behind),
)
#: Some children, one behind the other.
_some = _of_parent & (edges.c.child >= p("first")) & (edges.c.child <= p("last")) & in_list(edges.c.child, "children")
# What is joined to nothing is not looked up in an index.
_some_pairs = _of_parent & _pairs_between(p("parent"), "first", "last") & in_list(edges.c.child.concat(""), "children")
_resolve = update(edges).values(parameters("outcome", "name", "is_cut", "result"))
RESOLVE = Statement(_resolve.where(_some), postgresql=_resolve.where(_some_pairs))
DELETE = Statement(delete(edges).where(_some), postgresql=delete(edges).where(_some_pairs))


def _last(outcome: Outcome) -> Any:
    """Return the last parent of a job that stands so: its graph, if that does, since names of graphs come last."""
    code = OUTCOME_CODES[outcome]
    found = select(edges.c.parent).where(_mine, edges.c.child == jobs.c.uuid, edges.c.outcome.between(code, code))
    last = found.order_by(edges.c.outcome.desc(), edges.c.parent.desc()).limit(1)
    return _by_child(last).correlate(jobs).scalar_subquery()


_standing = select(jobs.c.uuid, _last(Outcome.OPEN), _last(Outcome.FAILED), _last(Outcome.GONE))
#: Of each of these jobs the last parent that is open, that failed, and that is gone.
STANDING = Statement(in_these(_standing), postgresql=each_of_these(_standing))

# -- reading -----------------------------------------------------------------------------------------------------------

_linked = select(edges.c.parent).where(_mine)
LINKED = Statement(
    _by_parent(_linked.where(edges.c.child == p("child"), in_list(edges.c.parent, "parents"))),
    postgresql=for_each_of(
        "parents", _linked, lambda it: (edges.c.parent == it) & _pairs_between(it, "child", "child")
    ),
)
_PAGE = [edges.c[name] for name in ("child", "parent", "outcome", "name")]


def _next_parents(*more: Any) -> Statement:
    """Return the next parents of a job that stand so, with these columns besides."""
    stand_so = (
        _mine,
        edges.c.child == p("child"),
        edges.c.outcome.between(p("outcome"), p("outcome")),
        edges.c.parent > p("after"),
        not_(_is_graph),
    )
    found = select(*_PAGE, *more).where(*stand_so)
    return Statement(_by_child(found.order_by(edges.c.outcome, edges.c.parent).limit(p("size"))))


PARENTS = _next_parents(edges.c.result, edges.c.is_cut)
PARENTS_ALONE = _next_parents()
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

_open = OUTCOME_CODES[Outcome.OPEN]
# Names of graphs come behind all uuids: so the index finds them, which it could not with LIKE.
_open_graphs = select(edges.c.child, edges.c.parent).where(
    _mine, edges.c.outcome.between(_open, _open), edges.c.parent >= parent_of_graph("")
)
#: The graphs that are not complete of these jobs.
OPEN_GRAPHS = Statement(
    _by_child(_open_graphs.where(in_list(edges.c.child, "children"))),
    postgresql=for_each_of("children", _open_graphs, lambda child: edges.c.child == child),
)

# -- forgetting --------------------------------------------------------------------------------------------------------

FORGET = Statement(delete(edges).where(_mine, in_list(edges.c.child, "uuids")))
