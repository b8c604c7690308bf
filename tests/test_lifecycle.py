"""All that can become of one job in a few steps: two owners, an operator and the clock, each reply lost or not.

The rules are pure, so that every interleaving up to :data:`DEPTH` requests can be tried. A client that has lost a
reply sends the same request again, at any later time, before anything else. DESIGN's promises must hold in each
state: one owner (2), fenced ends (3), consumed once (4), poison stops (6), retries are safe (8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from jobboard.backends import lifecycle
from jobboard.backends.rows import (
    Abandonment,
    CancelOutcome,
    ClaimRequest,
    Consumption,
    Extension,
    Fence,
    JobRow,
    NewJob,
    Ties,
    Trashing,
    TrashOutcome,
    Verdict,
    verdict_of,
)
from jobboard.backends.transition import Transition
from jobboard.events import FREQUENT, EventKind, HistoryEntry
from jobboard.states import JobState

UUID, MOST, EXPIRY, NOW = "u", 2, 10.0, 1000.0
#: Requests of which the replies are lost or not, and how many states they lead to.
DEPTH, STATES = 4, 4870
ACTORS = ("alice", "bob", "operator")
CLAIM = ("claim",)
ENDS = ("extend", "checkpoint", "consume", "abandon", "abandon uncounted", "trash")
CALLS = ("cancel", "release", "force", "restore", "purge")
WHEN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Sent:
    """A request on its way: what it is, and the token that it is about."""

    kind: str
    token: int
    number: int


@dataclass(frozen=True)
class World:
    """One state: the job, what each owner thinks that it holds, and which requests had their replies lost."""

    row: JobRow
    is_purged: bool = False
    held: tuple[int, int] = (0, 0)
    lost: tuple[Sent | None, ...] = (None, None, None)
    done: frozenset[Sent] = frozenset()
    consumed: int = 0
    tokens: int = 0

    def key(self) -> Any:
        row = self.row
        history = tuple((line.kind, line.who, line.token) for line in row.history)
        record = (
            row.state,
            row.attempts,
            row.owner,
            row.token,
            row.claim_id,
            row.expires_at,
            row.run_at,
            row.cancel_asked,
        )
        return record, history, self.is_purged, self.held, self.lost, self.done, self.consumed


def first() -> World:
    row = JobRow(UUID, "n", 3, 1, NOW, b"", "k")
    lifecycle.post(row, NewJob(UUID, "n", 3, b"", "k", max_attempts=MOST), NOW)
    return World(row)


def carry_out(world: World, actor: int, sent: Sent, is_lost: bool) -> World:
    """Let a request reach the store, check what it does, and return the state after it."""
    row = replace(world.row)
    there = None if world.is_purged else row
    change = decide(there, ACTORS[actor], sent, world.tokens + 1)
    check(world, row, change, ACTORS[actor], sent)
    tell(row, change)
    is_granted = sent.kind == "claim" and there is not None and row.claim_id == claim_id(ACTORS[actor], sent)
    held = list(world.held)
    if is_granted and not is_lost:
        held[actor] = row.token
    lost = list(world.lost)
    lost[actor] = sent if is_lost else None
    return World(
        row,
        world.is_purged or (change.answer is TrashOutcome.DONE and sent.kind == "purge"),
        (held[0], held[1]),
        tuple(lost),
        world.done | {sent} if change.told and is_lost else world.done - {sent},
        world.consumed + (sent.kind == "consume" and change.answer is Verdict.DONE),
        world.tokens + (sent.kind == "claim" and change.answer is True),
    )


def claim_id(who: str, sent: Sent) -> str:
    return f"{who} {sent.number}"


def decide(row: JobRow | None, who: str, sent: Sent, token: int) -> Transition[Any]:
    fence = Fence(UUID, who, sent.token)
    rules: dict[str, Callable[[], Transition[Any]]] = {
        "claim": lambda: lifecycle.claim(row, ClaimRequest(who, claim_id(who, sent), EXPIRY), NOW, token),
        "extend": lambda: lifecycle.extend(row, Extension(fence, EXPIRY), NOW),
        "checkpoint": lambda: lifecycle.checkpoint(row, fence, b"c", NOW),
        "consume": lambda: lifecycle.consume(row, Consumption(fence, None, 60.0), NOW),
        "abandon": lambda: lifecycle.abandon(row, Abandonment(fence), NOW),
        "abandon uncounted": lambda: lifecycle.abandon(row, Abandonment(fence, counted=False), NOW),
        "trash": lambda: lifecycle.trash(row, Trashing(UUID, fence), NOW),
        "force": lambda: lifecycle.trash(row, Trashing(UUID, None, by=who), NOW),
        "cancel": lambda: lifecycle.cancel(row, NOW),
        "release": lambda: lifecycle.release(row, sent.token, "why", NOW),
        "restore": lambda: lifecycle.restore(row, NOW, lambda _: False),
        "purge": lambda: lifecycle.purge(row, NOW),
    }
    return rules[sent.kind]()


def tell(row: JobRow, change: Transition[Any]) -> None:
    row.history += tuple(HistoryEntry(kind, who, WHEN, token, why) for kind, who, _, token, why in change.history)


def check(world: World, row: JobRow, change: Transition[Any], who: str, sent: Sent) -> None:
    """Hold one step to the promises; ``row`` is the job after it."""
    before = world.row
    held_before = not world.is_purged and lifecycle.holds(before, Fence(UUID, who, sent.token))
    if not change.told:
        assert row == before, "a refused request changes nothing"
    unwritten = [note.kind for note in change.told if note not in change.history]
    assert {*unwritten} <= FREQUENT | {EventKind.PURGED}, "SQL leaves these kinds out when it reads a history"
    if sent.kind in ENDS:
        assert bool(change.told) is held_before, "an end changes a job under its claim, and only then (3)"
        assert (change.answer in (Verdict.DONE, Verdict.CANCEL_ASKED)) is held_before
    if sent in world.done and sent.kind in (*ENDS[2:], "release"):
        expected = Verdict.LOST if world.is_purged else Verdict.REPEATED
        assert verdict_of(change.answer) is expected, "a repeated end is known (8)"
    if sent in world.done and sent.kind == "purge":
        assert change.answer is TrashOutcome.MISSING, "a repeated purge finds nothing (8)"
    if sent in world.done and sent.kind == "claim" and before.claim_id == claim_id(who, sent):
        assert not change.told, "a repeated claim finds itself, and is no second attempt (8)"
    if change.answer is CancelOutcome.CANCELLED:
        assert before.state is not JobState.CLAIMED, "a claimed job is left to its owner"
    if sent.kind == "claim" and change.told:
        assert before.state is JobState.UNCLAIMED, "one owner (2)"
        assert row.token > before.token, "tokens grow (2)"


def check_state(world: World) -> None:
    row = world.row
    fences = [Fence(UUID, who, token) for who, token in zip(ACTORS[:2], world.held, strict=True)]
    assert sum(lifecycle.holds(row, fence) for fence in fences) <= 1, "one owner (2)"
    assert world.consumed <= 1, "consumed once (4)"
    assert not world.consumed or row.state is JobState.COMPLETE, "what was consumed stays so (4)"
    releases = sum(line.kind is EventKind.RELEASED for line in row.history)
    assert 0 <= row.attempts <= MOST + releases, "poison stops, but for an operator who gives it one more chance (6)"
    assert (row.state is JobState.CLAIMED) is (row.claim_id is not None) is (row.expires_at is not None)
    assert row.state is JobState.COMPLETE or (row.state is JobState.CLAIMED) is (row.owner is not None)


def after(world: World) -> Iterator[World]:
    """Return each state that one request, or the end of a claim, leads to."""
    for actor, lost in enumerate(world.lost):
        for sent in [lost] if lost is not None else choices(world, actor):
            for is_lost in (False, True):
                yield carry_out(world, actor, sent, is_lost)
    if not world.is_purged and lifecycle.is_due(world.row, NOW + EXPIRY):
        row = replace(world.row)
        used_up = row.attempts >= MOST
        tell(row, lifecycle.expire_or_promote(row, NOW + EXPIRY))
        assert (row.state is JobState.TRASHED) is (used_up and not world.row.cancel_asked), "poison stops (6)"
        yield replace(world, row=row)


def choices(world: World, actor: int) -> list[Sent]:
    if actor == 2:
        return [Sent(kind, world.row.token if kind == "release" else 0, world.tokens) for kind in CALLS]
    kinds = CLAIM if not world.held[actor] else CLAIM + ENDS
    return [Sent(kind, world.held[actor], world.tokens) for kind in kinds]


def explore(depth: int) -> int:
    seen = {first().key()}
    edge = [first()]
    for _ in range(depth):
        states = {world.key(): world for state in edge for world in after(state)}
        edge = [world for key, world in states.items() if key not in seen]
        for world in edge:
            check_state(world)
        seen |= states.keys()
    return len(seen)


def test_every_interleaving_keeps_the_promises() -> None:
    assert explore(DEPTH) == STATES


@pytest.mark.parametrize(("reason", "error", "last"), [("why", None, "why"), ("why", "", ""), (None, None, None)])
def test_the_last_error_is_what_was_said_last(reason: str | None, error: str | None, last: str | None) -> None:
    row = first().row
    lifecycle.claim(row, ClaimRequest("alice", "id", EXPIRY), NOW, 1)
    change = lifecycle.abandon(row, Abandonment(Fence(UUID, "alice", 1), reason=reason, error=error), NOW)
    assert (row.last_error, row.reason, row.state) == (last, reason, JobState.UNCLAIMED)
    assert [note.kind for note in change.history] == [EventKind.ABANDONED]


def test_what_is_told_of_a_touch_is_no_line_of_the_history() -> None:
    row = first().row
    lifecycle.claim(row, ClaimRequest("alice", "id", EXPIRY), NOW, 1)
    change = lifecycle.extend(row, Extension(Fence(UUID, "alice", 1), float("inf"), b"half"), NOW)
    assert [note.kind for note in change.told] == [EventKind.EXTENDED]
    assert (change.history, row.expires_at, row.progress) == ((), None, b"half")


def test_delays_end_later_where_the_clock_is_known_roughly() -> None:
    row = first().row
    lifecycle.claim(row, ClaimRequest("alice", "id", EXPIRY), NOW, 1)
    lifecycle.abandon(row, Abandonment(Fence(UUID, "alice", 1), delay=5.0), NOW, slack=2.0)
    assert (row.state, row.run_at) == (JobState.DELAYED, NOW + 7.0)


def test_a_restored_job_may_begin_though_this_client_knows_an_earlier_time() -> None:
    row = first().row
    row.ties = Ties(start_by=NOW)
    lifecycle.expire_or_promote(row, NOW)
    assert row.state is JobState.TRASHED
    lifecycle.restore(row, NOW - 1.0, lambda _: False)
    assert row.state is JobState.UNCLAIMED
    assert not lifecycle.is_due(row, NOW), "it would be set aside again"
