"""Reads jobs, decides about them, and writes each decision if nobody has changed the job meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import TypeVar

from jobboard.backends import lifecycle
from jobboard.backends.errors import after_a_change
from jobboard.backends.etcd.connection import Connection, Deadline
from jobboard.backends.etcd.expiry import Expiry, LostLeases, is_over
from jobboard.backends.etcd.job_writer import MAX_JOBS, Change, JobWriter, change_of
from jobboard.backends.etcd.layout import VersionedJob
from jobboard.backends.etcd.stored import StoredJob
from jobboard.backends.rows import Fence
from jobboard.backends.transition import Transition
from jobboard.errors import BoardUnavailable
from jobboard.states import JobState

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

#: Is called with the job as callers see it (None: there is none), a request about it, and the time; changes that row.
Decide = Callable[[StoredJob | None, Item, float], Transition[Outcome]]

#: For how many seconds a change is tried again while other clients change the same jobs.
CHANGE_TIMEOUT = 10.0


class ReadModifyWrite:
    """Reads and decides once more whenever another client was faster."""

    def __init__(self, connection: Connection, expiry: Expiry, writer: JobWriter, lost_leases: LostLeases) -> None:
        self._connection = connection
        self._expiry = expiry
        self._writer = writer
        self._lost_leases = lost_leases

    def under_fence(self, fence: Fence) -> VersionedJob | None:
        """Return the job of a claim that holds, as this client remembers or reads it; None if it does not hold."""
        job = self._jobs({fence.uuid: fence})[fence.uuid]
        return job if job is not None and lifecycle.holds(job.row.seen(), fence) else None

    def forget_claim(self, uuid: str) -> None:
        """Read a job anew when it is needed next: it is not as this client remembers it."""
        self._writer.claimed.forget(uuid)

    def under_fences(
        self, items: Sequence[Item], fence_of: Callable[[Item], Fence], decide: Decide[Item, Outcome]
    ) -> list[Outcome]:
        """Decide on items that each belong to a claim."""
        return self(items, lambda item: fence_of(item).uuid, decide, fence_of)

    def __call__(
        self,
        items: Sequence[Item],
        uuid_of: Callable[[Item], str],
        decide: Decide[Item, Outcome],
        fence_of: Callable[[Item], Fence | None] = lambda item: None,
    ) -> list[Outcome]:
        """Decide on each item and carry that out, each atomically.

        :param fence_of: the claim that an item belongs to: if this client remembers the job under this claim, it is not
            read. The writer forgets a job as soon as a change of it fails.
        """
        outcomes: dict[int, Outcome] = {}
        with after_a_change(lambda: outcomes):
            self._change_all(items, uuid_of, decide, fence_of, outcomes)
        return [outcomes[at] for at in range(len(items))]

    def _change_all(
        self,
        items: Sequence[Item],
        uuid_of: Callable[[Item], str],
        decide: Decide[Item, Outcome],
        fence_of: Callable[[Item], Fence | None],
        outcomes: dict[int, Outcome],
    ) -> None:
        """Put the outcome of each item at its place, as soon as it is certain."""
        deadline = Deadline(CHANGE_TIMEOUT)
        while len(outcomes) < len(items):
            turn = _next_turn(items, uuid_of, outcomes)
            fences = {uuid: fence_of(items[at]) for uuid, at in turn.items()}
            jobs, now = self._jobs(fences), self._connection.now()
            changes: list[tuple[int, Outcome, Change]] = []
            for uuid, at in turn.items():
                outcome, change = _decided(items[at], jobs[uuid], now, decide, is_fenced=fences[uuid] is not None)
                if change is None:
                    outcomes[at] = outcome
                else:
                    changes.append((at, outcome, change))
            done = self._writer.apply([change for _, _, change in changes])
            outcomes |= {at: outcome for (at, outcome, _), is_done in zip(changes, done, strict=True) if is_done}
            if False in done:
                self._lost_leases.check()
            deadline.check(f"{len(items) - len(outcomes)} of {len(items)} jobs change all the time")

    def _jobs(self, fences: Mapping[str, Fence | None]) -> dict[str, VersionedJob | None]:
        """Return the jobs of a turn: those that this client remembers under these claims, the others as read."""
        now = self._connection.now()
        jobs: dict[str, VersionedJob | None] = {
            uuid: job
            for uuid, fence in fences.items()
            if fence is not None
            and (job := self._writer.claimed.get(uuid)) is not None
            and lifecycle.holds(job.row.seen(), fence)
            and not is_over(job, now)
        }
        missing = [uuid for uuid in fences if uuid not in jobs]
        return jobs | dict(zip(missing, self._expiry.read(missing), strict=True))


def _next_turn(items: Sequence[Item], uuid_of: Callable[[Item], str], done: Container[int]) -> dict[str, int]:
    """Return the places of the next items, one for each job: several items about one job have one turn each."""
    turn: dict[str, int] = {}
    for at, item in enumerate(items):
        if at not in done:
            turn.setdefault(uuid_of(item), at)
        if len(turn) == MAX_JOBS:
            break
    return turn


def _decided(
    item: Item, job: VersionedJob | None, now: float, decide: Decide[Item, Outcome], *, is_fenced: bool
) -> tuple[Outcome, Change | None]:
    """Return the answer to one item, and the change to write for it."""
    row = None if job is None else job.row.seen()
    transition = decide(row, item, now)
    if job is None or row is None or not transition.told:
        return transition.answer, None
    change = change_of(job, row, transition, is_fenced=is_fenced)
    new = change.new
    if job.row.newer is not None and not (new and new.state is JobState.UNCLAIMED and new.order == job.order):
        # A job that only later versions can read may be claimed, and its claim may end; it is not changed otherwise.
        raise BoardUnavailable(f"the record of job {job.row.uuid} is of a newer format; upgrade this client")
    return transition.answer, change
