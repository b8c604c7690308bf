"""Steps and signals of jobs on Redis. Each method is one script and one round trip."""

from __future__ import annotations

from typing import Any

import msgpack

from jobboard.backends.edge_rows import SignalOutcome, SignalRow, StepRow
from jobboard.backends.redis.client import RedisClient
from jobboard.backends.redis.codec import fence_parts, pack, text_of
from jobboard.backends.redis.ends import claim_answer
from jobboard.backends.rows import ClaimAnswer, Fence
from jobboard.backends.step_store import StepStore
from jobboard.errors import BoardUnavailable

_SIGNAL_OUTCOMES = {outcome.name.encode(): outcome for outcome in SignalOutcome}


class Steps(StepStore):
    """The steps and signals of one board's jobs."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client

    def save(self, fence: Fence, step: StepRow) -> ClaimAnswer:
        parts = pack(fence_parts(fence)), str(step.number), step.name, step.result
        return claim_answer(self._client.change("save_step", *parts)[1])

    def load(self, uuid: str, first: int, size: int) -> list[StepRow]:
        found = self._client.read("load_steps", uuid, str(first), str(size))[1]
        try:
            rows = [_values(packed, bytes, int, bytes) for packed in found]
        except ValueError:
            raise BoardUnavailable(f"a step of job {uuid} can't be decoded") from None
        return [
            StepRow(number, text_of(name), result, at / 1e6) for number, (name, at, result) in enumerate(rows, first)
        ]

    def signal(self, uuid: str, name: str, value: bytes, by: str | None = None) -> SignalOutcome:
        return _SIGNAL_OUTCOMES[self._client.change("signal", pack([uuid, name, by]), value)[1]]

    def signals(self, uuid: str) -> list[SignalRow]:
        pairs = self._client.read("signals", uuid)[1]
        try:
            rows = [_values(packed, int, bytes) for packed in pairs[1::2]]
        except ValueError:
            raise BoardUnavailable(f"a signal of job {uuid} can't be decoded") from None
        return [SignalRow(text_of(name), value, at / 1e6) for name, (at, value) in zip(pairs[::2], rows, strict=True)]


def _values(packed: bytes, *kinds: type) -> list[Any]:
    """Return what a step or a signal has; raises ``ValueError`` if it is damaged."""
    unpacker = msgpack.Unpacker(raw=True, max_buffer_size=0)
    unpacker.feed(packed)
    values = list(unpacker)
    if [type(value) for value in values] != list(kinds):
        raise ValueError("it has other parts")
    return values
