"""Posts graphs of jobs: in one step, or in parts of which nothing runs before all are there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any

from jobboard.backends.base import Backend
from jobboard.backends.edge_rows import MAX_EDGE_RESULT, MAX_RESOLVED_BYTES, LinkOutcome, parent_of_graph
from jobboard.backends.rows import NewJob, Posted, PostOutcome, Verdict
from jobboard.backends.ties import with_children
from jobboard.client.cycles import CycleSearch, parents_by_child
from jobboard.errors import BoardUnavailable, InvalidPosting, JobBoardError, NotFound, TooLarge

#: How many parents one request lets a job wait for besides.
_MAX_LINKED = 50

_fields_of = attrgetter(*(each.name for each in fields(NewJob)))


def copy_of(new: NewJob) -> NewJob:
    """Return a copy; :func:`dataclasses.replace` takes four times as long."""
    return NewJob(*_fields_of(new))


@dataclass(frozen=True, slots=True)
class Graph:
    """Jobs that are posted together, each behind its parents.

    ``before``: (child, parent) for each job on the board that is to wait for one of them.
    """

    id: str
    jobs: Sequence[NewJob]
    before: Sequence[tuple[str, str]] = ()

    def fits(self, backend: Backend) -> bool:
        """Whether one step of the store posts it."""
        size = len(self.jobs) + sum(len(new.parents) for new in self.jobs)
        return not self.before and size <= backend.capabilities.largest_graph

    @property
    def may_be_too_large(self) -> bool:
        """Whether results may be more than a step takes: those of parents that have ended go with the edges."""
        return sum(map(len, _elsewhere(self.jobs).values())) > MAX_RESOLVED_BYTES // MAX_EDGE_RESULT


def _elsewhere(jobs: Sequence[NewJob]) -> dict[str, list[str]]:
    """Return of each of these jobs the parents that are none of them."""
    own = {job.uuid for job in jobs}
    return {job.uuid: [parent for parent in job.parents if parent not in own] for job in jobs}


class GraphRefused(Exception):
    """A part of a graph was refused, and so the whole."""

    def __init__(self, new: NewJob, answer: Posted) -> None:
        super().__init__(answer.outcome)
        self.new, self.answer = new, answer


class GraphPoster:
    """Sends the requests that post a graph.

    :param call: sends a request until its answer is certain.
    """

    def __init__(self, call: Callable[..., Any], backend: Backend) -> None:
        self._call, self._backend = call, backend

    def post(self, graph: Graph) -> list[Posted]:
        """Post all jobs of a graph, or none; return the answers in its order.

        :raises GraphRefused: nothing of it runs, or will.
        :raises BoardUnavailable: whether it is posted is unknown; if it is not, nothing of it ever runs.
        """
        if graph.fits(self._backend):
            try:
                answers: list[Posted] = self._call(self._backend.jobs.post, graph.jobs)
                return answers
            except TooLarge:
                if not graph.may_be_too_large:
                    raise
        answers = self.stage(graph)
        if all(answer.outcome is PostOutcome.SAME for answer in answers):
            return answers
        self._seal(graph.id)
        return answers

    def stage(self, graph: Graph) -> list[Posted]:
        """Post all jobs of a graph so that they wait until it is sealed; what is not sealed is cancelled in a minute.

        :raises GraphRefused: nothing of it stays.
        :raises InvalidPosting: a job on the board would wait for itself, or waits no more; nothing of it stays.
        """
        if graph.before:
            CycleSearch(self._call, self._backend).check(graph.jobs, graph.before)
        try:
            answers = [answer for part in self._parts(graph) for answer in self._stage_part(*part)]
            for child, linked in parents_by_child(graph.before).items():
                self._link_all(child, linked, "before")
            if graph.before:
                CycleSearch(self._call, self._backend).check_again(graph.jobs, graph.before)
        except (GraphRefused, JobBoardError):
            self.drop(graph.id)
            raise
        return answers

    def _parts(self, graph: Graph) -> Iterator[tuple[list[NewJob], list[tuple[str, Sequence[str]]]]]:
        """Cut a graph into parts that one step posts, and what their jobs wait for besides."""
        most = min(self._backend.capabilities.largest_graph, 2 * self._backend.capabilities.largest_batch)
        parents_of_some = {parent for new in graph.jobs for parent in new.parents}
        part: list[NewJob] = []
        more: list[tuple[str, Sequence[str]]] = []
        left = most
        for new in graph.jobs:
            size = 2 + len(new.parents)
            if part and size > left:
                yield part, more
                part, more, left = [], [], most
            parents, others = new.parents[: most - 2], new.parents[most - 2 :]
            staged = copy_of(new)
            staged.parents, staged.graph = parents, graph.id
            if new.uuid in parents_of_some:
                # So that the edges that come later need not change its record.
                staged.ties = with_children(new.ties)
            part.append(staged)
            left -= 2 + len(parents)
            if others:
                more.append((new.uuid, others))
        if part:
            yield part, more

    def _stage_part(self, part: list[NewJob], more: list[tuple[str, Sequence[str]]]) -> list[Posted]:
        try:
            answers: list[Posted] = self._call(self._backend.jobs.post, part)
        except TooLarge:
            # The results of parents that have ended are too large for one step.
            others = _elsewhere(part)
            part = [replace(new, parents=tuple(filter(others.__contains__, new.parents))) for new in part]
            more = [*((child, parents) for child, parents in others.items() if parents), *more]
            answers = self._call(self._backend.jobs.post, part)
        for new, answer in zip(part, answers, strict=True):
            if answer.outcome.refuses_batch:
                raise GraphRefused(new, answer)
        for child, parents in more:
            self._link_all(child, parents, "after")
        return answers

    def _link_all(self, child: str, parents: Sequence[str], what: str) -> None:
        for at in range(0, len(parents), _MAX_LINKED):
            self._link(child, parents[at : at + _MAX_LINKED], what)

    def _link(self, child: str, parents: Sequence[str], what: str) -> None:
        try:
            outcome = self._call(self._backend.edges.link, child, parents)
        except TooLarge:
            if len(parents) == 1:
                raise
            middle = len(parents) // 2
            self._link(child, parents[:middle], what)
            self._link(child, parents[middle:], what)
            return
        if outcome is LinkOutcome.STARTED:
            raise InvalidPosting(
                f"job {child} waits for no parents any more, so it can't wait for another", path="before"
            )
        if outcome is LinkOutcome.MISSING and what == "after":
            raise NotFound(f"job {child} is to wait for jobs one of which the board does not know")
        if outcome is LinkOutcome.MISSING:
            raise InvalidPosting(f"job {child}, or a job that it is to wait for, is not on the board", path="before")

    def _seal(self, graph: str) -> None:
        if self._call(self._backend.edges.seal, graph) is Verdict.LOST:
            raise BoardUnavailable("the graph was given up, since its parts came too slowly; nothing of it runs")
        self._finish(graph)

    def _finish(self, graph: str) -> None:
        """Let the jobs of a sealed graph go; others go on with what is left if this takes long."""
        for _ in range(_MAX_LINKED * 1000):
            if not self._call(self._backend.edges.resolve, [parent_of_graph(graph)]):
                return

    def drop(self, graph: str) -> None:
        """Give up a graph, unless it is sealed."""
        try:
            self._call(self._backend.edges.drop, graph)
        except BoardUnavailable:
            # The time for it ends it.
            return
