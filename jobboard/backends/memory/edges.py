"""The edges of a store, and the marks of parents whose edges do not say yet how they stand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from jobboard.backends.edge_rows import (
    EDGE_OUTCOMES,
    GRAPH_TTL,
    MAX_RESOLVED,
    EdgeCounts,
    EdgeRow,
    Outcome,
    graph_of_parent,
    is_graph,
    parent_of_graph,
)
from jobboard.backends.edges import Ended, largest_part, may_wait, settle
from jobboard.backends.memory.stored_job import StoredJob
from jobboard.backends.ordered import SortedKeys
from jobboard.backends.outcomes import edge_to
from jobboard.backends.rows import NewJob, Ties
from jobboard.backends.transition import Resolve, Transition

if TYPE_CHECKING:
    from jobboard.backends.memory.store import MemoryStore


@dataclass(slots=True)
class Mark:
    """What the edges of a parent must say from a moment on, and the last child whose edge does."""

    step: Resolve
    due: float
    cursor: str = ""


class Children:
    """The edges of one child, by its parents; by their outcomes too."""

    __slots__ = ("by_outcome", "edges")

    def __init__(self) -> None:
        self.edges: dict[str, EdgeRow] = {}
        self.by_outcome: dict[Outcome, dict[str, None]] = {outcome: {} for outcome in Outcome}

    def put(self, edge: EdgeRow) -> None:
        """Write an edge, in place of the one that there was."""
        old = self.edges.get(edge.parent)
        if old is not None:
            del self.by_outcome[old.outcome][edge.parent]
        self.edges[edge.parent] = edge
        self.by_outcome[edge.outcome][edge.parent] = None

    def remove(self, parent: str) -> None:
        """Delete an edge."""
        old = self.edges.pop(parent)
        del self.by_outcome[old.outcome][parent]

    def ended(self) -> Ended:
        """Return how the parents stand."""
        # The edge to its graph is the first that is written.
        gone = list(islice(self.by_outcome[Outcome.GONE], 2))
        first = next((parent for parent in gone if not is_graph(parent)), None)
        return Ended(
            next(iter(self.by_outcome[Outcome.OPEN]), None),
            next(iter(self.by_outcome[Outcome.FAILED]), None),
            first,
            any(map(is_graph, gone)),
        )

    def counts(self) -> EdgeCounts:
        """Count the parents by their outcomes."""
        numbers = {outcome: len(parents) for outcome, parents in self.by_outcome.items()}
        for parent in filter(is_graph, self.edges):
            numbers[self.edges[parent].outcome] -= 1
        return EdgeCounts(*(numbers[outcome] for outcome in EDGE_OUTCOMES))


class Edges:
    """Everything here is called under the store's lock."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.by_child: dict[str, Children] = {}
        self.by_parent: defaultdict[str, SortedKeys[str]] = defaultdict(SortedKeys)
        self.marks: dict[str, Mark] = {}
        #: (due, parent) of every mark.
        self.timers: SortedKeys[tuple[float, str]] = SortedKeys()

    # -- new edges -------------------------------------------------------------------------------------------------

    def connect(self, row: StoredJob, new: NewJob, now: float) -> None:
        """Let a new job wait for its parents and its graph, as far as these have not ended."""
        if new.graph is not None:
            parent = parent_of_graph(new.graph)
            self._put(EdgeRow(row.uuid, parent, Outcome.OPEN))
            self.mark(Resolve(parent, Outcome.GONE), now + GRAPH_TTL)
        for uuid in new.parents:
            self.add(row.uuid, self._store.rows[uuid])
        if new.graph is not None or new.parents:
            self.settle(row, now)

    def add(self, child: str, parent: StoredJob) -> None:
        """Add an edge that says how a parent stands; a live one's row says that it has children."""
        edge = edge_to(child, parent)
        self._put(edge)
        if edge.outcome in (Outcome.OPEN, Outcome.FAILED):
            parent.ties = replace(parent.ties or Ties(), has_children=True)

    def _put(self, edge: EdgeRow) -> None:
        children = self.by_child.get(edge.child)
        if children is None:
            children = self.by_child[edge.child] = Children()
        if edge.parent not in children.edges:
            self.by_parent[edge.parent].add(edge.child)
        children.put(edge)

    def has(self, child: str, parent: str) -> bool:
        """Whether there is such an edge."""
        return child in self.by_child and parent in self.by_child[child].edges

    def open_graph_of(self, child: str) -> str | None:
        """Return the graph for which a job waits."""
        children = self.by_child.get(child)
        # The edge to its graph is the first that is written.
        first = None if children is None else next(iter(children.edges.values()), None)
        if first is None or not is_graph(first.parent) or first.outcome is not Outcome.OPEN:
            return None
        return graph_of_parent(first.parent)

    def forget(self, child: str) -> None:
        """Delete the edges of a job to its parents."""
        children = self.by_child.pop(child, None)
        for parent in children.edges if children is not None else ():
            self._forget_child(parent, child)

    def _forget_child(self, parent: str, child: str) -> None:
        keys = self.by_parent[parent]
        keys.remove(child)
        if not len(keys):
            del self.by_parent[parent]

    def children_of(self, parent: str) -> SortedKeys[str]:
        """Return the children of a parent, which may be none."""
        return self.by_parent.get(parent) or SortedKeys()

    # -- marks -----------------------------------------------------------------------------------------------------

    def mark(self, step: Resolve, due: float) -> None:
        """Let the edges of a parent say how it stands, from a moment on."""
        self._unmark(step.parent)
        self.marks[step.parent] = Mark(step, due)
        self.timers.add((due, step.parent))
        self._store.notify(None, due)

    def _unmark(self, parent: str) -> None:
        mark = self.marks.pop(parent, None)
        if mark is not None:
            self.timers.remove((mark.due, parent))

    def _first_due(self, now: float) -> str | None:
        """Return the parent whose mark is due first, if one is due."""
        first = self.timers.first()
        return first[1] if first is not None and first[0] <= now else None

    def steps_left(self, now: float) -> int:
        """Return in how many steps all marks are worked off; 0 if none is due."""
        if self._first_due(now) is None:
            return 0
        return 1 + (len(self.marks) + sum(len(self.children_of(parent)) for parent in self.marks)) // MAX_RESOLVED

    def work_off(self, now: float) -> None:
        """Work off marks that are due: some fifty edges in all. The next step goes on."""
        left = MAX_RESOLVED
        for _ in range(MAX_RESOLVED):
            first = self._first_due(now)
            if first is None or left <= 0:
                return
            left -= self.resolve(first, now)

    def resolve(self, parent: str, now: float) -> int:
        """Work off a part of a parent's mark, and return how many edges that were, at least one."""
        mark = self.marks[parent]
        count = largest_part(mark.step.result)
        batch = list(islice(self.children_of(parent).after(mark.cursor), count))
        for child in batch:
            self._tell(child, mark.step, now)
        if len(batch) < count:
            if self.marks.get(parent) is mark:
                self._unmark(parent)
        else:
            mark.cursor = batch[-1]
        return max(1, len(batch))

    def _tell(self, child: str, step: Resolve, now: float) -> None:
        """Let one edge say how its parent stands, and let the child become what follows from that."""
        row = self._store.rows.get(child)
        if row is None or (step.outcome is Outcome.OPEN and not may_wait(row)):
            return
        if step.outcome is Outcome.NEVER:
            self.by_child[child].remove(step.parent)
            self._forget_child(step.parent, child)
        else:
            self._put(EdgeRow(child, step.parent, step.outcome, step.name, step.result, step.is_cut))
        self.settle(row, now)

    def settle_all(self, now: float) -> None:
        """Settle every job that waits for parents, and index anew what is kept of edges (a repair)."""
        for child in list(self.by_child):
            if child in self._store.rows:
                self.settle(self._store.rows[child], now)
            else:
                self.forget(child)

    def settle(self, row: StoredJob, now: float, rule: Callable[..., Transition[None] | None] | None = None) -> None:
        """Let a job become what follows from how its parents stand."""
        change = (rule or settle)(row, self.by_child[row.uuid].ended(), now)
        if change is not None:
            self._store.carry_out_anew(row, change, now)

    # -- what an audit finds ---------------------------------------------------------------------------------------

    def problems(self, now: float) -> Iterator[tuple[str | None, str]]:
        """Say what is wrong with the edges."""
        rows = self._store.rows
        for child, children in self.by_child.items():
            row = rows.get(child)
            if row is None:
                yield child, "it is gone, but has parents"
            elif settle(row.twin(), children.ended(), now) is not None and not self._is_marked(children):
                yield child, "it waits for parents, none of which holds it back"
        for uuid, row in rows.items():
            if row.ties is not None and row.ties.has_parents and uuid not in self.by_child:
                yield uuid, "it waits for parents, but has none"

    def _is_marked(self, children: Children) -> bool:
        return any(parent in self.marks for parent in children.edges)
