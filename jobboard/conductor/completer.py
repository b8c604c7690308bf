"""Sends the ends of claims, in batches, until the store has them."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence

from jobboard.backends.thread_end import wait_for_thread
from jobboard.board import JobBoard
from jobboard.conductor.execution import Execution
from jobboard.conductor.log import logger
from jobboard.conductor.outcome import (
    Dropped,
    Failed,
    Returned,
    RunLater,
    Succeeded,
    result_that_cannot_travel,
)
from jobboard.conductor.slots import Slots
from jobboard.errors import BoardUnavailable, ClaimLost, InvalidPosting, NotFound, is_too_large
from jobboard.states import JobState

_MIN_PAUSE, _MAX_PAUSE = 0.1, 5.0
#: For how many seconds at most an end waits for the claimer to fill the free slots.
_MAX_YIELD = 0.005


class Completer:
    """One thread that ends the claims of executions as their outcomes say.

    The ends that come in during a request go out with the next one. While the store is absent the ends are kept and
    their claims renewed; when it is back they are sent with their tokens, and the store decides.

    :param on_ended: is called with the executions whose ends are sent, or need no more attempt to send them.
    """

    def __init__(
        self, board: JobBoard, who: str, slots: Slots, on_ended: Callable[[Sequence[Execution]], None]
    ) -> None:
        self._board = board
        self._who = who
        self._slots = slots
        self._on_ended = on_ended
        self._queue: queue.SimpleQueue[Execution | None] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jobboard-completer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def send(self, execution: Execution) -> None:
        """End the claim as the execution's outcome says; returns at once."""
        self._queue.put(execution)

    def stop(self, timeout: float) -> None:
        """Drop the ends that are not sent; their claims expire.

        :param timeout: seconds to wait for a request that is under way.
        """
        self._stopped.set()
        self._queue.put(None)
        wait_for_thread(self._thread, timeout)

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._send_until_done(self._next_batch())

    def _next_batch(self) -> list[Execution]:
        batch = [self._queue.get()]
        self._slots.yield_to_claimer(_MAX_YIELD)
        while not self._queue.empty():
            batch.append(self._queue.get())
        return [execution for execution in batch if execution is not None]

    def _send_until_done(self, batch: list[Execution]) -> None:
        pause = _MIN_PAUSE
        while batch:
            try:
                self._send(batch)
                return
            except BoardUnavailable as error:
                level = logging.WARNING if pause == _MIN_PAUSE else logging.DEBUG
                logger.log(
                    level, "conductor %s keeps %d ends until the store is back: %s", self._who, len(batch), error
                )
            if self._stopped.wait(pause):
                return
            pause = min(pause * 2, _MAX_PAUSE)

    def _send(self, batch: list[Execution]) -> None:
        """Send all, and remove each sent one from the batch.

        :raises BoardUnavailable: the store did not answer; what remains in the batch has to be sent again.
        """
        succeeded = [each for each in batch if isinstance(each.outcome, Succeeded) and not each.completing]
        self._consume(succeeded, batch)
        for execution in list(batch):
            try:
                execution.ended_as = self.end(execution)
            except ClaimLost as error:
                logger.info("conductor %s: %s", self._who, error)
            except BoardUnavailable:
                raise
            except Exception:
                # One faulty end must not hold up the others.
                logger.exception("the end of job %s can't be sent; its claim will expire", execution.job.uuid)
            self._ended([execution], batch)

    def _consume(self, succeeded: list[Execution], batch: list[Execution]) -> None:
        if not succeeded:
            return
        results = [each.outcome.result for each in succeeded if isinstance(each.outcome, Succeeded)]
        try:
            errors = self._board.consume_many([each.job for each in succeeded], self._who, results=results)
        except BoardUnavailable as fault:
            if is_too_large(fault):
                # One by one the store takes the others.
                return
            raise
        except Exception:
            logger.exception("conductor %s sends %d ends one by one after a fault", self._who, len(succeeded))
            return
        ended = []
        for execution, error in zip(succeeded, errors, strict=True):
            if isinstance(error, InvalidPosting):
                # It stays in the batch, to end as a failure.
                execution.outcome = result_that_cannot_travel(error)
                continue
            if error is None:
                execution.ended_as = "consumed"
            else:
                logger.info("conductor %s: %s", self._who, error)
            ended.append(execution)
        self._ended(ended, batch)

    def end(self, execution: Execution) -> str:
        """End the claim in this thread, as the execution's outcome says, and return what has become of it.

        :raises ClaimLost: it does not hold any more.
        :raises BoardUnavailable: the store did not answer.
        """
        job = execution.job
        if execution.completing and (ended_as := self._ended_by_handler(execution)) is not None:
            return ended_as
        match outcome := execution.outcome:
            case Failed():
                return self._fail(execution, outcome)
            case RunLater(at, after):
                self._board.abandon(job, self._who, delay=after or 0.0, run_at=at, reason="runs again", counted=False)
                return "again"
            case Returned(reason):
                self._board.abandon(job, self._who, reason=reason, counted=False)
                return "returned"
            case Succeeded():
                return self._consume_one(execution, outcome)
            case Dropped():
                return "lost"
            case _:
                raise AssertionError(f"no end for {outcome!r}")

    def _ended_by_handler(self, execution: Execution) -> str | None:
        """Return what has become of a claim that the handler has ended itself; None if nobody has ended the job."""
        if execution.completed:
            return "consumed"
        try:
            record = self._board.get(execution.job.uuid).record
        except NotFound:
            # Of a completed job without retention there is no record.
            return "consumed"
        if record.state is JobState.COMPLETE:
            return "consumed" if record.token == execution.job.token else "lost"
        if isinstance(execution.outcome, Succeeded):
            execution.outcome = Failed("its handler completed it in a transaction that did not commit")
        return None

    def _consume_one(self, execution: Execution, succeeded: Succeeded) -> str:
        try:
            self._board.consume(execution.job, self._who, succeeded.result)
            return "consumed"
        except (InvalidPosting, BoardUnavailable) as error:
            if isinstance(error, BoardUnavailable) and not is_too_large(error):
                raise
            execution.outcome = failed = result_that_cannot_travel(error)
            return self._fail(execution, failed)

    def _fail(self, execution: Execution, failed: Failed) -> str:
        job, attempts = execution.job, execution.snapshot.attempts
        if failed.final or attempts >= execution.max_attempts:
            self._board.trash(job, self._who, reason=failed.reason, error=failed.error)
            return "trashed"
        delay = execution.handler.backoff.delay(attempts)
        self._board.abandon(job, self._who, delay=delay, reason=failed.reason, error=failed.error)
        return "failed"

    def _ended(self, executions: Sequence[Execution], batch: list[Execution]) -> None:
        ended = set(executions)
        batch[:] = [execution for execution in batch if execution not in ended]
        self._on_ended(executions)
