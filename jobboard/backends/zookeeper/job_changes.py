"""Requests that change jobs by their uuids: what the lifecycle makes of them is written in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from jobboard.backends import lifecycle
from jobboard.backends.errors import after_a_change
from jobboard.backends.rows import (
    Abandonment,
    CancelOutcome,
    ClaimAnswer,
    Consumption,
    Extension,
    Fence,
    Trashing,
    TrashOutcome,
    Verdict,
)
from jobboard.backends.transition import Transition
from jobboard.backends.zookeeper.clock import Clock
from jobboard.backends.zookeeper.codec import uuid_in
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.read_modify_write import HeldJobs, ReadModifyWrite, Step, Write
from jobboard.backends.zookeeper.sessions import Sessions
from jobboard.backends.zookeeper.stored_job import StoredJob

Answer = TypeVar("Answer")


class JobChanges:
    """Each end of a claim is fenced by uuid, owner and token, and by the version of what was decided on."""

    def __init__(
        self,
        connection: Connection,
        layout: Layout,
        clock: Clock,
        sessions: Sessions,
        jobs: ReadModifyWrite,
        held: HeldJobs,
    ) -> None:
        self._connection, self._layout, self._clock = connection, layout, clock
        self._sessions, self._jobs, self._held = sessions, jobs, held

    def cancel(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[CancelOutcome]:
        return self._jobs.edit([_step(uuid, lifecycle.cancel, by=by, reason=reason) for uuid in uuids])

    # -- under a claim ---------------------------------------------------------------------------------------------

    def extend(self, renewals: Sequence[Extension]) -> list[ClaimAnswer]:
        """Needs no connection if all claims went with their session, so it begins by itself."""
        self._connection.check_open()
        lost = [self._went_with_its_session(renewal.fence) for renewal in renewals]
        if all(lost):
            return [Verdict.LOST] * len(renewals)
        self._sessions.begin()
        slack = self._clock.slack
        steps = [
            _step(renewal.fence.uuid, lifecycle.extend, renewal=renewal, slack=slack)
            for renewal, is_lost in zip(renewals, lost, strict=True)
            if not is_lost
        ]
        verdicts = iter(self._jobs.edit(steps, use_held=True))
        return [Verdict.LOST if is_lost else next(verdicts) for is_lost in lost]

    def _went_with_its_session(self, fence: Fence) -> bool:
        """Whether a claim of this client ended with its session, which needs no server to tell."""
        job = self._held.get(fence.uuid)
        if job is None or job.presence is None or job.token != fence.token:
            return False
        return self._sessions.has_given_up(job.presence)

    def checkpoint(self, fence: Fence, state: bytes) -> ClaimAnswer:
        return self._jobs.edit([_step(fence.uuid, lifecycle.checkpoint, fence=fence, state=state)], use_held=True)[0]

    def consume(self, ends: Sequence[Consumption]) -> list[ClaimAnswer]:
        return self._jobs.edit([_step(end.fence.uuid, lifecycle.consume, end=end) for end in ends], use_held=True)

    def abandon(self, ends: Sequence[Abandonment]) -> list[ClaimAnswer]:
        change = partial(lifecycle.abandon, slack=self._clock.slack)
        return self._jobs.edit([_step(end.fence.uuid, change, end=end) for end in ends], use_held=True)

    def trash(self, ends: Sequence[Trashing]) -> list[ClaimAnswer]:
        steps = [_step(end.uuid if end.fence is None else end.fence.uuid, lifecycle.trash, end=end) for end in ends]
        return self._jobs.edit(steps, use_held=True)

    # -- by an operator --------------------------------------------------------------------------------------------

    def release(self, uuid: str, token: int, reason: str) -> Verdict:
        return self._jobs.edit([_step(uuid, lifecycle.release, token=token, reason=reason)])[0]

    def run_now(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[Verdict]:
        return self._jobs.edit([_step(uuid, lifecycle.run_now, by=by, reason=reason) for uuid in uuids])

    def reprioritize(self, uuids: Sequence[str], priority: int, by: str | None, reason: str | None) -> list[Verdict]:
        change = partial(lifecycle.reprioritize, priority=priority, by=by, reason=reason)
        return self._jobs.edit([_step(uuid, change) for uuid in uuids])

    def restore(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[TrashOutcome]:
        """Restores one by one: whether a key is free can't be told from the job alone."""
        restored: list[TrashOutcome] = []
        with after_a_change(lambda: TrashOutcome.DONE in restored):
            for uuid in uuids:
                restored += self._jobs.edit([_step(uuid, self._restore, by=by, reason=reason)])
        return restored

    def _restore(
        self, job: StoredJob | None, now: float, by: str | None, reason: str | None
    ) -> Transition[TrashOutcome]:
        # If the key is taken after this look, the transaction fails.
        return lifecycle.restore(job, now, self._is_key_taken, by, reason)

    def _is_key_taken(self, job: StoredJob) -> bool:
        assert job.key is not None
        holder = self._connection.read_one(self._layout.key(job.name, job.key))
        if holder is None:
            return False
        # A claim that is over may have put the holder into the trash, which frees the key.
        (found,) = self._jobs.current([uuid_in(holder)])
        return found is not None and found.is_live

    def purge(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[TrashOutcome]:
        return self._jobs.edit([_step(uuid, lifecycle.purge, Write.DELETE, by=by, reason=reason) for uuid in uuids])


def _step(
    uuid: str, change: Callable[..., Transition[Answer]], write: Write = Write.UPDATE, **request: Any
) -> Step[Answer]:
    """Return what decides about a job by a function of the lifecycle.

    :param write: what a transition that tells something does to the job's znode.
    """

    def decide(job: StoredJob | None, now: float) -> tuple[Answer, Write]:
        if job is None:
            return change(None, now=now, **request).answer, Write.NOTHING
        transition = job.apply(lambda: change(job, now=now, **request), now)
        return transition.answer, write if transition.told else Write.NOTHING

    return uuid, decide
