"""The consumers' primitives: claim, extend, checkpoint, and the ends of a claim."""

from __future__ import annotations

from collections.abc import Sequence

from jobboard.backends.redis.client import MOST_STEPS, Client, endless
from jobboard.backends.redis.wire import entries_of, hold_of, micros, pack, span
from jobboard.backends.rows import Abandonment, ClaimRequest, Consumption, Extension, Fence, JobRow, Trashing, Verdict

_VERDICTS = {verdict.name.encode(): verdict for verdict in Verdict}


class Claiming(Client):
    """Each end is fenced by the whole hold: uuid, owner and token."""

    def claim(self, uuid: str, claim: ClaimRequest) -> JobRow | None:
        status, *parts = self._change("claim", pack([uuid, claim.who, claim.claim_id, span(claim.expiry)]))
        return None if status == b"MISSING" else entries_of(parts[0])[0]

    def claim_next(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        wanted = None if names is None else list(names)
        request = pack([claim.who, claim.claim_id, span(claim.expiry), limit, wanted])
        _, parts, passed = self._until_settled("claim_next", request, changes=True)
        self._leave(passed)
        return entries_of(parts)

    def claimed_under(self, claim_id: str) -> list[JobRow]:
        found: list[JobRow] = []
        place = b""
        for _ in range(MOST_STEPS):
            # What was claimed when the reply got lost is a change all the same, and may still have to reach replicas.
            _, place, parts = self._change("claimed_under", claim_id, place)
            found += entries_of(parts)
            if not place:
                return found
        raise endless("claimed_under")

    def extend(self, renewals: Sequence[Extension]) -> list[Verdict]:
        items = [[*hold_of(renewal.fence), span(renewal.expiry), renewal.progress] for renewal in renewals]
        return self._verdicts("extend", items)

    def consume(self, ends: Sequence[Consumption]) -> list[Verdict]:
        items = [[*hold_of(end.fence), span(end.retention) if end.retention > 0 else 0, end.result] for end in ends]
        return self._verdicts("consume", items)

    def abandon(self, ends: Sequence[Abandonment]) -> list[Verdict]:
        items = [
            [
                *hold_of(end.fence),
                micros(end.delay) if end.delay > 0 else None,
                None if end.run_at is None else micros(end.run_at),
                end.reason,
                end.error,
                end.counted,
            ]
            for end in ends
        ]
        return self._verdicts("abandon", items)

    def trash(self, ends: Sequence[Trashing]) -> list[Verdict]:
        items = [
            [*([end.uuid, end.by, None] if end.fence is None else hold_of(end.fence)), end.reason, end.error]
            for end in ends
        ]
        return self._verdicts("trash", items)

    def checkpoint(self, fence: Fence, state: bytes) -> Verdict:
        return _VERDICTS[self._change("checkpoint", pack(hold_of(fence)), state)[1]]

    def _verdicts(self, script: str, items: Sequence[object]) -> list[Verdict]:
        return [_VERDICTS[answer] for answer in self._change_all(script, items)]
