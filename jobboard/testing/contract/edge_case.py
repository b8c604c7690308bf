"""What the topics about parents, graphs, steps, signals and moments share; after each case an audit finds nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import pytest

from jobboard.backends.edge_rows import EdgeCounts, EdgeRow, LinkOutcome, Outcome
from jobboard.backends.rows import Fence, IfFailed, NewJob, Posted
from jobboard.board import JobBoard, client_of
from jobboard.errors import NotFound
from jobboard.job import Job, Posting
from jobboard.payload import EMPTY_PAYLOAD
from jobboard.states import JobPriority, JobState
from jobboard.testing.contract.case import LONG, Case, needs
from jobboard.testing.contract.lane_case import kinds_told
from jobboard.validation import new_uuid

BLOCKED, UNCLAIMED, DELAYED, CLAIMED, COMPLETE, TRASHED = (
    JobState.BLOCKED, JobState.UNCLAIMED, JobState.DELAYED, JobState.CLAIMED, JobState.COMPLETE, JobState.TRASHED,
)  # fmt: skip

each_way = pytest.mark.parametrize("if_failed", [each.value for each in IfFailed])

#: How many edges are read at a time: at first fewer than there are.
_PAGES = (2, 4, 8, *(16,) * 100)


def of_edges(case: Callable[..., None]) -> Callable[..., None]:
    """Run the case on stores that have edges, and audit its board."""
    sound: Callable[..., None] = pytest.mark.usefixtures("sound_edges")(case)
    return needs(edges=True)(sound)


class EdgeCase(Case):
    """The base of the topics about edges."""

    per_shard = True

    @pytest.fixture
    def sound_edges(self, board: JobBoard) -> Iterator[None]:
        yield
        assert board.audit() == []


def new_job(*parents: Job | str, name: str = "resize", **fields: Any) -> NewJob:
    """Return a posting at the seam, with these parents."""
    priority, body = fields.pop("priority", JobPriority.NORMAL), fields.pop("body", EMPTY_PAYLOAD)
    uuids = tuple(parent if isinstance(parent, str) else parent.uuid for parent in parents)
    return NewJob(fields.pop("uuid", None) or new_uuid(), name, priority, body, parents=uuids, **fields)


def post_rows(board: JobBoard, *rows: NewJob) -> list[Posted]:
    """Post a batch at the seam, until the answer is certain."""
    return client_of(board).call(client_of(board).backend.jobs.post, rows)


def post_after(board: JobBoard, *parents: Job | str, name: str = "resize", **options: Any) -> Job:
    """Post a job that waits for these parents."""
    return board.post(name, after=parents, **options)


def link(board: JobBoard, child: Job | str, *parents: Job | str, fence: Fence | None = None) -> LinkOutcome:
    """Let a job that waits wait for more parents; with the fence of its claim, one that is claimed."""
    uuid, *others = (each if isinstance(each, str) else each.uuid for each in (child, *parents))
    return client_of(board).call(client_of(board).backend.edges.link, uuid, others, fence)


def parents_of(board: JobBoard, child: Job) -> dict[str, EdgeRow]:
    """Return the edges to the parents of a job, by the parents' uuids."""
    edges = client_of(board).backend.edges
    found = list(_all_edges(partial(edges.parents, child.uuid)))
    assert all(edge.child == child.uuid for edge in found)
    assert len({edge.parent for edge in found}) == len(found), "an edge is listed once"
    return {edge.parent: edge for edge in found}


def children_of(board: JobBoard, parent: Job) -> dict[str, EdgeRow]:
    """Return the edges to the children of a job, by the children's uuids."""
    edges = client_of(board).backend.edges
    found = list(_all_edges(partial(edges.children, parent.uuid)))
    assert all(edge.parent == parent.uuid and edge.result is None for edge in found)
    assert len({edge.child for edge in found}) == len(found), "an edge is listed once"
    return {edge.child: edge for edge in found}


def _all_edges(read: Callable[[object | None, int], Any]) -> Iterator[EdgeRow]:
    cursor: object | None = None
    for limit in _PAGES:
        page = read(cursor, limit)
        yield from page.edges
        cursor = page.cursor
        if cursor is None:
            return
    raise AssertionError("a cursor that has no end")


def outcomes_of(board: JobBoard, child: Job, *parents: Job) -> list[Outcome]:
    """Return how these parents of a job stand, as its edges say."""
    edges = parents_of(board, child)
    return [edges[parent.uuid].outcome for parent in parents]


def counts_of(board: JobBoard, child: Job) -> EdgeCounts:
    (counts,) = client_of(board).backend.edges.counts([child.uuid])
    return counts


def results_of(board: JobBoard, child: Job) -> dict[str, Any]:
    """Return the results of the parents of a job, decoded; None of one that has none."""
    edges = parents_of(board, child).values()
    return {edge.parent: edge.result and client_of(board).decode(edge.result) for edge in edges}


def end(board: JobBoard, job: Job, result: Any = None, who: str = "alice") -> None:
    """Claim a job, and consume it."""
    board.claim(job, who, LONG)
    board.consume(job, who, result)


def fan_in(board: JobBoard, count: int, name: str) -> None:
    """Post so many parents of this name and a job that waits for them."""
    parents = [Posting(name) for _ in range(count)]
    board.post_many([*parents, Posting("report", after=parents)])


def end_next(board: JobBoard, name: str) -> None:
    """Claim the next job of a name, and consume it."""
    (job,) = board.claim_next("alice", names=[name])
    board.consume(job, "alice")


def is_gone(board: JobBoard, job: Job) -> bool:
    """Whether nobody finds a job any more."""
    try:
        board.get(job.uuid)
    except NotFound:
        return True
    return False


def lines_of(board: JobBoard, job: Job, kind: str) -> int:
    """Return how many lines of this kind the history of a job has."""
    return kinds_told(board, job).count(kind)


def uuids(jobs: Iterable[Job]) -> set[str]:
    return {job.uuid for job in jobs}
