"""Posts graphs of jobs: in one step, or in parts of which nothing runs before all are there."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from jobboard.backends.base import Backend
from jobboard.backends.edge_rows import parent_of_graph
from jobboard.backends.rows import Posted, Verdict
from jobboard.client.graph import Graph, UnfinishedGraph, came_too_slowly
from jobboard.client.graph_staging import GraphStaging, Staged, give_up, graphs_of_found, post_step
from jobboard.errors import BoardUnavailable, TooLarge

T = TypeVar("T")

#: How many parts of a sealed graph are let go at most.
_MAX_PARTS = 50_000
#: Seconds after which a graph is looked at again that another client has not completed.
_LOOK_AGAIN = 0.05


class GraphPoster:
    """Sends the requests that post a graph.

    :param call: sends a request until its answer is certain.
    :param patience: seconds for which it waits for another client to complete a graph that has one of these jobs.
    """

    def __init__(self, call: Callable[..., Any], backend: Backend, patience: float = 0.0) -> None:
        self._call, self._backend, self._patience = call, backend, patience

    def post(self, graph: Graph) -> list[Posted]:
        """Post all jobs of a graph, or none; return the answers in its order.

        A graph of these jobs that a client has left unfinished is completed.

        :raises GraphRefused: nothing of it runs, or will.
        :raises BoardUnavailable: whether it is posted is unknown; if it is not, nothing of it ever runs. Or one of its
            jobs is part of a graph of another client that is not complete.
        """
        return self._until_whole(graph, self._post)

    def stage(self, graph: Graph) -> Staged:
        """Post all jobs of a graph so that they wait until it is sealed; what is not sealed is cancelled in a minute.

        :raises GraphRefused: nothing of it stays.
        :raises InvalidPosting: a job on the board would wait for itself, or waits no more; nothing of it stays.
        :raises BoardUnavailable: as by :meth:`post`.
        """
        return self._until_whole(graph, self._stage)

    def are_whole(self, answers: Sequence[Posted]) -> bool:
        """Whether no job that postings have found was, or may be, dropped with its graph; no request for most."""
        try:
            return not graphs_of_found(self._call, self._backend, answers)
        except UnfinishedGraph:
            return False

    def _until_whole(self, graph: Graph, attempt: Callable[[Graph], T]) -> T:
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return attempt(graph)
            except UnfinishedGraph as unfinished:
                if time.monotonic() >= deadline:
                    raise BoardUnavailable(str(unfinished)) from None
            time.sleep(_LOOK_AGAIN)
            graph = replace(graph, id=self._backend.new_uuid("", beside=graph.id))

    def _post(self, graph: Graph) -> list[Posted]:
        if graph.fits(self._backend):
            try:
                answers = post_step(self._call, self._backend, graph.jobs)
                if self.are_whole(answers):
                    return answers
            except TooLarge:
                if not graph.may_be_too_large:
                    raise
        staged = self._stage(graph)
        if staged.graph is not None:
            self._seal(staged.graph)
        return staged.answers

    def _stage(self, graph: Graph) -> Staged:
        return GraphStaging(self._call, self._backend, graph).stage()

    def _seal(self, graph: str) -> None:
        if self._call(self._backend.edges.seal, graph) is Verdict.LOST:
            raise came_too_slowly()
        self._finish(graph)

    def _finish(self, graph: str) -> None:
        """Let the jobs of a sealed graph go; others go on with what is left if this takes long."""
        for _ in range(_MAX_PARTS):
            if not self._call(self._backend.edges.resolve, [parent_of_graph(graph)]):
                return

    def drop(self, staged: Staged) -> None:
        """Give up a graph, unless it is sealed, or another client has begun it: its time ends that."""
        if staged.graph is not None and staged.is_own:
            give_up(self._call, self._backend, staged.graph)
