"""A job as TaskFlow knows it."""

from __future__ import annotations

import functools
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from taskflow import states
from taskflow.jobs import base

from jobboard.errors import ClaimLost, NotFound
from jobboard.job import Job
from jobboard.states import JobPriority, JobState
from jobboard.taskflow.errors import translated
from jobboard.types import Seconds
from jobboard.validation import check_expiry, check_timeout

if TYPE_CHECKING:
    from jobboard.taskflow.board import TaskFlowBoard

#: Seconds that :meth:`TaskFlowJob.expires_in` returns for a claim that never ends by time, and for none; the same as
#: ``taskflow.utils.redis_utils.UnknownExpire``, which can't be imported without a Redis client.
DOES_NOT_EXPIRE, NOT_CLAIMED = -1, -2

_STATES = {
    JobState.DELAYED: states.UNCLAIMED,
    JobState.BLOCKED: states.UNCLAIMED,
    JobState.UNCLAIMED: states.UNCLAIMED,
    JobState.CLAIMED: states.CLAIMED,
    JobState.COMPLETE: states.COMPLETE,
    JobState.TRASHED: states.COMPLETE,
}


@functools.total_ordering
class TaskFlowJob(base.Job):  # type: ignore[misc]
    """A job of a board, with TaskFlow's attributes; :attr:`job` is the board's own handle on it.

    Jobs sort as the board claims them: higher priority first, then what was due first.
    """

    def __init__(self, board: TaskFlowBoard, job: Job, persistence: Any = None, book: Any = None) -> None:
        known_book = None if job.book_uuid is None else {"uuid": job.book_uuid, "name": job.book_name}
        super().__init__(
            board,
            job.name,
            uuid=job.uuid,
            details=job.details,
            backend=persistence,
            book=book,
            book_data=known_book,
        )
        self.job = job
        #: True once the board that renews the claim of this handle has learned that it is lost; costs no request.
        self.claim_lost = False
        #: Why a conductor refused to run it, and trashes it.
        self.refusal: str | None = None

    @property
    def sequence(self) -> int:
        """Where the job stands among those of its priority: a larger number was posted later."""
        return self.job.sequence

    @property
    def priority(self) -> Any:
        return base.JobPriority[self.job.priority.name]

    @property
    def created_on(self) -> datetime:
        """When it was posted, by the store's clock; without a time zone, in UTC, as all of TaskFlow's times."""
        return _naive(self.job.created_on)

    @property
    def last_modified(self) -> datetime:
        with translated():
            return _naive(self.job.last_modified)

    @property
    def state(self) -> str:
        """TaskFlow's state; COMPLETE also for a job that is in the trash, or gone."""
        with translated():
            try:
                return str(_STATES[self.job.state])
            except NotFound:
                return str(states.COMPLETE)

    def wait(self, timeout: Seconds | None = None, *_delays: Any, **_more_delays: Any) -> bool:
        """Block until the job has ended, which an event tells; the delays of TaskFlow's polling are ignored.

        :param timeout: seconds; None to wait without end.
        """
        with translated():
            return self.job.wait(check_timeout(timeout)) or self.state == states.COMPLETE

    def expires_in(self) -> float:
        """Return the seconds until the claim ends; -1 if it never ends by time, -2 if the job is not claimed."""
        with translated():
            try:
                seconds = self.job.expires_in()
            except NotFound:
                return NOT_CLAIMED
        if seconds is None:
            return NOT_CLAIMED
        return DOES_NOT_EXPIRE if seconds == math.inf else seconds

    def extend_expiry(self, expiry: Seconds) -> bool:
        """Let the claim end ``expiry`` seconds from now; False unless this process has it.

        A claim that was made without an expiry is renewed by its board, and needs none of this.
        """
        check_expiry(expiry)
        with translated():
            try:
                owner = self.job.record.owner if self.job.token is not None else self.job.owner
                if owner is None:
                    return False
                self.job.board.extend(self.job, owner, expiry)
            except (ClaimLost, NotFound):
                return False
        return True

    def __lt__(self, other: object) -> bool:
        return self.job < other.job if isinstance(other, TaskFlowJob) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return self.job == other.job if isinstance(other, TaskFlowJob) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.job)

    def __str__(self) -> str:
        """Leave the details out, which may be secret; TaskFlow's conductors log this."""
        return f"{type(self).__name__}: {self.name} (priority={self.priority}, uuid={self.uuid})"


def priority_of(priority: object) -> JobPriority:
    """Return the board's priority for one of TaskFlow's, or its name."""
    return JobPriority[base.JobPriority.convert(priority).name]


def _naive(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(tzinfo=None)
