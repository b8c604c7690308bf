"""The primitives of steps and signals."""

from __future__ import annotations

from dataclasses import replace

from jobboard.backends import lifecycle, waiting
from jobboard.backends.edge_rows import SignalOutcome, SignalRow, StepRow
from jobboard.backends.memory.client import MemoryClient
from jobboard.backends.rows import ClaimAnswer, Fence
from jobboard.backends.step_store import StepStore


class Steps(StepStore):
    """Each takes the lock once."""

    def __init__(self, client: MemoryClient) -> None:
        self._store, self._lock, self._begin = client.store, client.lock, client.begin

    def save(self, fence: Fence, step: StepRow) -> ClaimAnswer:
        with self._lock:
            now = self._begin()
            row = self._store.rows.get(fence.uuid)
            if lifecycle.holds(row, fence):
                steps = self._store.steps.setdefault(fence.uuid, [])
                steps[step.number : step.number + 1] = [replace(step, at=now)]
            return lifecycle.save_step(row, fence)

    def load(self, uuid: str, first: int, size: int) -> list[StepRow]:
        with self._lock:
            self._begin()
            return self._store.steps.get(uuid, [])[first : first + size]

    def signal(self, uuid: str, name: str, value: bytes, by: str | None = None) -> SignalOutcome:
        with self._lock:
            now = self._begin()
            store = self._store
            row = store.rows.get(uuid)
            if row is None or not store.is_live(row):
                return SignalOutcome.MISSING
            signals = store.signals.setdefault(uuid, {})
            if name in signals:
                return SignalOutcome.REPEATED
            signals[name] = SignalRow(name, value, now)
            was_waiting = row.ties is not None and row.ties.signal == name
            change = waiting.signal(row, name, by, now)
            answer = (store.carry_out_anew if was_waiting else store.carry_out)(row, change, now)
            store.finish(now)
            return answer

    def signals(self, uuid: str) -> list[SignalRow]:
        with self._lock:
            self._begin()
            return list(self._store.signals.get(uuid, {}).values())
