"""Marks: what the edges of parents that have ended do not say yet, and graphs that are not complete."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import delete, exists, select, update

from jobboard.backends.edge_rows import GRAPH_TTL, Outcome, parent_of_graph
from jobboard.backends.rows import Verdict
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.schema import OUTCOME_CODES, edges, marks
from jobboard.backends.sql.statement import Statement, in_list, is_selective, p, parameters, put
from jobboard.backends.sql.transaction import Transaction
from jobboard.backends.transition import Resolve

#: The last child of a mark that is being worked off while it has seen to none; before all uuids.
BEGUN = "-"

#: How many marks one transaction works off at most.
MAX_MARKS = 100

_COLUMNS = ("outcome", "due_at", "last_child", "name", "is_cut", "result")
_PUT = put(marks, ["board", "parent"], parameters("board", "parent", *_COLUMNS))
_mine = marks.c.board == p("board")
_this = _mine & (marks.c.parent == p("parent"))
_these = _mine & in_list(marks.c.parent, "parents")
_is_due = marks.c.due_at <= p("now")
#: ``due_at + 0`` keeps the planner off the index of what is due, which may be much more.
_due_of_these = _these & (marks.c.due_at + 0 <= p("now"))
_marks = select(marks.c.parent, *(marks.c[name] for name in _COLUMNS))
_free: dict[str, Any] = {"skip_locked": True}

#: Whether any mark is due, and when the first one is; parts of other statements.
IS_ANY_DUE = exists().where(_mine, _is_due)
NEXT_DUE_MARK = select(marks.c.due_at).where(_mine).order_by(marks.c.due_at).limit(1).scalar_subquery()
#: Both pass over what another transaction works off.
LOCK_DUE = Statement(_marks.where(_mine, _is_due).order_by(marks.c.due_at).limit(MAX_MARKS).with_for_update(**_free))
LOCK_THESE = Statement(_marks.where(_due_of_these).with_for_update(**_free))
DUE_OF_THESE = Statement(select(marks.c.parent).where(_due_of_these))
MOVE_ON = Statement(update(marks).where(_this).values(parameters("last_child", "due_at")))
FORGET = Statement(delete(marks).where(_these))
_of_graph = select(marks.c.outcome, marks.c.due_at, marks.c.last_child).where(_this)
_LOCK = Statement(_of_graph.with_for_update())
_READ = Statement(_of_graph)
_DUE_NOW = Statement(update(marks).where(_this, marks.c.outcome == OUTCOME_CODES[Outcome.GONE]).values(due_at=p("now")))
_first_outcome = select(edges.c.outcome).where(edges.c.board == p("board"), edges.c.parent == p("parent")).limit(1)
_FIRST_OUTCOME = Statement(_first_outcome, sqlite=_first_outcome.where(is_selective(edges.c.parent == p("parent"))))


def write(transaction: Transaction, ends: Iterable[Resolve]) -> None:
    """Write down how parents stand now; their edges say it once the marks are worked off."""
    # In one order, so that two transactions that mark several don't wait for each other.
    rows = sorted((_row_of(end, transaction.now) for end in ends), key=lambda row: str(row["parent"]))
    transaction.run_many(_PUT, rows)
    transaction.marked += [row["parent"] for row in rows]
    transaction.notifies |= bool(rows)


def _row_of(end: Resolve, due_at: float) -> dict[str, Any]:
    return {
        "parent": end.parent,
        "outcome": OUTCOME_CODES[end.outcome],
        "due_at": due_at,
        "last_child": "",
        "name": end.name,
        "is_cut": int(end.is_cut),
        "result": end.result,
    }


# -- graphs ------------------------------------------------------------------------------------------------------------


def open_graph(transaction: Transaction, graph: str) -> bool:
    """Give a graph that gets another part its time anew; False if it is complete, or was given up."""
    parent = parent_of_graph(graph)
    mark = _mark_of(transaction, parent)
    if mark is None and transaction.rows(_FIRST_OUTCOME, parent=parent):
        return False
    if mark is not None and not _is_open(mark, transaction.now):
        return False
    transaction.run_many(_PUT, [_row_of(Resolve(parent, Outcome.GONE), transaction.now + GRAPH_TTL)])
    return True


def seal(transaction: Transaction, graph: str) -> Verdict:
    """Let the jobs of a graph wait for it no longer, once its mark is worked off: DONE, REPEATED or LOST."""
    parent, done = parent_of_graph(graph), OUTCOME_CODES[Outcome.DONE]
    mark = _mark_of(transaction, parent)
    if mark is None:
        mark = transaction.row(_FIRST_OUTCOME, parent=parent)
    elif _is_open(mark, transaction.now):
        write(transaction, [Resolve(parent, Outcome.DONE)])
        return Verdict.DONE
    return Verdict.REPEATED if mark is not None and mark[0] == done else Verdict.LOST


def _mark_of(transaction: Transaction, parent: str) -> Row | None:
    # A transaction of the user's has made all of its graph, which nobody else sees. To lock a mark that is not there
    # would keep others from writing theirs on MySQL.
    return transaction.row(_LOCK if transaction.moves_others else _READ, parent=parent)


def _is_open(mark: Row, now: float) -> bool:
    """Whether a graph is neither complete nor given up; what is worked off may be due later again."""
    outcome, due_at, last_child = mark
    return bool(outcome == OUTCOME_CODES[Outcome.GONE] and due_at > now and not last_child)


def drop(transaction: Transaction, graph: str) -> None:
    """Give up a graph that is not complete."""
    parent = parent_of_graph(graph)
    if transaction.run(_DUE_NOW, parent=parent):
        transaction.marked.append(parent)
        transaction.notifies = True


def forget(transaction: Transaction, parents: Sequence[str]) -> None:
    """Delete the marks of parents whose edges all say how they stand."""
    if parents:
        transaction.do(FORGET, parents=transaction.list_of(parents))
