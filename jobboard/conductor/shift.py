"""One working shift of a conductor, from a start to a stop: claim, run, end."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

from jobboard.backends.timelimit import time_limit
from jobboard.board import JobBoard
from jobboard.conductor.claimer import Claimer
from jobboard.conductor.deadlines import Deadlines
from jobboard.conductor.ends import Ends, allowed_attempts
from jobboard.conductor.executors.base import Executor, Finish
from jobboard.conductor.handlers import Handlers
from jobboard.conductor.keeper import Keeper
from jobboard.conductor.log import logger
from jobboard.conductor.outcome import Dropped, Failed, GivenUp, Outcome
from jobboard.conductor.slots import Slots
from jobboard.conductor.stuck import StuckSlots
from jobboard.conductor.task import Task
from jobboard.errors import JobBoardError, UnreadableRecord
from jobboard.heartbeat import Heartbeat
from jobboard.job import Job

#: For how long a stop waits for the ends of what it gave up, and for idle workers, in seconds.
_FAREWELL = 10.0
#: Whatever has taken too long by then, each of the threads is given so many seconds to end, since most do at once.
_MOMENT = 0.1


class Shift:
    """Everything that lives between ``start`` and ``stop`` of a conductor.

    :class:`Claimer` claims as many jobs as there are free slots; the executor runs them; :class:`Ends` ends them;
    meanwhile :class:`Keeper` renews, and :class:`Deadlines` watches the clock.

    :param grace: seconds that a handler has to end after a cancel, and to return when its claim is over.
    :param max_stuck: how many stuck slots may be replaced.
    :param on_unhealthy: is called when more than those are stuck.
    """

    def __init__(
        self,
        who: str,
        board: JobBoard,
        handlers: Handlers,
        slots: Slots,
        expiry: float,
        grace: float,
        max_stuck: int,
        on_unhealthy: Callable[[], None],
        new_executor: Callable[[Handlers, Finish], Executor],
        presence: Heartbeat,
    ) -> None:
        self._who = who
        self._board = board
        self._handlers = handlers
        self._all_names = handlers.names
        self._expiry = expiry
        self._grace = grace
        self._slots = slots
        self._presence = presence
        self._on_unhealthy = on_unhealthy
        self._executor = new_executor(handlers, self._finished)
        self._stuck = StuckSlots(who, slots, self._executor, max_stuck, grace, self._stuck_changed)
        self._ends = Ends(board, who, slots, self._let_go)
        self._keeper = Keeper(board, who, expiry, self.lost, self._cancelled, presence)
        self._deadlines = Deadlines(lambda: self._keeper.held() + self._stuck.expected(), self._due)
        self._claimer = Claimer(board, who, self._names, expiry, self._slots, self._begin)
        self._lock = threading.Lock()
        self._stopping = False
        self._farewell = _FAREWELL
        self._ended = threading.Event()
        self._well = False

    def start(self) -> None:
        self._executor.start()
        self._presence.register_when_due()
        self._ends.start()
        self._keeper.start()
        self._deadlines.start()
        self._claimer.start(known=lambda: {task.job.uuid for task in self._keeper.held()})

    @property
    def stopping(self) -> bool:
        return self._stopping

    def health(self) -> dict[str, Any]:
        """Return what operators see of how it goes."""
        fault, refused = self._executor.fault, self._stuck.refused
        return {
            "running": self._slots.taken,
            "stuck": self._stuck.number,
            "stuck_names": self._stuck.names,
            "refused": sorted(self._all_names if fault else refused),
            "fault": fault,
            "healthy": not refused and fault is None,
        }

    def describe(self) -> list[str]:
        """Return what each slot does."""
        tasks = dict.fromkeys([*self._keeper.held(), *self._stuck.all()])
        return [f"{task.describe()}:\n{self._executor.stack_of(task)}" for task in tasks]

    def wait(self) -> None:
        """Block until it has been stopped."""
        self._ended.wait()

    def claim_no_more(self) -> None:
        """Run what is claimed, and no more; returns at once."""
        self._claimer.ask_to_stop()

    def stop(self, drain: bool, timeout: float | None) -> bool:
        """Claim no more; let what runs come to its end in ``timeout`` seconds, and give the rest back.

        Whoever comes later waits for the same end, and can only make it come sooner.
        """
        seconds = 0.0 if not drain else math.inf if timeout is None else timeout
        self._slots.drain_until(time.monotonic() + seconds)
        with self._lock:
            if not drain and timeout is not None:
                self._farewell = min(self._farewell, timeout)
            first, self._stopping = not self._stopping, True
        if not first:
            self._ended.wait()
            return self._well
        try:
            self._well = self._stop()
        finally:
            self._ended.set()
        return self._well

    def _stop(self) -> bool:
        begun = time.monotonic()
        self._claimer.stop(self._farewell / 2)
        claimed = time.monotonic() - begun
        finished = self._slots.wait_until_free()
        until = time.monotonic() + self._farewell - claimed
        for task in self._keeper.held():
            if self._settle(task, GivenUp("its conductor stopped")):
                finished = False
                self._interrupt(task)
        sent = self._slots.wait_until_let_go(_left(until))
        self._deadlines.stop()
        self._keeper.stop(_left(until))
        self._executor.stop(_left(until) if finished else min(1.0, _left(until)))
        self._ends.stop(_left(until))
        self._leave(_left(until))
        return finished and sent and not self._stuck.number

    def _leave(self, seconds: float) -> None:
        """Be seen no more; whoever waits for the stop does not wait longer for this."""

        def leave() -> None:
            with time_limit(seconds):
                self._keeper.hear_no_more()
                self._presence.leave()

        thread = threading.Thread(target=leave, name="jobboard-leave", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # Too late for new threads: the interpreter is on its way out.
            leave()
        else:
            thread.join(seconds)

    def _names(self) -> frozenset[str]:
        """What may be claimed now."""
        if self._executor.fault is not None:
            return frozenset()
        refused = self._stuck.refused
        return self._all_names - refused if refused else self._all_names

    def _stuck_changed(self) -> None:
        self._claimer.look_again()
        self._presence.register_again()
        self._keeper.tell_soon()
        if self._stuck.refused:
            self._on_unhealthy()

    # -- what becomes of a task ------------------------------------------------------------------------------------

    def _begin(self, job: Job, sent: float) -> None:
        try:
            task = Task(job, self._handlers[job.name], sent + self._expiry, self)
        except UnreadableRecord as error:
            self._set_aside(job, str(error))
            return
        self._keeper.hold(task)
        if task.facts.attempts > allowed_attempts(task):
            # Each of those attempts took its conductor along, or none would be left over.
            self._end_without_run(
                task, Failed(f"all {allowed_attempts(task)} attempts are used up, and no end was told", final=True)
            )
        elif self._claimer.stopping:
            self._end_without_run(task, GivenUp("its conductor stopped"))
        else:
            self._slots.take()
            self._deadlines.watch(task)
            self._executor.submit(task)

    def _set_aside(self, job: Job, reason: str) -> None:
        try:
            self._board.trash(job, self._who, reason=reason)
        except JobBoardError as error:
            logger.warning("job %s can't be set aside, and its claim will run out: %s", job.uuid, error)

    def _end_without_run(self, task: Task, outcome: Outcome) -> None:
        self._slots.hold()
        self._settle(task, outcome)

    def began(self, task: Task) -> None:
        self._deadlines.watch(task)

    def reported(self, task: Task) -> None:
        self._keeper.tell_soon()

    def _finished(self, task: Task, outcome: Outcome) -> None:
        """The executor's word that a handler has ended."""
        if isinstance(outcome, Failed) and task.running.cancelled:
            outcome = GivenUp(f"it was cancelled: {outcome.reason}")
        self._settle(task, outcome)
        self._stuck.returned(task)
        self._slots.free()

    def _settle(self, task: Task, outcome: Outcome) -> bool:
        if not task.settle(outcome):
            return False
        if isinstance(outcome, Dropped):
            self._let_go(task)
        else:
            self._ends.send(task)
        return True

    def _let_go(self, task: Task) -> None:
        self._keeper.let_go(task)
        self._slots.let_go()

    def lost(self, task: Task) -> None:
        """The store says that the claim does not hold."""
        if self._settle(task, Dropped()):
            logger.warning("conductor %s lost its claim of job %s", self._who, task.job.uuid)
            self._interrupt(task)

    def _cancelled(self, task: Task) -> None:
        if not task.running.cancelled:
            task.running.cancelled = True
            task.kill_at = time.monotonic() + self._grace
            self._deadlines.watch(task)
            self._executor.ask_to_end(task)

    def _due(self, task: Task, now: float) -> None:
        if task.outcome is not None:
            self._stuck.declare(task)
            return
        if task.kill_at is not None and task.kill_at <= now:
            outcome: Outcome = GivenUp("it was cancelled, and its handler ignored that")
        elif task.deadline is not None and task.deadline <= now:
            outcome = Failed(f"timed out after {task.handler.timeout:g} s")
        else:
            # No renewal got through in time. The store may still think otherwise, but nobody can rely on that.
            outcome = Dropped()
        if self._settle(task, outcome):
            if isinstance(outcome, Dropped):
                logger.warning("conductor %s could not renew its claim of job %s", self._who, task.job.uuid)
            # Who ignored a cancel has had its time.
            self._interrupt(task, at_once=isinstance(outcome, GivenUp))

    def _interrupt(self, task: Task, *, at_once: bool = False) -> None:
        task.running.lost = True
        self._stuck.expect(task, at_once=at_once)
        self._deadlines.watch(task)
        self._executor.interrupt(task)


def _left(until: float) -> float:
    return max(_MOMENT, until - time.monotonic())
