"""Edges, graphs, steps and signals of a :class:`~jobboard.testing.plain_store.PlainStore`, by the rules alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from jobboard.backends import lifecycle, waiting
from jobboard.backends.edge_rows import (
    EDGE_OUTCOMES,
    GRAPH_TTL,
    EdgeCounts,
    EdgePage,
    EdgeRow,
    LinkOutcome,
    Outcome,
    SignalOutcome,
    SignalRow,
    StepRow,
    graph_of_parent,
    is_graph,
    parent_of_graph,
    without_results,
)
from jobboard.backends.edges import Ended, link, may_wait, refused_link, settle, takes_parents
from jobboard.backends.outcomes import edge_to, was_dropped
from jobboard.backends.rows import ClaimAnswer, Fence, JobRow, NewJob, Ties, Verdict
from jobboard.backends.transition import Resolve, Transition
from jobboard.states import LIVE

if TYPE_CHECKING:
    from jobboard.testing.plain_store import PlainStore


class PlainEdges:
    """All edges by child and parent. A parent's end is told to all of its children in the step that ends it."""

    def __init__(self, store: PlainStore) -> None:
        self._store = store
        self._edges: dict[tuple[str, str], EdgeRow] = {}
        #: The graphs that are not complete, and when each is given up.
        self._graphs: dict[str, float] = {}

    def missing_parent(self, new: NewJob, batch: Collection[str]) -> str | None:
        return next((uuid for uuid in new.parents if self._store.row_of(uuid) is None and uuid not in batch), None)

    def connect(self, row: JobRow, new: NewJob, now: float) -> None:
        """Let a new job wait for its parents and its graph, as far as they have not ended."""
        if new.graph is not None:
            parent = parent_of_graph(new.graph)
            self._edges[row.uuid, parent] = EdgeRow(row.uuid, parent, Outcome.OPEN)
            self._graphs[parent] = now + GRAPH_TTL
        for uuid in new.parents:
            self._add(row.uuid, uuid)
        self._settle(row, now)

    def _add(self, child: str, uuid: str) -> None:
        parent = self._store.row_of(uuid)
        assert parent is not None
        edge = self._edges[child, uuid] = edge_to(child, parent)
        if edge.outcome in (Outcome.OPEN, Outcome.FAILED):
            parent.ties = replace(parent.ties or Ties(), has_children=True)

    def tell(self, step: Resolve, now: float) -> None:
        """Let all edges of a parent say how it stands."""
        for child, parent in list(self._edges):
            row = self._store.row_of(child)
            if parent != step.parent or row is None:
                continue
            if step.outcome is Outcome.NEVER:
                del self._edges[child, parent]
                self._settle(row, now)
            elif step.outcome is not Outcome.OPEN or may_wait(row):
                self._edges[child, parent] = EdgeRow(child, parent, step.outcome, step.name, step.result, step.is_cut)
                self._settle(row, now)

    def _settle(self, row: JobRow, now: float, rule: Callable[..., Transition[None] | None] | None = None) -> None:
        edges = self._of(row.uuid)
        first = {edge.outcome: edge.parent for edge in reversed(edges) if not is_graph(edge.parent)}
        open_ones = sorted(edge.parent for edge in edges if edge.outcome is Outcome.OPEN)
        is_dropped = any(edge.outcome is Outcome.GONE and is_graph(edge.parent) for edge in edges)
        ended = Ended(
            next(filter(is_graph, open_ones), next(iter(open_ones), None)),
            first.get(Outcome.FAILED),
            first.get(Outcome.GONE),
            is_dropped,
        )
        was, change = row.state, (rule or settle)(row, ended, now)
        if change is not None:
            self._store.carry_out(row, change, now, was)

    def _of(self, child: str) -> list[EdgeRow]:
        return [edge for edge in self._edges.values() if edge.child == child]

    def forget(self, uuid: str) -> None:
        """Delete the edges of a job to its parents."""
        self._edges = {key: edge for key, edge in self._edges.items() if edge.child != uuid}

    def expire(self, now: float) -> None:
        """Give up the graphs whose time is over."""
        for parent in [parent for parent, until in self._graphs.items() if until <= now]:
            del self._graphs[parent]
            self.tell(Resolve(parent, Outcome.GONE), now)

    # -- primitives ------------------------------------------------------------------------------------------------

    def link(self, child: str, parents: Sequence[str], fence: Fence | None = None) -> LinkOutcome:
        now = self._store.begin()
        row = self._store.row_of(child)
        if row is None or any(self._store.row_of(parent) is None for parent in parents):
            return LinkOutcome.MISSING
        more = [parent for parent in parents if (child, parent) not in self._edges]
        if not more:
            return LinkOutcome.REPEATED
        if not takes_parents(row, fence):
            return refused_link(fence)
        for parent in more:
            self._add(child, parent)
        self._settle(row, now, link)
        self._store.end(now)
        return LinkOutcome.DONE

    def seal(self, graph: str) -> Verdict:
        now = self._store.begin()
        parent = parent_of_graph(graph)
        if self._graphs.pop(parent, None) is None:
            edges = [edge for edge in self._edges.values() if edge.parent == parent]
            return Verdict.REPEATED if any(edge.outcome is Outcome.DONE for edge in edges) else Verdict.LOST
        self.tell(Resolve(parent, Outcome.DONE), now)
        self._store.end(now)
        return Verdict.DONE

    def drop(self, graph: str) -> None:
        now = self._store.begin()
        if parent_of_graph(graph) in self._graphs:
            self._graphs[parent_of_graph(graph)] = now
            self.expire(now)
            self._store.end(now)

    def resolve(self, parents: Sequence[str]) -> list[str]:
        return []

    def parents(self, child: str, cursor: object | None, size: int) -> EdgePage:
        self._store.begin()
        return EdgePage([edge for edge in self._of(child) if not is_graph(edge.parent)], None)

    def children(self, parent: str, cursor: object | None, size: int) -> EdgePage:
        self._store.begin()
        found = (edge for edge in self._edges.values() if edge.parent == parent)
        return without_results(EdgePage(list(found), None))

    def first_children(self, parents: Sequence[str], size: int) -> list[EdgePage]:
        return [self.children(parent, None, size) for parent in parents]

    def first_parents(self, children: Sequence[str], size: int) -> list[EdgePage]:
        return [without_results(self.parents(child, None, size)) for child in children]

    def counts(self, children: Sequence[str]) -> list[EdgeCounts]:
        outcomes = [[edge.outcome for edge in self.parents(child, None, 0).edges] for child in children]
        return [EdgeCounts(*(each.count(outcome) for outcome in EDGE_OUTCOMES)) for each in outcomes]

    def graphs(self, children: Sequence[str]) -> list[str | None]:
        self._store.begin()
        return list(map(self._graph_of, children))

    def dropped(self, uuids: Sequence[str]) -> list[bool]:
        self._store.begin()
        return [was_dropped(self._store.row_of(uuid)) for uuid in uuids]

    def _graph_of(self, child: str) -> str | None:
        edges = (edge for edge in self._of(child) if is_graph(edge.parent) and edge.outcome is Outcome.OPEN)
        return next((graph_of_parent(edge.parent) for edge in edges), None)


class PlainSteps:
    """The steps and signals of all jobs, by their uuids."""

    def __init__(self, store: PlainStore) -> None:
        self._store = store
        self._steps: dict[str, list[StepRow]] = {}
        self._signals: dict[str, dict[str, SignalRow]] = {}

    def has(self, uuid: str, name: str | None) -> bool:
        """Whether this signal was sent to a job."""
        return name in self._signals.get(uuid, {})

    def forget(self, uuid: str) -> None:
        self._steps.pop(uuid, None)
        self._signals.pop(uuid, None)

    def save(self, fence: Fence, step: StepRow) -> ClaimAnswer:
        now = self._store.begin()
        row = self._store.row_of(fence.uuid)
        if lifecycle.holds(row, fence):
            self._steps.setdefault(fence.uuid, [])[step.number : step.number + 1] = [replace(step, at=now)]
        return lifecycle.save_step(row, fence)

    def load(self, uuid: str, first: int, size: int) -> list[StepRow]:
        return self._steps.get(uuid, [])[first : first + size]

    def signal(self, uuid: str, name: str, value: bytes, by: str | None = None) -> SignalOutcome:
        now = self._store.begin()
        row = self._store.row_of(uuid)
        if row is not None and self.has(uuid, name) and row.state in LIVE:
            return SignalOutcome.REPEATED
        was = None if row is None else row.state
        change = waiting.signal(row, name, by, now)
        if row is not None and change.told:
            self._signals.setdefault(uuid, {})[name] = SignalRow(name, value, now)
            self._store.carry_out(row, change, now, was)
            self._store.end(now)
        return change.answer

    def signals(self, uuid: str) -> list[SignalRow]:
        return list(self._signals.get(uuid, {}).values())
