"""The ends of claims that only conductors ask for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from jobboard.backends.lifecycle import holds
from jobboard.backends.reasons import WAITS_FOR_JOBS
from jobboard.backends.rows import Abandonment, Fence, Trashing
from jobboard.board.board import JobBoard
from jobboard.board.claim_errors import loss_seen
from jobboard.board.posting_errors import error_of_posting
from jobboard.client.graph import Graph, GraphRefused
from jobboard.job import Job, JobOrUuid, Posting
from jobboard.states import JobState


def suspend(board: JobBoard, job: Job, who: str, delay: float, signal: str | None, reason: str) -> None:
    """End a claim uncounted: until a signal is sent (for ``delay`` seconds at most, if that is not 0), or for a delay.

    :raises ClaimLost: it does not hold.
    """
    fence = board._fences.held(job, who, None)
    _end(board, Abandonment(fence, delay, None, reason, counted=False, signal=signal))


def wait_for_jobs(board: JobBoard, job: Job, who: str, jobs: Iterable[Posting | JobOrUuid]) -> None:
    """End a claim uncounted until these jobs have ended, as the job's ``if_failed`` says; postings are posted first.

    Nothing of them runs before the job waits for all. A process that dies before that leaves nothing of them, and a job
    that runs again a minute later; one that dies after it a job that waits for them once the claim has expired. Sent
    again, it posts nothing twice: postings must have uuids.

    :raises ClaimLost: it does not hold; nothing of what was to be posted stays.
    :raises AlreadyPosted, InvalidPosting, NotFound: what was to be posted is refused, or a job would wait for itself,
        or is not on the board; the claim holds on.
    """
    fence, graph = _awaited(board, job, who, jobs)
    _post(board, graph)
    _end(board, Abandonment(fence, 0.0, None, WAITS_FOR_JOBS, counted=False))


def wait_for_jobs_of_step(
    board: JobBoard, job: Job, who: str, jobs: Iterable[Posting | JobOrUuid], delay: float = 0.0
) -> None:
    """Do the same for postings whose uuids are the same in each run: what one leaves that dies, the next one takes up.

    So they run at once, and no death makes the job wait for longer than its claim. If all of them have ended, it can be
    claimed after ``delay`` seconds.

    :raises ClaimLost: it does not hold.
    :raises AlreadyPosted, InvalidPosting, NotFound: as by :func:`wait_for_jobs`.
    """
    fence, graph = _awaited(board, job, who, jobs)
    if graph.jobs:
        _post(board, replace(graph, before=[pair for pair in graph.before if pair[0] != fence.uuid], fence=None))
    _post(board, replace(graph, jobs=(), before=[pair for pair in graph.before if pair[0] == fence.uuid]))
    _end(board, Abandonment(fence, delay, None, WAITS_FOR_JOBS, counted=False))


def _awaited(board: JobBoard, job: Job, who: str, jobs: Iterable[Posting | JobOrUuid]) -> tuple[Fence, Graph]:
    fence = board._fences.held(job, who, None)
    (row,) = board._client.call(board._backend.jobs.read, [fence.uuid])
    if not holds(row, fence):
        # The link says so too; but until what a late owner has posted is forgotten, the next one can't post it.
        raise loss_seen(fence, row)
    return fence, board._postings.graph_before(fence, list(jobs))


def _post(board: JobBoard, graph: Graph) -> None:
    try:
        board._postings.poster(board._backend).post(graph)
    except GraphRefused as refused:
        raise error_of_posting(refused.new, refused.answer) from None


def _end(board: JobBoard, end: Abandonment) -> None:
    fence = end.fence
    board._fences.ending(fence.who, [fence])
    (answer,), repeated = board._client.call_until_certain(board._backend.jobs.abandon, [end])
    board._fences.ended(fence, answer, repeated)


def trash_with(
    board: JobBoard, job: Job, who: str, reason: str | None, error: str | None, posts: Sequence[Posting]
) -> None:
    """Trash a claimed job, and post in the same atomic step; these keep a live job that has their key.

    :raises ClaimLost: the claim does not hold.
    """
    fence = board._fences.held(job, who, None)
    following = board._postings.following(posts, board._backend, job.uuid)
    end = Trashing(job.uuid, fence, reason, error, by=who, posts=following.posts)
    board._fences.ending(who, [fence])
    (answer,), repeated = board._client.call_until_certain(board._backend.jobs.trash, [end])
    board._fences.ended(fence, answer, repeated, JobState.TRASHED)
