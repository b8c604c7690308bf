"""Changes jobs: reads them, decides, and writes on condition that nothing has changed since; otherwise tries again."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from jobboard.backends import lifecycle
from jobboard.backends.errors import after_a_change
from jobboard.backends.kv import jobs
from jobboard.backends.kv.cache import LruCache
from jobboard.backends.kv.clock import ServerClock
from jobboard.backends.kv.read_modify_write import Done, carry_out
from jobboard.backends.limits import UNLIMITED, LaneLimit
from jobboard.backends.rows import Abandonment, ClaimAnswer, Extension, Fence
from jobboard.backends.transition import Transition
from jobboard.backends.zookeeper.codec import uuid_in
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.errors import Conflict
from jobboard.backends.zookeeper.job_reader import JobReader
from jobboard.backends.zookeeper.lane_limits import KnownLimits
from jobboard.backends.zookeeper.lanes import Lanes, LaneStep
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.sessions import Sessions
from jobboard.backends.zookeeper.stored_job import StoredJob
from jobboard.backends.zookeeper.transactions import MAX_BYTES, MAX_JOBS, SentTransaction, Transaction, Transactions
from jobboard.errors import BoardUnavailable
from jobboard.events import EventKind

Answer = TypeVar("Answer")

#: How often long values are read again that others write meanwhile.
MAX_RETRIES = 200
#: How many jobs of one lane one transaction changes, beside those that a look moves.
MAX_OF_LANE = 50
#: Jobs whose claims this client remembers.
MAX_HELD = 100_000


class Write(enum.Enum):
    """What is done to a job's znode."""

    NOTHING = "nothing"
    UPDATE = "update"
    DELETE = "delete"


#: Is called with a job as it is now, or None; changes it or not, and returns the answer and what is to be written.
Decide = Callable[[StoredJob | None, float], tuple[Answer, Write]]
#: The uuid of a job, and what decides about it.
Step = tuple[str, Decide[Answer]]


@dataclass
class _Decided(Generic[Answer]):
    """A decision about one job: the answer, and what the job is now.

    ``is_fresh``: the job was read for it, instead of remembered.
    """

    uuid: str
    answer: Answer
    job: StoredJob | None
    write: Write
    was_live: bool
    is_fresh: bool


@dataclass
class _Unit(Generic[Answer]):
    """What is written together or not at all: a change, or the changes of a lane and what a look makes of it then."""

    changed: list[tuple[_Decided[Answer], StoredJob]]
    lane: LaneStep | None = None

    @property
    def moved(self) -> list[StoredJob]:
        return [] if self.lane is None else self.lane.moved

    @property
    def jobs(self) -> list[StoredJob]:
        return [*(job for _, job in self.changed), *self.moved]


class HeldJobs(LruCache[StoredJob]):
    """The jobs that this client has claimed, as it wrote them last: their ends need no reading."""

    def __init__(self) -> None:
        super().__init__(MAX_HELD)
        #: Those that must be read before they are changed.
        self._doubted: set[str] = set()

    def put(self, key: str, value: StoredJob) -> None:
        # In this order: what a doubt finds here is doubted.
        self._doubted.discard(key)
        super().put(key, value)

    def trusted(self, uuid: str) -> StoredJob | None:
        """Return a job that is as it was written, unless its version has changed."""
        return None if uuid in self._doubted else self.get(uuid)

    def doubt(self) -> None:
        """Trust no version that was written so far.

        While there was no connection, the servers may have gone back to a backup, where versions come again.
        """
        self._doubted = {job.uuid for job in self.values()}

    def under(self, presence: str) -> list[StoredJob]:
        """Return the jobs that were claimed under a presence of this client."""
        return [job for job in self.values() if job.presence == presence]


class ReadModifyWrite:
    """Decides on jobs as they are now, and writes what was decided if they are still so."""

    def __init__(
        self,
        connection: Connection,
        layout: Layout,
        reader: JobReader,
        transactions: Transactions,
        sessions: Sessions,
        clock: ServerClock,
        held: HeldJobs,
        lanes: Lanes,
    ) -> None:
        self._connection, self._layout, self._lanes = connection, layout, lanes
        self._reader, self._transactions, self._sessions = reader, transactions, sessions
        self._clock, self._held = clock, held

    # -- jobs as they are now --------------------------------------------------------------------------------------

    def current(self, uuids: Sequence[str]) -> list[StoredJob | None]:
        """Return the jobs of these uuids as they are now, with their long values; None for those that don't exist."""
        found = self._reader.read_jobs(uuids)
        if self.write_due(filter(None, found)):
            found = self._reader.read_jobs(uuids)
        return self.with_long_values(found)

    def with_long_values(self, found: list[StoredJob | None]) -> list[StoredJob | None]:
        """Return the jobs with their long values; those that were written meanwhile are read again for that."""
        torn = self._reader.read_long_values(list(filter(None, found)))
        for _ in range(MAX_RETRIES):
            if not torn:
                break
            versions = {job.uuid: job.zxid for job in torn}
            again = dict(zip(versions, self._reader.read_jobs(list(versions)), strict=True))
            found = [again.get(job.uuid, job) if job is not None else None for job in found]
            # What is missing although the job was not written since is gone for good.
            changed = [job for job in filter(None, again.values()) if job.zxid != versions[job.uuid]]
            torn = self._reader.read_long_values(changed)
        return found

    def write_due(self, jobs: Iterable[StoredJob]) -> list[str]:
        """Write what time, or the end of a session, has made of these jobs; returns the uuids of those it changed."""
        now = self._clock.now()
        due = [job.uuid for job in jobs if job.is_due(now, self._sessions.is_present)]
        if due:
            self.expire_and_promote(due)
        return due

    def under_fence(self, fence: Fence) -> StoredJob | None:
        """Return the job of a claim that holds, as this client remembers or reads it; None if it does not hold."""
        job = self._held.trusted(fence.uuid)
        if (
            job is None
            or job.deletions != self._reader.deletions
            or job.is_due(self._clock.now(), self._sessions.is_present)
            or not lifecycle.holds(job, fence)
        ):
            (job,) = self.expire_and_promote([fence.uuid])
        return job if lifecycle.holds(job, fence) else None

    def forget_claim(self, uuid: str) -> None:
        """Read a job anew when it is needed next: it is not as this client remembers it."""
        self._held.forget(uuid)

    def expire_and_promote(self, uuids: Sequence[str]) -> list[StoredJob | None]:
        """Write what time, or the end of a session, has made of these jobs; returns them as they are then."""
        return self.edit([(uuid, _leave) for uuid in uuids])

    # -- what ZooKeeper adds to the rules ------------------------------------------------------------------------------

    def extend(self, job: StoredJob | None, renewal: Extension, now: float) -> Transition[ClaimAnswer]:
        return lifecycle.extend(job, renewal, now, self._clock.slack)

    def abandon(self, job: StoredJob | None, end: Abandonment, now: float) -> Transition[ClaimAnswer]:
        return lifecycle.abandon(job, end, now, self._clock.slack, self.limit_of(job))

    def limit_of(self, job: StoredJob | None) -> LaneLimit:
        """Return the limit of a job's lane, as it was read with the job."""
        return UNLIMITED if job is None else job.limit

    def is_key_taken(self, job: StoredJob) -> bool:
        """Whether another live job has the key of this one. If it is taken after this look, the write fails."""
        assert job.key is not None
        holder = self._connection.read_one(self._layout.key(job.name, job.key))
        if holder is None:
            return False
        # A claim that is over may have put the holder into the trash, which frees the key.
        (found,) = self.current([uuid_in(holder)])
        return found is not None and found.is_live

    # -- changes ---------------------------------------------------------------------------------------------------

    def edit(self, steps: Sequence[Step[Answer]], *, use_held: bool = False) -> list[Answer]:
        """Carry the steps out, each atomically; two for the same job one after the other.

        :param use_held: decide on the jobs that this client holds as it remembers them, if that leads to a write; the
            write fails if a job has changed since.
        """
        return carry_out(steps, lambda step: step[0], partial(self._attempt, gone=set(), use_held=use_held))

    def change(self, changes: Sequence[jobs.Change[StoredJob, Answer]]) -> list[Answer]:
        """Carry out changes by rules of the lifecycle, each atomically."""
        steps = [(change.uuid, _decide_by(change)) for change in changes]
        return self.edit(steps, use_held=all(change.may_be_held for change in changes))

    def _attempt(
        self, steps: Sequence[Step[Answer]], is_again: bool, *, gone: set[str], use_held: bool
    ) -> list[Done[Answer] | None]:
        try:
            decided, known = self._decide_all(steps, use_held and not is_again)
            done = {one.uuid: one for one in self._write(decided, known, gone, is_again)}
        except BoardUnavailable:
            for uuid, _ in steps:
                self._held.forget(uuid)
            raise
        return [
            Done(done[uuid].answer, done[uuid].write is not Write.NOTHING) if uuid in done else None
            for uuid, _ in steps
        ]

    def _decide_all(
        self, steps: Sequence[Step[Answer]], use_held: bool
    ) -> tuple[list[_Decided[Answer]], KnownLimits | None]:
        found: dict[str, StoredJob | None] = {}
        if use_held:
            held = {uuid: self._held.trusted(uuid) for uuid, _ in steps}
            for uuid in held:
                self._held.forget(uuid)
            # If something was deleted since, it may be another job of the same uuid by now.
            found = {uuid: job for uuid, job in held.items() if job and job.deletions == self._reader.deletions}
        unread = [uuid for uuid, _ in steps if uuid not in found]
        if unread:
            found |= zip(unread, self._reader.read_jobs(unread), strict=True)
        known = self._lanes.limit(found.values())
        now = self._clock.now()
        fresh = set(unread)
        return [self._decide(uuid, decide, found[uuid], now, uuid in fresh) for uuid, decide in steps], known

    def _decide(
        self, uuid: str, decide: Decide[Answer], job: StoredJob | None, now: float, is_fresh: bool
    ) -> _Decided[Answer]:
        was_live = job is not None and job.is_live
        was_due = job is not None and job.expire_or_promote(now, self._sessions.is_present)
        answer, write = decide(job, now)
        if was_due and write is Write.NOTHING:
            write = Write.UPDATE
        return _Decided(uuid, answer, job, write, was_live, is_fresh)

    def _write(
        self, decided: Sequence[_Decided[Answer]], known: KnownLimits | None, gone: set[str], is_again: bool
    ) -> list[_Decided[Answer]]:
        """Write what was decided, and return what is done.

        :param known: the limits that it was decided on.
        :param gone: what need not be removed with a job, since it was removed by hand; this adds to it.
        """
        done = [one for one in decided if one.write is Write.NOTHING and one.is_fresh]
        try:
            units = self._units(_of_different_keys(decided), known)
        except Conflict:
            # A job that a lane would admit is not as it was listed.
            return done
        if not units:
            return done
        self._prepare(units)
        done += self._carry_out(units, gone, is_again)
        self._remember(done)
        return done

    def _units(
        self, changed: list[tuple[_Decided[Answer], StoredJob]], known: KnownLimits | None
    ) -> list[_Unit[Answer]]:
        """Look at the lanes of changed jobs; return what is written together: what is left out is decided on again."""
        units = [_Unit([(one, job)]) for one, job in changed if job.lane is None]
        tied: dict[str, list[tuple[_Decided[Answer], StoredJob]]] = {}
        for one, job in changed:
            if job.lane is not None and len(tied.setdefault(job.lane, [])) < MAX_OF_LANE:
                tied[job.lane].append((one, job))
        if tied and known is not None:
            lanes = self._lanes.look(known, {lane: [job for _, job in part] for lane, part in tied.items()})
            units += [_Unit(tied[lane.text], lane) for lane in lanes]
        return units

    def _prepare(self, units: Sequence[_Unit[Answer]]) -> None:
        """Make what the transactions need: the parents of new keys and guards, and znodes for long values."""
        changed = [each for unit in units for each in unit.changed]
        self._transactions.create_parents_of_keys([job for one, job in changed if job.is_live and not one.was_live])
        self._transactions.create_parents_of_guards([unit.lane for unit in units if unit.lane is not None])
        self._transactions.move_out_long_values([job for one, job in changed if one.write is Write.UPDATE])

    def _carry_out(self, units: Sequence[_Unit[Answer]], gone: set[str], is_again: bool) -> list[_Decided[Answer]]:
        """Send all transactions before the first answer is awaited, and return what they have done."""
        sent: list[tuple[list[_Unit[Answer]], SentTransaction]] = []
        done: list[_Decided[Answer]] = []
        # One transaction with all of it takes effect as a whole, or not at all.
        with after_a_change(lambda: sent and len(sent[0][0]) < len(units)):
            for part_and_transaction in self._send(units, gone, is_again):
                sent.append(part_and_transaction)
            for part, transaction in sent:
                done += self._finish(part, transaction, gone)
        return done

    def _remember(self, done: Sequence[_Decided[Answer]]) -> None:
        """Remember the jobs that this client still holds."""
        present = self._sessions.present
        for one in done:
            if one.job is not None and one.job.presence is not None and one.job.presence == present:
                self._held.put(one.job.uuid, one.job)

    def _send(
        self, units: Sequence[_Unit[Answer]], gone: set[str], is_again: bool
    ) -> Iterator[tuple[list[_Unit[Answer]], SentTransaction]]:
        """Send what was decided in as few transactions as it takes; after a conflict, each lane in one of its own."""
        rest = list(reversed(units))
        while rest:
            transaction = self._transactions.begin(gone)
            self._transactions.check_not_deleted(transaction, [job for unit in rest for job in unit.jobs])
            part: list[_Unit[Answer]] = []
            while rest and transaction.jobs < MAX_JOBS and transaction.size < MAX_BYTES:
                if is_again and part and rest[-1].lane is not None:
                    break
                part.append(rest.pop())
                self._add(transaction, part[-1])
            yield part, self._transactions.send(transaction)

    def _add(self, transaction: Transaction, unit: _Unit[Answer]) -> None:
        if unit.lane is not None:
            self._transactions.write_guards(transaction, [unit.lane])
        for one, job in unit.changed:
            if one.write is Write.DELETE:
                self._transactions.delete_job(transaction, job)
            else:
                self._transactions.write_job(transaction, job, was_live=one.was_live)
        for job in unit.moved:
            self._transactions.write_job(transaction, job, was_live=True)

    def _finish(
        self, part: list[_Unit[Answer]], transaction: SentTransaction, gone: set[str]
    ) -> list[_Decided[Answer]]:
        """Return what a transaction has done: all of its part, or nothing if another client was faster."""
        try:
            self._transactions.finish(transaction)
        except Conflict as conflict:
            if conflict.is_gone:
                gone.add(conflict.path)
            self._lanes.note_conflict(conflict)
            return []
        return [one for unit in part for one, _ in unit.changed]


def _leave(job: StoredJob | None, _now: float) -> tuple[StoredJob | None, Write]:
    return job, Write.NOTHING


def _decide_by(change: jobs.Change[StoredJob, Answer]) -> Decide[Answer]:
    """Return what decides about a job by a rule of the lifecycle."""

    def decide(job: StoredJob | None, now: float) -> tuple[Answer, Write]:
        if job is None:
            return change.decide(None, now).answer, Write.NOTHING
        transition = job.apply(lambda: change.decide(job, now), now)
        if any(note.kind is EventKind.PURGED for note in transition.told):
            return transition.answer, Write.DELETE
        return transition.answer, Write.UPDATE if transition.told else Write.NOTHING

    return decide


def _of_different_keys(decided: Sequence[_Decided[Answer]]) -> list[tuple[_Decided[Answer], StoredJob]]:
    """Return what is to be written now: of several jobs that take one key, the others are decided on again."""
    changed: list[tuple[_Decided[Answer], StoredJob]] = []
    taken: set[tuple[str, str]] = set()
    for one in decided:
        if one.write is Write.NOTHING or one.job is None:
            continue
        if one.job.key is not None and one.job.is_live and not one.was_live:
            if (one.job.name, one.job.key) in taken:
                continue
            taken.add((one.job.name, one.job.key))
        changed.append((one, one.job))
    return changed
