"""Keeps the claims of a conductor: renews them all at once, and tells what it learns on the way."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from jobboard.backends.rows import Verdict
from jobboard.board import JobBoard
from jobboard.conductor.log import logger
from jobboard.conductor.task import Task
from jobboard.errors import BoardUnavailable
from jobboard.events import EventKind, JobEvent
from jobboard.heartbeat import Heartbeat

#: However long claims last, a cancel and a break-up are noticed within this many seconds.
_LONGEST_INTERVAL = 10.0
#: How soon after the last one the next renewal may come, in seconds: when there is something to learn; when there is
#: progress to tell, or the store is absent.
_TO_LEARN, _TO_TELL = 0.02, 0.5

#: Rare events after which a look at the claims is due; a claim that goes on causes none of them.
_TELLING = (EventKind.CANCEL_ASKED, EventKind.RELEASED, EventKind.TRASHED, EventKind.EXPIRED)


def interval_for(expiry: float) -> float:
    """Return the seconds between two renewals: a claim outlives two that got lost."""
    return min(expiry / 3, _LONGEST_INTERVAL)


class Keeper:
    """Holds the tasks from their claim to their end, and renews their claims from one thread.

    No handler runs in that thread, and none of its requests is about one task only, so that no handler can keep it
    from its work. (A handler in C that never lets go of the interpreter would: give it the process executor.)

    :param on_lost: is told of each task whose claim is lost, maybe more than once.
    :param on_cancel: is told of each task whose cancel was asked for, maybe more than once.
    :param presence: is kept up along with the renewals, also when nothing is held.
    """

    def __init__(
        self,
        board: JobBoard,
        who: str,
        expiry: float,
        on_lost: Callable[[Task], None],
        on_cancel: Callable[[Task], None],
        presence: Heartbeat,
    ) -> None:
        self._board = board
        self._who = who
        self._expiry = expiry
        self._interval = interval_for(expiry)
        self._on_lost, self._on_cancel, self._presence = on_lost, on_cancel, presence
        self._lock = threading.Condition()
        self._tasks: dict[str, Task] = {}
        self._last = time.monotonic()
        self._next = self._last + self._interval
        self._stopped = False
        self._failing = False
        self._unsubscribe: Callable[[], None] | None = None
        # An event may come before its claim is held here.
        self._unmatched: deque[str | None] = deque(maxlen=16)
        self._renewing = threading.Thread(target=self._run, name="jobboard-keeper", daemon=True)

    def start(self) -> None:
        self._subscribe()
        self._renewing.start()

    def stop(self, timeout: float) -> None:
        """Renew no more; a request that is under way is waited for so many seconds."""
        with self._lock:
            self._stopped = True
            self._lock.notify_all()
        self._renewing.join(timeout)

    def hear_no_more(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()

    def hold(self, task: Task) -> None:
        """Renew this task's claim from now on."""
        uuid = task.job.uuid
        with self._lock:
            older, self._tasks[uuid] = self._tasks.get(uuid), task
        if older is not None:
            # Whoever gets a claim of the same job proves that the one before is lost.
            self._on_lost(older)
        if uuid in self._unmatched:
            self._renew_within(_TO_LEARN)

    def let_go(self, task: Task) -> None:
        """Renew this task's claim no more; a newer claim of the same job stays held."""
        with self._lock:
            if self._tasks.get(task.job.uuid) is task:
                del self._tasks[task.job.uuid]

    def held(self) -> list[Task]:
        with self._lock:
            return list(self._tasks.values())

    def tell_soon(self) -> None:
        """Renew before the time, since there is progress to tell; what is told in one go saves requests."""
        self._renew_within(_TO_TELL)

    def _renew_within(self, pause: float) -> None:
        with self._lock:
            due = max(time.monotonic(), self._last + min(pause, self._interval))
            if due < self._next:
                self._next = due
                self._lock.notify_all()

    def _subscribe(self) -> None:
        try:
            self._unsubscribe = self._board.subscribe(self._heard, _TELLING)
        except BoardUnavailable:
            # Events only make it quicker; the renewals tell the same.
            logger.debug("conductor %s: no events for now", self._who)

    def _heard(self, event: JobEvent) -> None:
        if event.uuid in self._tasks:
            self._renew_within(_TO_LEARN)
        else:
            self._unmatched.append(event.uuid)

    def _run(self) -> None:
        while self._wait_for_next():
            try:
                self._renew(self.held())
                if self._unsubscribe is None:
                    self._subscribe()
                self._presence.register_when_due()
            except Exception:
                # Without this thread every claim would be lost, so it outlives any fault.
                logger.exception("conductor %s met a fault while renewing", self._who)

    def _wait_for_next(self) -> bool:
        with self._lock:
            while not self._stopped and (left := self._next - time.monotonic()) > 0:
                self._lock.wait(left)
            self._last = time.monotonic()
            self._next = self._last + self._interval
            return not self._stopped

    def _renew(self, tasks: list[Task]) -> None:
        if not tasks:
            return
        sent = time.monotonic()
        reports = [task.progress for task in tasks]
        try:
            verdicts = self._board.extend_many([task.job for task in tasks], self._who, self._expiry, progress=reports)
        except BoardUnavailable as error:
            level = logging.DEBUG if self._failing else logging.WARNING
            logger.log(level, "conductor %s can't renew its %d claims: %s", self._who, len(tasks), error)
            self._failing = True
            self._renew_within(_TO_TELL)
            return
        self._failing = False
        for task, report, verdict in zip(tasks, reports, verdicts, strict=True):
            if task.progress is report:
                task.progress = None
            if verdict is Verdict.LOST:
                self._on_lost(task)
                continue
            # The claim lasts from when the store had the request, which was after it was sent.
            task.held_until = sent + self._expiry
            if verdict is Verdict.CANCEL_ASKED:
                self._on_cancel(task)
