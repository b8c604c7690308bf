"""Handlers in processes: they use every core, and can be killed whatever they do."""

from __future__ import annotations

import multiprocessing
import pickle
import queue
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from jobboard.conductor.executors.base import Executor
from jobboard.conductor.executors.worker import work
from jobboard.conductor.outcome import Dropped, Failed, Outcome
from jobboard.conductor.task import Task
from jobboard.errors import JobBoardError

_context = multiprocessing.get_context("spawn")


class ProcessExecutor(Executor):
    """One worker process a slot, each behind a thread that talks with it.

    Handlers must be importable functions of a module. A worker is killed when its task's outcome is settled before it
    ended (lost, timed out, cancel ignored), and another takes its place; it ends by itself when its conductor dies.
    """

    def start(self) -> None:
        for handler in self._handlers:
            _check_importable(handler.name, handler.function)
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._workers: dict[Task, _Worker] = {}
        self._idle: list[_Worker] = []
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._run, name=f"jobboard-slot-{number}", daemon=True)
            for number in range(self._slots)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def can_kill(self) -> bool:
        return True

    def submit(self, task: Task) -> None:
        self._tasks.put(task)

    def ask_to_end(self, task: Task) -> None:
        with self._lock:
            worker = self._workers.get(task)
        if worker is not None:
            worker.tell("cancelled")

    def interrupt(self, task: Task) -> None:
        with self._lock:
            worker = self._workers.get(task)
        if worker is not None:
            worker.kill()

    def stop(self, timeout: float) -> None:
        self._stopping = True
        for _ in self._threads:
            self._tasks.put(None)
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        with self._lock:
            busy = list(self._workers.values())
        for worker in busy:
            worker.kill()

    def _run(self) -> None:
        """Keep one worker alive, and give it one task after the other."""
        worker = _Worker(self._handlers)
        while (task := self._tasks.get()) is not None:
            with self._lock:
                self._workers[task] = worker
            outcome = worker.run(task)
            with self._lock:
                del self._workers[task]
            if not worker.alive and not self._stopping:
                worker = _Worker(self._handlers)
            self._finish(task, outcome)
        worker.dismiss()


class _Worker:
    """The parent's end of one worker process."""

    def __init__(self, handlers: Any) -> None:
        self._pipe, far = _context.Pipe()
        functions = {handler.name: handler.function for handler in handlers}
        self._process = _context.Process(target=work, args=(far, functions), name="jobboard-worker", daemon=True)
        self._process.start()
        far.close()
        self._sending = threading.Lock()

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    def run(self, task: Task) -> Outcome:
        """Run one task, and answer what its handler asks of the board meanwhile."""
        pipe: Connection[Any, Any] = self._pipe
        if task.outcome is not None:
            return Dropped()
        try:
            self._send("run", task.facts)
            # What was said before the worker had the task has to be said again.
            if task.outcome is not None:
                self.kill()
            elif task.running.cancelled:
                self._send("cancelled", None)
            while True:
                verb, content = pipe.recv()
                if verb == "finished":
                    outcome: Outcome = content
                    return outcome
                if verb == "report":
                    task.report(content)
                else:
                    self._send("answer", _answer(task, verb, content))
        except (EOFError, OSError):
            self._process.join()
            return Failed(f"its worker process died: {_cause_of_death(self._process.exitcode)}")

    def tell(self, verb: str) -> None:
        """Pass a word on; one that comes too late does no harm."""
        try:
            self._send(verb, None)
        except OSError:
            pass

    def kill(self) -> None:
        self._process.kill()

    def dismiss(self) -> None:
        """Let an idle worker end: it does when its pipe closes."""
        self._pipe.close()
        self._process.join(5.0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._process.close()

    def _send(self, verb: str, content: Any) -> None:
        with self._sending:
            self._pipe.send((verb, content))


def _answer(task: Task, verb: str, content: Any) -> tuple[bool, Any]:
    """Do what a handler asked for; the answer is whether it went well, and the value or the error."""
    desk: dict[str, Callable[[Any], Any]] = {
        "checkpoint": task.checkpoint,
        "load_book": task.load_book,
        "save_book": task.save_book,
    }
    try:
        value = desk[verb](content)
        return True, content.version if verb == "save_book" else value
    except (JobBoardError, ValueError, TypeError) as error:
        return False, error


def _cause_of_death(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def _check_importable(name: str, function: Any) -> None:
    try:
        pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            f"the handler for {name!r} can't run in a process, since a worker can't import it: {error}. "
            "Define it at the top level of a module"
        ) from None
