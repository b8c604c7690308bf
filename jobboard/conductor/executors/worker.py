"""What runs inside a worker process: one handler at a time, and a thread that listens to the conductor."""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import queue
import signal
import threading
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, NoReturn, TypeAlias

from jobboard.backends.edge_rows import SignalRow, StepRow
from jobboard.board import JobBoard
from jobboard.conductor.batch_calling import BatchCall, BatchJob
from jobboard.conductor.calling import FreshContexts
from jobboard.conductor.job_facts import JobSnapshot
from jobboard.conductor.lifespan import Lifespan, Resources, plain_ones
from jobboard.conductor.outcome import Outcome, current_converter, current_error_rules, outcome_of_call, plain_copy
from jobboard.conductor.retrying import ErrorRules
from jobboard.conductor.running_job import RunningJob
from jobboard.conductor.signals import ignore, not_in_children
from jobboard.conductor.task import Task
from jobboard.errors import ClaimLost, LifespanFailed
from jobboard.family import Parent
from jobboard.job import Posting
from jobboard.logbook import LogBook
from jobboard.telemetry import call_handler

#: What a worker knows of a handler.
HandlerParts: TypeAlias = tuple[Task[Any, ..., Any], ErrorRules, Lifespan]


def work(pipe: Connection[Any, Any], handlers: Sequence[HandlerParts], begin_log: Callable[[], None] | None) -> None:
    """Serve the conductor at the other end of the pipe until it sends "leave", or dies."""
    # A process group of its own: a kill of the group includes what handlers have started, and Ctrl-C does not reach it.
    os.setpgid(0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Service managers signal every process, but only the conductor shall act.
        signal.signal(number, not_in_children(ignore))
    # It is a daemon, which ends with its conductor; but handlers may have processes of their own.
    multiprocessing.current_process().daemon = False
    # It prints stacks even while a handler holds the interpreter; it fails where standard error is closed.
    with contextlib.suppress(RuntimeError, ValueError, AttributeError, OSError):
        faulthandler.register(signal.SIGUSR1)
    if begin_log is not None:
        begin_log()
    try:
        Worker(pipe, handlers).serve()
    except BaseException:
        # Such as one that a library which limits the time of calls has raised here, too late for the handler.
        _tell_and_end()


class Worker:
    """Runs handlers in the main thread, so that they may use signals; another thread reads the pipe.

    Each message carries the number of the execution that it belongs to.
    """

    def __init__(self, pipe: Connection[Any, Any], handlers: Sequence[HandlerParts]) -> None:
        self._pipe = pipe
        self._identity = _identity(pipe)
        self._calls = {task.name: task.call for task, _, _ in handlers}
        self._error_rules = {task.name: rules for task, rules, _ in handlers}
        self._lifespans = {task.name: lifespan for task, _, lifespan in handlers}
        self._resources = Resources(plain_ones(self._lifespans.values()))
        self._contexts = FreshContexts()
        self._queue: queue.SimpleQueue[list[WorkerExecution] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[int, tuple[bool, Any]]] = queue.SimpleQueue()
        #: The number of the last request to the conductor.
        self._asked = 0
        self._sending = threading.Lock()
        self._asking = threading.Lock()
        #: Those that the call serves which runs now: one, or the jobs of a batch.
        self._current: list[WorkerExecution] = []
        # A child that a handler forks must close the pipe, or the conductor does not see that the worker died.
        os.register_at_fork(after_in_child=pipe.close)

    def serve(self) -> None:
        threading.Thread(target=self._listen, name="jobboard-listen", daemon=True).start()
        try:
            self._resources.enter()
        except LifespanFailed as error:
            # Its own error, which the line that the conductor shows leaves out.
            traceback.print_exception(error.__cause__)
            self._send(0, "failed", str(error))
            return
        self._send(0, "ready", None)
        self._run_until_told_to_leave()
        self._resources.leave()
        self._send(0, "left", self._resources.close_fault)

    def _run_until_told_to_leave(self) -> None:
        while (executions := self._queue.get()) is not None:
            number = executions[0].number
            self._send(number, "began", None)
            outcome = self._contexts.new().run(self._outcome_of, executions)
            with self._sending:
                # From here on, threads that the handler left running can send nothing for it.
                self._current = []
            self._send(number, "finished", outcome)

    def _outcome_of(self, executions: list[WorkerExecution]) -> Outcome:
        first = executions[0]
        current_converter.set(first.converter)
        current_error_rules.set((self._error_rules[first.job.name], first.job))
        handler = self._calls[first.job.name]
        if isinstance(handler, BatchCall):
            jobs = [BatchJob(execution.job, execution) for execution in executions]
            return outcome_of_call(partial(call_handler, lambda _: handler(jobs), jobs[0]))
        return outcome_of_call(partial(call_handler, handler, RunningJob(first.job, first)))

    def _listen(self) -> None:
        try:
            self._listen_until_told_to_leave()
        except (EOFError, OSError):
            # The conductor has died, and renews the claim no more, so the handler must not go on.
            _end_at_once()
        except BaseException:
            # Such as a message of another version, after an upgrade while the conductor runs. It would wait for ever.
            _tell_and_end()

    def _listen_until_told_to_leave(self) -> None:
        while True:
            number, index, verb, content = self._pipe.recv()
            if verb == "run":
                self._current = [WorkerExecution(number, at, one, self) for at, one in enumerate(content)]
                self._queue.put(self._current)
            elif verb == "answer":
                self._answers.put(content)
            elif verb == "cancelled" and (current := self._current) and current[0].number == number:
                current[index].cancelled = True
            elif verb == "leave":
                self._queue.put(None)
                return

    def _send(self, number: int, verb: str, content: Any) -> None:
        with self._sending:
            self._write(number, 0, verb, content)

    def _write(self, number: int, index: int, verb: str, content: Any) -> None:
        if _identity(self._pipe) != self._identity:
            # A handler has closed it, and its file descriptor may be another file by now.
            _end_at_once()
        self._pipe.send((number, index, verb, content))

    def resources_of(self, name: str) -> Any:
        return self._resources.of(self._lifespans[name])

    def send_for(self, execution: WorkerExecution, verb: str, content: Any) -> None:
        """Send a message for an execution.

        :raises ClaimLost: the execution has ended.
        """
        with self._sending:
            if execution not in self._current:
                raise ClaimLost(
                    f"job {execution.job.uuid} has ended here; what its handler left running can't act for it"
                )
            self._write(execution.number, execution.index, verb, content)

    def ask_for(self, execution: WorkerExecution, verb: str, content: Any) -> Any:
        # One request at a time, or one thread of a handler would get the answer to another.
        with self._asking:
            self._asked += 1
            self.send_for(execution, verb, (self._asked, content))
            number, (succeeded, value) = self._answers.get()
            while number != self._asked:
                # A signal's handler has raised something here, such as a time limit, before the answer came.
                number, (succeeded, value) = self._answers.get()
        if not succeeded:
            raise value
        return value


class WorkerExecution:
    """One execution in a worker, and the :class:`~jobboard.conductor.running_job.JobContext` of its job."""

    #: The loss of the claim kills this process.
    lost = False
    cancelled = False

    def __init__(self, number: int, index: int, snapshot: JobSnapshot, worker: Worker) -> None:
        #: The number of the call that serves it, and its own among those that the call serves.
        self.number, self.index = number, index
        self.job = snapshot
        self.converter = snapshot.converter
        self._worker = worker
        self._pid = os.getpid()

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise RuntimeError("a process that a handler has forked can't act for the job; let the handler do it")

    @property
    def board(self) -> JobBoard:
        raise RuntimeError("a worker process has no board; use fetch() to open one here")

    @property
    def resources(self) -> Any:
        return self._worker.resources_of(self.job.name)

    def checkpoint(self, state: Any) -> None:
        # Checked here, since a value that can't be stored may not pass the pipe either.
        self._ask("checkpoint", plain_copy("checkpoint", state))

    def expect_end(self, is_expected: bool) -> None:
        self._ask("expect_end", is_expected)

    def complete(self, result: Any, postings: Sequence[Posting], connection: Any, board: JobBoard | None) -> None:
        if connection is None:
            self._ask("complete", (plain_copy("result", result), postings))
            return
        if board is None:
            raise RuntimeError("a worker process has no board; use fetch() to open one here, and give it as board=")
        retention, job = self._ask("retention", None), self.job
        board.consume(
            job.uuid, job.owner, result, post=postings, retention=retention, token=job.token, connection=connection
        )

    def report(self, report: dict[str, Any]) -> None:
        self._check_process()
        self._worker.send_for(self, "report", report)

    def load_steps(self, first: int, size: int) -> list[StepRow]:
        rows: list[StepRow] = self._ask("load_steps", (first, size))
        return rows

    def save_step(self, step: StepRow, seconds: float) -> None:
        self._ask("save_step", (step, seconds))

    def signals(self) -> list[SignalRow]:
        rows: list[SignalRow] = self._ask("signals", None)
        return rows

    def parents(self) -> list[Parent]:
        parents: list[Parent] = self._ask("parents", None)
        return parents

    def load_book(self, uuid: str) -> LogBook:
        book: LogBook = self._ask("load_book", uuid)
        return book

    def save_book(self, book: LogBook) -> None:
        vars(book).update(self._ask("save_book", book))

    def _ask(self, verb: str, content: Any) -> Any:
        self._check_process()
        return self._worker.ask_for(self, verb, content)


def _identity(pipe: Connection[Any, Any]) -> tuple[int, int] | None:
    try:
        status = os.fstat(pipe.fileno())
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _tell_and_end() -> NoReturn:
    """Print the exception that is handled, and kill this worker."""
    try:
        traceback.print_exc()
    finally:
        # A handler may have closed standard error.
        _end_at_once()


def _end_at_once() -> NoReturn:
    """Kill this worker and all that its handlers have started."""
    os.killpg(0, signal.SIGKILL)
    os._exit(1)
