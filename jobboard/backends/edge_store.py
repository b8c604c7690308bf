"""The seam's role for what jobs wait for: parents, and graphs that are not complete yet."""

from __future__ import annotations

import abc
from collections.abc import Sequence

from jobboard.backends.edge_rows import EdgeCounts, EdgePage, LinkOutcome
from jobboard.backends.rows import Fence, Verdict
from jobboard.errors import NotSupported


class EdgeStore(abc.ABC):
    """The edges between parents and children.

    ``JobStore.post`` makes the edges of ``NewJob.parents``. The end of a parent leaves, in its own atomic step, a
    *mark* that says how it ended: (parent, outcome, name, result, due). :meth:`resolve` works off marks that are due,
    in bounded parts; so does every claim, wait and tidy that finds one. A mark goes once no edge of its parent says
    anything else. The mark of a restore says OPEN: only the edges of children say so that
    :func:`~jobboard.backends.edges.may_wait`, and those that nobody has claimed wait again. An edge lives until its
    child is forgotten, or its parent turns out to be NEVER.

    A *graph* is a parent that is no job: its mark, made by the first post of a part, says GONE and is due
    ``GRAPH_TTL`` seconds after the last part, unless :meth:`seal` makes it DONE. A child whose graph is GONE is
    cancelled, whatever its ``if_failed``.
    """

    @abc.abstractmethod
    def link(self, child: str, parents: Sequence[str], fence: Fence | None = None) -> LinkOutcome:
        """Let a job that waits for parents wait for up to 50 more jobs, which may have ended; atomic and idempotent.

        With a fence a claimed job, under its claim: it stays claimed, and waits once that has ended, as
        :func:`~jobboard.backends.edges.link` says.
        """

    @abc.abstractmethod
    def seal(self, graph: str) -> Verdict:
        """Say that a graph is complete, so that its jobs wait for it no longer: DONE, REPEATED or LOST.

        LOST: it was given up, and its jobs are cancelled. A repeat finds that there is no mark, or a DONE one.
        """

    @abc.abstractmethod
    def drop(self, graph: str) -> None:
        """Give up a graph that is not sealed: its jobs are cancelled. Idempotent."""

    @abc.abstractmethod
    def resolve(self, parents: Sequence[str]) -> list[str]:
        """Work off the marks of up to 100 parents, a bounded part of each; return those that have more.

        A graph is named as ``edge_rows.parent_of_graph`` names it.

        Each part is atomic: at most ``MAX_RESOLVED`` edges say how the parent stands, and each child becomes what
        :func:`~jobboard.backends.edges.settle` says. A repeat finds less to do, or nothing.
        """

    @abc.abstractmethod
    def parents(self, child: str, cursor: object | None, size: int) -> EdgePage:
        """Return the next edges to the parents of a job, with results, in an order of the store's own."""

    @abc.abstractmethod
    def children(self, parent: str, cursor: object | None, size: int) -> EdgePage:
        """Return the next edges to the children of a job or graph, without results, in an order of the store's own."""

    @abc.abstractmethod
    def first_children(self, parents: Sequence[str], size: int) -> list[EdgePage]:
        """Return the first page of the children of each of up to 100 jobs, which :meth:`children` goes on from."""

    @abc.abstractmethod
    def first_parents(self, children: Sequence[str], size: int) -> list[EdgePage]:
        """Return the first page of the parents of each of up to 100 jobs, which :meth:`parents` goes on from.

        Without results. A page may have fewer than ``size`` edges, and not be the last one.
        """

    @abc.abstractmethod
    def counts(self, children: Sequence[str]) -> list[EdgeCounts]:
        """Count the parents of each of up to 100 jobs by their outcomes; costs nothing that grows with the edges."""

    @abc.abstractmethod
    def graphs(self, children: Sequence[str]) -> list[str | None]:
        """Return the graph for which each of up to 100 jobs waits still, or None: for none.

        Its jobs may not know yet that it is sealed, or given up.
        """

    @abc.abstractmethod
    def dropped(self, uuids: Sequence[str]) -> list[bool]:
        """Tell of each of up to 100 jobs whether it was given up with its graph, and is still remembered."""


class NoEdges(EdgeStore):
    """What a store has that keeps no edges."""

    def link(self, child: str, parents: Sequence[str], fence: Fence | None = None) -> LinkOutcome:
        raise NotSupported("this store keeps no dependencies")

    def seal(self, graph: str) -> Verdict:
        raise NotSupported("this store keeps no dependencies")

    def drop(self, graph: str) -> None:
        """There is no graph."""

    def resolve(self, parents: Sequence[str]) -> list[str]:
        return []

    def parents(self, child: str, cursor: object | None, size: int) -> EdgePage:
        return EdgePage([], None)

    def children(self, parent: str, cursor: object | None, size: int) -> EdgePage:
        return EdgePage([], None)

    def first_children(self, parents: Sequence[str], size: int) -> list[EdgePage]:
        return [EdgePage([], None) for _ in parents]

    def first_parents(self, children: Sequence[str], size: int) -> list[EdgePage]:
        return [EdgePage([], None) for _ in children]

    def counts(self, children: Sequence[str]) -> list[EdgeCounts]:
        return [EdgeCounts() for _ in children]

    def graphs(self, children: Sequence[str]) -> list[str | None]:
        return [None for _ in children]

    def dropped(self, uuids: Sequence[str]) -> list[bool]:
        return [False for _ in uuids]
