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
from typing import Any

from jobboard.book import LogBook
from jobboard.conductor.outcome import outcome_of_call
from jobboard.conductor.running import Facts, RunningJob


def work(pipe: Connection[Any, Any], functions: Mapping[str, Callable[..., Any]]) -> None:
    """Serve the conductor at the other end of the pipe until it goes away."""
    # Ctrl-C reaches the whole group of processes; the conductor decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Worker(pipe, functions).serve()


class Worker:
    """The main thread runs handlers, so that they may use signals; another one listens."""

    def __init__(self, pipe: Connection[Any, Any], functions: Mapping[str, Callable[..., Any]]) -> None:
        self._pipe = pipe
        self._functions = functions
        self._jobs: queue.SimpleQueue[RunningJob] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
        self._sending = threading.Lock()
        self._running: RunningJob | None = None

    def serve(self) -> None:
        threading.Thread(target=self._listen, name="jobboard-listen", daemon=True).start()
        while True:
            running = self._jobs.get()
            outcome = outcome_of_call(lambda: self._call(running))  # noqa: B023, called at once
            self._running = None
            try:
                self._send("finished", outcome)
            except (TypeError, ValueError, AttributeError) as error:
                # A result that can't even cross the pipe is the handler's failure.
                self._send("finished", outcome_of_call(_raiser(error)))

    def _call(self, running: RunningJob) -> Any:
        result = self._functions[running.name](running)
        return asyncio.run(result) if inspect.iscoroutine(result) else result

    def _listen(self) -> None:
        while True:
            try:
                verb, content = self._pipe.recv()
            except (EOFError, OSError):
                # The conductor is gone, and with it the claim's renewal: nothing may go on here.
                os._exit(1)
            if verb == "run":
                facts: Facts = content
                self._running = RunningJob(facts, self)
                self._jobs.put(self._running)
            elif verb == "answer":
                self._answers.put(content)
            elif verb == "cancelled" and self._running is not None:
                self._running.cancelled = True

    def _send(self, verb: str, content: Any) -> None:
        with self._sending:
            self._pipe.send((verb, content))

    def _ask(self, verb: str, content: Any) -> Any:
        self._send(verb, content)
        went_well, value = self._answers.get()
        if not went_well:
            raise value
        return value

    # The desk of the running job.

    def checkpoint(self, state: Any) -> None:
        self._ask("checkpoint", state)

    def report(self, report: dict[str, Any]) -> None:
        self._send("report", report)

    def load_book(self, uuid: str) -> LogBook:
        book: LogBook = self._ask("load_book", uuid)
        return book

    def save_book(self, book: LogBook) -> None:
        book.version = self._ask("save_book", book)


def _raiser(error: BaseException) -> Callable[[], Any]:
    def raise_it() -> Any:
        raise error

    return raise_it
