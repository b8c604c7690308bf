"""All that can become of three jobs of one lane, in a few steps: the rules hand the lane's slot on, and never twice.

In every state at most one job of the lane holds its slot, and while the slot is free no job is BLOCKED.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jobboard.backends import lifecycle
from jobboard.backends.lanes import HOLDS_SLOT
from jobboard.backends.rows import (
    Abandonment,
    ClaimRequest,
    Consumption,
    Fence,
    IfExists,
    JobRow,
    NewJob,
    Ties,
    Trashing,
)
from jobboard.states import JobState
from jobboard.testing.plain_store import PlainStore

LANE, UUIDS, WHO = Ties("lane"), ("a", "b", "c"), "alice"
#: How many requests follow each other, and how many states they lead to.
DEPTH, STATES = 3, 425
EXPIRY, DELAY, RETENTION = 10.0, 100.0, 1e6


class World:
    """A store with three jobs of one lane, of which the last one is delayed."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.store = PlainStore(self.now)
        self.store.post([_new(uuid, delay=DELAY if uuid == UUIDS[-1] else None) for uuid in UUIDS])

    def now(self) -> float:
        return self.time

    def pass_time(self, seconds: float) -> None:
        self.time += seconds

    def row(self, uuid: str) -> JobRow:
        (row,) = self.store.read([uuid])
        assert row is not None
        return row

    def rows(self) -> list[JobRow]:
        return [row for row in self.store.read(UUIDS) if row is not None]

    def key(self) -> Any:
        rows = sorted(self.rows(), key=lambda row: (row.place, row.sequence))
        return tuple((row.uuid, row.state, row.priority, row.attempts, row.cancel_asked, row.run_at) for row in rows)


def _new(uuid: str, delay: float | None = None, if_exists: IfExists = IfExists.RAISE, of: str | None = None) -> NewJob:
    key = f"key of {of or uuid}"
    return NewJob(uuid, "n", 3, b"", key, if_exists, delay=delay, max_attempts=2, ties=LANE)


def _fence(world: World, uuid: str) -> Fence:
    return Fence(uuid, WHO, world.row(uuid).token)


REQUESTS: dict[str, Callable[[World, str], object]] = {
    "claim": lambda world, uuid: world.store.claim(uuid, ClaimRequest(WHO, f"claim of {uuid}", EXPIRY)),
    "consume": lambda world, uuid: world.store.consume([Consumption(_fence(world, uuid), None, RETENTION)]),
    "abandon": lambda world, uuid: world.store.abandon([Abandonment(_fence(world, uuid))]),
    "abandon for later": lambda world, uuid: world.store.abandon([Abandonment(_fence(world, uuid), delay=DELAY)]),
    "trash": lambda world, uuid: world.store.trash([Trashing(uuid, None)]),
    "cancel": lambda world, uuid: world.store.cancel([uuid]),
    "release": lambda world, uuid: world.store.release(uuid, world.row(uuid).token, "why"),
    "restore": lambda world, uuid: world.store.restore([uuid]),
    "run now": lambda world, uuid: world.store.run_now([uuid]),
    "reprioritize": lambda world, uuid: world.store.reprioritize([uuid], 5, None, None),
    "replace": lambda world, uuid: world.store.post([_new(f"new {uuid}", None, IfExists.REPLACE, of=uuid)]),
}


def after(world: World) -> Iterator[World]:
    """Return each state that one request about one of the jobs leads to, or time."""
    for request in REQUESTS.values():
        for row in world.rows():
            yield _once(world, lambda state, request=request, row=row: request(state, row.uuid))  # type: ignore[misc]
    for seconds in (EXPIRY, DELAY):
        yield _once(world, lambda state, seconds=seconds: state.pass_time(seconds))  # type: ignore[misc]


def _once(world: World, step: Callable[[World], object]) -> World:
    state = copy.deepcopy(world)
    state.pass_time(1.0)
    step(state)
    return state


def check(world: World) -> None:
    """Hold a state to what a lane promises."""
    rows = world.rows()
    holders = [row for row in rows if row.state in HOLDS_SLOT]
    assert len(holders) <= 1, "a lane has one slot"
    assert holders or not any(row.state is JobState.BLOCKED for row in rows), "a free slot is handed on"
    for row in rows:
        assert row.state is not JobState.DELAYED or row.place == row.run_at, "a delay gives its place"


def explore(depth: int) -> int:
    seen, edge = set(), [World()]
    for _ in range(depth):
        states = {state.key(): state for world in edge for state in after(world)}
        edge = [state for key, state in states.items() if key not in seen]
        for state in edge:
            check(state)
        seen |= states.keys()
    return len(seen)


def test_every_interleaving_keeps_the_lane() -> None:
    assert explore(DEPTH) == STATES


@pytest.mark.parametrize(
    ("end", "keeps"),
    [("abandon", True), ("release", True), ("abandon for later", False), ("consume", False), ("trash", False)],
)
def test_who_holds_the_slot_after_an_end(end: str, keeps: bool) -> None:
    world = World()
    REQUESTS["claim"](world, "a")
    place = world.row("a").place
    world.pass_time(1.0)
    REQUESTS[end](world, "a")
    assert [world.row(uuid).state in HOLDS_SLOT for uuid in UUIDS] == [keeps, not keeps, False]
    assert (world.row("a").place == place) is (end != "abandon for later")
    assert keeps or world.row("b").place == world.time, "an admitted job stands behind what can be claimed"


def test_an_expired_job_keeps_its_place_and_the_slot() -> None:
    world = World()
    place = world.row("a").place
    REQUESTS["claim"](world, "a")
    world.pass_time(EXPIRY)
    assert [row.state for row in world.rows()] == [JobState.UNCLAIMED, JobState.BLOCKED, JobState.DELAYED]
    assert world.row("a").place == place


def test_the_delay_decides_the_place_and_not_the_posting() -> None:
    row = lifecycle.draft(NewJob("u", "n", 3, b""), 1000.0)
    lifecycle.post(row, NewJob("u", "n", 3, b"", delay=5.0), 1000.0)
    lifecycle.promote(row, 1010.0)
    assert (row.state, row.place) == (JobState.UNCLAIMED, 1005.0)
    lifecycle.trash(row, Trashing("u", None), 1020.0)
    lifecycle.restore(row, 1030.0, lambda _: False)
    assert (row.state, row.place) == (JobState.UNCLAIMED, 1030.0)
