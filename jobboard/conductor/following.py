"""What is posted with the end of a job: what its handler returned, and what the handler's declaration says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from jobboard.backends import follow_ups
from jobboard.board import check_follow_up
from jobboard.conductor.job_facts import JobSnapshot
from jobboard.conductor.log import logger
from jobboard.job import Posting, row_of
from jobboard.task_protocol import is_task
from jobboard.text import line_of

#: A posting, or what makes one of a job's details.
FollowUp: TypeAlias = Posting | Callable[[dict[str, Any]], Posting]


def check_declared(what: str, value: object) -> FollowUp | None:
    """Return what the declaration of a handler lets follow the ends of its jobs, if it can.

    :raises TypeError: it is neither a posting nor callable, or a task.
    :raises InvalidPosting: the posting has what none can have that lies in a record.
    """
    if value is None:
        return None
    if isinstance(value, Posting) or is_task(value):
        return check_follow_up(what, value)
    if not callable(value):
        raise TypeError(
            f"{what} must be a Posting, or a function that makes one of details, not {type(value).__name__}"
        )
    return value


def posting_of(declared: FollowUp, details: dict[str, Any]) -> Posting:
    """Return what follows the end of a job with these details."""
    return declared if isinstance(declared, Posting) else declared(details)


def follow_up_of(snapshot: JobSnapshot, declared: FollowUp | None, in_record: bytes | None) -> list[Posting]:
    """Return what a conductor posts with the end of a job: nothing if its record says what is to follow.

    A fault of the function that makes it holds up no end: it is logged.
    """
    if declared is None or in_record is not None:
        return []
    try:
        posting = posting_of(declared, snapshot.job.details or {})
        check_follow_up("what follows", posting)
        uuid = follow_ups.uuid_of(snapshot.uuid, snapshot.token, posting.name)
        return [replace(posting, uuid=uuid, if_exists="keep")]
    except Exception as error:
        logger.error("what should follow the end of job %s can't be made: %s", snapshot.uuid, line_of(error))
        return []


def on_trashed_of(snapshot: JobSnapshot, declared: FollowUp | None) -> list[Posting]:
    """Return what a conductor posts when it trashes a job."""
    ties = row_of(snapshot.job).ties
    return follow_up_of(snapshot, declared, None if ties is None else ties.on_trashed)


def on_complete_of(snapshot: JobSnapshot, declared: FollowUp | None) -> list[Posting]:
    """Return what a conductor posts when it consumes a job."""
    ties = row_of(snapshot.job).ties
    return follow_up_of(snapshot, declared, None if ties is None else ties.on_complete)
