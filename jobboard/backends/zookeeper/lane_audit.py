"""Looks for contradictions between the slots of lanes and the jobs with ties to them, and repairs them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from jobboard.backends.kv.clock import ServerClock
from jobboard.backends.lanes import HOLDS_SLOT, problems_of_lanes
from jobboard.backends.lifecycle import BLOCKED, CLAIMED, UNCLAIMED
from jobboard.backends.zookeeper.codec import uuid_in
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.lanes import VersionedLane, rank_in_lane
from jobboard.backends.zookeeper.layout import Layout, last_part, parent
from jobboard.backends.zookeeper.read_modify_write import ReadModifyWrite
from jobboard.backends.zookeeper.requests import Data
from jobboard.backends.zookeeper.stored_job import StoredJob
from jobboard.backends.zookeeper.transactions import MAX_JOBS, Conflict, Transactions


class SuspectLane(NamedTuple):
    """What seems wrong with a lane; ``seen`` are the transactions that wrote what was read of it."""

    lane: str | None
    path: str
    problem: str
    seen: tuple[int, ...]
    members: tuple[str, ...] = ()

    #: It concerns no single job.
    uuid: None = None


class LaneAuditor:
    """A slot is that of the job of its lane which is unclaimed or claimed, with a child for each BLOCKED one."""

    def __init__(
        self,
        connection: Connection,
        layout: Layout,
        clock: ServerClock,
        transactions: Transactions,
        jobs: ReadModifyWrite,
    ) -> None:
        self._connection, self._layout, self._clock = connection, layout, clock
        self._transactions, self._jobs = transactions, jobs

    def suspects(self, jobs: Mapping[str, StoredJob], newer: Set[str]) -> Iterator[SuspectLane]:
        """Say which lanes seem wrong; slots of jobs of a newer format are left alone."""
        read = self._connection
        buckets = read.children([self._layout.slots], is_fresh=False)
        slots, children = self._slots(read.children(buckets, is_fresh=False))
        members = defaultdict[str, list[StoredJob]](list)
        for job in jobs.values():
            if job.ties is not None and (job.state in HOLDS_SLOT or job.state is BLOCKED):
                members[job.ties.lane].append(job)
        for lane, those in members.items():
            path = self._layout.slot(lane)
            slot = slots.pop(path, None)
            if slot is None or uuid_in(slot) not in newer:
                problems = "; ".join(_problems_of(lane, those, slot, children[path] - newer))
                seen = (*_moments_of(slot), *(job.zxid for job in those))
                if problems:
                    yield SuspectLane(lane, path, problems, seen, tuple(job.uuid for job in those))
        for path, slot in slots.items():
            if uuid_in(slot) not in newer:
                yield SuspectLane(None, path, f"the slot {path} is held by no job of its lane", _moments_of(slot))

    def _slots(self, paths: Sequence[str]) -> tuple[dict[str, Data], defaultdict[str, set[str]]]:
        """Return those of these slots that exist, and the uuids that wait for each, by path."""
        children = defaultdict[str, set[str]](set)
        for path in self._connection.children(paths, is_fresh=False):
            children[parent(path)].add(last_part(path))
        return dict(self._connection.existing(paths, is_fresh=False)), children

    def repair(self, suspect: SuspectLane) -> bool:
        """Let the first of a lane's jobs hold its slot, and the others that are unclaimed wait; end no second claim."""
        jobs = [job for job in self._jobs.current(suspect.members) if job is not None]
        slots, children = self._slots([suspect.path])
        slot, waiting = slots.get(suspect.path), children[suspect.path]
        if (*_moments_of(slot), *(job.zxid for job in jobs)) != suspect.seen:
            return False
        held = _holders(jobs, slot)
        blocked = sorted((job for job in jobs if job.state is BLOCKED), key=rank_in_lane)
        lane = VersionedLane(suspect.path, slot, ())
        lane.holder = next((job.uuid for job in (*held, *blocked)), None)
        changed = [job for job in held[1:] if job.state is UNCLAIMED][:MAX_JOBS]
        if blocked and not held:
            changed = [blocked.pop(0)]
            changed[0].admit(self._clock.now())
        else:
            for job in changed:
                job.state = BLOCKED
        return self._write(suspect, lane, changed, [*held[:1], *blocked], waiting)

    def _write(
        self,
        suspect: SuspectLane,
        lane: VersionedLane,
        changed: list[StoredJob],
        others: list[StoredJob],
        waiting: Set[str],
    ) -> bool:
        """Write a lane as it should be, if the jobs that stay as they are were not changed meanwhile."""
        layout = self._layout
        wanted = {job.uuid for job in others if job.state is BLOCKED}
        self._transactions.create_parents_of_slots([lane])
        known = {f"{suspect.path}/{uuid}" for uuid in waiting}
        transaction = self._transactions.begin({f"{suspect.path}/{job.uuid}" for job in changed} - known)
        if others or changed:
            self._transactions.check_not_deleted(transaction, [*others, *changed])
        for job in others:
            transaction.check(layout.job(job.uuid), job.version)
        self._transactions.write_slots(transaction, [lane])
        for job in changed:
            self._transactions.write_job(transaction, job, was_live=True)
        for uuid in sorted(wanted - waiting)[:MAX_JOBS]:
            transaction.create(f"{suspect.path}/{uuid}", b"")
        for uuid in sorted(waiting - wanted - {job.uuid for job in changed})[:MAX_JOBS]:
            transaction.delete(f"{suspect.path}/{uuid}")
        self._transactions.free_slots(transaction, [lane])
        try:
            self._transactions.commit(transaction)
        except Conflict:
            return False
        return True


def _moments_of(slot: Data | None) -> tuple[int, int]:
    """Return the transactions that wrote a slot, and that let a job wait for it last."""
    return (0, 0) if slot is None else (slot.stat.mzxid, slot.stat.pzxid)


def _holders(jobs: list[StoredJob], slot: Data | None) -> list[StoredJob]:
    """Return the jobs that hold the slot of their lane, the one first that keeps it."""
    uuid = None if slot is None else uuid_in(slot)
    held = (job for job in jobs if job.state in HOLDS_SLOT)
    return sorted(held, key=lambda job: (job.state is not CLAIMED, job.uuid != uuid, rank_in_lane(job)))


def _problems_of(lane: str, jobs: list[StoredJob], slot: Data | None, waiting: Set[str]) -> Iterator[str]:
    held, blocked = _holders(jobs, slot), {job.uuid for job in jobs if job.state is BLOCKED}
    yield from problems_of_lanes({lane: len(held)}, {lane: len(blocked)})
    if held and (slot is None or uuid_in(slot) != held[0].uuid):
        yield f"the slot of the lane {lane!r} does not name the job that holds it"
    if waiting != blocked:
        yield f"what waits for the lane {lane!r} are not its BLOCKED jobs"
