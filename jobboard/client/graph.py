"""A graph of jobs on its way to the board."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from operator import attrgetter

from jobboard.backends.base import Backend
from jobboard.backends.edge_rows import MAX_EDGE_RESULT, MAX_RESOLVED_BYTES
from jobboard.backends.outcomes import was_dropped
from jobboard.backends.rows import Fence, NewJob, Posted, PostOutcome
from jobboard.states import JobState

#: What becomes of a posting that finds the job which it asks for.
_FOUND = (PostOutcome.SAME, PostOutcome.KEPT, PostOutcome.REPLACED)

_fields_of = attrgetter(*(each.name for each in fields(NewJob)))


def copy_of(new: NewJob) -> NewJob:
    """Return a copy; :func:`dataclasses.replace` takes four times as long."""
    return NewJob(*_fields_of(new))


@dataclass(frozen=True, slots=True)
class Graph:
    """Jobs that are posted together, each behind its parents.

    ``before``: (child, parent) for each job on the board that is to wait for one of them, or for one that is there.
    ``fence``: that of the claim under which one of these children takes parents.
    """

    id: str
    jobs: Sequence[NewJob]
    before: Sequence[tuple[str, str]] = ()
    fence: Fence | None = None

    def fits(self, backend: Backend) -> bool:
        """Whether one step of the store posts it."""
        size = len(self.jobs) + sum(len(new.parents) for new in self.jobs)
        return not self.before and size <= backend.capabilities.largest_graph

    @property
    def may_be_too_large(self) -> bool:
        """Whether results may be more than a step takes: those of parents that have ended go with the edges."""
        return sum(map(len, elsewhere(self.jobs).values())) > MAX_RESOLVED_BYTES // MAX_EDGE_RESULT


def elsewhere(jobs: Sequence[NewJob]) -> dict[str, list[str]]:
    """Return of each of these jobs the parents that are none of them."""
    own = {job.uuid for job in jobs}
    return {job.uuid: [parent for parent in job.parents if parent not in own] for job in jobs}


def may_be_unfinished(answer: Posted) -> bool:
    """Whether a posting has found a job that may be part of a graph which is not complete, or was dropped with it."""
    row = answer.row
    has_parents = row.ties is not None and row.ties.has_parents
    return answer.outcome in _FOUND and has_parents and (row.state is not JobState.COMPLETE or was_dropped(row))


def stand_ins(jobs: Sequence[NewJob], answers: Sequence[Posted]) -> dict[str, str]:
    """Return the uuids of postings that have found a job with another uuid, and the uuid of that."""
    pairs = zip(jobs, answers, strict=True)
    return {
        new.uuid: answer.row.uuid for new, answer in pairs if answer.outcome in _FOUND and answer.row.uuid != new.uuid
    }


def with_stand_ins(new: NewJob, found: dict[str, str]) -> NewJob:
    """Return a posting that waits for the jobs that were found, in place of those that were not posted."""
    if found.keys().isdisjoint(new.parents):
        return new
    child = copy_of(new)
    child.parents = tuple(dict.fromkeys(found.get(parent, parent) for parent in new.parents))
    return child


class GraphRefused(Exception):
    """A part of a graph was refused, and so the whole."""

    def __init__(self, new: NewJob, answer: Posted) -> None:
        super().__init__(answer.outcome)
        self.new, self.answer = new, answer


class UnfinishedGraph(Exception):
    """A job that was found, or posted, may be dropped yet with a graph that this call can't complete."""


def came_too_slowly() -> UnfinishedGraph:
    return UnfinishedGraph("the graph was given up, since its parts came too slowly; post again in a minute")
