"""The side that changes nothing: read, iterate, wait, subscribe."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING
from uuid import UUID

from jobboard.backends.base import Backend
from jobboard.board.books import Books
from jobboard.board.handles import JobHandles
from jobboard.client import BackendClient
from jobboard.client.edge_reading import MAX_JOBS
from jobboard.client.reader import wait_limit
from jobboard.client.subscriptions import Interruption
from jobboard.errors import NotFound
from jobboard.events import EventKind, JobEvent
from jobboard.job import Job, JobHandle, JobOrUuid
from jobboard.limit import check_lane
from jobboard.logbook import BookInfo, LogBook
from jobboard.states import LIVE, JobState
from jobboard.stats import BoardStats
from jobboard.types import Seconds
from jobboard.validation import check_count, check_names, check_text, check_timeout, check_uuid

if TYPE_CHECKING:
    from jobboard.graph import Graph

#: While all that is ready is of a newer format, something else is noticed this much later at most, in seconds.
_PAUSE_AFTER_NEWER = 0.2


class Watching:
    """The side of a board that changes nothing."""

    _client: BackendClient
    _backend: Backend
    _handles: JobHandles
    _books: Books

    def get(self, uuid: str | UUID) -> Job:
        """Return a job in any state, with its record and history as they are now; two requests.

        :param uuid: the tracking id, as text or as a ``uuid.UUID``.
        :raises NotFound: there is no such job, or its retention is over.
        :raises ValueError: it is no UUID.
        """
        return self._handles.get(check_uuid(uuid))

    def find(self, name: str, key: str) -> Job:
        """Return the live job of this name that has this key.

        :raises NotFound: there is none.
        """
        row = self._client.call(self._backend.jobs.find, check_text("name", name), check_text("key", key))
        if row is None:
            raise NotFound(f"no live job {name!r} with the key {key!r} on board {self._client.name!r}")
        return self._handles.any(row)

    def find_owner(self, job: JobHandle | str) -> str | None:
        """Return who has claimed the job now, or None.

        :raises NotFound: there is no such job.
        """
        return self._handles.reader.row(self._handles.uuid_of(job)).claimed_by

    def graph(self, job: JobOrUuid, *, most: int = MAX_JOBS) -> Graph:
        """Return the jobs that hang together with one, and how each of them stands; changes nothing.

        These are the jobs that it waits for, those that wait for it, and those that these lead to. They are read one
        after the other, not as of one moment. Costs four requests for each hundred jobs of a level.

        :param most: how many jobs at most beside the one itself, the nearest first; ``Graph.is_whole`` says if there
            are no more.
        :raises NotFound: the board knows nothing of the job.
        """
        # Here, because a program that asks for no graph should not wait for the import.
        from jobboard.graph.reading import read_graph

        return read_graph(self._client, self._handles.uuid_of(job), check_count("most", most))

    @property
    def job_count(self) -> int:
        """The number of jobs on the board: delayed, blocked, unclaimed and claimed."""
        return self._client.call(self._backend.jobs.count)

    def stats(self) -> BoardStats:
        """Count the jobs by state and name; as of one moment."""
        return self._client.call(self._backend.jobs.stats)

    def iterjobs(
        self,
        only_unclaimed: bool = False,
        ensure_fresh: bool = False,
        *,
        names: Collection[str] | None = None,
        states: Collection[JobState] | None = None,
        lane: str | None = None,
    ) -> Iterator[Job]:
        """Iterate over jobs in claim order; a job that can't be decoded is trashed on the way.

        The first request is for 10 jobs, later ones for 50, 250 and then 500 each: it costs what you take.

        A job that a newer jobboard posted in a newer format is left out; :meth:`get` shows it. Jobs that don't change
        meanwhile are seen exactly once; the others may be seen, or not, or twice.

        :param only_unclaimed: the same as ``states={JobState.UNCLAIMED}``.
        :param ensure_fresh: on stores that read from a copy, first catch up with the store.
        :param names: only jobs of these names; None for any.
        :param states: by default those on the board: DELAYED, BLOCKED, UNCLAIMED and CLAIMED.
        :param lane: only jobs of this lane; the others are read all the same.
        """
        wanted = _check_states(only_unclaimed, states)
        filtered = check_names(names)
        self._client.check_open()
        if ensure_fresh:
            self._client.call(self._backend.refresh)
        found = self._handles.iterate(wanted, filtered)
        if lane is None:
            return found
        known = check_lane(lane)
        return (job for job in found if job.lane == known)

    def wait(self, timeout: Seconds | None = None, names: Collection[str] | None = None) -> Iterator[Job]:
        """Block until a job can be claimed; paused jobs don't count.

        Wakes on a post, an abandon, an expired claim and the end of a delay.

        :param timeout: seconds; None to wait without end.
        :param names: only jobs of these names; None for any.
        :returns: the jobs that can be claimed, best first, read in pages that grow as those of :meth:`iterjobs`;
            nothing after the timeout.
        :raises BoardUnavailable: the store does not answer, 3 seconds after the timeout at most.
        """
        return self._wait(timeout, names, Interruption())

    def _wait(
        self, timeout: Seconds | None, names: Collection[str] | None, interruption: Interruption
    ) -> Iterator[Job]:
        """Wait, as :meth:`wait` does; an interruption ends it as the timeout does."""
        seconds, wanted = check_timeout(timeout), check_names(names)
        deadline = None if seconds is None else time.monotonic() + seconds
        with wait_limit(seconds), ExitStack() as stack:
            self._client.tidy_when_due()
            # Most often there is a job, and no waiter is needed.
            jobs = self._claimable(wanted)
            if jobs is not None:
                return jobs
            waiter = stack.enter_context(self._client.waiter(wanted))
            interruption.will_call(waiter.interrupt)
            while not interruption.has_come:
                due = self._client.call(waiter.ready_in)
                if due is not None and due <= 0:
                    met = self._client.newer_formats.meetings
                    jobs = self._claimable(wanted)
                    if jobs is not None:
                        return jobs
                    if self._client.newer_formats.meetings > met:
                        # What only newer clients can read stays ready, so that the waiter would not block.
                        self._client.sleep(_PAUSE_AFTER_NEWER)
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return iter(())
                waiter.wait(_soonest(due, left))
                self._client.check_open()
        return iter(())

    def _claimable(self, names: frozenset[str] | None) -> Iterator[Job] | None:
        jobs = self._handles.claimable(names)
        first = next(jobs, None)
        return None if first is None else itertools.chain([first], jobs)

    def subscribe(
        self, callback: Callable[[JobEvent], None], kinds: Collection[EventKind] | None = None
    ) -> Callable[[], None]:
        """Call ``callback`` with later events, whichever client made them, until ``close``.

        Events are hints: each arrives at most once, in order per job. One thread of this board calls all callbacks.

        :param kinds: only events of these kinds; None for all.
        :returns: a function that ends the subscription; idempotent.
        """
        if not callable(callback):
            raise TypeError(f"callback must be callable, not {type(callback).__name__}")
        if isinstance(kinds, str):
            raise TypeError("kinds must be a collection of EventKind; for one kind write {kind}")
        wanted = frozenset(EventKind) if kinds is None else frozenset(EventKind(kind) for kind in kinds)
        return self._client.subscribe(callback, wanted)

    def load_book(self, uuid: str) -> LogBook:
        """Return a logbook as it was saved last, as of one moment; large ones take several requests.

        :raises NotFound: there is none, or the record of the job that it belongs to is gone.
        :raises BoardUnavailable: it can't be decoded, or the store can't be reached.
        """
        return self._books.load(check_uuid(uuid))

    def books(self) -> Iterator[BookInfo]:
        """Iterate over the logbooks, about 100 a request, without their entries; one that can't be decoded says so.

        Books that stay are seen exactly once; what belongs to a job whose record is gone is left out.
        """
        self._client.check_open()
        return self._books.all()


def _check_states(only_unclaimed: bool, states: Collection[JobState] | None) -> frozenset[JobState]:
    if states is None:
        return frozenset({JobState.UNCLAIMED}) if only_unclaimed else LIVE
    if isinstance(states, str):
        raise TypeError("states must be a collection of JobState; for one state write {state}")
    wanted = frozenset(JobState(state) for state in states)
    return wanted & {JobState.UNCLAIMED} if only_unclaimed else wanted


def _soonest(due: float | None, left: float | None) -> float | None:
    """Return the seconds to wait; at least a millisecond for a job that is due, but can't be seen yet."""
    soonest = left if due is None else max(due, 0.001)
    return soonest if left is None or soonest is None else min(soonest, left)
