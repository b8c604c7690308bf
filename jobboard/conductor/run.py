"""One run of a conductor, from a start to a stop: claim, execute, end."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from jobboard.backends.reasons import CONDUCTOR_STOPPED, used_up
from jobboard.backends.thread_end import call_in_thread
from jobboard.backends.timelimit import time_limit
from jobboard.board import JobBoard, client_of
from jobboard.board.renewer import LeaseRenewer, interval_for
from jobboard.conductor.batches import Batches
from jobboard.conductor.claimer import Claimer
from jobboard.conductor.completer import Completer
from jobboard.conductor.deadlines import Deadlines, outcome_when_due
from jobboard.conductor.execution import Execution, runs_among, silent_among
from jobboard.conductor.executors.by_handler import conductor_lifespans, executor_for
from jobboard.conductor.handlers import Handlers
from jobboard.conductor.lifespan import ResourcesThread
from jobboard.conductor.log import logger
from jobboard.conductor.options import ConductorOptions
from jobboard.conductor.outcome import Dropped, Failed, Outcome, Returned, as_cancelled
from jobboard.conductor.reporter import Reporter, job_started
from jobboard.conductor.slots import Slots
from jobboard.conductor.stuck_slots import StuckSlots
from jobboard.errors import JobBoardError, UnreadableRecord
from jobboard.heartbeat import Heartbeat
from jobboard.job import Job, row_of
from jobboard.own_process import OwnProcess
from jobboard.participants import told_of, told_of_silent
from jobboard.quiet import QUIET_BOOK, quiet_ones

#: Seconds that a stop waits for the ends of the jobs that it gives back, and for idle workers.
_STOP_TIMEOUT = 10.0
#: Of these, seconds in which handlers that still run may return before their jobs are given back.
_LAST_SECOND = 1.0
#: The same, after a start that failed.
_UNDO_TIMEOUT = 1.0
#: Seconds that each thread still gets to end when that time is over; most need less.
_MIN_JOIN_TIMEOUT = 0.1


class ConductorRun:
    """Everything that lives between ``start`` and ``stop`` of a conductor, and what becomes of each execution.

    Each part has one thread, which calls this class when something happens:

    - claimer: claims as many jobs as there are free slots (:meth:`_claimed`), in a thread of the executor.
    - executor, with threads of its own: runs the handlers (:meth:`began`, :meth:`reported`, :meth:`_finished`).
    - completer: sends the ends of the claims (:meth:`_ended`).
    - renewer: renews the claims and the heartbeat (:meth:`lost`, :meth:`_cancelled`).
    - deadlines: watches the clock, and sends nothing (:meth:`_due`).

    The first outcome of an execution counts, whichever thread decides it. The caller of :meth:`stop` waits for all.

    :param on_unhealthy: is called when more slots are stuck than may be replaced.
    """

    def __init__(
        self, who: str, board: JobBoard, handlers: Handlers, options: ConductorOptions, on_unhealthy: Callable[[], None]
    ) -> None:
        self._who = who
        self._board = board
        self._handlers = handlers
        self._all_names = handlers.names
        self._options = options
        self._process = OwnProcess()
        self._on_unhealthy = on_unhealthy
        expiry = options.expiry
        self._slots = Slots(options.concurrency)
        lifespans = conductor_lifespans(handlers, options.executor)
        self._resources = ResourcesThread(lifespans, lambda: self._slots.taken + self._stuck.number)
        self._executor = executor_for(handlers, options.executor, options.concurrency, self._finished)
        self._stuck = StuckSlots(
            who, self._slots, self._executor, options.max_stuck, options.grace, self._stuck_changed
        )
        interval = max(1.0, interval_for(expiry))
        self._heartbeat = Heartbeat(board, "conductor", who, self._metadata, interval, QUIET_BOOK, self._obey)
        then = self._heartbeat.register_when_due
        self._renewer = LeaseRenewer(board, who, expiry, self.lost, self._cancelled, then, logger, f"conductor {who}")
        self._completer = Completer(
            *(board, who, self._slots, self._renewer.send_reports, self._ended, self._tell_operators)
        )
        self._deadlines = Deadlines(lambda: self._renewer.held() + self._stuck.expected(), self._due)
        self._claimer = Claimer(
            board, who, expiry, self._slots, options.prefetch, self._names, self._renewer.uuids, self._claimed
        )
        self._batches = Batches(
            *(board, who, expiry, self._slots),
            lambda name: name in self._names(),
            self._claimed,
            self._claimer.look_for,
        )
        self._reporter = Reporter(who)
        self._lock = threading.Lock()
        self._stopping = False
        #: Whether an operator told it to claim no more.
        self._quiet = False
        self._stop_timeout = _STOP_TIMEOUT
        #: By when a stop ends, unless there are jobs to give back.
        self._finish_by = math.inf
        self._stopped = threading.Event()
        self._is_clean = False
        self.unclosed: str | None = None

    def start(self) -> None:
        self._executor.check_converter(client_of(self._board).converter)
        self._resources.enter_for(self._executor.start)
        try:
            self._heartbeat.register_when_due()
            self._completer.start()
            self._renewer.start()
            self._deadlines.start()
            self._executor.run_claimer(self._claimer.turns())
        except BaseException:
            # There may be no more threads: those that have begun must not go on without the others.
            self.stop(drain=False, timeout=_UNDO_TIMEOUT)
            raise
        executors = {handler.executor or self._options.executor for handler in self._handlers}
        self._reporter.conductor_started(self._all_names, executors, self._options.concurrency)

    @property
    def stopping(self) -> bool:
        return self._stopping

    @property
    def handled(self) -> int:
        return self._slots.ended

    def health(self) -> dict[str, Any]:
        """Return what operators see of its state."""
        fault, refused = self._executor.fault, self._stuck.refused
        return {
            "running": self._slots.taken,
            "stuck": self._stuck.number,
            "stuck_names": self._stuck.names,
            "refused": sorted(self._all_names if fault else refused),
            "fault": fault,
            "unsent": self._completer.refused,
            "healthy": not refused and fault is None,
        }

    def _metadata(self) -> dict[str, Any]:
        held = self._renewer.held()
        return {
            **self._process.facts(),
            **self._options.metadata(),
            "names": sorted(self._all_names),
            "quiet": self._quiet,
            "stopping": self._stopping,
            **told_of(runs_among(held)),
            **told_of_silent(silent_among(held)),
            **self.health(),
        }

    def describe(self) -> list[str]:
        """Return what each slot does."""
        executions = dict.fromkeys([*self._renewer.held(), *self._stuck.all()])
        return [f"{execution.describe()}:\n{self._executor.stack_of(execution.leader)}" for execution in executions]

    def wait(self) -> None:
        """Block until it has been stopped."""
        self._stopped.wait()

    def stop_claiming(self) -> None:
        """Run what is claimed, and no more; returns at once."""
        self._claimer.request_stop()
        self._batches.stop()
        self._return_waiting()

    def _return_waiting(self, reason: str = CONDUCTOR_STOPPED) -> None:
        """Give back what was claimed ahead and has not begun."""
        for execution in self._slots.withdraw_all():
            self._end_all(execution, Returned(reason))

    def stop(self, drain: bool, timeout: float | None) -> bool:
        """Claim no more; let handlers finish for ``timeout`` seconds, and give the other jobs back.

        Further calls wait for the same end, and can only make it come sooner.
        """
        seconds = 0.0 if not drain else math.inf if timeout is None else timeout
        self._slots.drain_until(time.monotonic() + seconds)
        with self._lock:
            if drain:
                self._finish_by = min(self._finish_by, time.monotonic() + seconds)
            elif timeout is not None:
                self._stop_timeout = min(self._stop_timeout, timeout)
            first, self._stopping = not self._stopping, True
        if not first:
            self._stopped.wait()
            return self._is_clean
        try:
            self._is_clean = self._stop()
        finally:
            self._stopped.set()
        return self._is_clean

    def _stop(self) -> bool:
        begun = time.monotonic()
        self.stop_claiming()
        if self._slots.taken:
            self._tell_operators()
        self._claimer.stop(self._stop_timeout / 2)
        claiming = time.monotonic() - begun
        finished = self._slots.wait_until_free()
        until = time.monotonic() + self._stop_timeout - claiming
        if not self._give_back(min(_LAST_SECOND, _left(until) / 2)):
            finished = False
        if finished:
            until = min(until, max(self._finish_by, time.monotonic() + _UNDO_TIMEOUT))
        sent = self._slots.wait_until_no_claims(_left(until))
        if finished and not sent:
            until = time.monotonic()
        self._deadlines.stop()
        self._renewer.stop(_left(until))
        self._executor.stop(_left(until) if finished else min(_LAST_SECOND, _left(until)))
        self._completer.stop(_left(until))
        self._leave(_left(until))
        self._resources.leave()
        self.unclosed = self._resources.close_fault or self._executor.close_fault
        self._reporter.conductor_stopped()
        return finished and sent and not self._stuck.number and self.unclosed is None

    def _give_back(self, seconds: float) -> bool:
        """Give the jobs back that still run, once their handlers have returned or were killed; True if there are none.

        Whoever claims them next begins at once. So a handler that looks at ``job.lost`` has this many seconds in which
        nobody else runs its job, and a step that ends meanwhile is recorded.
        """
        given_up: list[Execution] = []
        for execution in self._renewer.held():
            if execution.decide(_given_up(execution, Returned(CONDUCTOR_STOPPED))):
                given_up.append(execution)
                self._interrupt(execution)
        if given_up:
            self._slots.wait_until_returned(seconds)
        for execution in given_up:
            self._end(execution)
        return not given_up

    def _leave(self, seconds: float) -> None:
        """Unsubscribe and unregister; the stop waits for it no longer than ``seconds``."""

        def leave() -> None:
            with time_limit(seconds):
                self._renewer.unsubscribe()
                self._heartbeat.leave()

        call_in_thread("jobboard-leave", leave, seconds)

    def _names(self) -> frozenset[str]:
        """Return the names that may be claimed now."""
        if self._quiet or self._executor.fault is not None:
            return frozenset()
        refused = self._stuck.refused
        return self._all_names - refused if refused else self._all_names

    def _obey(self, has_orders: bool) -> None:
        """Be quiet, or no longer, as operators say."""
        quiet = has_orders and self._who in quiet_ones(self._board)
        if quiet == self._quiet:
            return
        self._quiet = quiet
        logger.info("conductor %s %s, as an operator said", self._who, "claims no more" if quiet else "claims again")
        self._claimer.refresh_names()
        self._tell_operators()
        if quiet:
            self._return_waiting("its conductor is to be quiet")

    def _stuck_changed(self) -> None:
        self._submit(self._slots.start_waiting())
        self._claimer.refresh_names()
        self._tell_operators()
        if self._stuck.refused:
            self._on_unhealthy()

    def _tell_operators(self) -> None:
        """Register soon, since what operators see of it has changed."""
        self._heartbeat.register_again()
        self._renewer.renew_soon()

    # -- what becomes of an execution ------------------------------------------------------------------------------

    def _claimed(self, jobs: list[Job], sent: float) -> None:
        executions: list[Execution] = []
        for job in jobs:
            if (execution := self._execution_of(job, sent)) is not None:
                executions.append(execution)
        self._renewer.add(executions)
        runnable: list[Execution] = []
        for execution in executions:
            if self._may_run(execution):
                runnable.append(execution)
        if runnable:
            started = self._slots.add(self._batches.place(runnable))
            # All claims of one request end at the same time, and the last one waits for a slot if any does.
            self._deadlines.watch(runnable[-1])
            self._submit(started)
        if self._claimer.stopping:
            self._return_waiting()

    def _execution_of(self, job: Job, sent: float) -> Execution | None:
        try:
            handler = self._handlers[job.name]
            return Execution(job, handler, sent + self._options.expiry, self, self._resources.of(handler.lifespan))
        except UnreadableRecord as error:
            self._quarantine(job, str(error))
            return None

    def _may_run(self, execution: Execution) -> bool:
        """End the execution's claim and return False if its handler must not be called."""
        most = execution.max_attempts
        if execution.snapshot.attempts > most:
            # The last attempt's end told nobody, or another conductor allows more attempts.
            row = row_of(execution.job)
            self._end_without_run(execution, Failed(used_up(most, row.reason), row.last_error, final=True))
            return False
        if self._claimer.stopping:
            self._end_without_run(execution, Returned(CONDUCTOR_STOPPED))
            return False
        if (refusal := execution.refusal()) is not None:
            logger.warning(
                "conductor %s got its claim of job %s too late to run it: the store took longer than the claim lasts",
                *(self._who, execution.job.uuid),
            )
            self._end_without_run(execution, refusal)
            return False
        return True

    def _quarantine(self, job: Job, reason: str) -> None:
        try:
            self._board.trash(job, self._who, reason=reason)
        except JobBoardError as error:
            logger.warning("job %s can't be moved to the trash, and its claim will expire: %s", job.uuid, error)

    def _end_without_run(self, execution: Execution, outcome: Outcome) -> None:
        self._slots.add_claim()
        self._decide(execution, outcome)
        # Another thread may have decided before, and expect a handler to return.
        self._stuck.returned(execution)

    def began(self, execution: Execution) -> None:
        job_started(execution)
        if execution.deadline < math.inf or execution.silent_at < math.inf:
            self._deadlines.watch(execution)

    def reported(self, execution: Execution) -> None:
        self._renewer.renew_soon()

    def ending(self, execution: Execution) -> None:
        self._renewer.send_reports([execution])

    def _finished(self, execution: Execution, outcome: Outcome) -> None:
        """The handler has ended."""
        self._end_all(execution, outcome)
        self._stuck.returned(execution)
        self._submit(self._slots.free(execution))

    def _end_all(self, execution: Execution, outcome: Outcome) -> None:
        """End the claims of all jobs that one call serves."""
        for each, its in self._batches.outcomes(execution, outcome):
            self._decide(each, as_cancelled(its) if each.cancelled else its)

    def _submit(self, executions: Sequence[Execution]) -> None:
        if executions:
            self._executor.submit(executions)

    def _decide(self, execution: Execution, outcome: Outcome) -> bool:
        """End the claim as the outcome says; False if there is an outcome already."""
        if not execution.decide(outcome):
            return False
        self._end(execution)
        return True

    def _end(self, execution: Execution) -> None:
        """End the claim of an execution as was decided."""
        if isinstance(execution.outcome, Dropped):
            self._ended([execution])
        else:
            self._completer.send(execution)

    def _ended(self, executions: Sequence[Execution]) -> None:
        """Nothing is left to send for these claims."""
        for execution in executions:
            self._reporter.job_ended(execution)
        self._renewer.remove(executions)
        self._slots.remove_claims(len(executions))

    def lost(self, execution: Execution) -> None:
        """The store says that the claim does not hold."""
        if execution.completing:
            # Its handler has ended it, most likely; that is asked when the handler returns.
            execution.held_until = math.inf
            return
        if self._decide(execution, Dropped()):
            logger.warning("conductor %s lost its claim of job %s", self._who, execution.job.uuid)
            self._interrupt(execution)

    def _cancelled(self, execution: Execution) -> None:
        if self._slots.withdraw(execution):
            self._end_all(execution, Returned("it was cancelled"))
        elif not execution.cancelled:
            execution.cancelled = True
            execution.kill_at = time.monotonic() + self._options.grace
            self._deadlines.watch(execution)
            self._executor.request_cancel(execution)

    def _due(self, execution: Execution, now: float) -> None:
        if execution.outcome is not None:
            self._stuck.declare_stuck(execution)
            return
        if execution.start_by <= now and self._slots.withdraw(execution):
            self._end_all(execution, Returned("no slot was free for it in time"))
            return
        outcome = outcome_when_due(execution, now)
        if outcome is not None and self._decide(execution, _given_up(execution, outcome)):
            if isinstance(outcome, Dropped):
                logger.warning("conductor %s could not renew its claim of job %s", self._who, execution.job.uuid)
            # A handler that ignored a cancel has had its grace already.
            self._interrupt(execution, at_once=isinstance(outcome, Returned))

    def _interrupt(self, execution: Execution, *, at_once: bool = False) -> None:
        execution.lost = True
        if execution.batch is not None and not execution.batch.is_over:
            # Its handler serves others.
            return
        leader = execution.leader
        if self._slots.withdraw(leader):
            self._end_all(leader, Dropped())
            return
        self._stuck.expect_return(leader, at_once=at_once)
        self._deadlines.watch(leader)
        self._executor.interrupt(leader)


def _given_up(execution: Execution, outcome: Outcome) -> Outcome:
    """Return the outcome while the handler runs. An end that its transaction may still commit is left to that one.

    A request about the job would wait for that transaction, and the ends of other jobs with it.
    """
    return Dropped() if execution.completing else outcome


def _left(until: float) -> float:
    return max(_MIN_JOIN_TIMEOUT, until - time.monotonic())
