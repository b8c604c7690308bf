"""Reads of one job, and the wait for its end."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from itertools import repeat

from jobboard.backends.edge_rows import EdgeRow, Outcome
from jobboard.backends.rows import JobRow
from jobboard.backends.timelimit import time_limit
from jobboard.client.client import BackendClient
from jobboard.client.edge_reading import without_dropped
from jobboard.converter import Converter
from jobboard.errors import NotFound
from jobboard.events import EventKind, HistoryEntry, JobEvent
from jobboard.family import Child, Parent, Signal, Step
from jobboard.states import LIVE, JobState
from jobboard.validation import moment

END_EVENTS = frozenset({EventKind.CONSUMED, EventKind.TRASHED, EventKind.CANCELLED, EventKind.PURGED})

#: For how many seconds after its timeout a wait still takes the last answer of the store.
LAST_ANSWER_TIMEOUT = 3.0

#: Events may get lost, so a wait for a job's end reads the job this often, in seconds.
_READ_INTERVAL = 2.0


#: How many edges or steps one request reads.
_PAGE = 500

_STATE_OF_OUTCOME = {Outcome.DONE: JobState.COMPLETE, Outcome.FAILED: JobState.TRASHED}


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

    @property
    def converter(self) -> Converter | None:
        """What a job's record and details are decoded with."""
        return self._client.converter

    def row(self, uuid: str) -> JobRow:
        """Return what the store knows of a job, without its history; one request.

        :raises NotFound: there is no such job, or its retention is over.
        """
        row = self._client.call(self._client.backend.jobs.read, [uuid])[0]
        if row is None:
            raise NotFound(f"no job {uuid} on board {self._client.name!r}")
        return row

    def history(self, uuid: str) -> tuple[HistoryEntry, ...]:
        """Return the last entries of a job's history, oldest first; one request."""
        return tuple(self._client.call(self._client.backend.jobs.history, uuid))

    def parents(self, uuid: str) -> Iterator[Parent]:
        """Iterate over the parents of a job; the states of those that have not ended are read with each page."""
        for page in self._client.pages(repeat(_PAGE), self._client.backend.edges.parents, uuid):
            open_ones = [edge.parent for edge in page.edges if edge.outcome is Outcome.OPEN or edge.is_cut]
            rows = dict(zip(open_ones, self._rows(open_ones), strict=True))
            for edge in page.edges:
                yield self._parent_of(edge, rows.get(edge.parent))

    def _parent_of(self, edge: EdgeRow, row: JobRow | None) -> Parent:
        state = _STATE_OF_OUTCOME.get(edge.outcome)
        if edge.outcome is Outcome.OPEN and row is not None:
            state = row.state
        data = row.result if row is not None and edge.is_cut else edge.result
        name = edge.name if row is None else row.name
        result = None if data is None else self._client.decode(data)
        return Parent(edge.parent, name, state, result, edge.is_cut and data is None)

    def children(self, uuid: str) -> Iterator[Child]:
        """Iterate over the children of a job, as they stand when each page is read."""
        for page in self._client.pages(repeat(_PAGE), self._client.backend.edges.children, uuid):
            uuids = [edge.child for edge in page.edges]
            rows = dict(zip(uuids, self._rows(uuids), strict=True))
            for child, row in without_dropped(self._client.call, self._client.backend.edges, rows).items():
                yield Child(child, "" if row is None else row.name, None if row is None else row.state)

    def _rows(self, uuids: list[str]) -> list[JobRow | None]:
        parts = self._client.batches(uuids)
        return [row for part in parts for row in self._client.call(self._client.backend.jobs.read, part)]

    def steps(self, uuid: str) -> Iterator[Step]:
        """Iterate over the steps of a job."""
        load, first = self._client.backend.steps.load, 0
        while rows := self._client.call(load, uuid, first, _PAGE):
            for row in rows:
                yield Step(row.number, row.name, moment(row.at), self._client.decode(row.result))
            first += len(rows)
            if len(rows) < _PAGE:
                return

    def signals(self, uuid: str) -> list[Signal]:
        """Return the signals of a job, the first one first."""
        rows = sorted(self._client.call(self._client.backend.steps.signals, uuid), key=lambda row: row.at)
        return [Signal(row.name, moment(row.at), self._client.decode(row.value)) for row in rows]

    def seconds_left(self, uuid: str) -> float | None:
        """Return the seconds until a job's present claim ends, ``math.inf`` if it has no end; None for no claim."""
        row = self.row(uuid)
        if row.state is not JobState.CLAIMED:
            return None
        if row.expires_at is None:
            return math.inf
        return self._client.call(self._client.backend.seconds_until, row.expires_at)

    def wait_for_end(self, known: JobRow, timeout: float | None) -> JobEnd:
        """Block until a job has ended, or ``timeout`` seconds.

        :param known: what the caller knows of the job.
        """
        changed, wait, client = threading.Event(), EndWait(known, timeout), self._client
        client.check_open()
        with ExitStack() as stack:
            stack.enter_context(wait_limit(timeout))
            stack.callback(client.backend.listen(wait.noting(changed.set), END_EVENTS))
            while wait.result is None:
                changed.clear()
                (row,) = client.call(client.backend.jobs.read, [known.uuid])
                changed.wait(wait.look(row))
            return wait.result


class EndWait:
    """The wait for one job's end: what is known of it, and when to look again. The waiting thread reads and sleeps."""

    def __init__(self, known: JobRow, timeout: float | None) -> None:
        self._known = known
        self._deadline = math.inf if timeout is None else time.monotonic() + timeout
        self._end: JobEvent | None = None
        self._was_seen = self._is_gone = self._is_over = False

    def noting(self, wake: Callable[[], object]) -> Callable[[JobEvent], None]:
        """Return what is to hear of :data:`END_EVENTS`; it calls ``wake`` when the job has ended."""

        def note(event: JobEvent) -> None:
            if event.uuid == self._known.uuid:
                self._end = event
                wake()

        return note

    def look(self, row: JobRow | None) -> float:
        """Take what was read, and return for how many seconds to wait for an event."""
        left = self._deadline - time.monotonic()
        if row is None:
            self._is_gone = True
            # Only its event says how it ended, and may still be on its way.
            return min(max(left, 0.0), _READ_INTERVAL) if self._was_seen and self._end is None else 0.0
        self._known, self._was_seen = row, True
        self._is_over = row.state not in LIVE or left <= 0
        return 0.0 if self._is_over else min(left, _READ_INTERVAL)

    @property
    def result(self) -> JobEnd | None:
        """What the wait saw; None while it goes on."""
        if self._is_gone:
            return _ended(self._known, self._end)
        return JobEnd(self._known, _END_OF_STATE.get(self._known.state)) if self._is_over else None


def wait_limit(timeout: float | None) -> AbstractContextManager[None]:
    """Limit the requests of a wait."""
    return time_limit(math.inf if timeout is None else timeout + LAST_ANSWER_TIMEOUT)


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
