"""TaskFlow's conductors, waiting on the board instead of polling it."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Collection
from typing import Any

from taskflow import exceptions as taskflow_errors
from taskflow.conductors.backends import impl_blocking, impl_executor, impl_nonblocking
from taskflow.listeners import base
from taskflow.types.entity import Entity
from taskflow.utils.threading_utils import get_optimal_thread_count

from jobboard.backends.base import Waiter
from jobboard.client.subscriptions import Interruption
from jobboard.errors import JobBoardError
from jobboard.interrupts import SIGNAL_POLL
from jobboard.taskflow.board import TaskFlowBoard
from jobboard.taskflow.errors import FactoryRefused
from jobboard.taskflow.factories import AllowedFactories
from jobboard.taskflow.job import TaskFlowJob
from jobboard.taskflow.shown_conductor import ShownConductor

logger = logging.getLogger("jobboard.taskflow")

#: Seconds until the next try when a job was said to be ready and could not be claimed.
_RETRY_DELAY = 0.01


class WaitingConductor(impl_executor.ExecutorConductor):  # type: ignore[misc]
    """What is ours in the conductors below; everything else is TaskFlow's.

    It claims the best job that can be claimed in one request, and blocks on the board while there is none. A claim is
    renewed until the job ends. When it is lost nevertheless, the engine is suspended before its next task.

    :param factories: the factories of flows that jobs may name, by their names (``"shop.flows.order_flow"``) or the
        modules and packages that they are defined in (``"shop.flows"``); a job that names another one is trashed with
        that reason. None: jobs may name any function of any module, which is called with arguments of the job, and a
        warning says so when the conductor starts.
    :raises TypeError, ValueError: names the argument at fault.
    """

    def __init__(
        self,
        name: str,
        jobboard: TaskFlowBoard,
        *arguments: Any,
        factories: Collection[str] | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(jobboard, TaskFlowBoard):
            raise TypeError(f"jobboard must be a TaskFlowBoard, not {type(jobboard).__name__}")
        self._factories = None if factories is None else AllowedFactories(factories)
        super().__init__(name, jobboard, *arguments, **options)
        self._interruption = Interruption()
        self._has_changed = threading.Event()
        self._left = math.inf
        self._waiter: Waiter | None = None

    @property
    def conductor(self) -> Entity:
        """What it registers: an entity of TaskFlow with the name of its claims."""
        return Entity(self.ENTITY_KIND, self._name, {"concurrency": self._slots(), "label": self._name})

    def _slots(self) -> int:
        """Return how many jobs it runs at a time."""
        return 1

    def run(self, max_dispatches: int | None = None) -> None:
        if self._factories is None:
            logger.warning(
                "conductor %s calls any function that a job of its board names: give it factories=[...]", self._name
            )
        try:
            super().run(max_dispatches)
        finally:
            self._jobboard.conductor_ended(self._name)

    def stop(self) -> None:
        super().stop()
        self._has_changed.set()
        # A signal handler may call this while the same thread holds a lock of what is interrupted.
        threading.Thread(target=self._interruption.come, name="jobboard-stop", daemon=True).start()

    def _quiet_changed(self) -> None:
        self._has_changed.set()
        if (waiter := self._waiter) is not None:
            waiter.interrupt()

    def _run_until_dead(self, executor: Any, max_dispatches: int | None = None) -> None:
        shown = self._jobboard.conductor(self._name)
        shown.on_change = self._quiet_changed
        self._left = math.inf if max_dispatches is None or max_dispatches < 0 else max_dispatches
        while self._goes_on():
            try:
                self._dispatch_jobs(executor, shown)
                self._wait_while_quiet(shown)
            except (taskflow_errors.JobFailure, JobBoardError) as error:
                logger.warning("conductor %s waits for its store: %s", self._name, error)
                self._wait_timeout.wait()

    def _goes_on(self) -> bool:
        return self._left > 0 and not self._wait_timeout.is_stopped()

    def _wait_while_quiet(self, shown: ShownConductor) -> None:
        while True:
            self._has_changed.clear()
            if not (shown.is_quiet and self._goes_on()):
                return
            self._has_changed.wait(SIGNAL_POLL)

    def _dispatch_jobs(self, executor: Any, shown: ShownConductor) -> None:
        with self._jobboard.waiter() as self._waiter:
            waiter = self._waiter
            self._interruption.will_call(waiter.interrupt)
            while True:
                # Before the check: whatever changes after it ends the wait below.
                self._has_changed.clear()
                if shown.is_quiet or not self._goes_on():
                    return
                if not self._can_claim_more_jobs(None):
                    self._has_changed.wait(SIGNAL_POLL)
                elif (job := self._jobboard.claim_next(self._name)) is not None:
                    self._left -= 1
                    self._submit(executor, job)
                elif (due := waiter.ready_in()) is None or due > 0:
                    waiter.wait(due)
                else:
                    self._has_changed.wait(_RETRY_DELAY)

    def _submit(self, executor: Any, job: TaskFlowJob) -> None:
        try:
            future = executor.submit(self._dispatch_job, job)
        except RuntimeError:
            logger.warning("conductor %s can't run %s", self._name, job)
            self._try_finish_job(job, False)
            raise
        future.job = job
        self._dispatched.add(future)
        future.add_done_callback(lambda done: self._on_job_done(job, done))

    def _on_job_done(self, job: TaskFlowJob, fut: Any) -> None:
        try:
            super()._on_job_done(job, fut)
        finally:
            self._has_changed.set()

    def _flow_detail_from_job(self, job: TaskFlowJob) -> Any:
        # TaskFlow calls the factory that this very object names.
        detail = super()._flow_detail_from_job(job)
        job.refusal = None if self._factories is None else self._factories.refusal(detail.meta)
        if job.refusal is not None:
            raise FactoryRefused(job.refusal)
        return detail

    def _listeners_from_job(self, job: TaskFlowJob, engine: Any) -> list[Any]:
        return [*super()._listeners_from_job(job, engine), LostClaimListener(engine, job)]


class BlockingConductor(WaitingConductor, impl_blocking.BlockingConductor):  # type: ignore[misc]
    """``taskflow.conductors.backends.fetch("jobboard_blocking", ...)``: one job after the other, in this thread."""


class NonBlockingConductor(WaitingConductor, impl_nonblocking.NonBlockingConductor):  # type: ignore[misc]
    """``taskflow.conductors.backends.fetch("jobboard_nonblocking", ...)``: several jobs at a time, in threads."""

    def _slots(self) -> int:
        most: int = self._max_simultaneous_jobs
        return most if most > 0 else get_optimal_thread_count()


class LostClaimListener(base.Listener):  # type: ignore[misc]
    """Suspends an engine at its next change once the claim of its job is lost; asks nobody.

    It does so in the engine's own thread: an engine holds its lock while it runs a task.
    """

    def __init__(self, engine: Any, job: TaskFlowJob) -> None:
        super().__init__(engine)
        self._job = job
        self._is_suspended = False

    def _suspend_if_lost(self, state: str, details: Any) -> None:
        if not self._job.claim_lost or self._is_suspended:
            return
        self._is_suspended = True
        logger.warning("the claim of job %s is lost; its engine is suspended", self._job.uuid)
        try:
            self._engine.suspend()
        except taskflow_errors.TaskFlowException as error:
            # It has not begun, or has ended.
            logger.debug("the engine of job %s can't be suspended: %s", self._job.uuid, error)

    _flow_receiver = _task_receiver = _retry_receiver = _suspend_if_lost
