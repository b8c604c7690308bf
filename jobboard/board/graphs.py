"""Makes a graph of postings: who waits for whom, in an order in which each comes behind its parents."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from jobboard.backends.rows import NewJob
from jobboard.client.graph import Graph, copy_of
from jobboard.errors import InvalidPosting
from jobboard.job import JobOrUuid, NamesJob, Posting
from jobboard.then import uuid_of, uuids_by_posting

#: How many parents a job may have.
MAX_PARENTS = 10_000


def graph_of(postings: Sequence[Posting], new_jobs: Sequence[NewJob], id: str) -> Graph:
    """Return the graph of this id that postings make, whose jobs are ``new_jobs``, in the same order.

    :raises InvalidPosting: a posting waits for itself, for too many jobs, or for a posting that is not among them.
    """
    return _GraphPlan(postings, new_jobs).graph(id)


def check_count(uuid: str, parents: int) -> None:
    """Check that a job can have so many parents.

    :raises InvalidPosting: it can't.
    """
    if parents > MAX_PARENTS:
        raise InvalidPosting(f"job {uuid} has {parents} parents; {MAX_PARENTS} are the most", path="after")


class _GraphPlan:
    def __init__(self, postings: Sequence[Posting], new_jobs: Sequence[NewJob]) -> None:
        self._jobs = {new.uuid: new for new in new_jobs}
        #: The postings by their identity, and the jobs of each.
        self._postings = {id(posting): posting for posting in postings}
        self._uuids = uuids_by_posting(postings, (new.uuid for new in new_jobs))
        #: The parents of each job of the graph, in the order in which they are named.
        self._parents: dict[str, dict[str, None]] = {new.uuid: {} for new in new_jobs}
        self._before: list[tuple[str, str]] = []

    def graph(self, id: str) -> Graph:
        for key, posting in self._postings.items():
            self._add_edges(posting, self._uuids[key])
        for uuid, parents in self._parents.items():
            check_count(uuid, len(parents))
        return Graph(id, [self._with_parents(uuid) for uuid in self._sorted()], self._before)

    def _with_parents(self, uuid: str) -> NewJob:
        new, parents = self._jobs[uuid], self._parents[uuid]
        if not parents:
            return new
        child = copy_of(new)
        child.parents = tuple(parents)
        return child

    def _add_edges(self, posting: Posting, uuids_of_it: Sequence[str]) -> None:
        if posting.if_exists == "replace" and posting.after is not None:
            raise InvalidPosting(
                'after can\'t go with if_exists="replace": the live job keeps its parents', path="after"
            )
        # An iterator gives them once.
        parents, children = self._named("after", posting.after), self._named("before", posting.before)
        for uuid in uuids_of_it:
            self._parents[uuid].update(dict.fromkeys(parents))
            for child in children:
                if child in self._parents:
                    self._parents[child][uuid] = None
                else:
                    self._before.append((child, uuid))

    def _named(self, what: str, jobs: Iterable[Posting | JobOrUuid] | None) -> list[str]:
        if jobs is None:
            return []
        if isinstance(jobs, (str, Posting, NamesJob, uuids.UUID)):
            raise TypeError(f"{what} must be several jobs; for one write [job]")
        return [self._uuid_of(what, job) for job in jobs]

    def _uuid_of(self, what: str, job: Posting | JobOrUuid) -> str:
        uuid = uuid_of(what, job, self._uuids)
        if isinstance(job, Posting) and job.if_exists != "raise":
            why = "may turn out to be a job that is there: post it first, and name the job that post returns"
            raise InvalidPosting(f"{what} names {job!r} with if_exists={job.if_exists!r}, which {why}", path=what)
        return uuid

    def _sorted(self) -> list[str]:
        """Return the jobs, each behind its parents, else in the order in which they were given."""
        own = {
            uuid: [parent for parent in parents if parent in self._parents] for uuid, parents in self._parents.items()
        }
        if _are_sorted(own):
            return list(own)
        try:
            return list(TopologicalSorter(own).static_order())
        except CycleError as error:
            names = " -> ".join(self._jobs[uuid].name for uuid in error.args[1])
            raise InvalidPosting(f"these jobs wait for each other: {names}", path="after") from None


def _are_sorted(parents: Mapping[str, Iterable[str]]) -> bool:
    """Whether each job comes behind its parents."""
    seen = set[str]()
    for uuid, its in parents.items():
        if not seen.issuperset(its):
            return False
        seen.add(uuid)
    return True
