"""One working shift of a conductor, from a start to a stop: claim, run, end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from jobboard.backend import Waiter
from jobboard.board import JobBoard
from jobboard.conductor.deadlines import Deadlines
from jobboard.conductor.ends import Ends, allowed_attempts
from jobboard.conductor.executors.base import Executor, Finish
from jobboard.conductor.handlers import Handlers
from jobboard.conductor.keeper import Keeper
from jobboard.conductor.outcome import Dropped, Failed, GivenUp, Outcome
from jobboard.conductor.slots import Slots
from jobboard.conductor.task import Task
from jobboard.errors import BoardUnavailable
from jobboard.job import Job

logger = logging.getLogger("jobboard.conductor")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
#: For how long a stop waits for the ends of what it gave up, and for idle workers, in seconds.
_FAREWELL = 10.0


class Shift:
    """Everything that lives between ``start`` and ``stop`` of a conductor.

    The claimer's thread claims as many jobs as there are free slots; the executor runs them; :class:`Ends` ends them;
    meanwhile :class:`Keeper` renews, and :class:`Deadlines` watches the clock.

    :param grace: seconds between a cancel and the kill of a handler that ignores it.
    """

    def __init__(
        self,
        who: str,
        board: JobBoard,
        handlers: Handlers,
        slots: int,
        expiry: float,
        grace: float,
        new_executor: Callable[[Handlers, int, Finish], Executor],
        each_time: Callable[[], None],
    ) -> None:
        self._who = who
        self._board = board
        self._handlers = handlers
        self._expiry = expiry
        self._grace = grace
        self._slots = Slots(slots)
        self._executor = new_executor(handlers, slots, self._finished)
        self._ends = Ends(board, who, self._ended)
        self._keeper = Keeper(board, who, expiry, self._lost, self._cancelled, each_time)
        self._deadlines = Deadlines(self._keeper.held, self._due)
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._waiter: Waiter | None = None
        self._claimer = threading.Thread(target=self._run, name="jobboard-claimer", daemon=True)

    @property
    def running(self) -> int:
        return self._slots.taken

    def start(self) -> None:
        self._executor.start()
        self._ends.start()
        self._keeper.start()
        self._deadlines.start()
        self._claimer.start()

    def stop(self, drain: bool, timeout: float | None) -> bool:
        """Claim no more; let what runs come to its end in ``timeout`` seconds, and give the rest back."""
        self._stop_claiming()
        finished = self._slots.wait_until_free(timeout) if drain else self._slots.taken == 0
        for task in self._keeper.held():
            if self._settle(task, GivenUp("its conductor stopped")):
                finished = False
                self._interrupt(task)
        sent = self._keeper.wait_until_empty(_FAREWELL)
        self._executor.stop(_FAREWELL if finished else 1.0)
        self._ends.stop()
        self._keeper.stop()
        self._deadlines.stop()
        return finished and sent

    def _stop_claiming(self) -> None:
        self._stopping.set()
        self._slots.interrupt()
        with self._lock:
            if self._waiter is not None:
                self._waiter.interrupt()
        self._claimer.join()

    # -- the claimer's thread --------------------------------------------------------------------------------------

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while not self._stopping.is_set():
            try:
                with self._board.waiter(self._handlers.names) as waiter:
                    with self._lock:
                        self._waiter = waiter
                    pause = _FIRST_PAUSE
                    self._claim_until_stopped(waiter)
            except BoardUnavailable as error:
                logger.warning("conductor %s waits for its store: %s", self._who, error)
                self._stopping.wait(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            finally:
                with self._lock:
                    self._waiter = None

    def _claim_until_stopped(self, waiter: Waiter) -> None:
        while (free := self._slots.wait_for_some()) and not self._stopping.is_set():
            sent = time.monotonic()
            jobs = self._board.claim_next(self._who, self._handlers.names, free, self._expiry)
            for job in jobs:
                self._begin(job, sent)
            if not jobs:
                due = waiter.ready_in()
                if (due is None or due > 0) and not self._stopping.is_set():
                    waiter.wait(due)

    def _begin(self, job: Job, sent: float) -> None:
        task = Task(self._board, job, self._handlers[job.name], sent + self._expiry, self._keeper.renew_soon)
        self._keeper.hold(task)
        if task.facts.attempts > allowed_attempts(task):
            # Each of those attempts took its conductor along, or none would be left over.
            self._settle(
                task, Failed(f"all {allowed_attempts(task)} attempts are used up, and no end was told", final=True)
            )
            return
        self._slots.take()
        self._deadlines.watch(task)
        self._executor.submit(task)

    # -- what becomes of a task ------------------------------------------------------------------------------------

    def _finished(self, task: Task, outcome: Outcome) -> None:
        """The executor's word that a handler has ended."""
        if isinstance(outcome, Failed) and task.running.cancelled:
            outcome = GivenUp(f"it was cancelled: {outcome.reason}")
        self._settle(task, outcome)
        self._slots.free()

    def _settle(self, task: Task, outcome: Outcome) -> bool:
        if not task.settle(outcome):
            return False
        if isinstance(outcome, Dropped):
            self._keeper.let_go(task)
        else:
            self._ends.send(task)
        return True

    def _ended(self, task: Task) -> None:
        self._keeper.let_go(task)

    def _lost(self, task: Task) -> None:
        """The store says that the claim does not hold."""
        if self._settle(task, Dropped()):
            logger.warning("conductor %s lost its claim of job %s", self._who, task.job.uuid)
            self._interrupt(task)

    def _cancelled(self, task: Task) -> None:
        if not task.running.cancelled:
            task.running.cancelled = True
            if self._executor.can_kill:
                task.kill_at = time.monotonic() + self._grace
                self._deadlines.watch(task)
            self._executor.ask_to_end(task)

    def _due(self, task: Task, now: float) -> None:
        if task.kill_at is not None and task.kill_at <= now:
            outcome: Outcome = GivenUp("it was cancelled, and its handler ignored that")
        elif task.deadline is not None and task.deadline <= now:
            outcome = Failed(f"timed out after {task.handler.timeout:g} s")
        else:
            # No renewal got through in time. The store may still think otherwise, but nobody can rely on that.
            outcome = Dropped()
            logger.warning("conductor %s could not renew its claim of job %s", self._who, task.job.uuid)
        if self._settle(task, outcome):
            self._interrupt(task)

    def _interrupt(self, task: Task) -> None:
        task.running.lost = True
        self._executor.interrupt(task)
