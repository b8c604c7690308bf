"""One try to post a graph in parts: as a graph of its own, or as the one that a client has left unfinished."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jobboard.backends.base import Backend
from jobboard.backends.edge_rows import GRAPH_TTL, LinkOutcome, parent_of_graph
from jobboard.backends.rows import NewJob, Posted, PostOutcome
from jobboard.backends.ties import with_children
from jobboard.client.cycles import CycleSearch, parents_by_child
from jobboard.client.graph import (
    Graph,
    GraphRefused,
    UnfinishedGraph,
    came_too_slowly,
    copy_of,
    elsewhere,
    may_be_unfinished,
    stand_ins,
    with_stand_ins,
)
from jobboard.errors import BoardUnavailable, ClaimLost, InvalidPosting, JobBoardError, NotFound, TooLarge
from jobboard.states import JobState

#: How many parents one request lets a job wait for besides.
_MAX_LINKED = 50
#: Of how many jobs one request says for which graphs they wait, and how many jobs of a graph one names.
_MAX_LOOKED, _PAGE = 100, 500

#: A part of a graph, and what its jobs wait for besides.
Part = tuple[list[NewJob], list[tuple[str, Sequence[str]]]]


@dataclass(frozen=True, slots=True)
class Staged:
    """Jobs that are posted, some of which may wait until a graph is sealed.

    :ivar answers: in the order of the graph's jobs.
    :ivar graph: what is to be sealed; None if none of them waits for it.
    :ivar is_own: whether it was begun here.
    """

    answers: list[Posted]
    graph: str | None
    is_own: bool


def give_up(call: Callable[..., Any], backend: Backend, graph: str) -> None:
    """Drop a graph, unless it is sealed; if the store does not answer, the graph's time ends it."""
    with contextlib.suppress(BoardUnavailable):
        call(backend.edges.drop, graph)


def graphs_of(call: Callable[..., Any], backend: Backend, uuids: Sequence[str]) -> dict[str, str]:
    """Return those of these jobs that wait for a graph, and which; a request for each hundred."""
    found: dict[str, str] = {}
    for at in range(0, len(uuids), _MAX_LOOKED):
        some = uuids[at : at + _MAX_LOOKED]
        graphs: list[str | None] = call(backend.edges.graphs, some)
        found.update((uuid, graph) for uuid, graph in zip(some, graphs, strict=True) if graph is not None)
    return found


def graphs_of_found(call: Callable[..., Any], backend: Backend, answers: Sequence[Posted]) -> dict[str, str]:
    """Return those of the jobs that postings have found which wait for a graph, and which; no request for most.

    :raises UnfinishedGraph: one has gone since it was found, maybe with its graph.
    :raises BoardUnavailable: one was dropped with its graph, and the store remembers its uuid for a while.
    """
    rows = [answer.row for answer in answers if may_be_unfinished(answer)]
    if dropped := next((row.uuid for row in rows if row.state is JobState.COMPLETE), None):
        raise BoardUnavailable(f"job {dropped} was given up with an unfinished graph of before; post again in a minute")
    found = [row.uuid for row in rows]
    graphs = graphs_of(call, backend, found)
    others = [uuid for uuid in found if uuid not in graphs]
    size = backend.capabilities.largest_batch
    for at in range(0, len(others), size):
        if None in call(backend.jobs.read, others[at : at + size]):
            raise UnfinishedGraph(
                "a job that was found has gone meanwhile, maybe with its graph; post again in a minute"
            )
    return graphs


def post_step(call: Callable[..., Any], backend: Backend, jobs: Sequence[NewJob]) -> list[Posted]:
    """Post jobs in one step; those that wait for a posting whose key is taken wait for the job that has it."""
    answers: list[Posted] = call(backend.jobs.post, jobs)
    found = stand_ins(jobs, answers)
    if any(answer.outcome is PostOutcome.NO_PARENT and answer.parent in found for answer in answers):
        answers = call(backend.jobs.post, [with_stand_ins(new, found) for new in jobs])
    return answers


class GraphStaging:
    """What one try has done so far.

    Jobs that are there already and wait for the graph of another client, or of an earlier try, have that completed, if
    all of its jobs are in this graph; the clients' requests are alike then, so each of them may seal it once all is
    there for it. Only who has begun a graph drops it.
    """

    def __init__(self, call: Callable[..., Any], backend: Backend, graph: Graph) -> None:
        self._call, self._backend, self._graph = call, backend, graph
        self._begun = time.monotonic()
        self._id = graph.id
        #: Jobs that wait for the graph: those that were there, and those that are new.
        self._found: list[str] = []
        self._posted: list[str] = []
        self._stand_ins: dict[str, str] = {}

    def stage(self) -> Staged:
        """Post all jobs so that they wait until their graph is sealed.

        :raises GraphRefused, InvalidPosting, NotFound: nothing of it stays.
        :raises UnfinishedGraph: a job is part of a graph that this call can't complete, or was dropped meanwhile.
        """
        graph = self._graph
        search = CycleSearch(self._call, self._backend)
        if graph.before:
            search.check(graph.jobs, graph.before)
        try:
            answers = [answer for part in self._parts() for answer in self._post_part(*part)]
            self._check_that_all_wait()
            if graph.before:
                self._link_before(search)
        except (GraphRefused, UnfinishedGraph, JobBoardError):
            if self._is_own:
                give_up(self._call, self._backend, self._id)
            raise
        return Staged(answers, self._id if self._found or self._posted else None, self._is_own)

    @property
    def _is_own(self) -> bool:
        return self._id == self._graph.id

    # -- parts -----------------------------------------------------------------------------------------------------

    def _parts(self) -> Iterator[Part]:
        """Cut the graph into parts that one step posts, and what their jobs wait for besides."""
        jobs = self._graph.jobs
        most = min(self._backend.capabilities.largest_graph, 2 * self._backend.capabilities.largest_batch)
        parents_of_some = {parent for new in jobs for parent in new.parents}
        part: list[NewJob] = []
        more: list[tuple[str, Sequence[str]]] = []
        left = most
        for new in jobs:
            size = 2 + len(new.parents)
            if part and size > left:
                yield part, more
                part, more, left = [], [], most
            parents, others = new.parents[: most - 2], new.parents[most - 2 :]
            staged = copy_of(new)
            staged.parents = parents
            if new.uuid in parents_of_some:
                # So that the edges that come later need not change its record.
                staged.ties = with_children(new.ties)
            part.append(staged)
            left -= 2 + len(parents)
            if others:
                more.append((new.uuid, others))
        if part:
            yield part, more

    def _post_part(self, part: list[NewJob], more: list[tuple[str, Sequence[str]]]) -> list[Posted]:
        part = [with_stand_ins(new, self._stand_ins) for new in part]
        for new in part:
            new.graph = self._id
        try:
            answers = post_step(self._call, self._backend, part)
        except TooLarge:
            # The results of parents that have ended are too large for one step.
            others = elsewhere(part)
            part = [replace(new, parents=tuple(filter(others.__contains__, new.parents))) for new in part]
            more = [*((child, parents) for child, parents in others.items() if parents), *more]
            answers = post_step(self._call, self._backend, part)
        self._learn(part, answers)
        for child, parents in more:
            if child not in self._stand_ins:
                self._link_all(child, [self._stand_ins.get(parent, parent) for parent in parents], "after")
        return answers

    def _learn(self, part: Sequence[NewJob], answers: Sequence[Posted]) -> None:
        own = {*self._posted, *self._found}
        for new, answer in zip(part, answers, strict=True):
            if answer.parent == self._id or answer.parent in own:
                raise came_too_slowly()
            if answer.outcome.refuses_batch:
                raise GraphRefused(new, answer)
        self._stand_ins.update(stand_ins(part, answers))
        posted = [answer.row.uuid for answer in answers if answer.outcome is PostOutcome.POSTED]
        found = graphs_of_found(self._call, self._backend, answers)
        self._join(found, is_begun=bool(self._posted or self._found or posted))
        self._posted += posted

    # -- graphs of others ------------------------------------------------------------------------------------------

    def _join(self, found: dict[str, str], is_begun: bool) -> None:
        """Go on with the graph for which jobs wait that were there.

        :param is_begun: whether other jobs wait for the graph that this try has posted.
        """
        for uuid, graph in found.items():
            if graph != self._id:
                if is_begun or self._found or not self._has_all_of(graph):
                    raise UnfinishedGraph(
                        f"another client has not posted all of the graph that job {uuid} is a part of; post again in a "
                        "minute"
                    )
                self._id = graph
            self._found.append(uuid)

    def _has_all_of(self, graph: str) -> bool:
        own = {*(new.uuid for new in self._graph.jobs), *self._stand_ins.values()}
        cursor: object | None = None
        for _ in range(2 + len(own) // _PAGE):
            page = self._call(self._backend.edges.children, parent_of_graph(graph), cursor, _PAGE)
            if any(edge.child not in own for edge in page.edges):
                return False
            if page.cursor is None:
                return True
            cursor = page.cursor
        return False

    def _check_that_all_wait(self) -> None:
        """Look whether no job was dropped, after which a later part would have begun the graph anew.

        What is dropped after this is not sealed.
        """
        if not self._found and time.monotonic() - self._begun < GRAPH_TTL / 2:
            return
        wanted = [*self._found, *self._posted]
        there = graphs_of(self._call, self._backend, wanted)
        if any(there.get(uuid) != self._id for uuid in wanted):
            raise UnfinishedGraph("the graph was given up, or completed, by others; post again in a minute")

    # -- links -----------------------------------------------------------------------------------------------------

    def _link_before(self, search: CycleSearch) -> None:
        found = self._stand_ins
        before = [(child, found.get(parent, parent)) for child, parent in self._graph.before]
        jobs = [with_stand_ins(new, found) for new in self._graph.jobs if new.uuid not in found]
        if found:
            # What was there waits for other jobs than the posting says.
            search.check(jobs, before)
        for child, linked in parents_by_child(before).items():
            self._link_all(child, linked, "before")
        search.check_again(jobs, before)

    def _link_all(self, child: str, parents: Sequence[str], what: str) -> None:
        for at in range(0, len(parents), _MAX_LINKED):
            self._link(child, parents[at : at + _MAX_LINKED], what)

    def _link(self, child: str, parents: Sequence[str], what: str) -> None:
        fence = self._graph.fence
        fence = fence if fence is not None and fence.uuid == child else None
        try:
            outcome = self._call(self._backend.edges.link, child, parents, fence)
        except TooLarge:
            if len(parents) == 1:
                raise
            middle = len(parents) // 2
            self._link(child, parents[:middle], what)
            self._link(child, parents[middle:], what)
            return
        if fence is not None and outcome is LinkOutcome.LOST:
            raise ClaimLost(f"the claim of {fence.who!r} on job {child} (token {fence.token}) does not hold any more")
        if outcome is LinkOutcome.STARTED:
            raise InvalidPosting(
                f"job {child} waits for no parents any more, so it can't wait for another", path="before"
            )
        if outcome is LinkOutcome.MISSING and what == "after":
            raise NotFound(f"job {child} is to wait for jobs one of which the board does not know")
        if outcome is LinkOutcome.MISSING:
            raise InvalidPosting(f"job {child}, or a job that it is to wait for, is not on the board", path="before")
