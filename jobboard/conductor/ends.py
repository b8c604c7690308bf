"""Sends the ends of claims, in batches, and again until the store has them."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

from jobboard.backends.text import in_one_line
from jobboard.board import JobBoard
from jobboard.conductor.log import logger
from jobboard.conductor.outcome import (
    Again,
    Done,
    Dropped,
    Failed,
    GivenUp,
    Outcome,
    result_that_cannot_travel,
)
from jobboard.conductor.slots import Slots
from jobboard.conductor.task import Task
from jobboard.errors import BoardUnavailable, ClaimLost, InvalidPosting

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
#: An end gives way to claims for so many seconds at most.
_LONGEST_COURTESY = 0.005


class Ends:
    """Takes the outcomes of tasks, and ends their claims from one thread.

    Whatever has come in while a request was under way goes out with the next one. What can't be sent is kept, and its
    claim renewed, until the store is back; then it is sent under its token, and the store decides.

    :param slots: ends give way to claims, which idle slots wait for.
    :param on_ended: is told of each task when there is nothing left to do for it.
    """

    def __init__(self, board: JobBoard, who: str, slots: Slots, on_ended: Callable[[Task], None]) -> None:
        self._board = board
        self._who = who
        self._slots = slots
        self._on_ended = on_ended
        self._settled: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jobboard-ends", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def send(self, task: Task) -> None:
        """End the claim of a task as its outcome says; returns at once."""
        self._settled.put(task)

    def stop(self, timeout: float) -> None:
        """Give up what could not be sent; its claims run out by themselves.

        :param timeout: seconds for a request that is under way.
        """
        self._stopped.set()
        self._settled.put(None)
        self._thread.join(timeout)

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._insist(self._next_batch())

    def _next_batch(self) -> list[Task]:
        batch = [self._settled.get()]
        self._slots.give_way(_LONGEST_COURTESY)
        while not self._settled.empty():
            batch.append(self._settled.get())
        return [task for task in batch if task is not None]

    def _insist(self, batch: list[Task]) -> None:
        pause = _FIRST_PAUSE
        while batch:
            try:
                self._send(batch)
                return
            except BoardUnavailable as error:
                level = logging.WARNING if pause == _FIRST_PAUSE else logging.DEBUG
                logger.log(
                    level, "conductor %s keeps %d ends until the store is back: %s", self._who, len(batch), error
                )
            if self._stopped.wait(pause):
                return
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _send(self, batch: list[Task]) -> None:
        """Send all, taking out of the batch what is done; stops at the first that the store isn't there for."""
        self._consume([task for task in batch if isinstance(task.outcome, Done)], batch)
        for task in list(batch):
            try:
                self._end(task, task.outcome)
            except ClaimLost as error:
                logger.info("conductor %s: %s", self._who, error)
            except BoardUnavailable:
                raise
            except Exception:
                # One end that nobody foresaw must not hold up all others.
                logger.exception("the end of job %s can't be sent; its claim will run out", task.job.uuid)
            self._ended(task, batch)

    def _consume(self, done: list[Task], batch: list[Task]) -> None:
        if not done:
            return
        results = [task.outcome.result for task in done if isinstance(task.outcome, Done)]
        try:
            errors = self._board.consume_many([task.job for task in done], self._who, results=results)
        except BoardUnavailable:
            raise
        except Exception:
            logger.exception("conductor %s sends %d ends one by one after a fault", self._who, len(done))
            return
        for task, error in zip(done, errors, strict=True):
            if isinstance(error, InvalidPosting):
                task.outcome = result_that_cannot_travel(error)
                continue
            if error is not None:
                logger.info("conductor %s: %s", self._who, error)
            self._ended(task, batch)

    def _end(self, task: Task, outcome: Outcome | None) -> None:
        if isinstance(outcome, Failed):
            self._fail(task, outcome)
        elif isinstance(outcome, Again):
            self._board.abandon(
                task.job, self._who, delay=outcome.after or 0.0, run_at=outcome.at, reason="runs again", counted=False
            )
        elif isinstance(outcome, GivenUp):
            self._board.abandon(task.job, self._who, reason=outcome.reason, counted=False)
        elif isinstance(outcome, Done):
            self._complete(task, outcome)
        elif not isinstance(outcome, Dropped):
            raise AssertionError(f"no end for {outcome!r}")

    def _complete(self, task: Task, done: Done) -> None:
        try:
            self._board.consume(task.job, self._who, done.result)
        except InvalidPosting as error:
            task.outcome = failed = result_that_cannot_travel(error)
            self._fail(task, failed)

    def _fail(self, task: Task, failed: Failed) -> None:
        attempts = task.facts.attempts
        logger.info("job %s failed at attempt %d: %s", task.job.uuid, attempts, in_one_line(failed.reason))
        if failed.final or attempts >= allowed_attempts(task):
            self._board.trash(task.job, self._who, reason=failed.reason, error=failed.error)
        else:
            delay = task.handler.backoff.delay(attempts)
            self._board.abandon(task.job, self._who, delay=delay, reason=failed.reason, error=failed.error)

    def _ended(self, task: Task, batch: list[Task]) -> None:
        batch.remove(task)
        self._on_ended(task)


def allowed_attempts(task: Task) -> int:
    """The posting's number wins over the handler's."""
    return task.job.max_attempts or task.handler.max_attempts
