"""Steps and signals, which are on the shard of their job."""

from __future__ import annotations

from jobboard.backends.edge_rows import SignalOutcome, SignalRow, StepRow
from jobboard.backends.rows import ClaimAnswer, Fence
from jobboard.backends.shards.fleet import Fleet
from jobboard.backends.step_store import StepStore


class Steps(StepStore):
    """Each request goes to that shard."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def save(self, fence: Fence, step: StepRow) -> ClaimAnswer:
        return self._fleet.change([fence.uuid], str, lambda shard, _: [shard.steps.save(fence, step)])[0]

    def load(self, uuid: str, first: int, size: int) -> list[StepRow]:
        return self._fleet.ask_of(uuid, lambda shard: shard.steps.load(uuid, first, size))

    def signal(self, uuid: str, name: str, value: bytes, by: str | None = None) -> SignalOutcome:
        return self._fleet.change(
            [uuid],
            str,
            lambda shard, _: [shard.steps.signal(uuid, name, value, by)],
            lambda outcome: outcome is SignalOutcome.MISSING,
        )[0]

    def signals(self, uuid: str) -> list[SignalRow]:
        return self._fleet.ask_of(uuid, lambda shard: shard.steps.signals(uuid))
