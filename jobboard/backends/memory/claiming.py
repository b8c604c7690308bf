"""The consumers' primitives: claim, extend, checkpoint, and the ends of a claim."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from jobboard.backends import lifecycle
from jobboard.backends.memory.client import Client
from jobboard.backends.memory.row import Row, sequence_of
from jobboard.backends.ordered import walk
from jobboard.backends.rows import Abandonment, ClaimRequest, Consumption, Extension, Fence, JobRow, Trashing, Verdict


class Claiming(Client):
    """Each end is fenced by the whole fence: uuid, owner and token."""

    def claim(self, uuid: str, claim: ClaimRequest) -> JobRow | None:
        with self._lock:
            now = self._begin()
            row = self._shelf.rows.get(uuid)
            if row is None or row.line is None:
                return None
            self._claim(row, claim, now)
            return row.copy()

    def claim_next(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        with self._lock:
            now = self._begin()
            shelf = self._shelf
            if None in shelf.paused:
                return []
            places = list(islice(walk(shelf.unclaimed.orders(names, shelf.paused)), limit))
            rows = [shelf.by_sequence[sequence_of(place)] for place in places]
            for row in rows:
                self._claim(row, claim, now)
            return [row.copy() for row in rows]

    def _claim(self, row: Row, claim: ClaimRequest, now: float) -> None:
        shelf = self._shelf
        change = lifecycle.claim(row, claim, now, shelf.last_token + 1, shelf.paused)
        shelf.last_token += shelf.carry_out(row, change, now)

    def claimed_under(self, claim_id: str) -> list[JobRow]:
        with self._lock:
            self._begin()
            rows = (self._shelf.by_sequence[sequence_of(place)] for place in self._shelf.claimed.whole)
            return [row.copy() for row in rows if row.claim_id == claim_id]

    def extend(self, renewals: Sequence[Extension]) -> list[Verdict]:
        with self._lock:
            now = self._begin()
            return [self._shelf.change(renewal.fence.uuid, lifecycle.extend, renewal, now) for renewal in renewals]

    def checkpoint(self, fence: Fence, state: bytes) -> Verdict:
        with self._lock:
            now = self._begin()
            return self._shelf.change(
                fence.uuid, lambda row, fence, now: lifecycle.checkpoint(row, fence, state, now), fence, now
            )

    def consume(self, ends: Sequence[Consumption]) -> list[Verdict]:
        with self._lock:
            now = self._begin()
            verdicts = [self._shelf.change(end.fence.uuid, lifecycle.consume, end, now) for end in ends]
            # At full speed more is completed than a tidy now and then could forget.
            self._shelf.forget(2 * len(ends), now)
            return verdicts

    def abandon(self, ends: Sequence[Abandonment]) -> list[Verdict]:
        with self._lock:
            now = self._begin()
            return [self._shelf.change(end.fence.uuid, lifecycle.abandon, end, now) for end in ends]

    def trash(self, ends: Sequence[Trashing]) -> list[Verdict]:
        with self._lock:
            now = self._begin()
            return [self._shelf.change(end.uuid, lifecycle.trash, end, now) for end in ends]
