"""Waits for the ends of several jobs, and says how each of them ended."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from jobboard.events import EventKind, JobEvent
from jobboard.states import JobState

if TYPE_CHECKING:
    from jobboard.board import JobBoard
    from jobboard.job import Job

_ENDS = {EventKind.CONSUMED: "COMPLETE", EventKind.CANCELLED: "CANCELLED", EventKind.PURGED: "PURGED"}

#: For how long the events of jobs that are gone may be on their way, in seconds.
_ON_ITS_WAY = 1.0


class EndsTold:
    """How jobs ended, as events tell it: the board may forget one while another one is waited for."""

    def __init__(self) -> None:
        self._states: dict[str, str] = {}
        self._change = threading.Condition()
        self._until: float | None = None

    def note(self, event: JobEvent) -> None:
        with self._change:
            if event.uuid is not None:
                self._states[event.uuid] = _ENDS[event.kind]
            self._change.notify_all()

    def so_far(self, uuid: str) -> str | None:
        """Return how a job ended, if it was told already."""
        return self._states.get(uuid)

    def of_gone(self, uuid: str) -> str:
        """Return how a job ended that the board does not have; GONE if nobody tells it.

        A read may see it gone before the event is here: the first who asks begins a second for all of them.
        """
        with self._change:
            self._until = self._until or time.monotonic() + _ON_ITS_WAY
            self._change.wait_for(lambda: uuid in self._states, max(0.0, self._until - time.monotonic()))
            return self._states.get(uuid, "GONE")


def wait_for_ends(board: JobBoard, jobs: Sequence[Job], timeout: float | None) -> list[dict[str, Any]]:
    """Block until all of these jobs have ended, or ``timeout`` seconds, and return how they stand.

    One after the other: at any moment, one job is read every two seconds, and when an event says that it has ended.

    :param timeout: seconds for all of them; None to wait without end.
    :returns: of each ``uuid``, ``name``, ``key``, ``state``, ``result`` and ``reason``. The state is COMPLETE, TRASHED,
        CANCELLED, PURGED, GONE if nothing is known of it any more, or that of a job that has not ended.
    :raises BoardUnavailable: the store does not answer.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    with ends_told(board) as told:
        return [_end_of(job, deadline, told) for job in jobs]


@contextlib.contextmanager
def ends_told(board: JobBoard) -> Iterator[EndsTold]:
    """Listen to how jobs end."""
    told = EndsTold()
    unsubscribe = board.subscribe(told.note, _ENDS.keys())
    try:
        yield told
    finally:
        unsubscribe()


def _end_of(job: Job, deadline: float | None, told: EndsTold) -> dict[str, Any]:
    is_complete = job.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
    record = job.record
    state = record.state.value
    if record.state is JobState.COMPLETE and not is_complete:
        state = "CANCELLED" if record.cancel_asked else told.of_gone(job.uuid)
    elif record.state is JobState.TRASHED:
        state = told.so_far(job.uuid) or state
    return end_of(job, state)


def end_of(job: Job, state: str) -> dict[str, Any]:
    """Return how a job stands, as plain data; of a complete one the reason is that of an earlier run, and left out."""
    record = job.record
    return {
        "uuid": job.uuid,
        "name": job.name,
        "key": job.key,
        "state": state,
        "result": record.result,
        "reason": None if state == JobState.COMPLETE.value else record.reason,
    }
