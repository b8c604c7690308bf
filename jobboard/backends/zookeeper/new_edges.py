"""The edges that a step makes, with the marks of the graphs that their jobs are a part of."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from jobboard.backends.edge_rows import GRAPH_TTL, EdgeRow, Outcome, parent_of_graph
from jobboard.backends.edges import link
from jobboard.backends.outcomes import edge_to
from jobboard.backends.rows import Ties, Verdict
from jobboard.backends.transition import Resolve, Transition
from jobboard.backends.zookeeper.edge_codec import Mark, Tally, decode_mark
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.requests import Data
from jobboard.backends.zookeeper.stored_job import StoredJob
from jobboard.backends.zookeeper.transactions import Transaction, Transactions


class NewEdges:
    """Edges are made with their children's jobs, or added to them (:meth:`add_to`).

    A parent that may end or come back must be as it was read when they are written: ``written`` are those whose
    records say from now on that they have children, ``checked`` those that say it already.

    :param ending: the jobs that the step writes anyway.
    """

    def __init__(self, layout: Layout, ending: Collection[str] = ()) -> None:
        self._layout, self._ending = layout, ending
        self._edges: list[EdgeRow] = []
        self._tallies: dict[str, Tally] = {}
        #: The versions of the tallies that exist.
        self._versions: dict[str, int] = {}
        #: What holds the children of parents and graphs, as it was read.
        self._folders: dict[str, Data | None] = {}
        self._marks: dict[str, Mark] = {}
        self.written: dict[str, StoredJob] = {}
        self.checked: dict[str, StoredJob] = {}

    def learn_folder(self, parent: str, data: Data | None) -> None:
        """Learn what holds the children of a parent or a graph; None: nothing does."""
        self._folders[parent] = data

    def _mark_of(self, parent: str) -> Mark | None:
        data = self._folders.get(parent)
        return self._marks.get(parent) or (None if data is None else decode_mark(data.data))

    def is_given_up(self, graph: str, now: float) -> bool:
        """Whether a graph gets no further part."""
        mark = self._mark_of(parent_of_graph(graph))
        if mark is None or mark.step.outcome is not Outcome.GONE:
            return False
        return mark.due is None or mark.due <= now or mark.cursor != ""

    # -- planning --------------------------------------------------------------------------------------------------

    def add_to(self, child: str, tally: Tally, version: int) -> None:
        """Let the edges that are made of this child be added to those that it has."""
        self._tallies[child], self._versions[child] = tally, version

    def connect(self, child: StoredJob, parents: Iterable[StoredJob], graph: str | None, now: float) -> None:
        """Let a job wait for parents and a graph as far as these have not ended, and become what follows."""
        failed = gone = ""
        for parent in {parent.uuid: parent for parent in parents}.values():
            edge = edge_to(child.uuid, parent)
            self._put(edge)
            if edge.outcome in (Outcome.OPEN, Outcome.FAILED):
                self._keep_as_read(parent)
            failed = edge.parent if edge.outcome is Outcome.FAILED else failed
            gone = edge.parent if edge.outcome is Outcome.GONE else gone
        if graph is not None:
            parent_text = parent_of_graph(graph)
            self._put(EdgeRow(child.uuid, parent_text, Outcome.OPEN))
            self._marks[parent_text] = Mark(Resolve(parent_text, Outcome.GONE), now + GRAPH_TTL)
        ended = self._tallies[child.uuid].ended(failed, gone)
        child.apply(lambda: link(child, ended, now) or Transition(None), now)

    def _put(self, edge: EdgeRow) -> None:
        self._edges.append(edge)
        self._tallies[edge.child] = self._tallies.get(edge.child, Tally()).moved(edge.parent, None, edge.outcome)

    def _keep_as_read(self, parent: StoredJob) -> None:
        ties = parent.ties or Ties()
        parent.ties = replace(ties, has_children=True)
        if parent.zxid == 0 or parent.uuid in self._ending:
            return
        # A look at its lane may change it, too.
        is_written = not ties.has_children or parent.joined_lane is not None
        (self.written if is_written else self.checked)[parent.uuid] = parent

    def seal(self, graph: str, now: float) -> Verdict:
        """Let the jobs of a graph wait for it no longer, once its mark is worked off."""
        parent = parent_of_graph(graph)
        mark = self._mark_of(parent)
        if mark is None or self.is_given_up(graph, now):
            return Verdict.LOST
        if mark.step.outcome is Outcome.DONE:
            return Verdict.REPEATED
        self._marks[parent] = Mark(Resolve(parent, Outcome.DONE), now)
        return Verdict.DONE

    def drop(self, graph: str, now: float) -> Verdict:
        """Let the jobs of a graph be cancelled, once its mark is worked off; a graph that is sealed stays as it is."""
        parent = parent_of_graph(graph)
        mark = self._mark_of(parent)
        if mark is None or mark.step.outcome is not Outcome.GONE:
            return Verdict.LOST
        if self.is_given_up(graph, now):
            return Verdict.REPEATED
        self._marks[parent] = Mark(Resolve(parent, Outcome.GONE), now)
        return Verdict.DONE

    # -- writing ---------------------------------------------------------------------------------------------------

    def due(self, now: float) -> list[str]:
        """Return the graphs whose jobs are to be told how they stand, once this is written."""
        return [parent for parent, mark in self._marks.items() if mark.due is not None and mark.due <= now]

    def prepare(self, transactions: Transactions) -> None:
        """Make sure that what is made can be made."""
        if self._edges:
            transactions.create_all_buckets(self._layout.edges, self._layout.children)

    def write(self, transaction: Transaction, transactions: Transactions) -> None:
        """Add the edges and marks; the jobs are written beside them."""
        layout = self._layout
        for job in self.checked.values():
            transaction.check(layout.job(job.uuid), job.version)
        for parent in dict.fromkeys((*(edge.parent for edge in self._edges), *self._marks)):
            data, mark = self._folders.get(parent), self._marks.get(parent)
            if data is None:
                transaction.create(layout.children_of(parent), b"")
            if mark is not None:
                transactions.write_mark(transaction, mark, 0 if data is None else data.stat.version)
        for child, tally in self._tallies.items():
            if child in self._versions:
                transaction.set(layout.edges_of(child), tally.pack(), self._versions[child])
            else:
                transaction.create(layout.edges_of(child), tally.pack())
        for edge in self._edges:
            transactions.create_edge(transaction, edge)
