"""Waits for the ends of several jobs, and says how each of them ended."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from jobboard.events import EventKind, JobEvent
from jobboard.states import JobState

if TYPE_CHECKING:
    from jobboard.board import JobBoard
    from jobboard.job import Job

_ENDS = {EventKind.CONSUMED: "COMPLETE", EventKind.CANCELLED: "CANCELLED", EventKind.PURGED: "PURGED"}


def wait_for_ends(board: JobBoard, jobs: Sequence[Job], timeout: float | None) -> list[dict[str, Any]]:
    """Block until all of these jobs have ended, or ``timeout`` seconds, and return how they stand.

    One after the other: at any moment, one job is read every two seconds, and when an event says that it has ended.

    :param timeout: seconds for all of them; None to wait without end.
    :returns: of each ``uuid``, ``name``, ``state``, ``result`` and ``reason``. The state is COMPLETE, TRASHED,
        CANCELLED, PURGED, GONE if nothing is known of it any more, or that of a job that has not ended.
    :raises BoardUnavailable: the store does not answer.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    with ends_told(board) as told:
        return [_end_of(job, deadline, told) for job in jobs]


@contextlib.contextmanager
def ends_told(board: JobBoard) -> Iterator[dict[str, str]]:
    """Note how jobs end, by their uuids: the board may forget one while another one is waited for."""
    told = dict[str, str]()

    def note(event: JobEvent) -> None:
        if event.uuid is not None:
            told[event.uuid] = _ENDS[event.kind]

    unsubscribe = board.subscribe(note, _ENDS.keys())
    try:
        yield told
    finally:
        unsubscribe()


def _end_of(job: Job, deadline: float | None, told: dict[str, str]) -> dict[str, Any]:
    is_complete = job.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
    record = job.record
    state = record.state.value
    if record.state is JobState.COMPLETE and not is_complete:
        state = "CANCELLED" if record.cancel_asked else told.get(job.uuid, "GONE")
    elif record.state is JobState.TRASHED:
        state = told.get(job.uuid, state)
    return {"uuid": job.uuid, "name": job.name, "state": state, "result": record.result, "reason": record.reason}
