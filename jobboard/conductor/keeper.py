"""Keeps the claims of a conductor: renews them all at once, and tells what it learns on the way."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from jobboard.board import JobBoard
from jobboard.conductor.task import Task
from jobboard.entry import Verdict
from jobboard.errors import BoardUnavailable
from jobboard.events import EventKind, JobEvent

logger = logging.getLogger("jobboard.conductor")

#: However long claims last, a cancel and a break-up are noticed within this many seconds.
_LONGEST_INTERVAL = 10.0
#: Renewals that are asked for early, for progress or after an event, come at most this often, in seconds.
_SHORTEST_INTERVAL = 0.5

#: Rare events after which a look at the claims is due; a claim that goes on causes none of them.
_TELLING = (EventKind.CANCEL_ASKED, EventKind.RELEASED, EventKind.TRASHED, EventKind.EXPIRED)


class Keeper:
    """Holds the tasks from their claim to their end, and renews their claims from one thread.

    No handler runs in that thread, and none of its requests is about one task only, so that no handler can keep it
    from its work. (A handler in C that never lets go of the interpreter would: give it the process executor.)

    :param on_lost: is told of each task whose claim is lost, once.
    :param on_cancel: is told of each task whose cancel was asked for, maybe more than once.
    :param each_time: is called along with every renewal, also when nothing is held.
    """

    def __init__(
        self,
        board: JobBoard,
        who: str,
        expiry: float,
        on_lost: Callable[[Task], None],
        on_cancel: Callable[[Task], None],
        each_time: Callable[[], None],
    ) -> None:
        self._board = board
        self._who = who
        self._expiry = expiry
        self._interval = min(expiry / 3, _LONGEST_INTERVAL)
        self._on_lost, self._on_cancel, self._each_time = on_lost, on_cancel, each_time
        self._lock = threading.Condition()
        self._tasks: dict[str, Task] = {}
        self._early = False
        self._stopped = False
        self._unsubscribe: Callable[[], None] = lambda: None
        self._renewing = threading.Thread(target=self._run, name="jobboard-keeper", daemon=True)

    def start(self) -> None:
        self._subscribe()
        self._renewing.start()

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            self._lock.notify_all()
        self._unsubscribe()
        self._renewing.join(self._interval + 10.0)

    def hold(self, task: Task) -> None:
        with self._lock:
            self._tasks[task.job.uuid] = task

    def let_go(self, task: Task) -> None:
        """Renew this task's claim no more; a newer claim of the same job stays held."""
        with self._lock:
            if self._tasks.get(task.job.uuid) is task:
                del self._tasks[task.job.uuid]
                self._lock.notify_all()

    def held(self) -> list[Task]:
        with self._lock:
            return list(self._tasks.values())

    def wait_until_empty(self, timeout: float) -> bool:
        with self._lock:
            return self._lock.wait_for(lambda: not self._tasks, timeout)

    def renew_soon(self) -> None:
        """Renew before the time, since there is something to tell or to learn."""
        with self._lock:
            if not self._early:
                self._early = True
                self._lock.notify_all()

    def _subscribe(self) -> None:
        try:
            self._unsubscribe = self._board.subscribe(self._heard, _TELLING)
        except BoardUnavailable:
            # Events only make it quicker; the renewals tell the same.
            logger.debug("conductor %s: no events for now", self._who)

    def _heard(self, event: JobEvent) -> None:
        if event.uuid in self._tasks:
            self.renew_soon()

    def _run(self) -> None:
        last = time.monotonic()
        while self._wait_for_next(last):
            last = time.monotonic()
            self._each_time()
            tasks = self.held()
            if tasks:
                self._renew(tasks)

    def _wait_for_next(self, last: float) -> bool:
        with self._lock:
            self._lock.wait_for(
                lambda: self._stopped or self._early, max(0.0, last + self._interval - time.monotonic())
            )
            if self._early:
                # What is told in one go saves requests.
                self._early = False
                self._lock.wait_for(lambda: self._stopped, max(0.0, last + self._pause - time.monotonic()))
            return not self._stopped

    @property
    def _pause(self) -> float:
        return min(_SHORTEST_INTERVAL, self._interval)

    def _renew(self, tasks: list[Task]) -> None:
        sent = time.monotonic()
        reports = [task.progress for task in tasks]
        try:
            verdicts = self._board.extend_many([task.job for task in tasks], self._who, self._expiry, progress=reports)
        except BoardUnavailable as error:
            logger.warning("conductor %s can't renew its %d claims: %s", self._who, len(tasks), error)
            self.renew_soon()
            return
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
