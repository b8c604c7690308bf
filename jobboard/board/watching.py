"""What lookers-on do: read, iterate, wait, subscribe."""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any

from jobboard.backends.base import Waiter
from jobboard.backends.rows import JobRow
from jobboard.backends.timelimit import time_limit
from jobboard.codec import decode
from jobboard.errors import BoardUnavailable, NotFound
from jobboard.events import EventKind, JobEvent
from jobboard.handles import Handles
from jobboard.job import Job
from jobboard.logbook import LogBook
from jobboard.states import LIVE, JobState
from jobboard.stats import BoardStats
from jobboard.validation import check_names, check_text, check_timeout, check_uuid

_PAGE = 500
_ENDS = frozenset({EventKind.CONSUMED, EventKind.TRASHED, EventKind.CANCELLED, EventKind.PURGED})

#: Who waits no longer still gets so many seconds for the last answer of the store.
_LAST_ANSWER = 3.0

#: Events may get lost, so who waits for a job's end looks for itself this often, in seconds.
_LOOK_EVERY = 2.0

#: While all that is ready is of a newer format, something else is noticed this much later at most, in seconds.
_LOOK_PAST_NEWER = 0.2


class Watching(Handles):
    """The side of a board that changes nothing."""

    def get(self, uuid: str) -> Job:
        """Return a job in any state, with its record and history as they are now.

        :raises NotFound: there is no such job, or its retention is over.
        """
        row = self.look(check_uuid(uuid))
        row.history = self.look_back(row.uuid)
        return self._handle_of_anything(row)

    def find(self, name: str, key: str) -> Job:
        """Return the live job of this name that has this key; raises :class:`NotFound` if there is none."""
        row = self._ask(self._backend.find, check_text("name", name), check_text("key", key))
        if row is None:
            raise NotFound(f"no live job {name!r} with the key {key!r} on board {self._name!r}")
        return self._handle_of_anything(row)

    def find_owner(self, job: Job | str) -> str | None:
        """Return who holds the job now, or None; raises :class:`NotFound` if there is no such job."""
        row = self.look(self._uuid_of(job))
        return row.owner if row.state is JobState.CLAIMED else None

    @property
    def job_count(self) -> int:
        """The number of jobs on the board: delayed, unclaimed and claimed."""
        return self._ask(self._backend.count)

    def stats(self) -> BoardStats:
        """Count the jobs by state and name; one consistent look."""
        return self._ask(self._backend.stats)

    def iterjobs(
        self,
        only_unclaimed: bool = False,
        ensure_fresh: bool = False,
        *,
        names: Collection[str] | None = None,
        states: Collection[JobState] | None = None,
    ) -> Iterator[Job]:
        """Iterate over jobs in claim order, a page of 500 a request; what can't be decoded is trashed on the way.

        What a newer jobboard posted in a newer format is left out, and left alone; :meth:`get` shows it. Jobs that stay
        throughout are seen exactly once; those that change meanwhile may be seen or not.

        :param only_unclaimed: the same as ``states={JobState.UNCLAIMED}``.
        :param ensure_fresh: on stores that read from a copy, first catch up with the store.
        :param states: by default those on the board: DELAYED, UNCLAIMED and CLAIMED.
        """
        wanted = _check_states(only_unclaimed, states)
        filtered = check_names(names)
        self._check_open()
        if ensure_fresh:
            self._ask(self._backend.refresh)
        return self._readable(self._entries(wanted, filtered))

    def wait(self, timeout: float | None = None, names: Collection[str] | None = None) -> Iterator[Job]:
        """Block until a job can be claimed, and iterate over those that can; empty after ``timeout`` seconds.

        Wakes on a post, an abandon, an expiry and a due delay. Paused jobs are left out.

        :raises BoardUnavailable: the store does not answer, 3 seconds after the timeout at most.
        """
        seconds, wanted = check_timeout(timeout), check_names(names)
        deadline = None if seconds is None else time.monotonic() + seconds
        with _limit_of(seconds), self.waiter(wanted) as waiter:
            self._tidy_when_due()
            while True:
                due = self._ask(waiter.ready_in)
                if due is not None and due <= 0:
                    met = self._newer.meetings
                    jobs = self._claimable(wanted)
                    first = next(jobs, None)
                    if first is not None:
                        return itertools.chain([first], jobs)
                    if self._newer.meetings > met:
                        # What only newer clients can read stays ready, so that the waiter would not block.
                        self._closed.wait(_LOOK_PAST_NEWER)
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return iter(())
                waiter.wait(_soonest(due, left))
                self._check_open()

    def waiter(self, names: Collection[str] | None = None) -> Waiter:
        """Begin to wait for claimable jobs; for those who need to interrupt the waiting, such as a conductor."""
        return self._ask(self._backend.waiter, check_names(names))

    def subscribe(
        self, callback: Callable[[JobEvent], None], kinds: Collection[EventKind] | None = None
    ) -> Callable[[], None]:
        """Call ``callback`` with every later event of these kinds (None: all), whichever client made it.

        A hint, at most once, in order per job, from one thread of this board; the subscription ends with ``close``.

        :returns: what ends the subscription; idempotent.
        """
        if not callable(callback):
            raise TypeError(f"callback must be callable, not {type(callback).__name__}")
        wanted = frozenset(EventKind) if kinds is None else frozenset(EventKind(kind) for kind in kinds)
        self._check_open()
        ended = threading.Event()

        def tell_unless_ended(event: JobEvent) -> None:
            if not ended.is_set():
                callback(event)

        unlisten = self._backend.listen(self._subscriptions.teller(tell_unless_ended), wanted)

        def unsubscribe() -> None:
            ended.set()
            unlisten()

        return unsubscribe

    def wait_for_end(self, known: JobRow, timeout: float | None) -> tuple[bool, JobRow]:
        """Block until a job has ended, or ``timeout`` seconds; whether it is complete, and what is known of it then.

        :param known: what the caller knows of the job.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        changed, told = threading.Event(), list[JobEvent]()

        def tell(event: JobEvent) -> None:
            if event.uuid == known.uuid:
                told.append(event)
                changed.set()

        self._check_open()
        with ExitStack() as leaving:
            leaving.enter_context(_limit_of(timeout))
            leaving.callback(self._backend.listen(tell, _ENDS))
            was_seen = False
            while True:
                changed.clear()
                (row,) = self._ask(self._backend.read, [known.uuid])
                left = None if deadline is None else deadline - time.monotonic()
                if row is None:
                    if was_seen and not told:
                        # Only its event tells how it ended, and may still be on its way.
                        changed.wait(_LOOK_EVERY if left is None else min(max(left, 0.0), _LOOK_EVERY))
                    return _gone(known, told[-1] if told else None)
                known, was_seen = row, True
                if row.state not in LIVE or (left is not None and left <= 0):
                    return row.state is JobState.COMPLETE, row
                changed.wait(_LOOK_EVERY if left is None else min(left, _LOOK_EVERY))

    def load_book(self, uuid: str) -> LogBook:
        """Return a logbook as it was saved last; raises :class:`NotFound` if there is none."""
        found = self._ask(self._backend.load_book, check_uuid(uuid))
        if found is None:
            raise NotFound(f"no logbook {uuid} on board {self._name!r}")
        body, version = found
        try:
            return _book_of(uuid, decode(body), version)
        except (ValueError, TypeError) as error:
            raise BoardUnavailable(f"logbook {uuid} can't be decoded: {error}") from None

    # -- inside ----------------------------------------------------------------------------------------------------

    def _entries(self, states: frozenset[JobState], names: frozenset[str] | None) -> Iterator[JobRow]:
        cursor: object | None = None
        while True:
            page = self._ask(self._backend.page, states, names, cursor, _PAGE)
            yield from page.rows
            cursor = page.cursor
            if cursor is None:
                return

    def _claimable(self, names: frozenset[str] | None) -> Iterator[Job]:
        paused = self._ask(self._backend.paused)
        if None in paused:
            return iter(())
        jobs = self.iterjobs(only_unclaimed=True, names=names)
        return (job for job in jobs if job.name not in paused) if paused else jobs


def _gone(known: JobRow, end: JobEvent | None) -> tuple[bool, JobRow]:
    """Whether a job is complete that the store shows no more, and what it was in the end, as far as its event tells."""
    gone = replace(known, owner=None, claim_id=None, expires_at=None, state=JobState.COMPLETE)
    if end is not None:
        gone.last_modified, gone.reason = end.at.timestamp(), end.reason
        gone.cancel_asked = end.kind is EventKind.CANCELLED
        if end.kind in (EventKind.TRASHED, EventKind.PURGED):
            gone.state = JobState.TRASHED
    return end is not None and end.kind is EventKind.CONSUMED, gone


def _limit_of(timeout: float | None) -> AbstractContextManager[None]:
    return time_limit(math.inf if timeout is None else timeout + _LAST_ANSWER)


def _check_states(only_unclaimed: bool, states: Collection[JobState] | None) -> frozenset[JobState]:
    if states is None:
        return frozenset({JobState.UNCLAIMED}) if only_unclaimed else LIVE
    if isinstance(states, str):
        raise TypeError("states must be a collection of JobState; for one state write {state}")
    wanted = frozenset(JobState(state) for state in states)
    return wanted & {JobState.UNCLAIMED} if only_unclaimed else wanted


def _book_of(uuid: str, content: Any, version: str) -> LogBook:
    """What else is in it a newer jobboard has written; saved by this one it would be lost."""
    if not isinstance(content, dict) or set(content) != {"name", "meta", "entries"}:
        raise ValueError("it has other fields than this version writes")
    book = LogBook(content["name"], uuid)
    book.meta, book.rows, book.version = content["meta"], content["entries"], version
    rows = book.rows
    if not isinstance(book.meta, dict) or not isinstance(rows, list) or not all(isinstance(e, dict) for e in rows):
        raise TypeError("its meta is no dict, or its entries are no list of dicts")
    return book


def _soonest(due: float | None, left: float | None) -> float | None:
    """The next moment to look again; a job that is due but not there to see yet gets a breath."""
    if due is not None:
        due = max(due, 0.001)
    return min(due, left) if due is not None and left is not None else due if left is None else left
