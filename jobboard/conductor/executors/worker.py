"""What runs inside a worker process: one handler at a time, and a thread that listens to the conductor."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import queue
import signal
import threading
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any, NoReturn

from jobboard.board import JobBoard
from jobboard.codec import decode, encode
from jobboard.conductor.outcome import outcome_of_call
from jobboard.conductor.running import Facts, RunningJob
from jobboard.errors import ClaimLost
from jobboard.logbook import LogBook

_UNLIMITED = 2**62


def work(pipe: Connection[Any, Any], functions: Mapping[str, Callable[..., Any]]) -> None:
    """Serve the conductor at the other end of the pipe until it says to leave, or goes away."""
    # A group of its own, so that a kill takes along what a handler has started, and a Ctrl-C does not.
    os.setpgid(0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Service managers signal every process; the conductor decides what it means. Not SIG_IGN, which programs
        # that a handler starts would inherit.
        signal.signal(number, _leave_it_to_the_conductor)
    # In C: also while a handler holds the interpreter. Not where standard error is closed.
    with contextlib.suppress(RuntimeError, ValueError, AttributeError, OSError):
        faulthandler.register(signal.SIGUSR1)
    Worker(pipe, functions).serve()


def _leave_it_to_the_conductor(_number: int, _frame: FrameType | None) -> None:
    pass


class Worker:
    """The main thread runs handlers, so that they may use signals; another one listens.

    Every message carries the number of the run that it belongs to.
    """

    def __init__(self, pipe: Connection[Any, Any], functions: Mapping[str, Callable[..., Any]]) -> None:
        self._pipe = pipe
        self._identity = _identity(pipe)
        self._functions = functions
        self._runs: queue.SimpleQueue[Run | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
        self._sending = threading.Lock()
        self._asking = threading.Lock()
        self._run: Run | None = None
        # A child that a handler forks is no worker: with the pipe open, it would hide the worker's death.
        os.register_at_fork(after_in_child=pipe.close)

    def serve(self) -> None:
        threading.Thread(target=self._listen, name="jobboard-listen", daemon=True).start()
        self._send(0, "ready", None)
        while (run := self._runs.get()) is not None:
            self._send(run.number, "began", None)
            outcome = outcome_of_call(lambda run=run: self._functions[run.job.name](run.job))  # type: ignore[misc]
            with self._sending:
                # From now on nothing more is said for this run, whatever it has left behind.
                self._run = None
            self._send(run.number, "finished", outcome)

    def _listen(self) -> None:
        while True:
            try:
                number, verb, content = self._pipe.recv()
            except (EOFError, OSError):
                # The conductor is gone, and with it the claim's renewal: nothing may go on here.
                _end_at_once()
            if verb == "run":
                self._run = Run(number, content, self)
                self._runs.put(self._run)
            elif verb == "answer":
                self._answers.put(content)
            elif verb == "cancelled" and (run := self._run) is not None and run.number == number:
                run.job.cancelled = True
            elif verb == "leave":
                self._runs.put(None)
                return

    def _send(self, number: int, verb: str, content: Any) -> None:
        with self._sending:
            self._write(number, verb, content)

    def _write(self, number: int, verb: str, content: Any) -> None:
        if _identity(self._pipe) != self._identity:
            # A handler closed it, and the number may be another file's by now.
            _end_at_once()
        self._pipe.send((number, verb, content))

    def send_for(self, run: Run, verb: str, content: Any) -> None:
        """Say something in the name of a run, which has to be the one that goes on."""
        with self._sending:
            if self._run is not run:
                raise ClaimLost(f"job {run.job.uuid} has ended here; what it left behind can't act for it")
            self._write(run.number, verb, content)

    def ask_for(self, run: Run, verb: str, content: Any) -> Any:
        # One question at a time, whichever of a handler's threads asks, or it would get another one's answer.
        with self._asking:
            self.send_for(run, verb, content)
            went_well, value = self._answers.get()
        if not went_well:
            raise value
        return value


class Run:
    """One run of a handler, and the desk of its job."""

    def __init__(self, number: int, facts: Facts, worker: Worker) -> None:
        self.number = number
        self.job = RunningJob(facts, self)
        self._worker = worker
        self._pid = os.getpid()

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise RuntimeError("a process that a handler has forked can't act for the job; let the handler do it")

    @property
    def board(self) -> JobBoard:
        raise RuntimeError("a worker process has no board; use fetch() to open one here")

    def checkpoint(self, state: Any) -> None:
        # Found out here already, since not everything that can't travel to the store can travel to the conductor.
        self._ask("checkpoint", _as_it_arrives("checkpoint", state))

    def report(self, report: dict[str, Any]) -> None:
        self._check_process()
        self._worker.send_for(self, "report", report)

    def load_book(self, uuid: str) -> LogBook:
        book: LogBook = self._ask("load_book", uuid)
        return book

    def save_book(self, book: LogBook) -> None:
        book.version = self._ask("save_book", book)

    def _ask(self, verb: str, content: Any) -> Any:
        self._check_process()
        return self._worker.ask_for(self, verb, content)


def _identity(pipe: Connection[Any, Any]) -> tuple[int, int] | None:
    try:
        status = os.fstat(pipe.fileno())
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _end_at_once() -> NoReturn:
    """End this worker and all that its handlers have started."""
    os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _as_it_arrives(what: str, value: Any) -> Any:
    """Return a value as its reader will get it, which a pipe can carry: not all that msgpack takes can be pickled."""
    return decode(encode(what, value, largest=_UNLIMITED))
