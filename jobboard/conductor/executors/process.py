"""Handlers in processes: they use every core, and can be killed whatever they do."""

from __future__ import annotations

import atexit
import pickle  # nosec B403 # only what this conductor and its own workers say to each other
import queue
import threading
import time
from typing import Any

from jobboard.conductor.executors.base import Executor
from jobboard.conductor.executors.guard import Guard
from jobboard.conductor.executors.worker_process import WorkerProcess
from jobboard.conductor.log import logger
from jobboard.conductor.outcome import Failed, GivenUp, Outcome
from jobboard.conductor.task import Task

#: For how long a start waits for its workers, which import the handlers' modules first, in seconds.
_LONGEST_START = 60.0
#: Between two tries to have a new worker, in seconds.
_PAUSE = 1.0
#: A worker that dies before it has begun a task isn't that task's fault, unless it happens again and again.
_MOST_DEATHS = 3


class ProcessExecutor(Executor):
    """One worker process a slot, each behind a thread that talks with it.

    Handlers must be importable functions of a module. A worker is killed, with all that it has started, when its
    task's outcome is settled before it ended (lost, timed out, cancel ignored), and another takes its place. It ends by
    itself when its conductor dies, and a small process sees to it if its handler holds the interpreter.
    """

    def start(self) -> None:
        for handler in self._handlers:
            _check_importable(handler.name, handler.function)
        self._functions = {handler.name: handler.function for handler in self._handlers}
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._working: dict[Task, WorkerProcess] = {}
        self._stopping = threading.Event()
        self._exiting = False
        self._workers: set[WorkerProcess] = set()
        self._guard = Guard()
        self._guard.start()
        self._threads = [
            threading.Thread(target=self._run, args=(worker,), name=f"jobboard-slot-{number}", daemon=True)
            for number, worker in enumerate(self._start_workers())
        ]
        for thread in self._threads:
            thread.start()
        # Before multiprocessing's own hook, which sends workers a SIGTERM, and waits for them without end.
        atexit.register(self._leave_nothing)

    def _start_workers(self) -> list[WorkerProcess]:
        workers = [self._start_worker() for _ in range(self._slots)]
        deadline = time.monotonic() + _LONGEST_START
        for worker in workers:
            if not worker.wait_until_ready(max(0.0, deadline - time.monotonic())):
                for each in workers:
                    each.kill()
                cause = worker.cause_of_death()
                for each in workers:
                    self._bury(each)
                self._guard.stop()
                raise ValueError(
                    f"a worker process can't start: {cause}; what it printed says why. A script that "
                    'starts a conductor has to do so under `if __name__ == "__main__":`, since workers import it'
                )
        return workers

    def _start_worker(self) -> WorkerProcess:
        worker = WorkerProcess(self._functions)
        with self._lock:
            self._workers.add(worker)
        self._guard.watch(worker.pid)
        return worker

    def _bury(self, worker: WorkerProcess) -> None:
        worker.bury()
        self._guard.forget(worker.pid)
        with self._lock:
            self._workers.discard(worker)

    @property
    def can_kill(self) -> bool:
        return True

    def submit(self, task: Task) -> None:
        self._tasks.put(task)

    def ask_to_end(self, task: Task) -> None:
        worker = self._worker_of(task)
        if worker is not None:
            # In a thread, since a pipe may be full, and the one who says this has claims to renew.
            threading.Thread(target=worker.tell_of_cancel, args=(task,), daemon=True).start()

    def interrupt(self, task: Task) -> None:
        worker = self._worker_of(task)
        if worker is not None:
            worker.kill_if_running(task)

    def stack_of(self, task: Task) -> str:
        worker = self._worker_of(task)
        return "(not begun)" if worker is None else worker.tell_stacks()

    def _worker_of(self, task: Task) -> WorkerProcess | None:
        with self._lock:
            return self._working.get(task)

    def stop(self, timeout: float) -> None:
        self._stopping.set()
        for _ in self._threads:
            self._tasks.put(None)
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._kill_busy()
        self._guard.stop()
        atexit.unregister(self._leave_nothing)

    def _kill_busy(self) -> None:
        with self._lock:
            busy = list(self._working.values())
        for worker in busy:
            worker.kill()

    def _leave_nothing(self) -> None:
        """The interpreter ends with the conductor at work: kill the workers, and let the claims run out."""
        self._exiting = True
        self._stopping.set()
        with self._lock:
            workers = list(self._workers)
        for worker in workers:
            worker.kill()

    # -- a slot's thread -------------------------------------------------------------------------------------------

    def _run(self, worker: WorkerProcess | None) -> None:
        """Keep one worker alive, and give it one task after the other."""
        while worker is not None and (task := self._tasks.get()) is not None:
            outcome: Outcome | None = None
            for _ in range(_MOST_DEATHS):
                worker = worker if worker.usable else self._new_worker(worker)
                if worker is None:
                    outcome = GivenUp("its conductor stopped")
                    break
                outcome = self._run_in(worker, task)
                if outcome is not None:
                    break
            if self._exiting:
                return
            self._finish(task, outcome or Failed("its worker process died again and again before it could begin"))
            if worker is not None and not worker.usable:
                worker = self._new_worker(worker)
        if worker is not None:
            worker.dismiss()
            self._bury(worker)

    def _run_in(self, worker: WorkerProcess, task: Task) -> Outcome | None:
        with self._lock:
            self._working[task] = worker
        try:
            return worker.run(task)
        finally:
            with self._lock:
                del self._working[task]

    def _new_worker(self, old: WorkerProcess) -> WorkerProcess | None:
        """Replace a worker; None if the executor is stopped first."""
        self._bury(old)
        while not self._stopping.is_set():
            try:
                return self._start_worker()
            except OSError as error:
                logger.error("no worker process can be started for now: %s", error)
                self._stopping.wait(_PAUSE)
        return None


def _check_importable(name: str, function: Any) -> None:
    try:
        pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            f"the handler for {name!r} can't run in a process, since a worker can't import it: {error}. "
            "Define it at the top level of a module"
        ) from None
