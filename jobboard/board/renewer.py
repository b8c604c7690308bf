"""Renews the claims of one owner, all in one request, and reports what the answers say."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from jobboard.backends.rows import Verdict
from jobboard.backends.thread_end import wait_for_thread
from jobboard.errors import BoardUnavailable
from jobboard.events import EventKind, JobEvent
from jobboard.job import Job

Log = logging.Logger | logging.LoggerAdapter[logging.Logger]

#: Seconds between two renewals at most, however long claims last, so that a cancel is noticed in time.
_MAX_INTERVAL = 10.0
#: Seconds from the last renewal to an early one: after an event; with progress to report, or when the store is absent.
_EVENT_DELAY, _REPORT_DELAY = 0.02, 0.5

#: Events that may mean that a claim is lost or its cancel asked for; a claim that goes on causes none of them.
_WATCHED_EVENTS = (EventKind.CANCEL_ASKED, EventKind.RELEASED, EventKind.TRASHED, EventKind.EXPIRED)


def interval_for(expiry: float) -> float:
    """Return the seconds between two renewals: a claim outlives two that fail."""
    return min(expiry / 3, _MAX_INTERVAL)


class Renewable(Protocol):
    """A claim that is held: an execution of a conductor, or what :meth:`jobboard.JobBoard.keep` keeps."""

    @property
    def job(self) -> Job: ...

    #: The last report of progress that is not sent yet.
    progress: Any

    def renewed(self, until: float) -> None:
        """Learn that the claim holds until then at least, by this machine's monotonic clock."""


Held = TypeVar("Held", bound=Renewable)


class Source(Protocol):
    """What a renewer asks; it is a :class:`~jobboard.JobBoard`."""

    def extend_many(
        self, jobs: Sequence[Any], who: str, expiry: float | None = None, *, progress: Sequence[Any] | None = None
    ) -> list[Verdict]: ...
    def subscribe(
        self, callback: Callable[[JobEvent], None], kinds: Collection[EventKind] | None = None
    ) -> Callable[[], None]: ...


class LeaseRenewer(Generic[Held]):
    """Holds what is claimed from claim to end, and renews the claims from one thread.

    No job runs in that thread, and each of its requests is about all claims, so no job can delay it. (But one in C that
    never releases the interpreter: it needs the process executor.)

    :param on_lost: is called with each whose claim is lost, maybe more than once.
    :param on_cancel: is called with each whose job's cancel was asked for, maybe more than once.
    :param log: gets what goes wrong; it calls the owner ``title``.
    :param then: is called from the same thread after each renewal, also without claims.
    """

    def __init__(
        self,
        board: Source,
        who: str,
        expiry: float,
        on_lost: Callable[[Held], None],
        on_cancel: Callable[[Held], None],
        then: Callable[[], object],
        log: Log,
        title: str,
    ) -> None:
        self._board = board
        self._who = who
        self._expiry = expiry
        self._interval = interval_for(expiry)
        self._on_lost, self._on_cancel, self._then = on_lost, on_cancel, then
        self._log, self._title = log, title
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._claims: dict[str, Held] = {}
        self._last = time.monotonic()
        self._next = self._last + self._interval
        self._stopped = False
        #: Whether the last renewal failed.
        self.is_failing = False
        self._unsubscribe: Callable[[], None] | None = None
        # The event of a claim may come before the claim is added.
        self._unmatched: deque[str | None] = deque(maxlen=16)
        self._thread = threading.Thread(target=self._run, name="jobboard-renewer", daemon=True)

    def start(self) -> None:
        self._subscribe()
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Renew no more; wait up to ``timeout`` seconds for a request that is under way."""
        with self._lock:
            self._stopped = True
            self._changed.notify_all()
        wait_for_thread(self._thread, timeout)

    def unsubscribe(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()

    def add(self, claims: Sequence[Held]) -> None:
        """Renew these claims from now on."""
        older: list[Held] = []
        is_told = False
        with self._lock:
            for claim in claims:
                uuid = claim.job.uuid
                if uuid in self._claims:
                    older.append(self._claims[uuid])
                self._claims[uuid] = claim
                is_told = is_told or uuid in self._unmatched
        for claim in older:
            # A newer claim of the same job proves that the older one is lost.
            self._on_lost(claim)
        if is_told:
            self.renew_within(_EVENT_DELAY)

    def remove(self, claims: Iterable[Held]) -> None:
        """Renew these claims no more; a newer claim of the same job stays."""
        with self._lock:
            for claim in claims:
                if self._claims.get(claim.job.uuid) is claim:
                    del self._claims[claim.job.uuid]

    def held(self) -> list[Held]:
        """Return the claims that are renewed."""
        with self._lock:
            return list(self._claims.values())

    def find(self, uuid: str) -> Held | None:
        """Return the claim of this job that is renewed, or None."""
        return self._claims.get(uuid)

    def uuids(self) -> set[str]:
        """Return the uuids of the jobs whose claims are renewed."""
        return {claim.job.uuid for claim in self.held()}

    def renew_soon(self) -> None:
        """Renew early, since there is progress to report; the short delay lets one request carry several reports."""
        self.renew_within(_REPORT_DELAY)

    def renew_within(self, delay: float) -> None:
        """Renew at the latest this many seconds after the last renewal, or at once if that is over."""
        with self._lock:
            due = max(time.monotonic(), self._last + min(delay, self._interval))
            if due < self._next:
                self._next = due
                self._changed.notify_all()

    def _subscribe(self) -> None:
        try:
            self._unsubscribe = self._board.subscribe(self._on_event, _WATCHED_EVENTS)
        except BoardUnavailable:
            # The renewals tell the same; events only make it quicker.
            self._log.debug("%s: no events for now", self._title)

    def _on_event(self, event: JobEvent) -> None:
        if event.uuid in self._claims:
            self.renew_within(_EVENT_DELAY)
        else:
            self._unmatched.append(event.uuid)

    def _run(self) -> None:
        while self._wait_for_next():
            try:
                self._renew(self.held())
                if self._unsubscribe is None:
                    self._subscribe()
                self._then()
            except Exception:
                # Without this thread all claims would expire, so it survives any fault.
                self._log.exception("%s met a fault while renewing", self._title)

    def _wait_for_next(self) -> bool:
        with self._lock:
            while not self._stopped and (left := self._next - time.monotonic()) > 0:
                self._changed.wait(left)
            self._last = time.monotonic()
            self._next = self._last + self._interval
            return not self._stopped

    def _renew(self, claims: list[Held]) -> None:
        if not claims:
            return
        sent = time.monotonic()
        reports = [claim.progress for claim in claims]
        jobs = [claim.job for claim in claims]
        try:
            verdicts = self._board.extend_many(jobs, self._who, self._expiry, progress=reports)
        except BoardUnavailable as error:
            level = logging.DEBUG if self.is_failing else logging.WARNING
            self._log.log(level, "%s can't renew its %d claims: %s", self._title, len(jobs), error)
            self.is_failing = True
            self.renew_within(_REPORT_DELAY)
            return
        self.is_failing = False
        for claim, report, verdict in zip(claims, reports, verdicts, strict=True):
            if claim.progress is report:
                claim.progress = None
            if verdict is Verdict.LOST:
                self._on_lost(claim)
                continue
            # The store counts from when it got the request, which is later than this.
            claim.renewed(sent + self._expiry)
            if verdict is Verdict.CANCEL_ASKED:
                self._on_cancel(claim)
