"""One execution of a job in a conductor, from its claim until the end of the claim has been sent."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, cast

from jobboard import telemetry
from jobboard.backends.edge_rows import SignalRow, StepRow
from jobboard.backends.rows import Fence
from jobboard.board import JobBoard, client_of, lend
from jobboard.board.claim_errors import loss_of
from jobboard.client import BackendClient
from jobboard.conductor.following import on_complete_of
from jobboard.conductor.handlers import Handler
from jobboard.conductor.job_facts import JobSnapshot
from jobboard.conductor.outcome import Dropped, Outcome, Returned, current_converter, current_error_rules
from jobboard.conductor.running_job import NOT_MADE, RunningJob
from jobboard.errors import ClaimLost, InvalidPosting, UnreadableRecord
from jobboard.family import Parent
from jobboard.job import Job, Posting, row_of
from jobboard.logbook import LogBook
from jobboard.participants import Run, SilentRun
from jobboard.record import Undecodable

if TYPE_CHECKING:
    from jobboard.conductor.batches import Batch

_current: ContextVar[Execution | None] = ContextVar("jobboard_execution", default=None)


class ExecutionListener(Protocol):
    """Is told what happens to an execution; each method but :meth:`ending` returns at once."""

    def began(self, execution: Execution) -> None: ...
    def reported(self, execution: Execution) -> None: ...
    def ending(self, execution: Execution) -> None:
        """Its handler ends the claim now."""

    def lost(self, execution: Execution) -> None: ...


class Execution:
    """A claimed job, its handler, and what is known of both; the :class:`JobContext` of its running job.

    All moments are of this machine's monotonic clock, in seconds; infinity stands for never.
    """

    #: When the handler times out; counts from its beginning.
    deadline = math.inf
    #: When the claim ends, once a cancel was asked for and the handler goes on.
    kill_at = math.inf
    #: When the claim ends if it waits for a slot and none is free before.
    start_by = math.inf
    #: When the slot counts as stuck, once the claim is over.
    stuck_at = math.inf
    stuck = False
    #: What the running job says: whether its claim is lost, and whether its cancel was asked for.
    lost = cancelled = False
    #: Whether the handler has returned.
    returned = False
    began_at: float | None = None
    #: When the handler has begun, or has given the last sign of life since; of a batch the first one knows it.
    heard_at = math.inf
    outcome: Outcome | None = None
    #: Whether the handler has ended its claim itself, and whether that is certain: it may be up to a transaction.
    completing = completed = False
    #: When the outcome was known.
    decided_at: float | None = None
    #: What has become of the claim, once its end was sent; see :meth:`jobboard.telemetry.Recorder.ended`.
    ended_as = "lost"
    #: The last report of progress that is not sent yet.
    progress: dict[str, Any] | None = None
    #: The batch that it is one of, if its handler is for batches.
    batch: Batch | None = None

    def __init__(
        self, job: Job, handler: Handler, held_until: float, listener: ExecutionListener, made: Any = NOT_MADE
    ) -> None:
        self.job = job
        #: What the handler's lifespan has made, where the handler runs; of a batch the first one knows it.
        self.made = made
        self.handler = handler
        #: When the store may have ended the claim, if no further renewal gets through.
        self.held_until = held_until
        self.claimed_at = time.monotonic()
        self.snapshot = JobSnapshot(job)
        row = row_of(job)
        #: How old the job was when it was claimed, by the store's clock.
        self._age = row.last_modified - row.created_on
        if row.checkpoint is not None and isinstance(checkpoint := job.record.checkpoint, Undecodable):
            # A handler that saw no checkpoint would do again what was done.
            raise UnreadableRecord(f"its checkpoint can't be decoded: {checkpoint.fault}")
        self._listener = listener
        self._lock = threading.Lock()

    @staticmethod
    def current() -> Execution | None:
        """Return the execution whose handler calls this, or None."""
        return _current.get()

    @property
    def max_attempts(self) -> int:
        """The posting's number, else the handler's."""
        return self.job.max_attempts or self.handler.max_attempts

    @property
    def seconds(self) -> float:
        """How long the handler ran until the outcome was known; 0 if it never began."""
        return 0.0 if self.began_at is None or self.decided_at is None else self.decided_at - self.began_at

    @property
    def age(self) -> float:
        """How old the job was when the outcome was known."""
        return self._age + (self.decided_at or time.monotonic()) - self.claimed_at

    @property
    def leader(self) -> Execution:
        """The one that the executor runs: of a batch it is the first one."""
        return self if self.batch is None else self.batch.leader

    def refusal(self) -> Outcome | None:
        """Return the outcome of an execution whose handler must not begin now, and None if it may."""
        return self.own_refusal() if self.batch is None else self.batch.refusal()

    def own_refusal(self) -> Outcome | None:
        """Return the outcome of an execution that must not begin now, and None if it may.

        An answer of the store may come late, and this process may have been stopped for a while: then the claim is over
        by this machine's clock, and another owner may run the job.
        """
        if self.outcome is not None:
            return Dropped()
        if time.monotonic() >= self.held_until:
            return Returned("its claim was over before its handler could begin")
        return None

    @property
    def silent_at(self) -> float:
        """When the handler counts as silent unless it gives a sign of life before."""
        limit = self.handler.silent_for
        return math.inf if limit is None else self.leader.heard_at + limit

    def _hear(self) -> None:
        self.leader.heard_at = time.monotonic()

    def begin(self) -> None:
        """Note that the handler begins now; the executor calls it."""
        self.began_at = self.leader.heard_at = time.monotonic()
        if self.handler.timeout is not None:
            self.deadline = self.began_at + self.handler.timeout
        self._listener.began(self)

    def call(self) -> Any:
        """Begin, and call the handler in this thread; returns a coroutine if the handler is ``async``."""
        _current.set(self)
        current_converter.set(self.snapshot.converter)
        current_error_rules.set((self.handler.error_rules, self.snapshot))
        if self.batch is not None:
            return self.batch.call()
        self.begin()
        return telemetry.call_handler(self.handler.call, RunningJob(self.snapshot, self))

    def describe(self) -> str:
        """Return one line on its state."""
        now = time.monotonic()
        began = "not begun" if self.began_at is None else f"begun {now - self.began_at:.1f} s ago"
        claim = f"claim held for {self.held_until - now:.1f} s" if self.outcome is None else "its outcome is known"
        job = self.snapshot
        stuck = ", stuck" if self.stuck else ""
        return f"{job.name!r} {job.uuid} attempt {job.attempts} token {job.token}: {began}, {claim}{stuck}"

    def decide(self, outcome: Outcome) -> bool:
        """Set the outcome; False if there is one already, which stays."""
        with self._lock:
            if self.outcome is not None:
                return False
            self.outcome = outcome
            self.decided_at = time.monotonic()
            return True

    # -- the context of the running job ----------------------------------------------------------------------------

    @property
    def board(self) -> JobBoard:
        return lend(cast(JobBoard, self.job.board))

    @property
    def resources(self) -> Any:
        return self.leader.made

    def checkpoint(self, state: Any) -> None:
        try:
            self.job.checkpoint_state(state)
        except ClaimLost:
            self._listener.lost(self)
            raise
        self._hear()

    def complete(self, result: Any, postings: Sequence[Posting], connection: Any, board: JobBoard | None) -> None:
        posts = [*postings, *on_complete_of(self.snapshot, self.handler.on_complete)]
        if connection is None:
            # A row that the handler's transaction has read or locked is left alone.
            self._listener.ending(self)
        try:
            (board or self.board).consume(
                self.job,
                self.snapshot.owner,
                result,
                post=posts,
                retention=self.handler.retention,
                connection=connection,
            )
        except ClaimLost:
            self._listener.lost(self)
            raise
        self.completed = connection is None

    def expect_end(self, is_expected: bool) -> None:
        self.completing = is_expected

    def renewed(self, until: float) -> None:
        """Learn that the claim was renewed."""
        self.held_until = until

    def report(self, report: dict[str, Any]) -> None:
        self.progress = report
        self._hear()
        self._listener.reported(self)

    def load_steps(self, first: int, size: int) -> list[StepRow]:
        return self._client.load_steps(self.job.uuid, first, size)

    def save_step(self, step: StepRow, seconds: float) -> None:
        client, snapshot = self._client, self.snapshot
        if len(step.result) > client.largest_details:
            what = f"the result of the step {step.name!r}"
            raise InvalidPosting(
                f"{what} is {len(step.result)} bytes once encoded; at most {client.largest_details} are allowed. "
                "Store large data elsewhere and return a reference to it",
                path=what,
            )
        fence = Fence(snapshot.uuid, snapshot.owner, snapshot.token)
        error = loss_of(fence, client.save_step(fence, step))
        if error is not None:
            self._listener.lost(self)
            raise error
        self._hear()
        if telemetry.is_on():
            telemetry.emit("stepped", snapshot, step.name, seconds)

    def signals(self) -> list[SignalRow]:
        return self._client.signals(self.job.uuid)

    def parents(self) -> list[Parent]:
        return list(self.board.get(self.job.uuid).parents())

    @property
    def _client(self) -> BackendClient:
        return client_of(cast(JobBoard, self.job.board))

    def load_book(self, uuid: str) -> LogBook:
        return self.board.load_book(uuid)

    def save_book(self, book: LogBook) -> None:
        try:
            self.board.save_book(book, hold=self.job)
        except ClaimLost:
            self._listener.lost(self)
            raise
        self._hear()


def runs_among(executions: Iterable[Execution]) -> list[Run]:
    """Return the handlers that run."""
    began = [(execution.snapshot, execution.began_at) for execution in executions if execution.outcome is None]
    now = time.monotonic()
    return [Run(job.uuid, job.name, round(now - at, 1)) for job, at in began if at is not None]


def silent_among(executions: Iterable[Execution]) -> list[SilentRun]:
    """Return for how long each handler that has to give signs of life has given none."""
    now = time.monotonic()
    return [
        SilentRun(execution.job.uuid, round(now - execution.leader.heard_at, 1), limit)
        for execution in executions
        if execution.outcome is None
        and execution.began_at is not None
        and (limit := execution.handler.silent_for) is not None
    ]
