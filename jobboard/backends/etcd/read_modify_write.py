"""Read a job, decide what becomes of it, and write that unless somebody has changed it meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from jobboard.backends import lifecycle
from jobboard.backends.etcd.connection import Connection, Deadline
from jobboard.backends.etcd.expiry import Expiry, LostLeases, is_over
from jobboard.backends.etcd.job_writer import MAX_JOBS, Change, JobWriter, change_of
from jobboard.backends.etcd.layout import VersionedJob
from jobboard.backends.etcd.stored import StoredJob
from jobboard.backends.lifecycle import Transition
from jobboard.backends.rows import Fence
from jobboard.errors import BoardUnavailable
from jobboard.states import JobState

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

#: What a request makes of a job as it is seen (None: there is none), at this moment.
Decide = Callable[[Item, StoredJob | None, float], Transition[Outcome]]

#: For how many seconds a change is decided anew while others change the same jobs.
CHANGE_TIMEOUT = 10.0


class ReadModifyWrite:
    """A change that lost its race is decided anew from a fresh read."""

    def __init__(self, connection: Connection, expiry: Expiry, writer: JobWriter, lost_leases: LostLeases) -> None:
        self._connection = connection
        self._expiry = expiry
        self._writer = writer
        self._lost_leases = lost_leases

    def under_fences(
        self, items: Sequence[Item], fence_of: Callable[[Item], Fence], decide: Decide[Item, Outcome]
    ) -> list[Outcome]:
        """Decide on items that are each meant under a claim."""
        return self(items, lambda item: fence_of(item).uuid, decide, fence_of)

    def __call__(
        self,
        items: Sequence[Item],
        uuid_of: Callable[[Item], str],
        decide: Decide[Item, Outcome],
        fence_of: Callable[[Item], Fence | None] = lambda item: None,
    ) -> list[Outcome]:
        """Decide on each item and carry that out, each atomically.

        :param decide: changes the job as it is seen, and says how.
        :param fence_of: the claim under which an item is meant: if this client remembers it as the present one, that
            will do for the decision, until a change of it fails.
        """
        outcomes: dict[int, Outcome] = {}
        stale: set[str] = set()
        deadline = Deadline(CHANGE_TIMEOUT)
        while len(outcomes) < len(items):
            turn = _next_turn([(at, uuid_of(item)) for at, item in enumerate(items) if at not in outcomes])
            fences = {uuid: fence_of(items[at]) for uuid, at in turn.items()}
            jobs = self._jobs({uuid: None if uuid in stale else fence for uuid, fence in fences.items()})
            now = self._connection.now()
            changes: list[tuple[int, Outcome, Change]] = []
            for uuid, at in turn.items():
                outcome, change = _decided(items[at], jobs[uuid], now, decide, is_fenced=fences[uuid] is not None)
                if change is None:
                    outcomes[at] = outcome
                else:
                    changes.append((at, outcome, change))
            done = self._writer.apply([change for _, _, change in changes])
            for (at, outcome, _), is_done in zip(changes, done, strict=True):
                if is_done:
                    outcomes[at] = outcome
                elif is_done is False:
                    stale.add(uuid_of(items[at]))
            if False in done:
                self._lost_leases.check()
            deadline.check(f"{len(items) - len(outcomes)} of {len(items)} jobs change all the time")
        return [outcomes[at] for at in range(len(items))]

    def _jobs(self, fences: Mapping[str, Fence | None]) -> dict[str, VersionedJob | None]:
        """Return the jobs of a turn: as this client remembers them if that will do, else read."""
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


def _next_turn(waiting: Sequence[tuple[int, str]]) -> dict[str, int]:
    """Return where the next items are, by job: of several about one job, each finds what the one before has left."""
    turn: dict[str, int] = {}
    for at, uuid in waiting:
        if len(turn) == MAX_JOBS:
            break
        turn.setdefault(uuid, at)
    return turn


def _decided(
    item: Item, job: VersionedJob | None, now: float, decide: Decide[Item, Outcome], *, is_fenced: bool
) -> tuple[Outcome, Change | None]:
    """Return the answer to one item, and what is to be written for it."""
    row = None if job is None else job.row.seen()
    transition = decide(item, row, now)
    if job is None or row is None or not transition.told:
        return transition.answer, None
    change = change_of(job, row, transition, is_fenced=is_fenced)
    if job.row.newer is not None and (change.new is None or change.new.state is not JobState.UNCLAIMED):
        # A claim of what only later versions can read may begin and end, and nothing else may happen to it.
        raise BoardUnavailable(f"the record of job {job.row.uuid} is of a newer format; upgrade this client")
    return transition.answer, change
