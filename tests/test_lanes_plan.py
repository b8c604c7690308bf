"""What one look at a lane does: never over its limit, never under it, the best first, and no faster than its rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobboard.backends.lanes import MAX_MOVES, LanePlan, LaneView, is_holder, plan
from jobboard.backends.limits import LaneLimit
from jobboard.backends.rows import JobRow
from jobboard.limit import Rate
from jobboard.states import JobState

BLOCKED, UNCLAIMED, CLAIMED, DELAYED = JobState.BLOCKED, JobState.UNCLAIMED, JobState.CLAIMED, JobState.DELAYED
#: The difference of times that is none, in seconds.
NEAR = 1e-6


class Lane:
    """The live jobs of a lane, and what its rate has come to; looks are carried out here by the plan alone."""

    def __init__(self, limit: LaneLimit, rows: Sequence[JobRow] = ()) -> None:
        self.limit, self.rows = limit, list(rows)
        self.next_at, self.offered = 0.0, 0

    def __repr__(self) -> str:
        rows = [f"{row.state} {row.priority} {row.place} {row.token}" for row in self.rows]
        return f"Lane({self.limit}, {rows})"

    def of(self, *states: JobState) -> list[JobRow]:
        """Return the jobs in these states, in the order of the lane."""
        rows = [row for row in self.rows if row.state in states]
        return sorted(rows, key=lambda row: (-row.priority, row.place, row.sequence))

    @property
    def holders(self) -> int:
        return sum(is_holder(row, self.limit.is_strict) for row in self.rows)

    @property
    def is_over(self) -> bool:
        return self.limit.running is not None and self.holders > self.limit.running

    def view(self) -> LaneView[JobRow]:
        claimable = self.of(UNCLAIMED)
        return LaneView(
            self.holders - len(claimable), len(claimable), claimable[::-1][:MAX_MOVES],
            self.of(BLOCKED)[: MAX_MOVES + 1], self.next_at, self.offered,
        )  # fmt: skip

    def look(self, now: float) -> LanePlan[JobRow]:
        steps = plan(self.view(), self.limit, now)
        for row in steps.withdraw:
            assert row.state is UNCLAIMED
            row.state = BLOCKED
        for row in steps.admit:
            assert row.state is BLOCKED
            row.state, row.place = UNCLAIMED, now
        self.next_at, self.offered = steps.next_at, steps.offered
        return steps


def job(sequence: int, state: JobState, priority: int = 3, token: int = 0) -> JobRow:
    row = JobRow(f"job {sequence}", "n", priority, sequence, 0.0, b"", state=state, token=token)
    row.place = float(sequence)
    return row


@st.composite
def lanes(draw: st.DrawFn) -> Lane:
    """A lane with jobs in all states, as no look has left it; some of its states are rare."""
    running = draw(st.none() | st.integers(0, 6) | st.just(60))
    states = st.sampled_from([BLOCKED, BLOCKED, UNCLAIMED, CLAIMED, DELAYED])
    some = draw(st.lists(st.tuples(states, st.integers(1, 5), st.integers(0, 1)), max_size=12))
    some += [(draw(st.sampled_from([BLOCKED, UNCLAIMED])), 3, 0)] * draw(st.sampled_from([0, 0, 0, 55, 120]))
    rows = [
        job(number, state, priority, 1 if state is CLAIMED else token)
        for number, (state, priority, token) in enumerate(some, 1)
    ]
    return Lane(LaneLimit(running, draw(st.booleans())), rows)


def looks_of(lane: Lane, now: float = 1000.0) -> int:
    """Look until nothing is left to do at this moment, and return how often that was."""
    for number in range(1, 10):
        if lane.look(now).look_at != now:
            return number
    raise AssertionError("a lane of 132 jobs needs no ten looks")


@given(lanes())
def test_a_look_keeps_the_limit(lane: Lane) -> None:
    was_over, before = lane.is_over, lane.holders
    steps = lane.look(1000.0)
    assert not lane.is_over or was_over
    assert lane.holders <= before or not was_over
    assert not (was_over and len(steps.admit) > len(steps.withdraw)), "what is over its limit admits nothing more"


@given(lanes())
def test_a_pause_that_ends_lets_nothing_start_before_its_end(lane: Lane) -> None:
    unpaused, lane.limit = lane.limit, replace(lane.limit, paused_until=2000.0)
    looks_of(lane)
    assert not lane.of(UNCLAIMED)
    assert lane.look(1999.0).look_at == (2000.0 if lane.of(BLOCKED) else None)
    looks_of(lane, 2000.0)
    running = math.inf if unpaused.running is None else unpaused.running
    assert lane.holders >= running or not lane.of(BLOCKED)


@given(lanes())
def test_looks_end_and_leave_no_slot_free_beside_a_blocked_job(lane: Lane) -> None:
    looks_of(lane)
    running = math.inf if lane.limit.running is None else lane.limit.running
    assert lane.holders >= running or not lane.of(BLOCKED)
    assert lane.holders <= running or not lane.of(UNCLAIMED)


@given(lanes())
def test_a_look_is_bounded_and_says_if_there_is_more(lane: Lane) -> None:
    steps = lane.look(1000.0)
    assert max(len(steps.withdraw), len(steps.admit)) <= MAX_MOVES
    if steps.look_at is None:
        again = lane.look(1000.0)
        assert (again.withdraw, again.admit) == ([], [])


@given(lanes())
def test_the_first_are_admitted_and_the_last_withdrawn(lane: Lane) -> None:
    blocked, claimable = lane.of(BLOCKED), lane.of(UNCLAIMED)
    steps = lane.look(1000.0)
    assert list(steps.admit) == blocked[: len(steps.admit)]
    removable = [row for row in claimable[::-1] if row in steps.withdraw or not (lane.limit.is_strict and row.token)]
    assert list(steps.withdraw) == removable[: len(steps.withdraw)]


@given(lanes())
def test_no_blocked_job_is_better_than_one_that_could_give_way(lane: Lane) -> None:
    for _ in range(5):
        looks_of(lane)
    worst = min((row.priority for row in lane.of(UNCLAIMED) if not (lane.limit.is_strict and row.token)), default=5)
    assert all(row.priority <= worst for row in lane.of(BLOCKED)) or lane.limit.running == 0


@given(lanes())
def test_a_job_that_was_claimed_keeps_its_slot_of_a_strict_lane_that_is_not_over_its_limit(lane: Lane) -> None:
    was_over = lane.is_over
    steps = lane.look(1000.0)
    assert was_over or not lane.limit.is_strict or not any(row.token for row in steps.withdraw)


@pytest.mark.parametrize("held", [3, 4, 9])
def test_a_lane_far_over_its_limit_admits_nothing(held: int) -> None:
    rows = [job(number, CLAIMED, token=1) for number in range(held)]
    lane = Lane(LaneLimit(2), [*rows, *(job(100 + number, BLOCKED) for number in range(12))])
    steps = lane.look(1000.0)
    assert (steps.admit, steps.withdraw, steps.look_at) == ([], [], None)


# -- rates -------------------------------------------------------------------------------------------------------------

rates = st.builds(Rate, st.integers(1, 10), st.sampled_from([0.5, 1.0, 7.0]), st.integers(1, 4))


def check_starts(starts: Sequence[float], rate: Rate) -> None:
    for first, begin in enumerate(starts):
        for last, end in enumerate(starts[first:], first):
            assert last - first + 1 <= rate.burst + 1 + (end - begin + NEAR) / rate.interval


@given(
    rate=rates,
    running=st.sampled_from([None, None, None, 1, 3, 5]),
    steps=st.lists(
        st.tuples(
            st.sampled_from([0.0, 0.0, 0.0, 0.3, 1.0, 20.0]),
            st.sampled_from(["post", "claim", "post", "claim", "claim", "end", "look", "better", "follow the timer"]),
            st.sampled_from([4, 1, 2, 4]),
        ),
        min_size=20,
        max_size=80,
    ),
)
def test_starts_never_exceed_the_rate_whoever_looks_posts_and_claims_when(
    rate: Rate, running: int | None, steps: list[tuple[float, str, int]]
) -> None:
    """Looks come at any moments, timers also late or never, and nobody looks when jobs are claimed."""
    lane = Lane(LaneLimit(running, False, rate))
    now, look_at, posted, starts = 1000.0, 1000.0, 0, list[float]()
    for seconds, step, count in steps:
        now += seconds * rate.interval
        if step == "follow the timer":
            now = max(now, look_at)
        elif step == "claim":
            for row in lane.of(UNCLAIMED)[:count]:
                row.state, row.token = CLAIMED, 1
                starts.append(now)
            continue
        elif step == "end":
            lane.rows = [row for row in lane.rows if row.state is not CLAIMED][count - 1 :]
        elif step in ("post", "better"):
            priority = 3 if step == "post" else 5
            lane.rows += [job(posted + number, BLOCKED, priority) for number in range(1, count + 1)]
            posted += count
        look_at = lane.look(now).look_at or now
        assert len(lane.of(UNCLAIMED)) <= rate.burst
    check_starts(starts, rate)


@given(rate=rates, idle=st.floats(0, 1e6), late=st.integers(0, 4))
def test_a_burst_that_lay_claimable_for_long_is_followed_by_one_more_and_no_second_burst(
    rate: Rate, idle: float, late: int
) -> None:
    lane = Lane(LaneLimit(None, False, rate))
    for number in range(rate.burst):
        lane.rows.append(job(number, BLOCKED))
        lane.look(1000.0)
    assert len(lane.of(UNCLAIMED)) == rate.burst
    # Nothing waits, so no timer is set; they are claimed at last, and some end.
    lane.rows = [job(100 + number, CLAIMED, token=1) for number in range(late)]
    now = 1000.0 + idle
    for number in range(10):
        lane.rows.append(job(200 + number, BLOCKED))
        lane.look(now)
    assert len(lane.of(UNCLAIMED)) <= 1


@given(rate=rates, count=st.integers(1, 40))
def test_somebody_who_claims_at_once_gets_the_whole_rate(rate: Rate, count: int) -> None:
    lane = Lane(LaneLimit(None, False, rate), [job(number, BLOCKED) for number in range(count)])
    now, starts = 1000.0, list[float]()
    for _ in range(3 * count):
        look_at = lane.look(now).look_at
        starts += [now] * len(lane.of(UNCLAIMED))
        lane.rows = lane.of(BLOCKED)
        if look_at is None:
            break
        now = max(now, look_at)
    assert len(starts) == count
    check_starts(starts, rate)
    assert abs(starts[-1] - 1000.0 - max(0, count - rate.burst) * rate.interval) < NEAR * count


@given(rate=rates, idle=st.floats(0, 1e6))
def test_idle_time_saves_up_a_burst_and_no_more(rate: Rate, idle: float) -> None:
    lane = Lane(LaneLimit(None, False, rate), [job(0, BLOCKED)])
    lane.look(1000.0)
    lane.rows = [job(number, BLOCKED) for number in range(1, 30)]
    lane.look(1000.0 + idle)
    assert len(lane.of(UNCLAIMED)) <= rate.burst
    assert len(lane.of(UNCLAIMED)) == rate.burst or idle < rate.burst * rate.interval + NEAR


def test_a_rate_says_when_the_next_one_may_start() -> None:
    lane = Lane(LaneLimit(None, False, Rate(30, per=60)), [job(number, BLOCKED) for number in range(3)])
    assert lane.look(1000.0).look_at == 1002.0
    assert len(lane.of(UNCLAIMED)) == 1
    # It was not claimed: what it waited for is not saved up.
    assert lane.look(1002.0).look_at == 1004.0
    lane.of(UNCLAIMED)[0].state = CLAIMED
    assert lane.look(1003.0).look_at == 1004.0
    assert lane.look(1004.0).look_at == 1006.0
    assert len(lane.of(UNCLAIMED)) == 1


def test_a_lane_without_room_or_jobs_is_not_looked_at_by_time() -> None:
    rate = Rate(1, per=1.0)
    assert Lane(LaneLimit(1, False, rate), [job(1, CLAIMED, token=1), job(2, BLOCKED)]).look(1000.0).look_at is None
    assert Lane(LaneLimit(None, False, rate), []).look(1000.0).look_at is None
