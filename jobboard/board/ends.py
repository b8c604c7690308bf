"""The ends of claims that only conductors ask for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jobboard.backends.lifecycle import holds
from jobboard.backends.reasons import WAITS_FOR_JOBS
from jobboard.backends.rows import Abandonment, Trashing
from jobboard.board.board import JobBoard
from jobboard.board.claim_errors import loss_seen
from jobboard.board.posting_errors import error_of_posting
from jobboard.client.graph import GraphRefused
from jobboard.job import Job, JobOrUuid, Posting
from jobboard.states import JobState


def suspend(board: JobBoard, job: Job, who: str, delay: float, signal: str | None, reason: str) -> None:
    """End a claim uncounted: until a signal is sent (for ``delay`` seconds at most, if that is not 0), or for a delay.

    :raises ClaimLost: it does not hold.
    """
    fence = board._fences.held(job, who, None)
    _end(board, Abandonment(fence, delay, None, reason, counted=False, signal=signal))


def wait_for_jobs(board: JobBoard, job: Job, who: str, jobs: Iterable[Posting | JobOrUuid], delay: float = 0.0) -> None:
    """End a claim uncounted until these jobs have ended, as the job's ``if_failed`` says; postings are posted first.

    If all of them have, it can be claimed after ``delay`` seconds.

    First it takes them as its parents, under the claim; a process that dies before it ends that leaves a job that
    waits for them once the claim has expired. Sent again, it posts nothing twice: postings must have uuids.

    :raises ClaimLost: it does not hold; nothing of what was to be posted stays.
    :raises AlreadyPosted, InvalidPosting, NotFound: what was to be posted is refused, or a job would wait for itself,
        or is not on the board; the claim holds on.
    """
    fence = board._fences.held(job, who, None)
    (row,) = board._client.call(board._backend.jobs.read, [fence.uuid])
    if not holds(row, fence):
        # The link says so too; but until what a late owner has posted is forgotten, the next one can't post it.
        raise loss_seen(fence, row)
    graph = board._postings.graph_before(fence, list(jobs))
    try:
        board._postings.poster(board._backend).post(graph)
    except GraphRefused as refused:
        raise error_of_posting(refused.new, refused.answer) from None
    _end(board, Abandonment(fence, delay, None, WAITS_FOR_JOBS, counted=False))


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
