"""The jobs of all shards: each request about a job goes to its shard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from operator import attrgetter
from typing import TypeVar

from jobboard.backends.base import Backend
from jobboard.backends.rows import (
    Abandonment,
    CancelOutcome,
    ClaimAnswer,
    ClaimRequest,
    Consumption,
    Extension,
    Fence,
    JobRow,
    NewJob,
    Trashing,
    TrashOutcome,
    Verdict,
)
from jobboard.backends.shards.fleet import Fleet
from jobboard.backends.shards.posting import check_beside, check_parents, parents_elsewhere
from jobboard.backends.shards.turns import Turns
from jobboard.states import JobState

T = TypeVar("T")

_uuid_of_fence = attrgetter("fence.uuid")


class Jobs:
    """Changes of single jobs, and of batches of them: those of one shard go in one request."""

    def __init__(self, fleet: Fleet, turns: Turns) -> None:
        self._fleet, self._turns = fleet, turns

    def _of_uuids(self, uuids: Sequence[str], send: Callable[[Backend, list[str]], Sequence[T]]) -> list[T]:
        return self._fleet.change(uuids, str, send)

    def _of_uuid(self, uuid: str, send: Callable[[Backend], T]) -> T:
        return self._fleet.change([uuid], str, lambda shard, _: [send(shard)])[0]

    def cancel(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[CancelOutcome]:
        return self._of_uuids(uuids, lambda shard, some: shard.jobs.cancel(some, by, reason))

    def claim(self, uuid: str, claim: ClaimRequest) -> JobRow | None:
        row = self._claim(uuid, claim)
        is_refused = row is not None and row.claim_id != claim.claim_id and row.state is JobState.UNCLAIMED
        if row is not None and is_refused and self._turns.let_run(row.name, self._fleet.home(uuid)):
            return self._claim(uuid, claim)
        return row

    def _claim(self, uuid: str, claim: ClaimRequest) -> JobRow | None:
        return self._of_uuid(uuid, lambda shard: shard.jobs.claim(uuid, claim))

    def extend(self, renewals: Sequence[Extension]) -> list[ClaimAnswer]:
        # A repeat only moves the ends on, so nobody need know which shard has not answered.
        return self._fleet.change(
            renewals, _uuid_of_fence, lambda shard, some: shard.jobs.extend(some), repeats_are_alike=True
        )

    def checkpoint(self, fence: Fence, state: bytes) -> ClaimAnswer:
        return self._of_uuid(fence.uuid, lambda shard: shard.jobs.checkpoint(fence, state))

    def consume(self, ends: Sequence[Consumption]) -> list[ClaimAnswer]:
        with self._check_posts([(end.fence.uuid, end.posts) for end in ends if end.posts]):
            return self._fleet.change(ends, _uuid_of_fence, lambda shard, some: shard.jobs.consume(some))

    def abandon(self, ends: Sequence[Abandonment]) -> list[ClaimAnswer]:
        return self._fleet.change(ends, _uuid_of_fence, lambda shard, some: shard.jobs.abandon(some))

    def trash(self, ends: Sequence[Trashing]) -> list[ClaimAnswer]:
        with self._check_posts([(end.uuid, end.posts) for end in ends if end.posts]):
            return self._fleet.change(ends, attrgetter("uuid"), lambda shard, some: shard.jobs.trash(some))

    def _check_posts(self, posts: Sequence[tuple[str, Sequence[NewJob]]]) -> AbstractContextManager[None]:
        """Check what ends post, in a step on the shard of the job that ends, and return the limit of that step.

        :raises InvalidPosting: a lane, a key or a parent is on another shard.
        """
        for number, (uuid, rows) in zip(self._fleet.locate([uuid for uuid, _ in posts]), posts, strict=True):
            check_beside(rows, number, f"job {uuid}, the end of which posts it,", self._fleet.roster)
            check_parents(self._fleet, parents_elsewhere(rows), number)
        return self._fleet.roster.limit() if posts else nullcontext()

    # -- operators -------------------------------------------------------------------------------------------------

    def release(self, uuid: str, token: int, reason: str) -> Verdict:
        return self._of_uuid(uuid, lambda shard: shard.jobs.release(uuid, token, reason))

    def run_now(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[Verdict]:
        return self._of_uuids(uuids, lambda shard, some: shard.jobs.run_now(some, by, reason))

    def reprioritize(self, uuids: Sequence[str], priority: int, by: str | None, reason: str | None) -> list[Verdict]:
        return self._of_uuids(uuids, lambda shard, some: shard.jobs.reprioritize(some, priority, by, reason))

    def restore(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[TrashOutcome]:
        return self._of_uuids(uuids, lambda shard, some: shard.jobs.restore(some, by, reason))

    def purge(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[TrashOutcome]:
        return self._of_uuids(uuids, lambda shard, some: shard.jobs.purge(some, by, reason))
