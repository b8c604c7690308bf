"""One claimed job in a conductor, from its claim to the moment when its end has been sent."""

from __future__ import annotations

import threading
import time
from contextvars import ContextVar
from typing import Any, Protocol, cast

from jobboard.board import JobBoard
from jobboard.conductor.handlers import Handler
from jobboard.conductor.outcome import Outcome
from jobboard.conductor.running import Facts, RunningJob
from jobboard.errors import ClaimLost, UnreadableRecord
from jobboard.job import Job, Undecodable
from jobboard.logbook import LogBook

_present: ContextVar[Task | None] = ContextVar("jobboard_task", default=None)


class Minder(Protocol):
    """Who wants to know what happens to a task; each returns at once."""

    def began(self, task: Task) -> None: ...
    def reported(self, task: Task) -> None: ...
    def lost(self, task: Task) -> None: ...


class Task:
    """A claim, its handler, and what is known of both. The first outcome counts; later ones are dropped."""

    __slots__ = (
        "_lock", "_minder", "began_at", "deadline", "facts", "handler", "held_until", "job", "kill_at", "outcome",
        "progress", "returned", "running", "stuck", "stuck_at",
    )  # fmt: skip

    def __init__(self, job: Job, handler: Handler, held_until: float, minder: Minder) -> None:
        self.job = job
        self.handler = handler
        #: On this machine's monotonic clock: when the store may have ended the claim, if no renewal gets through.
        self.held_until = held_until
        #: When the handler has to have ended; counts from its beginning.
        self.deadline: float | None = None
        #: When the claim ends, once a cancel was asked for and ignored.
        self.kill_at: float | None = None
        #: When the slot counts as stuck, once the claim is over.
        self.stuck_at: float | None = None
        self.stuck = False
        self.returned = False
        self.began_at: float | None = None
        self.outcome: Outcome | None = None
        self.progress: dict[str, Any] | None = None
        self.facts = Facts.of(job)
        if isinstance(self.facts.record.checkpoint, Undecodable):
            # A handler that found no checkpoint would do again what was done.
            raise UnreadableRecord(f"its checkpoint can't be decoded: {self.facts.record.checkpoint.fault}")
        self.running = RunningJob(self.facts, self)
        self._minder = minder
        self._lock = threading.Lock()

    @staticmethod
    def present() -> Task | None:
        """Return the task whose handler is running the code that asks."""
        return _present.get()

    def begin(self) -> None:
        """The executor's word that the handler begins now."""
        self.began_at = time.monotonic()
        if self.handler.timeout is not None:
            self.deadline = self.began_at + self.handler.timeout
            self._minder.began(self)

    def call(self) -> Any:
        """Begin, and call the handler here; what it returns is a coroutine if it is ``async``."""
        _present.set(self)
        self.begin()
        return self.handler.function(self.running)

    def describe(self) -> str:
        """Say in a line what becomes of it."""
        now = time.monotonic()
        began = "not begun" if self.began_at is None else f"begun {now - self.began_at:.1f} s ago"
        claim = f"claim held for {self.held_until - now:.1f} s" if self.outcome is None else "its end is settled"
        facts = self.facts
        stuck = ", stuck" if self.stuck else ""
        return f"{facts.name!r} {facts.uuid} attempt {facts.attempts} token {facts.token}: {began}, {claim}{stuck}"

    def settle(self, outcome: Outcome) -> bool:
        """Take this outcome if it is the first."""
        with self._lock:
            if self.outcome is not None:
                return False
            self.outcome = outcome
            return True

    # The desk of the running job.

    @property
    def board(self) -> JobBoard:
        return cast(JobBoard, self.job.board)

    def checkpoint(self, state: Any) -> None:
        try:
            self.job.checkpoint_state(state)
        except ClaimLost:
            self._minder.lost(self)
            raise

    def report(self, report: dict[str, Any]) -> None:
        self.progress = report
        self._minder.reported(self)

    def load_book(self, uuid: str) -> LogBook:
        return self.board.load_book(uuid)

    def save_book(self, book: LogBook) -> None:
        self.board.save_book(book)
