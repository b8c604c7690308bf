"""Sends the ends of claims, in batches, until the store has them; one that is refused holds up no other."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from jobboard.backends.reasons import RUNS_AGAIN, asked_for, given_up
from jobboard.backends.thread_end import wait_for_thread
from jobboard.backends.timelimit import lock_wait
from jobboard.board import JobBoard, client_of, suspend, trash_with, wait_for_jobs, wait_for_jobs_of_step
from jobboard.conductor.execution import Execution
from jobboard.conductor.following import on_complete_of, on_trashed_of
from jobboard.conductor.log import logger
from jobboard.conductor.outcome import (
    Dropped,
    Failed,
    Returned,
    RunLater,
    Succeeded,
    Suspended,
    jobs_that_cannot_be_awaited,
    postings_that_cannot_follow,
    result_that_cannot_travel,
)
from jobboard.conductor.slots import Slots
from jobboard.conductor.unsent_ends import MAX_PAUSE, MIN_PAUSE, UnsentEnds
from jobboard.errors import BoardUnavailable, ClaimLost, InvalidPosting, JobBoardError, NotFound, is_too_large
from jobboard.job import Posting
from jobboard.states import JobState

#: For how many seconds at most an end waits for the claimer to fill the free slots.
_MAX_YIELD = 0.005


class Completer:
    """One thread that ends the claims of executions as their outcomes say.

    The ends that come in during a request go out with the next one. While the store is away the ends are kept and
    their claims renewed; when it is back they are sent with their tokens, and the store decides. An end that the store
    refuses while it answers others (its row is locked, for one) is left to :class:`UnsentEnds`.

    :param send_reports: sends the last reports of progress of executions whose ends are sent next; it raises nothing.
    :param on_ended: is called with the executions whose ends are sent, or need no more attempt to send them.
    :param on_refused: is called when :attr:`refused` has changed.
    """

    def __init__(
        self,
        board: JobBoard,
        who: str,
        slots: Slots,
        send_reports: Callable[[Sequence[Execution]], None],
        on_ended: Callable[[Sequence[Execution]], None],
        on_refused: Callable[[], None],
    ) -> None:
        self._board = board
        self._is_away = client_of(board).is_away
        self._who = who
        self._slots = slots
        self._send_reports, self._on_ended = send_reports, on_ended
        self._queue: queue.SimpleQueue[Execution | None] = queue.SimpleQueue()
        self._unsent = UnsentEnds(who, slots, self._send_one, self._is_away, on_refused)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jobboard-completer", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._unsent.start()

    def send(self, execution: Execution) -> None:
        """End the claim as the execution's outcome says; returns at once."""
        self._queue.put(execution)

    def stop(self, timeout: float) -> None:
        """Drop the ends that are not sent; their claims expire.

        :param timeout: seconds to wait for a request that is under way.
        """
        self._stopped.set()
        self._queue.put(None)
        self._unsent.request_stop()
        until = time.monotonic() + timeout
        wait_for_thread(self._thread, timeout)
        self._unsent.stop(max(0.0, until - time.monotonic()))

    @property
    def refused(self) -> list[dict[str, Any]]:
        """The ends that the store goes on to refuse: of each the job's uuid and name, the seconds, and the error."""
        return self._unsent.reported()

    def _run(self) -> None:
        with lock_wait(0.0):
            while not self._stopped.is_set():
                self._send_until_done(self._next_batch())

    def _next_batch(self) -> list[Execution]:
        batch = [self._queue.get()]
        self._slots.yield_to_claimer(_MAX_YIELD)
        while not self._queue.empty():
            batch.append(self._queue.get())
        return [execution for execution in batch if execution is not None]

    def _send_until_done(self, batch: list[Execution]) -> None:
        pause = MIN_PAUSE
        while batch:
            try:
                self._send(batch)
                return
            except BoardUnavailable as error:
                level = logging.WARNING if pause == MIN_PAUSE else logging.DEBUG
                logger.log(
                    level, "conductor %s keeps %d ends until the store is back: %s", self._who, len(batch), error
                )
            if self._stopped.wait(pause):
                return
            pause = min(pause * 2, MAX_PAUSE)

    def _send(self, batch: list[Execution]) -> None:
        """Send all, and remove each from the batch that is sent, or left to others to send.

        :raises BoardUnavailable: the store is away; what remains in the batch has to be sent again.
        """
        self._send_reports([execution for execution in batch if not execution.completing])
        succeeded = [each for each in batch if isinstance(each.outcome, Succeeded) and _is_plain(each, each.outcome)]
        self._consume(succeeded, batch)
        for execution in list(batch):
            try:
                self._send_one(execution)
            except BoardUnavailable as error:
                if self._is_away(error):
                    raise
                self._unsent.add(execution, error)
            batch.remove(execution)

    def _send_one(self, execution: Execution) -> None:
        """Send one end.

        :raises BoardUnavailable: it did not get through.
        """
        try:
            execution.ended_as = self.end(execution)
        except ClaimLost as error:
            logger.info("conductor %s: %s", self._who, error)
        except BoardUnavailable:
            raise
        except Exception:
            # One faulty end must not hold up the others.
            logger.exception("the end of job %s can't be sent; its claim will expire", execution.job.uuid)
        self._on_ended([execution])

    def _consume(self, succeeded: list[Execution], batch: list[Execution]) -> None:
        if not succeeded:
            return
        results = [each.outcome.result for each in succeeded if isinstance(each.outcome, Succeeded)]
        try:
            errors = self._board.consume_many(
                [each.job for each in succeeded],
                self._who,
                results=results,
                retentions=[each.handler.retention for each in succeeded],
            )
        except BoardUnavailable:
            raise
        except Exception:
            logger.exception("conductor %s sends %d ends one by one after a fault", self._who, len(succeeded))
            return
        ended = []
        for execution, error in zip(succeeded, errors, strict=True):
            if error is not None and (isinstance(error, InvalidPosting) or is_too_large(error)):
                # It stays in the batch, to end as a failure.
                execution.outcome = result_that_cannot_travel(error)
                continue
            batch.remove(execution)
            if isinstance(error, BoardUnavailable):
                self._unsent.add(execution, error)
                continue
            if error is None:
                execution.ended_as = "consumed"
            else:
                logger.info("conductor %s: %s", self._who, error)
            ended.append(execution)
        if ended:
            self._on_ended(ended)

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
            case RunLater(jobs=jobs) if jobs is not None and not execution.cancelled:
                return self._wait(execution, partial(wait_for_jobs, self._board, job, self._who, jobs))
            case Suspended(delay, jobs=jobs) if jobs is not None and not execution.cancelled:
                wait = partial(wait_for_jobs_of_step, self._board, job, self._who, jobs, delay or 0.0)
                return self._wait(execution, wait)
            case RunLater(at, after, pause_lane):
                if pause_lane and job.lane is not None:
                    # First, so that no other job of the lane begins between the two.
                    self._board.pause(lane=job.lane, duration=after, until=at, by=self._who, reason=asked_for(job.name))
                self._board.abandon(job, self._who, delay=after or 0.0, run_at=at, reason=RUNS_AGAIN, counted=False)
                return "again"
            case Suspended(seconds, signal):
                suspend(self._board, job, self._who, seconds or 0.0, signal, outcome.reason)
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

    def _wait(self, execution: Execution, wait: Callable[[], None]) -> str:
        try:
            wait()
            return "again"
        except (ClaimLost, BoardUnavailable):
            raise
        except (JobBoardError, ValueError, TypeError) as error:
            execution.outcome = failed = jobs_that_cannot_be_awaited(error)
            return self._fail(execution, failed)

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
        posts = [*succeeded.postings, *on_complete_of(execution.snapshot, execution.handler.on_complete)]
        try:
            retention = execution.handler.retention
            self._board.consume(execution.job, self._who, succeeded.result, post=posts, retention=retention)
            return "consumed"
        except ClaimLost:
            raise
        except (JobBoardError, ValueError, TypeError) as error:
            execution.outcome = failed = _failure_of(error, posts)
            return self._fail(execution, failed)

    def _fail(self, execution: Execution, failed: Failed) -> str:
        job, attempts, limit = execution.job, execution.snapshot.attempts, execution.handler.give_up_after
        is_last = failed.final or attempts >= execution.max_attempts
        if not is_last and limit is not None and (age := execution.age) > limit:
            failed, is_last = replace(failed, reason=given_up(age, failed.reason)), True
        if is_last:
            posts = on_trashed_of(execution.snapshot, execution.handler.on_trashed)
            if posts:
                trash_with(self._board, job, self._who, failed.reason, failed.error, posts)
            else:
                self._board.trash(job, self._who, reason=failed.reason, error=failed.error)
            return "trashed"
        delay = execution.handler.backoff.delay(attempts) if failed.delay is None else failed.delay
        self._board.abandon(job, self._who, delay=delay, reason=failed.reason, error=failed.error)
        return "failed"


def _failure_of(error: Exception, posts: Sequence[Posting]) -> Failed:
    """Return what becomes of a job whose end is refused though it succeeded; raise an error that is not its own."""
    if isinstance(error, BoardUnavailable):
        if is_too_large(error):
            return result_that_cannot_travel(error)
        raise error
    if isinstance(error, InvalidPosting) and (error.path or "").startswith("result"):
        return result_that_cannot_travel(error)
    if posts:
        return postings_that_cannot_follow(error)
    raise error


def _is_plain(execution: Execution, succeeded: Succeeded) -> bool:
    """Whether the end of a job that succeeded can be sent together with others."""
    return not (execution.completing or succeeded.postings or execution.handler.on_complete)
