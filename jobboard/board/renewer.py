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
from jobboard.backends.timelimit import lock_wait, time_limit
from jobboard.errors import BoardUnavailable, is_too_large
from jobboard.events import EventKind, JobEvent
from jobboard.job import Job

Log = logging.Logger | logging.LoggerAdapter[logging.Logger]

#: Seconds between two renewals at most, however long claims last, so that a cancel is noticed in time.
_MAX_INTERVAL = 10.0
#: Seconds from the last renewal to an early one: after an event; with progress to report, or when the store is absent.
_EVENT_DELAY, _REPORT_DELAY = 0.02, 0.5
#: Seconds that a renewal by itself gets at least.
_MIN_TIME = 0.1
#: Seconds that the last reports of claims wait for a renewal that is under way, and that they take at most: ends wait.
_MAX_REPORT_WAIT, _MAX_REPORT_TIME = 0.2, 2.0

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

    def _extend_each(
        self, jobs: Sequence[Any], who: str, expiry: float | None, progress: Sequence[Any] | None
    ) -> list[Verdict | BoardUnavailable]: ...
    def subscribe(
        self, callback: Callable[[JobEvent], None], kinds: Collection[EventKind] | None = None
    ) -> Callable[[], None]: ...


class LeaseRenewer(Generic[Held]):
    """Holds what is claimed from claim to end, and renews the claims from one thread.

    No job runs in that thread, and each of its requests is about all claims, so no job can delay it. (But one in C that
    never releases the interpreter: it needs the process executor.) A claim whose renewal the store refuses is left out
    of these requests, and renewed by itself after them.

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
        #: Whether the store was away at the last renewal.
        self._is_away = False
        #: The claims that it refused to renew; the one that was tried last is the last.
        self._refused: dict[Held, None] = {}
        #: The claims of the renewal that is under way.
        self._renewing: frozenset[Held] = frozenset()
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

    def unrenewed(self) -> list[Held]:
        """Return the claims that the last renewal could not reach."""
        return self.held() if self._is_away else [claim for claim in self.held() if claim in self._refused]

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

    def send_reports(self, claims: Sequence[Held]) -> None:
        """Send the reports of claims that are about to end, in one request; in none if all were sent.

        From any thread. What goes wrong with it is left to the ends of the claims.
        """
        if all(claim.progress is None for claim in claims):
            return
        with self._lock:
            # Of two requests at once, that with the older report could be the later one.
            self._changed.wait_for(lambda: self._renewing.isdisjoint(claims), _MAX_REPORT_WAIT)
        try:
            with lock_wait(0.0), time_limit(_MAX_REPORT_TIME):
                self._send([claim for claim in claims if claim.progress is not None])
        except Exception as error:
            self._log.debug("%s can't send the last reports of %d claims: %s", self._title, len(claims), error)

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
        # Nothing that somebody else has locked may delay the next renewal.
        with lock_wait(0.0):
            while self._wait_for_next():
                self._renew_all()

    def _renew_all(self) -> None:
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
        refused = self._refused = {claim: None for claim in self._refused if claim in claims}
        try:
            self._extend([claim for claim in claims if claim not in refused])
            for claim in list(refused):
                # Until the next renewal of all others is due.
                with time_limit(max(_MIN_TIME, self._next - time.monotonic())):
                    self._extend_alone(claim)
        except BoardUnavailable as error:
            level = logging.DEBUG if self._is_away else logging.WARNING
            self._log.log(level, "%s can't renew its %d claims: %s", self._title, len(claims), error)
            self._is_away = True
            self.renew_within(_REPORT_DELAY)
        else:
            self._is_away = False

    def _extend(self, claims: list[Held]) -> None:
        """
        :raises BoardUnavailable: the store is away.
        """
        sent = time.monotonic()
        self._set_renewing(claims)
        try:
            answers = self._send(claims)
        finally:
            self._set_renewing(())
        for claim, report, answer in answers:
            if isinstance(answer, BoardUnavailable):
                self._note_refusal(claim, report, answer)
                continue
            self._refused.pop(claim, None)
            if answer is Verdict.LOST:
                self._on_lost(claim)
                continue
            # The store counts from when it got the request, which is later than this.
            claim.renewed(sent + self._expiry)
            if answer is Verdict.CANCEL_ASKED:
                self._on_cancel(claim)

    def _set_renewing(self, claims: Sequence[Held]) -> None:
        with self._lock:
            self._renewing = frozenset(claims)
            self._changed.notify_all()

    def _send(self, claims: Sequence[Held]) -> list[tuple[Held, Any, Verdict | BoardUnavailable]]:
        """Extend claims; return each with its report that was sent, and the answer.

        :raises BoardUnavailable: the store is away.
        """
        if not claims:
            return []
        reports = [claim.progress for claim in claims]
        answers = self._board._extend_each([claim.job for claim in claims], self._who, self._expiry, reports)
        for claim, report, answer in zip(claims, reports, answers, strict=True):
            if not isinstance(answer, BoardUnavailable) and claim.progress is report:
                claim.progress = None
        return list(zip(claims, reports, answers, strict=True))

    def _extend_alone(self, claim: Held) -> None:
        report = claim.progress
        try:
            self._extend([claim])
        except BoardUnavailable as error:
            self._note_refusal(claim, report, error)

    def _note_refusal(self, claim: Held, report: Any, error: BoardUnavailable) -> None:
        if is_too_large(error) and claim.progress is report:
            # It would be refused again; the claim is worth more.
            claim.progress = None
        if claim not in self._refused:
            text = "%s can't renew its claim of job %s, though the store answers others; it tries on: %s"
            self._log.warning(text, self._title, claim.job.uuid, error)
        self._refused.pop(claim, None)
        self._refused[claim] = None
        self.renew_within(_REPORT_DELAY)
