"""Renews the claims of a conductor, all in one request, and reports what the answers say."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from jobboard.backends.rows import Verdict
from jobboard.board import JobBoard
from jobboard.conductor.execution import Execution
from jobboard.conductor.log import logger
from jobboard.errors import BoardUnavailable
from jobboard.events import EventKind, JobEvent
from jobboard.heartbeat import Heartbeat

#: Seconds between two renewals at most, however long claims last, so that a cancel is noticed in time.
_MAX_INTERVAL = 10.0
#: Seconds from the last renewal to an early one: after an event; with progress to report, or when the store is absent.
_EVENT_DELAY, _REPORT_DELAY = 0.02, 0.5

#: Events that may mean that a claim is lost or its cancel asked for; a claim that goes on causes none of them.
_WATCHED_EVENTS = (EventKind.CANCEL_ASKED, EventKind.RELEASED, EventKind.TRASHED, EventKind.EXPIRED)


def interval_for(expiry: float) -> float:
    """Return the seconds between two renewals: a claim outlives two that fail."""
    return min(expiry / 3, _MAX_INTERVAL)


class LeaseRenewer:
    """Holds the executions from claim to end, and renews their claims from one thread.

    No handler runs in that thread, and each of its requests is about all claims, so no handler can delay it. (But one
    in C that never releases the interpreter: it needs the process executor.)

    :param on_lost: is called with each execution whose claim is lost, maybe more than once.
    :param on_cancel: is called with each execution whose job's cancel was asked for, maybe more than once.
    :param heartbeat: is registered from the same thread when it is due, also without claims.
    """

    def __init__(
        self,
        board: JobBoard,
        who: str,
        expiry: float,
        on_lost: Callable[[Execution], None],
        on_cancel: Callable[[Execution], None],
        heartbeat: Heartbeat,
    ) -> None:
        self._board = board
        self._who = who
        self._expiry = expiry
        self._interval = interval_for(expiry)
        self._on_lost, self._on_cancel, self._heartbeat = on_lost, on_cancel, heartbeat
        self._lock = threading.Condition()
        self._executions: dict[str, Execution] = {}
        self._last = time.monotonic()
        self._next = self._last + self._interval
        self._stopped = False
        self._failing = False
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
            self._lock.notify_all()
        self._thread.join(timeout)

    def unsubscribe(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()

    def add(self, executions: Sequence[Execution]) -> None:
        """Renew these executions' claims from now on."""
        new = {execution.job.uuid: execution for execution in executions}
        with self._lock:
            older = [self._executions[uuid] for uuid in new.keys() & self._executions.keys()]
            self._executions |= new
        for execution in older:
            # A newer claim of the same job proves that the older one is lost.
            self._on_lost(execution)
        if not new.keys().isdisjoint(self._unmatched):
            self._renew_within(_EVENT_DELAY)

    def remove(self, executions: Iterable[Execution]) -> None:
        """Renew these executions' claims no more; a newer claim of the same job stays."""
        with self._lock:
            for execution in executions:
                if self._executions.get(execution.job.uuid) is execution:
                    del self._executions[execution.job.uuid]

    def held(self) -> list[Execution]:
        """Return the executions whose claims are renewed."""
        with self._lock:
            return list(self._executions.values())

    def uuids(self) -> set[str]:
        """Return the uuids of the jobs whose claims are renewed."""
        return {execution.job.uuid for execution in self.held()}

    def renew_soon(self) -> None:
        """Renew early, since there is progress to report; the short delay lets one request carry several reports."""
        self._renew_within(_REPORT_DELAY)

    def _renew_within(self, delay: float) -> None:
        with self._lock:
            due = max(time.monotonic(), self._last + min(delay, self._interval))
            if due < self._next:
                self._next = due
                self._lock.notify_all()

    def _subscribe(self) -> None:
        try:
            self._unsubscribe = self._board.subscribe(self._on_event, _WATCHED_EVENTS)
        except BoardUnavailable:
            # The renewals tell the same; events only make it quicker.
            logger.debug("conductor %s: no events for now", self._who)

    def _on_event(self, event: JobEvent) -> None:
        if event.uuid in self._executions:
            self._renew_within(_EVENT_DELAY)
        else:
            self._unmatched.append(event.uuid)

    def _run(self) -> None:
        while self._wait_for_next():
            try:
                self._renew(self.held())
                if self._unsubscribe is None:
                    self._subscribe()
                self._heartbeat.register_when_due()
            except Exception:
                # Without this thread all claims would expire, so it survives any fault.
                logger.exception("conductor %s met a fault while renewing", self._who)

    def _wait_for_next(self) -> bool:
        with self._lock:
            while not self._stopped and (left := self._next - time.monotonic()) > 0:
                self._lock.wait(left)
            self._last = time.monotonic()
            self._next = self._last + self._interval
            return not self._stopped

    def _renew(self, executions: list[Execution]) -> None:
        if not executions:
            return
        sent = time.monotonic()
        reports = [execution.progress for execution in executions]
        jobs = [execution.job for execution in executions]
        try:
            verdicts = self._board.extend_many(jobs, self._who, self._expiry, progress=reports)
        except BoardUnavailable as error:
            level = logging.DEBUG if self._failing else logging.WARNING
            logger.log(level, "conductor %s can't renew its %d claims: %s", self._who, len(jobs), error)
            self._failing = True
            self._renew_within(_REPORT_DELAY)
            return
        self._failing = False
        for execution, report, verdict in zip(executions, reports, verdicts, strict=True):
            if execution.progress is report:
                execution.progress = None
            if verdict is Verdict.LOST:
                self._on_lost(execution)
                continue
            # The store counts from when it got the request, which is later than this.
            execution.held_until = sent + self._expiry
            if verdict is Verdict.CANCEL_ASKED:
                self._on_cancel(execution)
