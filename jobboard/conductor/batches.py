"""Batches of jobs that one call of a batch handler serves: gathered from the board, in the slot of the first one."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jobboard import telemetry
from jobboard.backends.base import Waiter
from jobboard.board import JobBoard, claims_for, client_of
from jobboard.conductor.batch_calling import BatchJob
from jobboard.conductor.execution import Execution
from jobboard.conductor.log import logger
from jobboard.conductor.outcome import Batched, Dropped, Outcome, Returned
from jobboard.conductor.slots import Slots
from jobboard.errors import BoardUnavailable
from jobboard.job import Job

#: Seconds until the next try when a job was said to be ready and could not be claimed.
_RETRY_DELAY = 0.01
_DID_NOT_BEGIN = "the batch that it was claimed for did not begin"


class Batch:
    """The executions of one call. The first one leads: it has the slot, and the executor knows only it.

    Others join until the call begins. Each keeps its own claim, and its own end; the call is interrupted once all of
    them have one.
    """

    def __init__(self, leader: Execution, size: int, gather: Callable[[Batch], None]) -> None:
        self.leader = leader
        self._size = size
        self._gather = gather
        self._lock = threading.Lock()
        self._members = [leader]
        self._is_closed = False
        self._was_asked = False
        #: Those that the call serves.
        self._running: list[Execution] = []

    @property
    def room(self) -> int:
        """How many more may join."""
        with self._lock:
            return 0 if self._is_closed else self._size - len(self._members)

    def join(self, execution: Execution) -> bool:
        """Return whether an execution is one of it now."""
        with self._lock:
            if self._is_full():
                return False
            self._members.append(execution)
        execution.batch = self
        return True

    def _is_full(self) -> bool:
        return self._is_closed or len(self._members) >= self._size

    def close(self) -> list[Execution]:
        """Let nobody join any more; return all that have."""
        with self._lock:
            self._is_closed = True
            return list(self._members)

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for its call any more."""
        with self._lock:
            return self._is_full() and all(member.outcome is not None for member in self._members)

    def refusal(self) -> Outcome | None:
        """Return the outcome of a call that serves nobody, and None if it may begin."""
        return None if any(member.own_refusal() is None for member in list(self._members)) else Dropped()

    def begin(self) -> list[Execution]:
        """Wait for more jobs as long as the handler wants it, and return the executions that the call serves."""
        self._gather(self)
        self._running = [member for member in self.close() if member.own_refusal() is None]
        return self._running

    def call(self) -> Any:
        """Gather the batch, and call its handler; returns a coroutine if the handler is ``async``."""
        handler = self.leader.handler
        if handler.is_async:
            return self._await(handler.call)
        jobs = _begun(self.begin())
        return telemetry.call_handler(lambda _: handler.call(jobs), jobs[0]) if jobs else Batched(())

    async def _await(self, call: Callable[[Any], Any]) -> Any:
        jobs = _begun(await asyncio.to_thread(self.begin))

        async def call_on(_: object) -> Any:
            return await call(jobs)

        return await telemetry.call_handler(call_on, jobs[0]) if jobs else Batched(())

    def take_members(self) -> int:
        """Return how many have no slot of their own; 0 if that was asked before."""
        with self._lock:
            self._is_closed = True
            was_asked, self._was_asked = self._was_asked, True
            return 0 if was_asked else len(self._members) - 1

    def outcomes(self, outcome: Outcome) -> Iterator[tuple[Execution, Outcome]]:
        """Iterate over its executions and what becomes of each, by the outcome of the call."""
        its = dict(zip(self._running, outcome.outcomes, strict=True)) if isinstance(outcome, Batched) else {}
        shared = Returned(_DID_NOT_BEGIN) if isinstance(outcome, Batched | Dropped) else outcome
        for member in self.close():
            yield member, its.get(member) or member.own_refusal() or shared


def _begun(running: Sequence[Execution]) -> list[BatchJob]:
    for execution in running:
        execution.begin()
    return [BatchJob(execution.snapshot, execution) for execution in running]


class Batches:
    """The batches of a conductor: of each name one at most is open, which those that are claimed join.

    :param slots: those of the conductor, of which a batch takes one.
    :param may_claim: whether jobs of this name may be claimed now.
    :param on_claimed: gets further jobs that were claimed, and the monotonic time before the request was sent.
    :param on_unanswered: is told the name of jobs that may have been claimed unknowingly.
    """

    def __init__(
        self,
        board: JobBoard,
        who: str,
        expiry: float,
        slots: Slots,
        may_claim: Callable[[str], bool],
        on_claimed: Callable[[list[Job], float], None],
        on_unanswered: Callable[[str], None],
    ) -> None:
        self._board, self._who, self._expiry, self._slots = board, who, expiry, slots
        self._may_claim, self._on_claimed, self._on_unanswered = may_claim, on_claimed, on_unanswered
        self._lock = threading.Lock()
        self._open: dict[str, Batch] = {}
        #: Of batches that wait for more jobs.
        self._waiters: dict[Batch, Waiter] = {}
        self._stopping = False

    def place(self, executions: list[Execution]) -> list[Execution]:
        """Let executions join the open batches of their names; return those that need a slot."""
        number = sum(execution.handler.batch is not None for execution in executions)
        if not number:
            return executions
        self._slots.add_members(number)
        alone = [execution for execution in executions if not self._join(execution)]
        self._slots.withdraw_members(sum(execution.batch is not None for execution in alone))
        return alone

    def _join(self, execution: Execution) -> bool:
        """Let an execution join the open batch of its name, if it may; otherwise it leads a new one."""
        options, name = execution.handler.batch, execution.job.name
        if options is None:
            return False
        with self._lock:
            batch = self._open.get(name)
            if batch is not None and batch.join(execution):
                waiter = self._waiters.get(batch)
                if waiter is not None and not batch.room:
                    # It waits for jobs on the board, and this one was claimed by the conductor's own thread.
                    waiter.interrupt()
                return True
            execution.batch = self._open[name] = Batch(execution, options.size, self._gather)
            return False

    def outcomes(self, execution: Execution, outcome: Outcome) -> list[tuple[Execution, Outcome]]:
        """Return what becomes of all that a call serves which has ended, or will not begin, by its outcome."""
        if execution.batch is None:
            return [(execution, outcome)]
        self._slots.free_members(execution.batch.take_members())
        return list(execution.batch.outcomes(outcome))

    def stop(self) -> None:
        """Let batches begin with what they have; returns at once."""
        with self._lock:
            self._stopping = True
            for waiter in self._waiters.values():
                waiter.interrupt()

    def _gather(self, batch: Batch) -> None:
        """Claim jobs for a batch until it is full, or its handler has waited long enough."""
        execution = batch.leader
        options, name = execution.handler.batch, execution.job.name
        assert options is not None  # nosec B101 # only a batch handler's executions lead
        until = time.monotonic() + options.wait
        try:
            self._claim(batch, name)
            if batch.room and time.monotonic() < until:
                self._wait(batch, name, until)
        except BoardUnavailable as error:
            logger.warning("conductor %s begins a batch of %r with what it has: %s", self._who, name, error)
            self._on_unanswered(name)
        finally:
            with self._lock:
                batch.close()
                if self._open.get(name) is batch:
                    del self._open[name]

    def _claim(self, batch: Batch, name: str) -> bool:
        """Claim as many jobs as there is room for; return whether that changed anything."""
        room = batch.room
        if not room or self._stopping or not self._may_claim(name):
            return False
        sent = time.monotonic()
        jobs = claims_for(self._board, self._who, frozenset({name}), self._expiry)(room)
        if jobs:
            self._on_claimed(jobs, sent)
        return bool(jobs)

    def _wait(self, batch: Batch, name: str, until: float) -> None:
        with client_of(self._board).waiter(frozenset({name})) as waiter:
            with self._lock:
                self._waiters[batch] = waiter
            try:
                while batch.room and not self._stopping and (left := until - time.monotonic()) > 0:
                    if not self._claim(batch, name):
                        due = waiter.ready_in()
                        waiter.wait(left if due is None else min(left, max(due, _RETRY_DELAY)))
            finally:
                with self._lock:
                    del self._waiters[batch]
