"""Changes of jobs: producers' and consumers' primitives, and what operators do to single jobs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from jobboard.backends import lifecycle
from jobboard.backends.memory.client import MemoryClient
from jobboard.backends.memory.posting import Batch
from jobboard.backends.memory.stored_job import StoredJob, sequence_of
from jobboard.backends.ordered import SortedKeys, walk
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
    Posted,
    Refused,
    Trashing,
    TrashOutcome,
    Verdict,
)
from jobboard.backends.transition import Transition


class Jobs:
    """Each method takes the lock once, and lets :mod:`~jobboard.backends.lifecycle` decide."""

    def __init__(self, client: MemoryClient) -> None:
        self._store, self._lock, self._begin = client.store, client.lock, client.begin

    # -- posting ---------------------------------------------------------------------------------------------------

    def post(self, rows: Sequence[NewJob]) -> list[Posted]:
        with self._lock:
            now = self._begin()
            batch = Batch(self._store, rows, now)
            if not batch.is_refused and not batch.post_alone():
                batch.post()
                self._store.finish(now)
            return batch.answers()

    def cancel(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[CancelOutcome]:
        with self._lock:
            now = self._begin()
            store = self._store
            outcomes = [
                store.change(uuid, lambda row, _, now: lifecycle.cancel(row, now, by, reason), uuid, now)
                for uuid in uuids
            ]
            store.forget(2 * len(uuids), now)
            return outcomes

    # -- claims and their ends -------------------------------------------------------------------------------------

    def claim(self, uuid: str, claim: ClaimRequest) -> JobRow | None:
        with self._lock:
            now = self._begin()
            row = self._store.rows.get(uuid)
            if row is None or row.index is None:
                return None
            self._claim(row, claim, now)
            return row.copy()

    def claim_next(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        rows, steps_left = self._claim_step(claim, names, limit)
        for _ in range(steps_left):
            if rows:
                break
            # Parents have ended, and their children may be claimed once this is known. Others get the lock in between.
            rows, _ = self._claim_step(claim, names, limit)
        return rows

    def _claim_step(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> tuple[list[JobRow], int]:
        """Claim the best jobs; return them, and how many steps there are until all children know of their parents."""
        with self._lock:
            now = self._begin()
            rows = self._claim_best(claim, names, limit, now)
            if len(rows) < limit and self._store.lanes.may_exchange:
                refused = self._store.refused()
                if None not in refused:
                    self._store.lanes.exchange(names, refused, limit - len(rows), now)
                    rows += self._claim_best(claim, names, limit - len(rows), now)
            return [row.copy() for row in rows], 0 if rows else self._store.edges.steps_left(now)

    def _claim_best(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int, now: float) -> list[StoredJob]:
        """Claim up to ``limit`` of the best jobs; each round but the last one reaches the limit of another name."""
        rows: list[StoredJob] = []
        for _ in range(len(self._store.lanes.rules.names) + 1):
            refused = self._store.refused()
            if None in refused or len(rows) == limit:
                break
            found = self._best(self._store.unclaimed.orders(names, refused), limit - len(rows))
            for row in found:
                self._claim(row, claim, now)
            rows += found
        return rows

    def _best(self, orders: list[SortedKeys[int]], count: int) -> list[StoredJob]:
        """Return the best jobs, up to the one with which the limit of its name is reached."""
        store = self._store
        limits, rooms, rows = store.lanes.rules.names, dict[str, int](), list[StoredJob]()
        for position in islice(walk(orders), count):
            row = store.by_sequence[sequence_of(position)]
            rows.append(row)
            if limits and row.name in limits:
                rooms[row.name] = rooms.get(row.name, store.room_of(row.name)) - 1
                if rooms[row.name] == 0:
                    break
        return rows

    def _claim(self, row: StoredJob, claim: ClaimRequest, now: float) -> None:
        store = self._store
        change = lifecycle.claim(row, claim, now, store.last_token + 1, store.refused())
        store.last_token += store.carry_out(row, change, now)

    def claimed_under(self, claim_id: str) -> list[JobRow]:
        with self._lock:
            self._begin()
            rows = (self._store.by_sequence[sequence_of(position)] for position in self._store.claimed.whole)
            return [row.copy() for row in rows if row.claim_id == claim_id]

    def extend(self, renewals: Sequence[Extension]) -> list[ClaimAnswer]:
        with self._lock:
            now = self._begin()
            return [self._store.change(renewal.fence.uuid, lifecycle.extend, renewal, now) for renewal in renewals]

    def checkpoint(self, fence: Fence, state: bytes) -> ClaimAnswer:
        with self._lock:
            now = self._begin()
            return self._store.change(
                fence.uuid, lambda row, fence, now: lifecycle.checkpoint(row, fence, state, now), fence, now
            )

    def consume(self, ends: Sequence[Consumption]) -> list[ClaimAnswer]:
        with self._lock:
            now = self._begin()
            verdicts = [self._consume(end, now) for end in ends]
            # At full speed more is completed than a tidy now and then could forget.
            self._store.forget(2 * len(ends), now)
            return verdicts

    def _consume(self, end: Consumption, now: float) -> ClaimAnswer:
        store, row = self._store, self._store.rows.get(end.fence.uuid)
        if (end.posts or end.seal is not None) and lifecycle.holds(row, end.fence):
            refused = self._refused(end.posts, row, now)
            if refused is not None:
                return refused
            if end.seal is not None and store.seal(end.seal, now) is Verdict.LOST:
                return Refused(())
        return store.change(end.fence.uuid, lifecycle.consume, end, now)

    def _refused(self, posts: Sequence[NewJob], row: StoredJob | None, now: float) -> Refused | None:
        """Say what was to be posted with the end of a job, if that is refused."""
        batch = Batch(self._store, posts, now, row)
        return Refused(tuple(batch.answers())) if batch.is_refused else None

    def abandon(self, ends: Sequence[Abandonment]) -> list[ClaimAnswer]:
        with self._lock:
            now = self._begin()
            return [self._store.change(end.fence.uuid, self._abandoned, end, now) for end in ends]

    def _abandoned(self, row: StoredJob | None, end: Abandonment, now: float) -> Transition[ClaimAnswer]:
        has_signal = end.signal is not None and end.signal in self._store.signals.get(end.fence.uuid, {})
        return lifecycle.abandon(row, end, now, limit=self._store.lanes.limit_of(row), has_signal=has_signal)

    def trash(self, ends: Sequence[Trashing]) -> list[ClaimAnswer]:
        with self._lock:
            now = self._begin()
            return [self._trash(end, now) for end in ends]

    def _trash(self, end: Trashing, now: float) -> ClaimAnswer:
        row = self._store.rows.get(end.uuid)
        if end.posts and end.fence is not None and lifecycle.holds(row, end.fence):
            refused = self._refused(end.posts, row, now)
            if refused is not None:
                return refused
        return self._store.change(end.uuid, lifecycle.trash, end, now)

    # -- operators -------------------------------------------------------------------------------------------------

    def release(self, uuid: str, token: int, reason: str) -> Verdict:
        with self._lock:
            now = self._begin()
            limit_of = self._store.lanes.limit_of
            return self._store.change(
                uuid, lambda row, token, now: lifecycle.release(row, token, reason, now, limit_of(row)), token, now
            )

    def run_now(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[Verdict]:
        with self._lock:
            now = self._begin()
            limit_of = self._store.lanes.limit_of
            return [
                self._store.change(
                    uuid, lambda row, _, now: lifecycle.run_now(row, now, by, reason, limit_of(row)), uuid, now
                )
                for uuid in uuids
            ]

    def reprioritize(self, uuids: Sequence[str], priority: int, by: str | None, reason: str | None) -> list[Verdict]:
        with self._lock:
            now = self._begin()
            return [self._reprioritize(uuid, priority, by, reason, now) for uuid in uuids]

    def _reprioritize(self, uuid: str, priority: int, by: str | None, reason: str | None, now: float) -> Verdict:
        row = self._store.rows.get(uuid)
        change = lifecycle.reprioritize(row, priority, by, reason, now)
        if row is not None and change.told:
            was_blocked = row.index is self._store.blocked and row.joined_lane is not None
            self._store.move(row, None)
            self._store.carry_out(row, change, now, was_blocked=was_blocked)
            self._store.finish(now)
        return change.answer

    def restore(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[TrashOutcome]:
        def restored(row: StoredJob | None, _: str, now: float) -> Transition[TrashOutcome]:
            return lifecycle.restore(row, now, lambda row: (row.name, row.key) in self._store.keys, by, reason)

        with self._lock:
            now = self._begin()
            return [self._store.change(uuid, restored, uuid, now) for uuid in uuids]

    def purge(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[TrashOutcome]:
        with self._lock:
            now = self._begin()
            return [self._purge(uuid, by, reason, now) for uuid in uuids]

    def _purge(self, uuid: str, by: str | None, reason: str | None, now: float) -> TrashOutcome:
        row = self._store.rows.get(uuid)
        change = lifecycle.purge(row, now, by, reason)
        if row is not None and change.told:
            self._store.drop(row)
            self._store.tell_of(row, change.told)
            if change.resolve is not None:
                self._store.edges.mark(change.resolve, now)
                self._store.finish(now)
        return change.answer
