"""Changes jobs: reads them, decides, and writes on condition that nothing has changed since; otherwise tries again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from jobboard.backends import lifecycle
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
from jobboard.backends.zookeeper.lanes import Lanes
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.sessions import Sessions
from jobboard.backends.zookeeper.stored_job import StoredJob
from jobboard.backends.zookeeper.units import Also, Decided, Unit, UnitWriter, Write
from jobboard.errors import BoardUnavailable
from jobboard.events import EventKind

Answer = TypeVar("Answer")

#: How often long values are read again that others write meanwhile.
MAX_RETRIES = 200
#: Jobs whose claims this client remembers.
MAX_HELD = 100_000


#: Is called with a job as it is now, or None; changes it or not, and returns the answer and what is to be written.
Decide = Callable[[StoredJob | None, float], tuple[Answer, Write]]
#: The uuid of a job, and what decides about it.
Step = tuple[str, Decide[Answer]]


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
        writer: UnitWriter,
        sessions: Sessions,
        clock: ServerClock,
        held: HeldJobs,
        lanes: Lanes,
    ) -> None:
        self._connection, self._layout, self._lanes = connection, layout, lanes
        self._reader, self._writer, self._sessions = reader, writer, sessions
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
        has_signal = job is not None and end.signal is not None and self._has_signal(job.uuid, end.signal)
        return lifecycle.abandon(job, end, now, self._clock.slack, self.limit_of(job), has_signal)

    def _has_signal(self, uuid: str, name: str) -> bool:
        """Whether a signal was sent to a job that was read before; one that is sent later changes the job."""
        return self._connection.read_one(self._layout.signal(uuid, name)) is not None

    def limit_of(self, job: StoredJob | None) -> LaneLimit:
        """Return the limit of a job's lane, as it was read with the job."""
        return UNLIMITED if job is None else job.limit

    def is_key_taken(self, job: StoredJob) -> bool:
        """Whether another job has the key of this one. If it is taken after this look, the write fails."""
        assert job.key is not None
        holder = self._connection.read_one(self._layout.key(job.name, job.key))
        if holder is None or uuid_in(holder) == job.uuid:
            return False
        # A claim that is over may have put the holder into the trash, which frees the key.
        (found,) = self.current([uuid_in(holder)])
        return found is not None and found.has_key and not self.release_key(found.uuid)

    def release_key(self, uuid: str) -> bool:
        """Free the key that a job has kept since it ended, if its time for that is over, and return whether it was."""
        return self.edit([(uuid, _release_key)])[0]

    # -- changes ---------------------------------------------------------------------------------------------------

    def edit(self, steps: Sequence[Step[Answer]], *, use_held: bool = False, also: Also | None = None) -> list[Answer]:
        """Carry the steps out, each atomically; two for the same job one after the other.

        :param use_held: decide on the jobs that this client holds as it remembers them, if that leads to a write; the
            write fails if a job has changed since.
        :param also: adds what else is written with each job.
        """
        attempt = partial(self._attempt, gone=set(), use_held=use_held, also=also)
        return carry_out(steps, lambda step: step[0], attempt)

    def change(self, changes: Sequence[jobs.Change[StoredJob, Answer]]) -> list[Answer]:
        """Carry out changes by rules of the lifecycle, each atomically."""
        steps = [(change.uuid, _decide_by(change)) for change in changes]
        return self.edit(steps, use_held=all(change.may_be_held for change in changes))

    def _attempt(
        self, steps: Sequence[Step[Answer]], is_again: bool, *, gone: set[str], use_held: bool, also: Also | None
    ) -> list[Done[Answer] | None]:
        try:
            decided, known = self._decide_all(steps, use_held and not is_again, also)
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
        self, steps: Sequence[Step[Answer]], use_held: bool, also: Also | None
    ) -> tuple[list[Decided[Answer]], KnownLimits | None]:
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
        return [self._decide(uuid, decide, found[uuid], now, uuid in fresh, also) for uuid, decide in steps], known

    def _decide(
        self,
        uuid: str,
        decide: Decide[Answer],
        job: StoredJob | None,
        now: float,
        is_fresh: bool,
        also: Also | None,
    ) -> Decided[Answer]:
        was_due = job is not None and job.expire_or_promote(now, self._sessions.is_present)
        answer, write = decide(job, now)
        if write is not Write.NOTHING:
            return Decided(uuid, answer, job, write, is_fresh, also)
        return Decided(uuid, answer, job, Write.UPDATE if was_due else write, is_fresh)

    def _write(
        self, decided: Sequence[Decided[Answer]], known: KnownLimits | None, gone: set[str], is_again: bool
    ) -> list[Decided[Answer]]:
        """Write what was decided, and return what is done.

        :param known: the limits that it was decided on.
        :param gone: what need not be removed with a job, since it was removed by hand; this adds to it.
        """
        units: list[Unit[Answer]] = []
        try:
            units = self._writer.units(_of_different_keys(decided), known)
        except Conflict as conflict:
            # A job that a lane would admit is not as it was listed.
            self._lanes.note_conflict(conflict)
        done = [one for one in decided if one.write is Write.NOTHING and one.is_fresh]
        if units:
            done += self._writer.carry_out(units, gone, is_again)
            self.remember([one.job for one in done if one.job is not None])
        return done

    def remember(self, jobs: Iterable[StoredJob]) -> None:
        """Remember those of these jobs, as they were just written, that this client holds."""
        present = self._sessions.present
        for job in jobs:
            if job.presence is not None and job.presence == present:
                self._held.put(job.uuid, job)


def _leave(job: StoredJob | None, _now: float) -> tuple[StoredJob | None, Write]:
    return job, Write.NOTHING


def _release_key(job: StoredJob | None, now: float) -> tuple[bool, Write]:
    if job is None or job.is_live or not job.has_key or (job.key_until or 0.0) > now:
        return False, Write.NOTHING
    job.key_until = None
    return True, Write.UPDATE


def _decide_by(change: jobs.Change[StoredJob, Answer]) -> Decide[Answer]:
    """Return what decides about a job by a rule of the lifecycle."""

    def decide(job: StoredJob | None, now: float) -> tuple[Answer, Write]:
        if job is None:
            return change.decide(None, now).answer, Write.NOTHING
        transition = job.apply(lambda: change.decide(job, now), now)
        if transition.told:
            job.seal = change.seal
        if any(note.kind is EventKind.PURGED for note in transition.told):
            return transition.answer, Write.DELETE
        return transition.answer, Write.UPDATE if transition.told else Write.NOTHING

    return decide


def _of_different_keys(decided: Sequence[Decided[Answer]]) -> list[tuple[Decided[Answer], StoredJob]]:
    """Return what is to be written now: of several jobs that take one key, the others are decided on again."""
    changed: list[tuple[Decided[Answer], StoredJob]] = []
    taken: set[tuple[str, str]] = set()
    for one in decided:
        if one.write is Write.NOTHING or one.job is None:
            continue
        if one.job.key is not None and one.job.has_key and not one.job.had_key:
            if (one.job.name, one.job.key) in taken:
                continue
            taken.add((one.job.name, one.job.key))
        changed.append((one, one.job))
    return changed
