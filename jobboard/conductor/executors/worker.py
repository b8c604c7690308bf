"""What runs inside a worker process: one handler at a time, and a thread that listens to the conductor."""

from __future__ import annotations

import asyncio
import inspect
import os
import queue
import signal
import threading
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any

from jobboard.board import JobBoard
from jobboard.book import LogBook
from jobboard.codec import decode, encode
from jobboard.conductor.outcome import Done, Outcome, outcome_of_call, result_that_cannot_travel
from jobboard.conductor.running import Facts, RunningJob
from jobboard.errors import InvalidPosting

_UNLIMITED = 2**62


def work(pipe: Connection[Any, Any], functions: Mapping[str, Callable[..., Any]]) -> None:
    """Serve the conductor at the other end of the pipe until it says to leave, or goes away."""
    # A group of its own, so that a kill takes along what a handler has started, and a Ctrl-C does not.
    os.setpgid(0, 0)
    for number in (signal.SIGINT, signal.SIGTERM):
        # Service managers signal every process; the conductor decides what it means. Not SIG_IGN, which programs
        # that a handler starts would inherit.
        signal.signal(number, _leave_it_to_the_conductor)
    Worker(pipe, functions).serve()


def _leave_it_to_the_conductor(_number: int, _frame: FrameType | None) -> None:
    pass


class Worker:
    """The main thread runs handlers, so that they may use signals; another one listens."""

    def __init__(self, pipe: Connection[Any, Any], functions: Mapping[str, Callable[..., Any]]) -> None:
        self._pipe = pipe
        self._functions = functions
        self._jobs: queue.SimpleQueue[RunningJob | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
        self._sending = threading.Lock()
        self._asking = threading.Lock()
        self._running: RunningJob | None = None

    def serve(self) -> None:
        threading.Thread(target=self._listen, name="jobboard-listen", daemon=True).start()
        self._send("ready", None)
        while (running := self._jobs.get()) is not None:
            self._send("began", None)
            outcome = outcome_of_call(lambda: self._call(running))
            self._running = None
            self._send("finished", _fit_to_travel(outcome))

    def _call(self, running: RunningJob) -> Any:
        result = self._functions[running.name](running)
        return asyncio.run(result) if inspect.iscoroutine(result) else result

    def _listen(self) -> None:
        while True:
            try:
                verb, content = self._pipe.recv()
            except (EOFError, OSError):
                # The conductor is gone, and with it the claim's renewal: nothing may go on here.
                os.killpg(0, signal.SIGKILL)
                return
            if verb == "run":
                facts: Facts = content
                self._running = RunningJob(facts, self)
                self._jobs.put(self._running)
            elif verb == "answer":
                self._answers.put(content)
            elif verb == "cancelled" and self._running is not None:
                self._running.cancelled = True
            elif verb == "leave":
                self._jobs.put(None)
                return

    def _send(self, verb: str, content: Any) -> None:
        with self._sending:
            self._pipe.send((verb, content))

    def _ask(self, verb: str, content: Any) -> Any:
        # One question at a time, whichever of a handler's threads asks, or it would get another one's answer.
        with self._asking:
            self._send(verb, content)
            went_well, value = self._answers.get()
        if not went_well:
            raise value
        return value

    # The desk of the running job.

    @property
    def board(self) -> JobBoard:
        raise RuntimeError("a worker process has no board; use fetch() to open one here")

    def checkpoint(self, state: Any) -> None:
        # Found out here already, since not everything that can't travel to the store can travel to the conductor.
        self._ask("checkpoint", _as_it_arrives("checkpoint", state))

    def report(self, report: dict[str, Any]) -> None:
        self._send("report", report)

    def load_book(self, uuid: str) -> LogBook:
        book: LogBook = self._ask("load_book", uuid)
        return book

    def save_book(self, book: LogBook) -> None:
        book.version = self._ask("save_book", book)


def _fit_to_travel(outcome: Outcome) -> Outcome:
    if isinstance(outcome, Done) and outcome.result is not None:
        try:
            return Done(_as_it_arrives("result", outcome.result))
        except InvalidPosting as error:
            return result_that_cannot_travel(error)
    return outcome


def _as_it_arrives(what: str, value: Any) -> Any:
    """Return a value as its reader will get it, which a pipe can carry: not all that msgpack takes can be pickled."""
    return decode(encode(what, value, largest=_UNLIMITED))
