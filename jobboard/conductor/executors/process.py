"""Handlers in processes: they use all cores, and can be killed whatever they do."""

from __future__ import annotations

import atexit
import pickle  # nosec B403 # it only tries whether a handler can be pickled
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jobboard.backends.reasons import CONDUCTOR_STOPPED
from jobboard.conductor.execution import Execution
from jobboard.conductor.executors.base import Executor, Finish, go_on_until_done
from jobboard.conductor.executors.guard import Guard
from jobboard.conductor.executors.handoff import HandoffQueue
from jobboard.conductor.executors.worker import HandlerParts
from jobboard.conductor.executors.worker_process import WorkerProcess
from jobboard.conductor.handlers import Handler, Handlers
from jobboard.conductor.lifespan import CLOSE_TIMEOUT, Lifespan, plain_ones, time_for
from jobboard.conductor.log import logger
from jobboard.conductor.outcome import Failed, Outcome, Returned
from jobboard.converter import Converter
from jobboard.errors import LifespanFailed
from jobboard.forks import watch_forks
from jobboard.text import line_of

#: Seconds that a start waits for its workers, which import the modules of the handlers first, without lifespans.
_START_TIMEOUT = 60.0
#: Seconds until the next try to start a worker; doubled after each one whose lifespan failed.
_RETRY_DELAY, _MAX_RETRY_DELAY = 1.0, 30.0
_NO_MAIN_GUARD = (
    "no worker process can start: this program starts a conductor when it is imported, and workers import it; "
    'start the conductor under `if __name__ == "__main__":`'
)
#: Seconds between two looks whether a new worker is still needed.
_POLL = 0.5
#: The exit status of a program that is used in a wrong way, as on the command line.
_USAGE = 2
#: How many workers may die before they have begun an execution, until that counts as its failure.
_MAX_RETRIES = 3


@dataclass
class _Slot:
    """What the thread of a slot has: its worker, and what runs in it."""

    number: int
    worker: WorkerProcess | None
    execution: Execution | None = None


class ProcessExecutor(Executor):
    """One worker process for each slot, and a thread that talks to it.

    Handlers must be importable functions of a module. A worker is killed, with all processes that it has started, when
    its execution gets an outcome while the handler runs (claim lost, timed out, cancel ignored); a new worker replaces
    it. A worker ends when its conductor dies; if its handler holds the interpreter, the :class:`Guard` kills it.
    """

    in_conductor = False

    def __init__(self, handlers: Handlers, slots: int, finish: Finish) -> None:
        super().__init__(handlers, slots, finish)
        #: Why the slots whose workers can't be replaced for now have none, by their numbers.
        self._failures: dict[int, str] = {}

    def check_converter(self, converter: Converter | None) -> None:
        _check_importable("the board's converter", converter)

    def start(self) -> None:
        self._lifespans = plain_ones(handler.lifespan for handler in self._handlers)
        self._parts = [self._part_of(handler) for handler in self._handlers]
        for lifespan in self._lifespans:
            _check_importable(repr(lifespan), lifespan)
        for task, rules, _ in self._parts:
            _check_importable(f"the handler for {task.name!r}", task)
            _check_importable(f"a backoff, or broken_on, of the handler for {task.name!r}", rules)
        self._queue: HandoffQueue[Execution | None] = HandoffQueue()
        self._lock = threading.Lock()
        self._working: dict[Execution, WorkerProcess] = {}
        self._stopping = threading.Event()
        self._exiting = False
        self._workers: set[WorkerProcess] = set()
        self._guard = Guard()
        self._guard.start()
        self._threads: list[threading.Thread] = []
        try:
            for number, worker in enumerate(self._start_workers()):
                name = f"jobboard-slot-{number}"
                thread = threading.Thread(target=self._run, args=(number, worker), name=name, daemon=True)
                thread.start()
                self._threads.append(thread)
        except BaseException:
            self._undo_start()
            raise
        # It runs before multiprocessing's own hook, which sends workers a SIGTERM and waits without a limit.
        atexit.register(self._kill_at_exit)
        watch_forks(self)

    def _part_of(self, handler: Handler) -> HandlerParts:
        # An async lifespan is of no use in a worker, which need not be able to import it.
        lifespan = handler.lifespan if handler.lifespan in self._lifespans else Lifespan()
        return handler.task, handler.error_rules, lifespan

    def _start_workers(self) -> list[WorkerProcess]:
        workers = [self._start_worker() for _ in range(self._slots)]
        deadline = time.monotonic() + self._start_timeout
        for worker in workers:
            if not worker.wait_until_ready(max(0.0, deadline - time.monotonic())):
                if worker.failure is not None:
                    raise LifespanFailed(worker.failure)
                if worker.was_started_by_import:
                    logger.error(_NO_MAIN_GUARD)
                    # A traceback would hide the line, and none of its lines is at fault.
                    raise SystemExit(_USAGE)
                if self._lifespans and worker.usable:
                    raise LifespanFailed(self._late)
                worker.kill()
                raise ValueError(f"a worker process can't start: {worker.cause_of_death()}; what it printed says why")
        return workers

    @property
    def _start_timeout(self) -> float:
        return _START_TIMEOUT + time_for(self._lifespans)

    @property
    def _late(self) -> str:
        entered = ", ".join(map(repr, self._lifespans))
        return f"a worker process has not imported the handlers and entered {entered} within {self._start_timeout:g} s"

    @property
    def fault(self) -> str | None:
        failures = list(self._failures.values())
        return failures[0] if len(failures) >= self._slots else None

    def _undo_start(self) -> None:
        workers = list(self._workers)
        for worker in workers:
            worker.kill()
        self.stop(_START_TIMEOUT)
        for worker in workers:
            self._dispose(worker)

    def _start_worker(self) -> WorkerProcess:
        worker = WorkerProcess(self._parts)
        with self._lock:
            self._workers.add(worker)
        self._guard.watch(worker.pid)
        return worker

    def _dispose(self, worker: WorkerProcess) -> None:
        worker.dispose()
        self._guard.forget(worker.pid)
        with self._lock:
            self._workers.discard(worker)

    def submit(self, executions: Sequence[Execution]) -> None:
        if (fault := self.fault) is None:
            self._queue.put(executions)
            return
        for execution in executions:
            self._finish(execution, Returned(fault))

    def request_cancel(self, execution: Execution) -> None:
        worker = self._worker_of(execution.leader)
        if worker is not None:
            # In a thread, since the pipe may be full, and the caller is the thread that renews the claims.
            threading.Thread(target=worker.request_cancel, args=(execution,), daemon=True).start()

    def interrupt(self, execution: Execution) -> None:
        worker = self._worker_of(execution)
        if worker is not None:
            worker.kill_if_running(execution)

    def stack_of(self, execution: Execution) -> str:
        worker = self._worker_of(execution)
        return "(not begun)" if worker is None else worker.print_stacks()

    def _worker_of(self, execution: Execution) -> WorkerProcess | None:
        with self._lock:
            return self._working.get(execution)

    def stop(self, timeout: float) -> None:
        self._stopping.set()
        self._queue.put([None] * len(self._threads))
        deadline = time.monotonic() + max(timeout, CLOSE_TIMEOUT if self._lifespans else 0.0)
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._kill_busy()
        self._guard.stop()
        atexit.unregister(self._kill_at_exit)

    def _kill_busy(self) -> None:
        with self._lock:
            busy = list(self._working.values())
        for worker in busy:
            worker.kill()

    def _kill_at_exit(self) -> None:
        """The interpreter exits while the conductor works: kill the workers, and let the claims expire."""
        self._exiting = True
        self._stopping.set()
        with self._lock:
            workers = list(self._workers)
        for worker in workers:
            worker.kill()

    def _begin_anew_in_child(self) -> None:
        # The workers are the parent's, which goes on.
        atexit.unregister(self._kill_at_exit)

    # -- a slot's thread -------------------------------------------------------------------------------------------

    def _run(self, number: int, worker: WorkerProcess) -> None:
        """Keep one worker alive, and run one execution after the other in it."""
        slot = _Slot(number, worker)
        go_on_until_done(lambda: self._serve(slot), lambda error: self._recover(slot, error))

    def _serve(self, slot: _Slot) -> None:
        while slot.worker is not None and (execution := self._queue.get()) is not None:
            slot.execution = execution
            outcome = self._run_with_retries(slot, execution)
            if self._exiting:
                return
            self._finish(execution, outcome)
            slot.execution = None
            if slot.worker is not None and not slot.worker.usable:
                slot.worker = self._new_worker(slot, slot.worker)
        if slot.worker is not None:
            fault = slot.worker.leave()
            self.close_fault = self.close_fault or fault
            self._dispose(slot.worker)

    def _recover(self, slot: _Slot, error: BaseException) -> None:
        """Something was raised in the thread of a slot: nobody hears what its worker says now."""
        if slot.worker is not None:
            slot.worker.kill()
        if slot.execution is not None:
            # If its handler had returned, its outcome stays.
            self._finish(slot.execution, Failed(line_of(error)))
            slot.execution = None

    def _run_with_retries(self, slot: _Slot, execution: Execution) -> Outcome:
        """Return the outcome; the slot has no worker afterwards if the executor was stopped first."""
        for _ in range(_MAX_RETRIES):
            if slot.worker is not None and not slot.worker.usable:
                slot.worker = self._new_worker(slot, slot.worker)
            if slot.worker is None:
                return Returned(CONDUCTOR_STOPPED)
            outcome = self._run_in(slot.worker, execution)
            if outcome is not None:
                return outcome
        return Failed("its worker process died again and again before it could begin")

    def _run_in(self, worker: WorkerProcess, execution: Execution) -> Outcome | None:
        with self._lock:
            self._working[execution] = worker
        try:
            return worker.run(execution)
        finally:
            with self._lock:
                del self._working[execution]

    def _new_worker(self, slot: _Slot, old: WorkerProcess) -> WorkerProcess | None:
        """Return a worker in place of one that has ended; None if the executor is stopped first."""
        self._dispose(old)
        delay = _RETRY_DELAY
        while not self._stopping.is_set():
            try:
                worker = self._start_worker()
                if self._has_resources(slot, worker):
                    return worker
                self._stopping.wait(delay)
                delay = min(2 * delay, _MAX_RETRY_DELAY)
            except OSError as error:
                logger.error("no worker process can be started for now: %s", error)
                self._stopping.wait(_RETRY_DELAY)
        return None

    def _has_resources(self, slot: _Slot, worker: WorkerProcess) -> bool:
        """Wait until the lifespans of a new worker have made what they make; dispose of it if they fail.

        Then the slot has no worker, and its job is given back with the attempt uncounted, since another attempt here
        would fail as well. While no slot has one, nothing is claimed.
        """
        if not self._lifespans:
            return True
        until = time.monotonic() + self._start_timeout
        while not worker.wait_until_ready(_POLL):
            is_late = time.monotonic() > until or self._stopping.is_set()
            if worker.failure is not None or is_late or not worker.usable:
                break
        else:
            self._failures.pop(slot.number, None)
            return True
        why = worker.failure or (self._late if worker.usable else f"a worker process died: {worker.cause_of_death()}")
        self._dispose(worker)
        if not self._stopping.is_set():
            self._failures[slot.number] = why
            logger.error("a worker process can't be replaced for now: %s", why)
        if slot.execution is not None:
            # What the slot does with it after this changes nothing.
            self._finish(slot.execution, Returned(why))
        return False


def _check_importable(what: str, value: Any) -> None:
    try:
        pickle.dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            f"{what} can't run in a process, since a worker can't import it: {error}. "
            "Define it at the top level of a module"
        ) from None
