"""All that can become of three jobs of one lane, in a few steps: the rules hand the lane's slots on, and never twice.

In every state no more jobs of the lane hold a slot than its limit allows, and while one is free no job is BLOCKED.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jobboard.backends import lifecycle
from jobboard.backends.lane_rows import LimitRow
from jobboard.backends.lanes import is_holder
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
from jobboard.limit import Limit, Rate
from jobboard.states import JobState
from jobboard.testing.plain_store import PlainStore
from jobboard.types import LaneOrder

LANE, UUIDS, WHO = Ties("lane"), ("a", "b", "c"), "alice"
#: How many requests follow each other.
DEPTH = 3
#: The limits of the lane, and how many states the requests lead to.
LIMITS = {
    "one": (Limit(lane=LANE.lane, running=1), 462),
    "two": (Limit(lane=LANE.lane, running=2), 517),
    "one, strict": (Limit(lane=LANE.lane, running=1, order="strict"), 461),
    "two, strict": (Limit(lane=LANE.lane, running=2, order="strict"), 517),
    "none": (Limit(lane=LANE.lane), 538),
}
EXPIRY, DELAY, RETENTION = 10.0, 100.0, 1e6


class World:
    """A store with three jobs of one lane, of which the last one is delayed."""

    def __init__(self, limit: Limit) -> None:
        self.time, self.limit = 1000.0, limit
        self.store = PlainStore(self.now)
        self.store.limits.put(LimitRow(limit, "1"), None)
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


def _new(
    uuid: str,
    delay: float | None = None,
    if_exists: IfExists = IfExists.RAISE,
    of: str | None = None,
    priority: int = 3,
) -> NewJob:
    key = f"key of {of or uuid}"
    return NewJob(uuid, "n", priority, b"", key, if_exists, delay=delay, max_attempts=2, ties=LANE)


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
    is_strict, running = world.limit.order == "strict", world.limit.running or len(rows)
    holders = [row for row in rows if is_holder(row, is_strict)]
    blocked = [row for row in rows if row.state is JobState.BLOCKED]
    assert len(holders) <= running, "no more hold a slot than the limit allows"
    assert len(holders) == running or not blocked, "a free slot is handed on"
    worst = min((row.priority for row in holders if _may_yield(row, is_strict)), default=5)
    assert all(row.priority <= worst for row in blocked), "a better priority goes first"
    for row in rows:
        assert row.state is not JobState.DELAYED or row.place == row.run_at, "a delay gives its place"


def _may_yield(row: JobRow, is_strict: bool) -> bool:
    return row.state is JobState.UNCLAIMED and not (is_strict and row.token)


def explore(limit: Limit, depth: int) -> int:
    seen, edge = set(), [World(limit)]
    for _ in range(depth):
        states = {state.key(): state for world in edge for state in after(world)}
        edge = [state for key, state in states.items() if key not in seen]
        for state in edge:
            check(state)
        seen |= states.keys()
    return len(seen)


@pytest.mark.parametrize(("limit", "states"), LIMITS.values(), ids=LIMITS.keys())
def test_every_interleaving_keeps_the_lane(limit: Limit, states: int) -> None:
    assert explore(limit, DEPTH) == states


@pytest.mark.parametrize(
    ("end", "keeps"),
    [
        ("abandon", ["free", "strict"]), ("release", ["free", "strict"]), ("abandon for later", ["strict"]),
        ("consume", []), ("trash", []),
    ],
)  # fmt: skip
@pytest.mark.parametrize("order", ["free", "strict"])
def test_who_holds_the_slot_after_an_end(end: str, keeps: list[str], order: LaneOrder) -> None:
    world = World(Limit(lane=LANE.lane, running=1, order=order))
    REQUESTS["claim"](world, "a")
    place = world.row("a").place
    world.pass_time(1.0)
    REQUESTS[end](world, "a")
    is_kept = order in keeps
    held = [is_holder(world.row(uuid), order == "strict") for uuid in UUIDS]
    assert held == [is_kept, not is_kept, False]
    assert (world.row("a").place == place) is (end != "abandon for later")
    assert is_kept or world.row("b").place == world.time, "an admitted job stands behind what can be claimed"


@pytest.mark.parametrize("order", ["free", "strict"])
def test_what_a_lane_tells(order: LaneOrder) -> None:
    world = World(Limit(lane=LANE.lane, running=1, order=order))
    world.store.post([_new("better", priority=5)])
    # It joins and is admitted in one step; "a" gives way to it.
    assert _told(world, "better") == ["POSTED"]
    assert _told(world, "a") == ["POSTED", "BLOCKED"]
    assert _told(world, "b") == ["POSTED", "BLOCKED"]
    assert [str(line.kind) for line in world.row("a").history] == ["POSTED"]
    world.pass_time(1.0)
    world.store.cancel(["better"])
    assert _told(world, "a") == ["POSTED", "BLOCKED", "ADMITTED"]
    row = world.row("a")
    assert row.ties == Ties(LANE.lane, 1000.0)
    assert row.place == world.time
    world.store.post([_new("another", priority=5)])
    world.store.cancel(["another"])
    assert [str(line.kind) for line in world.row("a").history] == ["POSTED", "ADMITTED"]
    assert _told(world, "a")[3:] == ["BLOCKED", "ADMITTED"]


def _told(world: World, uuid: str) -> list[str]:
    return [str(note.kind) for note in world.store.told[uuid]]


def test_a_batch_is_one_step() -> None:
    world = World(Limit(lane=LANE.lane, running=0))
    world.store.limits.put(LimitRow(Limit(lane=LANE.lane, running=3), "2"), "1")
    world.store.post([_new("low", priority=1), _new("high", priority=5)])
    assert [world.row(uuid).state for uuid in ("low", "high")] == [JobState.BLOCKED, JobState.UNCLAIMED]
    assert (_told(world, "low"), _told(world, "high")) == (["POSTED", "BLOCKED"], ["POSTED"])


def test_a_start_again_is_another_start_of_a_rate() -> None:
    world = World(Limit(lane=LANE.lane, rate=Rate(1, per=50.0)))
    for uuid, expected in (("a", [JobState.BLOCKED, JobState.BLOCKED]), ("a", [JobState.UNCLAIMED, JobState.BLOCKED])):
        if world.row(uuid).state is JobState.UNCLAIMED:
            REQUESTS["claim"](world, uuid)
            REQUESTS["abandon"](world, uuid)
        else:
            world.pass_time(50.0)
        assert [world.row(each).state for each in ("a", "b")] == expected


def test_an_expired_job_keeps_its_place_and_the_slot() -> None:
    world = World(Limit(lane=LANE.lane, running=1))
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
