"""Reads jobs, decides about them, and writes each decision if the job was not changed meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar, cast

from jobboard.backends import lifecycle
from jobboard.backends.etcd.changes import Change, change_of
from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.ends import Ends
from jobboard.backends.etcd.expiry import Expiry, LostLeases, is_over
from jobboard.backends.etcd.job_writer import MAX_JOBS, JobWriter
from jobboard.backends.etcd.lane_rules import LaneRules
from jobboard.backends.etcd.layout import VersionedJob, under
from jobboard.backends.etcd.leases import Leases
from jobboard.backends.etcd.resolving import Resolver
from jobboard.backends.etcd.stored import StoredJob, is_of_job
from jobboard.backends.etcd.txn import absent, get, modified_at
from jobboard.backends.kv import jobs
from jobboard.backends.kv.read_modify_write import Done, carry_out
from jobboard.backends.limits import LaneLimit
from jobboard.backends.rows import Abandonment, ClaimAnswer, Extension, Fence, Refused, Verdict
from jobboard.backends.transition import Transition
from jobboard.errors import BoardUnavailable
from jobboard.states import JobState

Answer = TypeVar("Answer")


class ReadModifyWrite:
    """Carries out changes of jobs; one under a claim holds only if the claim's lease exists, too."""

    def __init__(
        self,
        connection: Connection,
        expiry: Expiry,
        writer: JobWriter,
        leases: Leases,
        lost_leases: LostLeases,
        rules: LaneRules,
        ends: Ends,
        resolver: Resolver,
    ) -> None:
        self._connection = connection
        self._keys = connection.keys
        self._expiry = expiry
        self._writer = writer
        self._leases = leases
        self._lost_leases = lost_leases
        self._rules = rules
        self._ends, self._resolver = ends, resolver

    def under_fence(self, fence: Fence) -> VersionedJob | None:
        """Return the job of a claim that holds, as this client remembers or reads it; None if it does not hold."""
        job = self._jobs({fence.uuid: fence})[fence.uuid]
        return job if job is not None and lifecycle.holds(job.row.seen(), fence) else None

    def forget_claim(self, uuid: str) -> None:
        """Read a job anew when it is needed next: it is not as this client remembers it."""
        self._writer.claimed.forget(uuid)

    def change(self, changes: Sequence[jobs.Change[StoredJob, Answer]]) -> list[Answer]:
        """Carry changes out, each atomically. A job that this client remembers under the claim of one is not read."""
        return carry_out(changes, lambda change: change.uuid, self._attempt, MAX_JOBS)

    def _attempt(self, turn: Sequence[jobs.Change[StoredJob, Answer]], is_again: bool) -> Sequence[Done[Answer] | None]:
        found, now = self._jobs({change.uuid: change.fence for change in turn}), self._connection.now()
        decided = [_decided(change, found[change.uuid], now) for change in turn]
        results = self._ends.write(
            [(change, write) for change, (_, write) in zip(turn, decided, strict=True)], is_again
        )
        if False in results:
            self._lost_leases.check()
        answers = zip(turn, decided, strict=True)
        self._resolver.after([], [one.uuid for one, (answer, _) in answers if _is_left(answer, found[one.uuid])])
        return [_done(answer, write, result) for (answer, write), result in zip(decided, results, strict=True)]

    def _jobs(self, fences: Mapping[str, Fence | None]) -> dict[str, VersionedJob | None]:
        """Return the jobs of a turn: those that this client remembers under these claims, the others as read."""
        now = self._connection.now()
        found: dict[str, VersionedJob | None] = {
            uuid: job
            for uuid, fence in fences.items()
            if fence is not None
            and (job := self._writer.claimed.get(uuid)) is not None
            and lifecycle.holds(job.row.seen(), fence)
            and not is_over(job, now)
        }
        missing = [uuid for uuid in fences if uuid not in found]
        return found | dict(zip(missing, self._expiry.read(missing), strict=True))

    # -- what etcd adds to the rules ---------------------------------------------------------------------------------

    def _slack(self, now: float) -> float:
        """Return by how many seconds the server's clock may be ahead of ``now``."""
        return self._connection.latest() - now

    def extend(self, row: StoredJob | None, renewal: Extension, now: float) -> Transition[ClaimAnswer]:
        """Renew a claim, under the lease for its new expiry."""
        change = lifecycle.extend(row, renewal, now, self._slack(now))
        if row is not None and change.told:
            row.lease = self._leases.for_claims(renewal.expiry)
            row.conditions = under(self._keys, row.lease)
        return change

    def abandon(self, row: StoredJob | None, end: Abandonment, now: float) -> Transition[ClaimAnswer]:
        """Return a job; one that only later versions can read without a delay, since its record stays as it is."""
        if row is not None and row.newer is not None:
            end = replace(end, delay=0.0, run_at=None, signal=None)
        has_signal = False
        if row is not None and end.signal is not None and lifecycle.holds(row, end.fence):
            # One that is sent later changes the claim, so that this is decided anew.
            (found,) = self._connection.read([get(self._keys.signal(end.fence.uuid, end.signal))])
            has_signal = found.first is not None and is_of_job(found.first, row.sequence)
        return lifecycle.abandon(row, end, now, self._slack(now), self.limit_of(row), has_signal)

    def limit_of(self, row: StoredJob | None) -> LaneLimit:
        """Return what holds for the lane of a job; the write makes sure that it is still so."""
        return self._rules.limit_of(row)

    def is_key_taken(self, row: StoredJob) -> bool:
        """Whether another live job has the key of this one; if not, that is a condition for restoring it."""
        assert row.key is not None
        place = self._keys.key(row.name, row.key)
        holder = self._connection.read([get(place)])[0].first
        row.conditions = (
            *row.conditions,
            absent(place) if holder is None else modified_at(place, holder.modified),
        )
        if holder is None:
            return False
        (live,) = self._connection.read([get(self._keys.live + holder.value, keys_only=True)])
        return live.first is not None


def _decided(
    change: jobs.Change[StoredJob, Answer], job: VersionedJob | None, now: float
) -> tuple[Answer, Change | None]:
    """Return the answer to one change, and what to write for it."""
    row = None if job is None else job.row.seen()
    transition = change.decide(row, now)
    if job is None or row is None or not transition.told:
        return transition.answer, None
    write = change_of(job, row, transition, is_fenced=change.fence is not None)
    new = write.new
    if job.row.newer is not None and not (new and new.state is JobState.UNCLAIMED and new.order == job.order):
        # A job that only later versions can read may be claimed, and its claim may end; it is not changed otherwise.
        raise BoardUnavailable(f"the record of job {job.row.uuid} is of a newer format; upgrade this client")
    return transition.answer, write


def _done(answer: Answer, write: Change | None, result: bool | Refused | None) -> Done[Answer] | None:
    """Return what is certain of a change; None: it must be tried again."""
    if isinstance(result, Refused):
        # Only the end of a claim is refused, and its answer may be so.
        return Done(cast(Answer, result), False)
    return Done(answer, write is not None) if result else None


def _is_left(answer: object, job: VersionedJob | None) -> bool:
    """Whether an end was made before, perhaps by a client that did not learn of it, and left a mark."""
    ties = None if job is None else job.row.ties
    return answer is Verdict.REPEATED and ties is not None and ties.has_children
