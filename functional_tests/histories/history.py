"""The calls of a history, seen from each job: what the checks look at."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .records import Fault, Op

#: Seconds that clients may need after a fault until they have connections again.
_RECOVERY = 2.0
#: What ends a session at once: kazoo gives up one whose replies belong to other requests, as after a swallowed one.
_SESSION_ENDS = ("kill", "swallow requests")


@dataclass(frozen=True, slots=True)
class Event:
    """What one call meant for one job. ``token`` is that of the claim that was granted, or under which it was made."""

    kind: str
    uuid: str
    op: Op
    token: int = 0
    shown: dict[str, Any] = field(default_factory=dict)

    @property
    def start(self) -> float:
        return self.op.start

    @property
    def end(self) -> float:
        return self.op.end

    @property
    def is_ok(self) -> bool:
        return self.op.is_ok

    @property
    def may_have_happened(self) -> bool:
        return self.op.may_have_happened

    def may_lie_between(self, start: float, end: float) -> bool:
        return self.may_have_happened and self.start < end and self.op.latest > start

    def __str__(self) -> str:
        token = f" token {self.token}" if self.token else ""
        return f"{self.op.id} {self.kind}{token} {self.start:.3f}-{self.end:.3f} {self.op.outcome}"


@dataclass(frozen=True, slots=True)
class Rules:
    """What a store's documents leave open.

    :param early: by how many seconds a claim or a delay may end too early.
    :param session: for how many seconds a client may be out of reach before its claims are over; None where a claim
        ends by time alone.
    :param longest_call: how many seconds a call may take.
    :param late: by how many seconds a claim may end too late; None where no time ends it.
    :param ended_within: seconds in which a job is ended after its handler.
    """

    early: float = 0.003
    session: float | None = None
    longest_call: float = 60.0
    late: float | None = 0.05
    ended_within: float = 15.0


class History:
    """All calls, the events of each job in the order in which they began, and the faults that were made."""

    def __init__(self, ops: Sequence[Op], faults: Sequence[Fault] = (), rules: Rules | None = None) -> None:
        self.ops = _weakened(ops, [fault for fault in faults if fault.kind == "failover"])
        self.faults = faults
        self.rules = rules or Rules()
        self.jobs: dict[str, list[Event]] = defaultdict(list)
        for op in self.ops:
            for event in _events_of(op):
                self.jobs[event.uuid].append(event)

    def death_of(self, process: str) -> float:
        """Return when a process was killed; infinity if it was not."""
        kills = [fault.start for fault in self.faults if fault.kind == "kill" and fault.whom == process]
        return min(kills, default=math.inf)

    def time_of_faults(self, those: Callable[[Fault], bool], start: float, end: float) -> float:
        """Return for how many seconds between two moments any of those faults went on, or what came of it."""
        seconds, until = 0.0, start
        for fault in sorted((each for each in self.faults if those(each)), key=lambda each: each.start):
            over = fault.end + _RECOVERY
            if over > until and fault.start < end:
                seconds += min(over, end) - max(fault.start, until)
                until = min(over, end)
        return seconds

    def may_have_lost_its_session(self, process: str, start: float, end: float) -> bool:
        """Whether a store that ends claims with their client's session may have ended those of this process."""
        if self.rules.session is None:
            return False
        patience = self.rules.session / 3
        return any(
            fault.start < end and fault.end > start - 2 * self.rules.session
            for fault in self.faults
            if fault.is_on(process) and (fault.kind in _SESSION_ENDS or fault.end - fault.start > patience)
        )


def _weakened(ops: Sequence[Op], failovers: Sequence[Fault]) -> list[Op]:
    """A failover may undo what was acknowledged around it, where the store's documents say so."""

    def is_met(op: Op) -> bool:
        return any(op.start < fault.end and op.end > fault.start for fault in failovers)

    return [replace(op, outcome="unknown") if op.is_ok and is_met(op) else op for op in ops]


def grants(events: Iterable[Event]) -> list[Event]:
    """Return the claims that were granted, by token."""
    return sorted((event for event in events if event.kind == "claim" and event.is_ok), key=lambda event: event.token)


def of_kind(events: Iterable[Event], *kinds: str) -> list[Event]:
    return [event for event in events if event.kind in kinds]


def _events_of(op: Op) -> Iterator[Event]:
    if op.op in {"claim", "claim_next"}:
        yield from _claims_of(op)
    elif op.op == "post_many":
        for index, uuid in enumerate(op.args["uuids"]):
            yield Event("post", uuid, op, shown=op.answer[index] if op.answer else {})
    elif op.op in {"consume_many", "extend_many"}:
        yield from _each_of(op, op.op.removesuffix("_many"))
    elif op.uuid is not None:
        shown = op.answer if isinstance(op.answer, dict) else {}
        yield Event(op.op, op.uuid, op, op.token or 0, shown)


def _claims_of(op: Op) -> Iterator[Event]:
    """What is unknown, or refused, granted nothing that the checks could count on."""
    answer = [op.answer] if isinstance(op.answer, dict) else op.answer or []
    for shown in answer:
        yield Event("claim", shown["uuid"], op, shown["token"], shown)


def _each_of(op: Op, kind: str) -> Iterator[Event]:
    errors = op.answer if op.answer is not None else [None] * len(op.args["fences"])
    for (uuid, token), error in zip(op.args["fences"], errors, strict=True):
        own = op if error is None else replace(op, outcome=error[0], error=error[1])
        yield Event(kind, uuid, own, token)


def holds_until(grant: Event, events: Iterable[Event]) -> float:
    """Return until when a claim holds at least, unless somebody ends it.

    The owner makes one call after the other, so the last acknowledged extension counts. Each unknown one may, and each
    refused one: the first try of it may have made the claim shorter, and its reply been lost.
    """
    renewals = [event for event in of_kind(events, "extend") if event.token == grant.token]
    certain = max([grant, *(event for event in renewals if event.is_ok)], key=lambda event: event.start)
    unknown = [event for event in renewals if event.op.outcome in {"unknown", "refused", "raw"}]
    return min((event.start + event.op.args["expiry"] for event in [certain, *unknown]), default=math.inf)
