"""The ends of claims that only conductors ask for."""

from __future__ import annotations

from collections.abc import Sequence

from jobboard.backends.rows import Abandonment, Trashing
from jobboard.board.board import JobBoard
from jobboard.job import Job, Posting
from jobboard.states import JobState


def suspend(board: JobBoard, job: Job, who: str, delay: float, signal: str | None, reason: str) -> None:
    """End a claim uncounted: until a signal is sent (for ``delay`` seconds at most, if that is not 0), or for a delay.

    :raises ClaimLost: it does not hold.
    """
    fence = board._fences.held(job, who, None)
    end = Abandonment(fence, delay, None, reason, counted=False, signal=signal)
    board._fences.ending(who, [fence])
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
