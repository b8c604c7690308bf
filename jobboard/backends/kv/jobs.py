"""Changes jobs that are on the board, for owners, producers and operators: which request is which change of a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from jobboard.backends import lifecycle
from jobboard.backends.limits import LaneLimit
from jobboard.backends.rows import (
    Abandonment,
    CancelOutcome,
    ClaimAnswer,
    Consumption,
    Extension,
    Fence,
    JobRow,
    NewJob,
    Trashing,
    TrashOutcome,
    Verdict,
)
from jobboard.backends.transition import Transition

Row = TypeVar("Row", bound=JobRow)
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Change(Generic[Row, Answer]):
    """A change of one job: ``decide`` gets its row (None: there is none) and the time, and changes that row.

    ``fence``: the claim that it belongs to. ``may_be_held``: the client that sends it has usually claimed the job.
    ``posts``: what the request posts in the same step, unless it is refused. ``seal``: the graph that is complete then.
    """

    uuid: str
    decide: Callable[[Row | None, float], Transition[Answer]]
    fence: Fence | None = None
    may_be_held: bool = False
    posts: tuple[NewJob, ...] = ()
    seal: str | None = None


class JobStorage(Protocol[Row]):
    """What a store does with changes, and its own part of some of them."""

    def change(self, changes: Sequence[Change[Row, Answer]], /) -> list[Answer]:
        """Carry changes out, each atomically, on jobs as they are in that moment."""

    def extend(self, row: Row | None, renewal: Extension, now: float, /) -> Transition[ClaimAnswer]:
        """Decide on a renewal as :func:`lifecycle.extend`."""

    def abandon(self, row: Row | None, end: Abandonment, now: float, /) -> Transition[ClaimAnswer]:
        """Decide on the return of a job as :func:`lifecycle.abandon`."""

    def limit_of(self, row: Row | None, /) -> LaneLimit:
        """Return what holds for the lane of a job, as the write makes sure of."""

    def is_key_taken(self, row: Row, /) -> bool:
        """Whether another live job has the key of this one; if not, the write makes sure that it is still so."""


class JobChanges(Generic[Row]):
    """Each change holds only if the job is as it was read; one under a claim only if that claim holds."""

    def __init__(self, storage: JobStorage[Row]) -> None:
        self._storage = storage

    # -- owners ----------------------------------------------------------------------------------------------------

    def extend(self, renewals: Sequence[Extension]) -> list[ClaimAnswer]:
        return self._under_claims(renewals, self._storage.extend)

    def checkpoint(self, fence: Fence, state: bytes) -> ClaimAnswer:
        def decide(row: Row | None, now: float) -> Transition[ClaimAnswer]:
            return lifecycle.checkpoint(row, fence, state, now)

        return self._storage.change([Change(fence.uuid, decide, fence, True)])[0]

    def consume(self, ends: Sequence[Consumption]) -> list[ClaimAnswer]:
        def change(end: Consumption) -> Change[Row, ClaimAnswer]:
            fence = end.fence
            return Change(
                fence.uuid, lambda row, now: lifecycle.consume(row, end, now), fence, True, end.posts, end.seal
            )

        return self._storage.change([change(end) for end in ends])

    def abandon(self, ends: Sequence[Abandonment]) -> list[ClaimAnswer]:
        return self._under_claims(ends, self._storage.abandon)

    def trash(self, ends: Sequence[Trashing]) -> list[ClaimAnswer]:
        def change(end: Trashing) -> Change[Row, ClaimAnswer]:
            return Change(end.uuid, lambda row, now: lifecycle.trash(row, end, now), end.fence, True, end.posts)

        return self._storage.change([change(end) for end in ends])

    def _under_claims(
        self, ends: Sequence[Any], decide: Callable[[Row | None, Any, float], Transition[ClaimAnswer]]
    ) -> list[ClaimAnswer]:
        def change(end: Any) -> Change[Row, ClaimAnswer]:
            return Change(end.fence.uuid, lambda row, now: decide(row, end, now), end.fence, True)

        return self._storage.change([change(end) for end in ends])

    # -- producers and operators -----------------------------------------------------------------------------------

    def cancel(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[CancelOutcome]:
        return self._of_each(uuids, partial(lifecycle.cancel, by=by, reason=reason))

    def release(self, uuid: str, token: int, reason: str) -> Verdict:
        def decide(row: Row | None, now: float) -> Transition[Verdict]:
            return lifecycle.release(row, token, reason, now, self._storage.limit_of(row))

        return self._of_each([uuid], decide)[0]

    def run_now(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[Verdict]:
        def decide(row: Row | None, now: float) -> Transition[Verdict]:
            return lifecycle.run_now(row, now, by, reason, self._storage.limit_of(row))

        return self._of_each(uuids, decide)

    def reprioritize(self, uuids: Sequence[str], priority: int, by: str | None, reason: str | None) -> list[Verdict]:
        return self._of_each(uuids, partial(lifecycle.reprioritize, priority=priority, by=by, reason=reason))

    def restore(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[TrashOutcome]:
        is_taken = self._storage.is_key_taken
        return self._of_each(uuids, partial(lifecycle.restore, is_key_taken=is_taken, by=by, reason=reason))

    def purge(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[TrashOutcome]:
        return self._of_each(uuids, partial(lifecycle.purge, by=by, reason=reason))

    def _of_each(self, uuids: Sequence[str], decide: Callable[..., Transition[Answer]]) -> list[Answer]:
        """Decide on each job; the uuid of a posting which replaced a job's content is no job's."""

        def change(uuid: str) -> Change[Row, Answer]:
            return Change(uuid, lambda row, now: decide(row if row is not None and row.uuid == uuid else None, now=now))

        return self._storage.change([change(uuid) for uuid in uuids])
