"""Changes jobs that are on the board, for owners, producers and operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jobboard.backends import lifecycle
from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.layout import under
from jobboard.backends.etcd.leases import Leases
from jobboard.backends.etcd.read_modify_write import ReadModifyWrite
from jobboard.backends.etcd.stored import StoredJob
from jobboard.backends.etcd.txn import absent, get, modified_at
from jobboard.backends.rows import (
    Abandonment,
    CancelOutcome,
    ClaimAnswer,
    Consumption,
    Extension,
    Fence,
    Trashing,
    TrashOutcome,
    Verdict,
)
from jobboard.backends.transition import Transition


class Jobs:
    """Each change holds only if the job is as it was read; one under a claim only if the claim's lease exists, too."""

    def __init__(self, connection: Connection, leases: Leases, change: ReadModifyWrite) -> None:
        self._connection = connection
        self._keys = connection.keys
        self._leases = leases
        self._change = change

    # -- owners ----------------------------------------------------------------------------------------------------

    def extend(self, renewals: Sequence[Extension]) -> list[ClaimAnswer]:
        return self._change.under_fences(renewals, lambda item: item.fence, self._extended)

    def _extended(self, row: StoredJob | None, renewal: Extension, now: float) -> Transition[ClaimAnswer]:
        change = lifecycle.extend(row, renewal, now, self._slack(now))
        if row is not None and change.told:
            row.lease = self._leases.for_claims(renewal.expiry)
            row.conditions = under(self._keys, row.lease)
        return change

    def checkpoint(self, fence: Fence, state: bytes) -> ClaimAnswer:
        def decide(row: StoredJob | None, fence: Fence, now: float) -> Transition[ClaimAnswer]:
            return lifecycle.checkpoint(row, fence, state, now)

        return self._change.under_fences([fence], lambda fence: fence, decide)[0]

    def consume(self, ends: Sequence[Consumption]) -> list[ClaimAnswer]:
        return self._change.under_fences(ends, lambda end: end.fence, lifecycle.consume)

    def abandon(self, ends: Sequence[Abandonment]) -> list[ClaimAnswer]:
        return self._change.under_fences(ends, lambda end: end.fence, self._abandoned)

    def _abandoned(self, row: StoredJob | None, end: Abandonment, now: float) -> Transition[ClaimAnswer]:
        if row is not None and row.newer is not None:
            # Only later versions can read this job: it has no delay, since that would have to be in its record.
            end = replace(end, delay=0.0, run_at=None)
        return lifecycle.abandon(row, end, now, self._slack(now))

    def trash(self, ends: Sequence[Trashing]) -> list[ClaimAnswer]:
        return self._change(ends, lambda end: end.uuid, lifecycle.trash, lambda end: end.fence)

    def _slack(self, now: float) -> float:
        """Return by how many seconds the server's clock may be ahead of ``now``."""
        return self._connection.latest() - now

    # -- producers and operators -----------------------------------------------------------------------------------

    def cancel(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[CancelOutcome]:
        def decide(row: StoredJob | None, uuid: str, now: float) -> Transition[CancelOutcome]:
            return lifecycle.cancel(_if_its_own(row, uuid), now, by, reason)

        return self._change(uuids, _itself, decide)

    def release(self, uuid: str, token: int, reason: str) -> Verdict:
        return self._change([uuid], _itself, lambda row, _, now: lifecycle.release(row, token, reason, now))[0]

    def run_now(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[Verdict]:
        def decide(row: StoredJob | None, uuid: str, now: float) -> Transition[Verdict]:
            return lifecycle.run_now(_if_its_own(row, uuid), now, by, reason)

        return self._change(uuids, _itself, decide)

    def reprioritize(self, uuids: Sequence[str], priority: int, by: str | None, reason: str | None) -> list[Verdict]:
        def decide(row: StoredJob | None, uuid: str, now: float) -> Transition[Verdict]:
            return lifecycle.reprioritize(_if_its_own(row, uuid), priority, by, reason, now)

        return self._change(uuids, _itself, decide)

    def restore(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[TrashOutcome]:
        def decide(row: StoredJob | None, _: str, now: float) -> Transition[TrashOutcome]:
            return lifecycle.restore(row, now, self._is_key_taken, by, reason)

        return self._change(uuids, _itself, decide)

    def _is_key_taken(self, row: StoredJob) -> bool:
        """Whether another live job has the key of this one; if not, that is a condition for restoring it."""
        assert row.key is not None
        place = self._keys.key(row.name, row.key)
        holder = self._connection.read([get(place)])[0].first
        row.conditions = (absent(place) if holder is None else modified_at(place, holder.modified),)
        if holder is None:
            return False
        (live,) = self._connection.read([get(self._keys.live + holder.value, keys_only=True)])
        return live.first is not None

    def purge(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[TrashOutcome]:
        return self._change(uuids, _itself, lambda row, _, now: lifecycle.purge(row, now, by, reason))


def _if_its_own(row: StoredJob | None, uuid: str) -> StoredJob | None:
    """Return the job only for its own uuid: that of a posting which replaced its content is no job's."""
    return row if row is not None and row.uuid == uuid else None


def _itself(uuid: str) -> str:
    return uuid
