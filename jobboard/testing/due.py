"""Runs handlers in the thread of a test: what is due when the test says so, or each job at its post."""

from __future__ import annotations

import asyncio
import contextvars
import math
from collections.abc import Collection, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import CoroutineType
from typing import Any

from jobboard.backends.rows import Verdict
from jobboard.board import JobBoard, client_of, lend
from jobboard.conductor import Handlers
from jobboard.conductor.batches import Batch
from jobboard.conductor.completer import Completer
from jobboard.conductor.execution import Execution
from jobboard.conductor.outcome import Dropped, Failed, Outcome, Returned, Suspended, outcome_of_call
from jobboard.conductor.slots import Slots
from jobboard.errors import InvalidPosting, NotFound, UnclaimableJob
from jobboard.heartbeat import worker_id
from jobboard.job import Job, Posting
from jobboard.schedules.firing import Firing
from jobboard.states import JobState
from jobboard.testing.checks import check_board
from jobboard.testing.clock import clock_of
from jobboard.testing.resources import NOT_GIVEN, HandlerResources, entered
from jobboard.validation import check_count, check_names

#: A schedule posts what it owes in this many rounds at most; each posts up to 100 fire times of it.
_MAX_ROUNDS = 100
_MAX_SCHEDULES = 1000


def run_due(
    board: JobBoard,
    handlers: Handlers,
    *,
    names: Collection[str] | None = None,
    limit: int = 1000,
    resources: Any = NOT_GIVEN,
) -> list[Job]:
    """Run what can be claimed, in this thread and in claim order, until nothing is left; raise what a handler raises.

    Every claim ends as a conductor ends it: with the result, by a retry after the backoff, in the trash. What a
    handler raises is raised again after that, and the jobs behind it stay on the board. ``RunAgain`` and a cancel that
    was asked for are no failures. An ``async`` handler gets an event loop of its own. Claims don't expire meanwhile,
    and a handler's ``timeout`` and ``silent_for`` do not count.

    When nothing is left but jobs that it has run and that sleep (``job.sleep``), the clock of a board in memory is
    moved on to the moment at which the first one wakes. Jobs that wait for a signal stay on the board: send it, or move
    the clock past the time limit, and call this again.

    A batch handler gets what can be claimed of its name at once, and a job of it that fails raises a ``RuntimeError``.

    :param board: connected; in memory, or on any other store.
    :param names: run only jobs of these names; None: of all that have a handler.
    :param limit: how many jobs may run.
    :param resources: what all handlers get as ``job.resources``, such as a fake; without it, lifespans are entered, and
        closed at the end.
    :returns: the jobs that ran, in order; what they post is run, too.
    :raises AssertionError: as many as ``limit`` ran, and more can be claimed.
    :raises InvalidPosting: a handler's result can't be stored.
    :raises RuntimeError: a handler called ``job.complete`` in a transaction that did not commit; or a lifespan could
        not close what it has made.
    :raises LifespanFailed: a lifespan raised an error, or did not yield in time.
    """
    asked, count = check_names(names), check_count("limit", limit)
    with entered(handlers, resources) as made:
        return _run_due(_Runner(check_board(board), handlers, made), board, handlers, asked, count)


def _run_due(
    runner: _Runner, board: JobBoard, handlers: Handlers, asked: frozenset[str] | None, count: int
) -> list[Job]:
    wanted = handlers.names if asked is None else handlers.names & asked
    ran: list[Job] = []
    while len(ran) < count:
        jobs = runner.claim(wanted)
        if not jobs and runner.walk_through_sleep():
            continue
        if not jobs:
            return ran
        ran += jobs
        if handlers[jobs[0].name].batch is None:
            runner.run(jobs[0])
        else:
            runner.run_batch(jobs)
    if any(board.wait(0, wanted)):
        raise AssertionError(
            f"{count} jobs ran, and more can be claimed; does a handler post its own job again, "
            "or run again at a moment that is past by the board's clock?"
        )
    return ran


def fire_due(board: JobBoard) -> int:
    """Post the jobs of all schedules that are due, as a scheduler does, and return how many were posted."""
    firing, posted = Firing(client_of(check_board(board))), 0
    for _ in range(_MAX_ROUNDS):
        made = firing.fire_due(_MAX_SCHEDULES)
        posted += made.posted
        if made.next_in != 0.0:
            break
    return posted


@contextmanager
def inline(board: JobBoard, handlers: Handlers, *, resources: Any = NOT_GIVEN) -> Iterator[None]:
    """Inside the block, run the handler of each job that is posted through this board object at its post.

    ``post`` raises what the handler raises, after the claim has ended as :func:`run_due` ends it. What can't be claimed
    at once stays on the board: a job with a delay, of a paused name, or of a transaction that has not committed.

    :param resources: as for :func:`run_due`; lifespans are entered, and closed at the end of the block.
    """
    check_board(board)
    with entered(handlers, resources) as made:
        runner = _Runner(board, handlers, made)
        # Handlers post by what is lent to them.
        with _running_at_post(board, runner), _running_at_post(lend(board), runner):
            yield


@contextmanager
def _running_at_post(board: JobBoard, runner: _Runner) -> Iterator[None]:
    post, post_many = board.post, board.post_many

    # What a transaction has not committed yet nobody else sees.
    def is_visible(options: Mapping[str, Any]) -> bool:
        return options.get("connection") is None or not board.capabilities.processes

    def post_and_run(*arguments: Any, **options: Any) -> Job:
        job = post(*arguments, **options)
        if is_visible(options):
            runner.claim_and_run(job)
        return job

    def post_many_and_run(postings: Iterable[Posting], **options: Any) -> list[Job]:
        jobs = post_many(postings, **options)
        for job in jobs if is_visible(options) else ():
            runner.claim_and_run(job)
        return jobs

    vars(board).update(post=post_and_run, post_many=post_many_and_run)
    try:
        yield
    finally:
        del vars(board)["post"], vars(board)["post_many"]


class _Runner:
    """Runs claimed jobs in the calling thread, and ends their claims; the listener of its executions."""

    def __init__(self, board: JobBoard, handlers: Handlers, resources: HandlerResources) -> None:
        self._resources = resources
        self.who = worker_id("test")
        self._board = board
        self._handlers = handlers
        self._ends = Completer(
            *(board, self.who, Slots(1), lambda executions: None, lambda executions: None, lambda: None)
        )
        #: The uuids of the jobs that sleep.
        self._sleeping: set[str] = set()

    def claim_and_run(self, job: Job) -> None:
        if job.name not in self._handlers.names:
            return
        try:
            # The poster's own handle must not become the one that claimed.
            claimed = self._board.get(job.uuid)
            self._board.claim(claimed, self.who, math.inf)
        except (NotFound, UnclaimableJob):
            return
        if self._handlers[job.name].batch is None:
            self.run(claimed)
        else:
            self.run_batch([claimed])

    def claim(self, names: frozenset[str]) -> list[Job]:
        """Claim the next job of these names; if its handler is for batches, also others of its name."""
        jobs = self._board.claim_next(self.who, names, 1, math.inf) if names else []
        batch = self._handlers[jobs[0].name].batch if jobs else None
        if batch is not None and batch.size > 1:
            jobs += self._board.claim_next(self.who, {jobs[0].name}, batch.size - 1, math.inf)
        return jobs

    def run(self, job: Job) -> None:
        """Call the handler, end the claim, and raise what the handler raised, unless that is no failure."""
        execution = self._execution_of(job)
        self._decide(execution, self._outcome_of(execution))
        self._end(execution)

    def _execution_of(self, job: Job) -> _Execution:
        handler = self._handlers[job.name]
        return _Execution(job, handler, math.inf, self, self._resources.of(handler))

    def _outcome_of(self, execution: _Execution) -> Outcome:
        return self._resources.run_on_loop(execution) or _outcome_of(execution)

    def run_batch(self, jobs: list[Job]) -> None:
        """Call a batch handler, and likewise."""
        first, *others = (self._execution_of(job) for job in jobs)
        batch = Batch(first, len(jobs), lambda batch: None)
        first.batch = batch
        for other in others:
            batch.join(other)
        outcomes = list(batch.outcomes(self._outcome_of(first)))
        for execution, outcome in outcomes:
            self._decide(execution, outcome)
            self._ends.end(execution)
        for execution, _ in outcomes:
            if isinstance(execution.outcome, Failed):
                raise RuntimeError(f"job {execution.job.name!r}: {execution.outcome.reason}")

    def _end(self, execution: _Execution) -> None:
        job = execution.job
        self._ends.end(execution)
        # The size of a result is known only here.
        outcome = execution.outcome
        if isinstance(outcome, Suspended) and outcome.signal is None:
            self._sleeping.add(job.uuid)
        if execution.raised and isinstance(outcome, (Failed, Dropped)):
            raise execution.raised[0]
        if isinstance(outcome, Failed):
            kind = InvalidPosting if outcome.final else RuntimeError
            raise kind(f"job {job.name!r}: {outcome.reason}")

    def walk_through_sleep(self) -> bool:
        """Move the clock of a board in memory to the moment at which the first job wakes; False if none sleeps."""
        rows = client_of(self._board).call(client_of(self._board).backend.jobs.read, list(self._sleeping))
        slept = len(self._sleeping)
        self._sleeping = {row.uuid for row in rows if row is not None and row.state is JobState.DELAYED}
        if len(self._sleeping) < slept:
            # The clock goes on by itself: one has woken since nothing could be claimed.
            return True
        moments = [row.run_at for row in rows if row is not None and row.uuid in self._sleeping]
        if not self._sleeping or self._board.store != "memory":
            return False
        clock = clock_of(self._board)
        clock.move(max(0.0, min(at for at in moments if at is not None) - clock()))
        return True

    def _decide(self, execution: Execution, outcome: Outcome) -> None:
        if isinstance(outcome, Failed) and self._is_cancelled(execution):
            outcome = Returned(f"it was cancelled: {outcome.reason}")
        execution.decide(outcome)

    def _is_cancelled(self, execution: Execution) -> bool:
        try:
            return self._board.get(execution.job.uuid).record.cancel_asked
        except NotFound:
            return False

    # -- what a conductor's other threads do -----------------------------------------------------------------------

    def began(self, execution: Execution) -> None:
        """No handler times out here."""

    def reported(self, execution: Execution) -> None:
        report, execution.progress = execution.progress, None
        (verdict,) = self._board.extend_many([execution.job], self.who, math.inf, progress=[report])
        if verdict is Verdict.LOST:
            self.lost(execution)
        elif verdict is Verdict.CANCEL_ASKED:
            execution.cancelled = True

    def ending(self, execution: Execution) -> None:
        """Its reports were sent."""

    def lost(self, execution: Execution) -> None:
        execution.decide(Dropped())
        execution.lost = True


class _Execution(Execution):
    """One that keeps what its handler raises."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.raised: list[BaseException] = []

    def call(self) -> Any:
        try:
            result = super().call()
        except BaseException as error:
            self.raised.append(error)
            raise
        return self._awaited(result) if issubclass(type(result), CoroutineType) else result

    async def _awaited(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        try:
            return await coroutine
        except BaseException as error:
            self.raised.append(error)
            raise


def _outcome_of(execution: Execution) -> Outcome:
    # What a handler sets in its context stays there, as in a conductor.
    context = contextvars.copy_context()
    if execution.handler.is_async and _is_loop_running():
        # A thread has one running loop at most.
        with ThreadPoolExecutor(1, "jobboard-async-handler") as executor:
            return executor.submit(context.run, outcome_of_call, execution.call).result()
    return context.run(outcome_of_call, execution.call)


def _is_loop_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
