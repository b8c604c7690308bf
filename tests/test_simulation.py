"""Simulated days: small ones are worked out by hand, and in random ones every limit holds at each moment."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobboard.limit import Limit, Rate, is_lane_of
from jobboard.simulation import run as running
from jobboard.simulation.arrivals import Arrival
from jobboard.simulation.run import Slots, run
from jobboard.simulation.tally import Figures, Group, Outcome, Tally

A, B, C = "tenant:a", "tenant:b", "tenant:c"
HIGH = 4


def arrival(at: float, lane: str | None, duration: float = 10.0, name: str = "import", priority: int = 3) -> Arrival:
    return Arrival(at, name, lane, duration, priority)


@dataclass(frozen=True)
class Span:
    """One job's run, as the tally was told of it."""

    arrival: Arrival
    start: float
    end: float


class Recorder(Tally):
    """Keeps the runs of all jobs: what the rules are judged by, without the board."""

    spans: list[Span]

    def __init__(self, arrivals: Sequence[Arrival]) -> None:
        super().__init__(arrivals)
        self._arrivals, self._starts = arrivals, dict[int, float]()
        Recorder.spans = []

    def start(self, arrival: int, waited: float) -> float:
        self._starts[arrival] = self._now
        assert waited == self._now - self._arrivals[arrival].at
        return super().start(arrival, waited)

    def end(self, arrival: int, started: float) -> None:
        Recorder.spans.append(Span(self._arrivals[arrival], self._starts.pop(arrival), self._now))
        super().end(arrival, started)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Span]]:
    """Run arrivals, and return the runs of the jobs in the order of their starts."""
    monkeypatch.setattr(running, "Tally", Recorder)

    def spans(arrivals: Sequence[Arrival], *limits: Limit, slots: Sequence[Slots] = (Slots(8),)) -> list[Span]:
        run(arrivals, limits, slots, lambda _: None)
        return sorted(Recorder.spans, key=lambda span: span.start)

    return spans


def outcome(arrivals: Sequence[Arrival], *limits: Limit, slots: int = 2) -> Outcome:
    return run(arrivals, limits, [Slots(slots)], lambda _: None)


def starts(spans: Sequence[Span]) -> list[tuple[float, str | None]]:
    return [(span.start, span.arrival.lane) for span in spans]


# -- worked out by hand ------------------------------------------------------------------------------------------------


def test_two_jobs_of_a_lane_and_one_of_another_on_two_slots() -> None:
    """Without a limit both slots are A's for ten seconds; with a limit of 1, B has one of them at once."""
    arrivals = [arrival(0, A), arrival(0, A), arrival(0, B)]
    free = outcome(arrivals)
    assert free.groups[Group(A, None)] == Figures(2, 0, 0.0, 0.0, 0.0, 1.0, 2)
    assert free.groups[Group(B, None)] == Figures(1, 0, 10.0, 10.0, 10.0, 0.0, 1)
    assert (free.whole, free.ended) == (Figures(3, 0, 0.0, 10.0, 10.0, 1.0, 2), 20.0)

    limited = outcome(arrivals, Limit(lane="tenant:*", running=1))
    assert limited.groups[Group(A, None)] == Figures(2, 0, 0.0, 10.0, 10.0, 0.5, 1)
    assert limited.groups[Group(B, None)] == Figures(1, 0, 0.0, 0.0, 0.0, 0.5, 1)
    assert (limited.whole, limited.ended) == (Figures(3, 0, 0.0, 10.0, 10.0, 1.0, 2), 20.0)


def test_three_lanes_take_turns_behind_a_flood() -> None:
    """One slot, a flood of six, then one job each of two others: they go after the one of the flood that is let in."""
    arrivals = [*(arrival(0, A, 1.0) for _ in range(6)), arrival(0.5, B, 1.0), arrival(0.5, C, 1.0)]
    limited = outcome(arrivals, Limit(lane="tenant:*", running=1), slots=1)
    assert limited.groups[Group(B, None)].longest == 0.5
    assert limited.groups[Group(C, None)].longest == 1.5
    assert limited.groups[Group(A, None)].longest == 7.0
    free = outcome(arrivals, slots=1)
    assert [free.groups[Group(lane, None)].longest for lane in (A, B, C)] == [5.0, 5.5, 6.5]


def test_an_exact_limit_goes_before_that_of_its_prefix(spans: Callable[..., list[Span]]) -> None:
    arrivals = [arrival(0, lane) for lane in (A, A, A, B, B, B, "tenant:eu:c", "tenant:eu:c", "tenant:eu:c")]
    found = spans(arrivals, Limit(lane="tenant:*", running=1), Limit(lane=B, running=2), slots=[Slots(9)])
    assert Counter(lane for start, lane in starts(found) if start == 0.0) == {A: 1, B: 2, "tenant:eu:c": 3}


def test_a_rate_lets_one_start_at_a_time(spans: Callable[..., list[Span]]) -> None:
    arrivals = [arrival(at, A, 1.0) for at in (0, 0, 0, 100, 100, 100)]
    found = spans(arrivals, Limit(lane=A, rate=Rate(2, per=20)))
    assert [start for start, _ in starts(found)] == [0, 10, 20, 100, 110, 120]


def test_a_burst_starts_at_once_after_a_quiet_time(spans: Callable[..., list[Span]]) -> None:
    arrivals = [arrival(at, A, 0.0) for at in (0, 1000, 1000, 1000, 1000, 1000)]
    found = spans(arrivals, Limit(lane=A, rate=Rate(1, per=10, burst=3)))
    assert [start for start, _ in starts(found)] == [0, 1000, 1000, 1000, 1010, 1020]


def test_a_rate_of_one_a_day_is_not_taken_for_the_end(spans: Callable[..., list[Span]]) -> None:
    day = 86_400.0
    found = spans([arrival(0, A), arrival(0, A), arrival(0, A)], Limit(lane=A, rate=Rate(1, per=day)))
    assert [start for start, _ in starts(found)] == [0, day, 2 * day]


def test_a_limit_of_a_name_holds_over_all_its_lanes(spans: Callable[..., list[Span]]) -> None:
    arrivals = [arrival(0, lane) for lane in (A, B, C)] + [arrival(0, lane, name="mail") for lane in (A, B, None)]
    found = spans(arrivals, Limit(name="import", running=2))
    begun = Counter(span.arrival.name for span in found if span.start == 0.0)
    assert begun == {"import": 2, "mail": 3}
    assert [span.start for span in found if span.arrival.name == "import"] == [0.0, 0.0, 10.0]


def test_a_better_priority_goes_first_in_its_lane(spans: Callable[..., list[Span]]) -> None:
    arrivals = [arrival(0, A, 10.0), arrival(1, A, 1.0), arrival(2, A, 2.0, priority=HIGH)]
    found = spans(arrivals, Limit(lane=A, running=1))
    assert [(span.start, span.arrival.at) for span in found] == [(0, 0), (10, 2), (12, 1)]


def test_what_a_limit_of_0_keeps_back_never_starts() -> None:
    found = outcome([arrival(0, A), arrival(0, B), arrival(5, A)], Limit(lane=A, running=0))
    assert found.groups[Group(A, None)] == Figures(2, 2, None, None, None, 0.0, 0)
    assert found.groups[Group(B, None)].unstarted == 0
    assert (found.whole.jobs, found.whole.unstarted) == (3, 2)


def test_a_conductor_runs_its_names_only(spans: Callable[..., list[Span]]) -> None:
    arrivals = [arrival(0, None, name=name) for name in ("a", "a", "b", "c", "d")]
    found = spans(arrivals, slots=[Slots(1, frozenset({"a"})), Slots(2, frozenset({"b", "c"}))])
    assert [(span.start, span.arrival.name) for span in found] == [(0, "a"), (0, "b"), (0, "c"), (10, "a")]


@pytest.mark.timeout(60)
def test_a_lane_whose_next_job_nobody_runs_goes_on_with_other_names(spans: Callable[..., list[Span]]) -> None:
    """Three names share a lane of 1, and its first job is of the one that no conductor runs."""
    arrivals = [arrival(0, A, name="a"), arrival(0, A, name="b"), arrival(0, A, name="c")]
    found = spans(arrivals, Limit(lane=A, running=1), slots=[Slots(1, frozenset({"b", "c"}))])
    assert [span.arrival.name for span in found] == ["b", "c"]
    assert found[0].start <= 1.0


def test_jobs_without_a_lane_are_counted_by_their_names() -> None:
    found = outcome([arrival(0, None), arrival(0, None, name="mail"), arrival(0, A, name="mail")])
    assert {str(group): figures.jobs for group, figures in found.groups.items()} == {
        "(import)": 1, "(mail)": 1, A: 1,
    }  # fmt: skip


def test_percentiles_are_waits_that_jobs_had() -> None:
    found = outcome([arrival(0, A, 1.0) for _ in range(20)], slots=1).whole
    assert (found.p50, found.p95, found.longest) == (9.0, 18.0, 19.0)


def test_progress_is_told_of_every_arrival() -> None:
    told: list[int] = []
    run([arrival(n, A, 0.5) for n in range(2500)], [], [Slots(1)], told.append)
    assert (sum(told), len(told)) == (2500, 3)


# -- random days -------------------------------------------------------------------------------------------------------

LANES = (A, B, C, "order:1", "order:eu:2", None)
NAMES = ("import", "mail", "sync")
seconds = st.integers(0, 40).map(lambda tenths: tenths / 10)
arrivals_of_a_day = st.lists(
    st.builds(Arrival, seconds, st.sampled_from(NAMES), st.sampled_from(LANES), seconds, st.integers(1, 5)),
    min_size=1, max_size=60,
).map(lambda arrivals: sorted(arrivals, key=lambda arrival: arrival.at))  # fmt: skip
rates = st.none() | st.builds(Rate, st.integers(1, 5), st.sampled_from([0.5, 2.0, 7.0]), st.integers(1, 3))
limits_of_lanes = st.builds(
    Limit, lane=st.sampled_from([A, B, "tenant:*", "order:*", "order:eu:*"]), running=st.none() | st.integers(1, 3),
    rate=rates, order=st.sampled_from(["free", "strict"]),
).filter(lambda limit: not limit.is_empty)  # fmt: skip
limits_of_names = st.builds(Limit, name=st.sampled_from(NAMES), running=st.integers(1, 3))
limits_of_a_board = st.lists(
    limits_of_lanes | limits_of_names, max_size=5, unique_by=lambda limit: (limit.name, limit.lane)
)


@settings(deadline=None, max_examples=150)
@given(arrivals=arrivals_of_a_day, limits=limits_of_a_board, slots=st.integers(1, 6))
def test_every_limit_holds_at_each_moment(arrivals: list[Arrival], limits: list[Limit], slots: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "Tally", Recorder)
        run(arrivals, limits, [Slots(slots)], lambda _: None)
    spans = Recorder.spans
    assert sorted(span.arrival for span in spans if span.arrival.lane) == sorted(a for a in arrivals if a.lane)
    assert len(spans) == len(arrivals)
    assert all(span.start >= span.arrival.at for span in spans)
    assert all(span.end == span.start + span.arrival.duration for span in spans)
    assert most_at_once(spans) <= slots
    for name in NAMES:
        limit = next((limit for limit in limits if limit.name == name), None)
        assert most_at_once([span for span in spans if span.arrival.name == name]) <= number_of(limit)
    for lane in LANES[:-1]:
        own = [span for span in spans if span.arrival.lane == lane]
        limit = rule_of(lane, limits)
        assert most_at_once(own) <= number_of(limit)
        if limit is not None and limit.rate is not None:
            assert_rate(sorted(span.start for span in own), limit.rate)


def rule_of(lane: str | None, limits: Sequence[Limit]) -> Limit | None:
    """Return the limit of this lane, or else of its prefix."""
    matching = [
        limit for limit in limits if lane and limit.lane and is_lane_of(lane, limit.lane) and not limit.is_empty
    ]
    return min(matching, key=lambda limit: limit.lane != lane, default=None)


def number_of(limit: Limit | None) -> float:
    return math.inf if limit is None or limit.running is None else limit.running


def most_at_once(spans: Sequence[Span]) -> int:
    """Return how many ran at once, at most; one that ends as another starts makes room for it."""
    changes = sorted((moment, change) for span in spans for moment, change in ((span.start, 1), (span.end, -1)))
    most = count = 0
    for _, change in changes:
        count += change
        most = max(most, count)
    return most


def assert_rate(moments: Sequence[float], rate: Rate) -> None:
    for first, begin in enumerate(moments):
        for number, end in enumerate(moments[first:], start=1):
            assert number <= 2 * rate.burst + (end - begin) / rate.interval + 1e-6


# -- the loop itself ---------------------------------------------------------------------------------------------------


def test_a_zero_duration_takes_no_time(spans: Callable[..., list[Span]]) -> None:
    found = spans([arrival(0, A, 0.0) for _ in range(5)], Limit(lane=A, running=1), slots=[Slots(1)])
    assert [(span.start, span.end) for span in found] == [(0.0, 0.0)] * 5


def test_nothing_of_a_run_is_left_behind() -> None:
    from jobboard.backends.memory import registry

    before = set(registry._stores)
    outcome([arrival(0, A)], Limit(lane=A, running=1))
    assert set(registry._stores) == before
