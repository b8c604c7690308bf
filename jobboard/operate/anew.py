"""Posts a job of the trash, or a complete one, anew with other details: under a uuid that follows from the old one.

So nothing is lost if this ends midway, and however often it is asked for, and by whomever, one job is posted for one
stay in the trash, and for one that is complete.
"""

from __future__ import annotations

import uuid as uuids
from typing import TYPE_CHECKING, Any

from jobboard.errors import NotFound
from jobboard.job import row_of
from jobboard.operate.flow import flow_of
from jobboard.states import JobState

if TYPE_CHECKING:
    from jobboard.board import JobBoard
    from jobboard.job import Job

#: The states of what can be posted anew.
ENDED = frozenset({JobState.TRASHED, JobState.COMPLETE})
#: The same on every board.
_NAMESPACE = uuids.UUID("6a6f6262-6f61-4264-8073-616e65770001")


def uuid_anew(job: Job) -> str:
    """Return the uuid of what is posted in its place; one that is restored and fails again has another one then."""
    record = job.record
    return str(uuids.uuid5(_NAMESPACE, f"{job.uuid}/{record.token}/{record.last_modified.isoformat()}"))


def find_anew(board: JobBoard, job: Job) -> Job | None:
    """Return the job that was posted in the place of one that ended; None if there is none, or it is forgotten."""
    try:
        return board.get(uuid_anew(job))
    except NotFound:
        return None


def obstacle_of(board: JobBoard, job: Job) -> str | None:
    """Say why it can't be posted anew, as what belongs to it would not be kept; None if it can."""
    ties = row_of(job).ties
    if job.record.state not in ENDED:
        return "it is not in the trash, and not complete"
    if job.details is None:
        return "what it carries can't be decoded"
    if flow_of(board, job).has_relatives:
        return "other jobs wait for it, or it waited for them"
    if ties is not None and (ties.on_trashed or ties.on_complete):
        return "other jobs follow its end"
    if job.book_uuid is not None:
        return "it points at a logbook"
    return None


def post_anew(board: JobBoard, job: Job, details: dict[str, Any]) -> Job:
    """Post a job like this one with other details; one that was posted before in its place is returned as it is.

    :raises AlreadyPosted: a live job has its key by now. :raises InvalidPosting: the details can't be stored.
    """
    return board.post(
        job.name,
        details,
        key=job.key,
        priority=job.priority,
        max_attempts=job.max_attempts,
        lane=job.lane,
        uuid=uuid_anew(job),
    )
