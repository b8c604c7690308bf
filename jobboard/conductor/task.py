"""One claimed job in a conductor, from its claim to the moment when its end has been sent."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from jobboard.board import JobBoard
from jobboard.book import LogBook
from jobboard.conductor.handlers import Handler
from jobboard.conductor.outcome import Outcome
from jobboard.conductor.running import Facts, RunningJob
from jobboard.job import Job


class Task:
    """A claim, its handler, and what is known of both. The first outcome counts; later ones are dropped."""

    __slots__ = (
        "_board", "_lock", "_on_progress", "deadline", "facts", "handler", "held_until", "job", "kill_at", "outcome",
        "progress", "running",
    )  # fmt: skip

    def __init__(
        self, board: JobBoard, job: Job, handler: Handler, held_until: float, on_progress: Callable[[], None]
    ) -> None:
        self._board = board
        self.job = job
        self.handler = handler
        #: On this machine's monotonic clock: when the store may have ended the claim, if no renewal gets through.
        self.held_until = held_until
        self.deadline = None if handler.timeout is None else time.monotonic() + handler.timeout
        #: When an executor that can kill does so, once a cancel was asked for and ignored.
        self.kill_at: float | None = None
        self.outcome: Outcome | None = None
        self.progress: dict[str, Any] | None = None
        self.facts = Facts.of(job)
        self.running = RunningJob(self.facts, self)
        self._on_progress = on_progress
        self._lock = threading.Lock()

    def settle(self, outcome: Outcome) -> bool:
        """Take this outcome if it is the first."""
        with self._lock:
            if self.outcome is not None:
                return False
            self.outcome = outcome
            return True

    # The desk of the running job.

    def checkpoint(self, state: Any) -> None:
        self.job.checkpoint_state(state)

    def report(self, report: dict[str, Any]) -> None:
        self.progress = report
        self._on_progress()

    def load_book(self, uuid: str) -> LogBook:
        return self._board.load_book(uuid)

    def save_book(self, book: LogBook) -> None:
        self._board.save_book(book)
