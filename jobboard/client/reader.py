"""Reads of one job, and the wait for its end."""

from __future__ import annotations

import math
import threading
import time
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace

from jobboard.backends.rows import JobRow
from jobboard.backends.timelimit import time_limit
from jobboard.client.client import BackendClient
from jobboard.errors import NotFound
from jobboard.events import EventKind, HistoryEntry, JobEvent
from jobboard.states import LIVE, JobState

END_EVENTS = frozenset({EventKind.CONSUMED, EventKind.TRASHED, EventKind.CANCELLED, EventKind.PURGED})

#: For so many seconds after its timeout a wait still takes the last answer of the store.
_LAST_ANSWER_TIMEOUT = 3.0

#: Events may get lost, so a wait for a job's end reads the job this often, in seconds.
_READ_INTERVAL = 2.0


@dataclass(frozen=True, slots=True)
class JobEnd:
    """What a wait for the end of a job saw.

    ``kind`` is the event that ended it: None while it is live, and if it is gone and no event told how it ended.
    """

    row: JobRow
    kind: EventKind | None
    is_stored: bool = True


_END_OF_STATE = {JobState.COMPLETE: EventKind.CONSUMED, JobState.TRASHED: EventKind.TRASHED}


class JobReader:
    """What a :class:`~jobboard.job.Job` asks the store."""

    def __init__(self, client: BackendClient) -> None:
        self._client = client

    def row(self, uuid: str) -> JobRow:
        """Return what the store knows of a job, without its history; one request.

        :raises NotFound: there is no such job, or its retention is over.
        """
        row = self._client.call(self._client.backend.read, [uuid])[0]
        if row is None:
            raise NotFound(f"no job {uuid} on board {self._client.name!r}")
        return row

    def history(self, uuid: str) -> tuple[HistoryEntry, ...]:
        """Return the last entries of a job's history, oldest first; one request."""
        return tuple(self._client.call(self._client.backend.history, uuid))

    def seconds_left(self, uuid: str) -> float | None:
        """Return the seconds until the present claim of a job ends; None if there is no claim, or no end."""
        row = self.row(uuid)
        if row.state is not JobState.CLAIMED or row.expires_at is None:
            return None
        return self._client.call(self._client.backend.seconds_until, row.expires_at)

    def wait_for_end(self, known: JobRow, timeout: float | None) -> JobEnd:
        """Block until a job has ended, or ``timeout`` seconds.

        :param known: what the caller knows of the job.
        """
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        changed, events = threading.Event(), list[JobEvent]()

        def note(event: JobEvent) -> None:
            if event.uuid == known.uuid:
                events.append(event)
                changed.set()

        client = self._client
        client.check_open()
        with ExitStack() as stack:
            stack.enter_context(wait_limit(timeout))
            stack.callback(client.backend.listen(note, END_EVENTS))
            was_seen = False
            while True:
                changed.clear()
                (row,) = client.call(client.backend.read, [known.uuid])
                left = deadline - time.monotonic()
                if row is None:
                    if was_seen and not events:
                        # Only its event says how it ended, and may still be on its way.
                        changed.wait(min(max(left, 0.0), _READ_INTERVAL))
                    return _ended(known, events[-1] if events else None)
                known, was_seen = row, True
                if row.state not in LIVE or left <= 0:
                    return JobEnd(row, _END_OF_STATE.get(row.state))
                changed.wait(min(left, _READ_INTERVAL))


def wait_limit(timeout: float | None) -> AbstractContextManager[None]:
    """Limit the requests of a wait."""
    return time_limit(math.inf if timeout is None else timeout + _LAST_ANSWER_TIMEOUT)


def _ended(known: JobRow, end: JobEvent | None) -> JobEnd:
    """Return the end of a job that the store shows no more, with its last row as far as its event tells."""
    row = replace(known, owner=None, claim_id=None, expires_at=None, state=JobState.COMPLETE)
    if end is None:
        return JobEnd(row, None, is_stored=False)
    row.last_modified, row.reason = end.at.timestamp(), end.reason
    row.cancel_asked = end.kind is EventKind.CANCELLED
    if end.kind in (EventKind.TRASHED, EventKind.PURGED):
        row.state = JobState.TRASHED
    return JobEnd(row, end.kind, is_stored=False)
