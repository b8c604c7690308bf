"""The plan of a schedule's next step: pure, so that every scheduler makes the same one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobboard.events import EventKind
from jobboard.schedules.planning import MAX_CAUGHT_UP, MAX_COUNTED, due_at, fire_times, first_fire_time, next_due, plan
from jobboard.schedules.progress import FireRecord, Progress
from jobboard.schedules.schedule import Schedule, pack_schedule, schedule_from_plain, unpack_schedule
from jobboard.schedules.triggers import At, Cron, Every

START = datetime(2030, 1, 1, tzinfo=UTC)
ZERO = START.timestamp()


def minutely(**options: Any) -> Schedule:
    return Schedule("a", Every(minutes=1, start=START), "write", **options)


def progress_of(schedule: Schedule, settled: float = 0.0, **fields: Any) -> Progress:
    return Progress(ZERO + settled, first_fire_time(schedule, ZERO + settled), **fields)


@given(
    steps=st.lists(st.floats(0.5, 400), min_size=1, max_size=20),
    coalesce=st.sampled_from(["latest", "earliest", "all"]),
    grace=st.none() | st.floats(0, 300),
    jitter=st.sampled_from([0.0, 20.0]),
    overlap=st.sampled_from(["skip", "buffer_one"]),
    live=st.integers(0, 3),
)
def test_each_fire_time_is_decided_about_once(
    steps: list[float], coalesce: Any, grace: float | None, jitter: float, overlap: Any, live: int
) -> None:
    schedule = minutely(coalesce=coalesce, misfire_grace=grace, jitter=jitter, overlap=overlap, max_instances=2)
    progress, now = progress_of(schedule), ZERO
    fired: list[float] = []
    omitted = 0
    for step in steps:
        now += step
        progress.live = ["x"] * live
        made = plan(schedule, progress, now, 100)
        fired += made.fires
        omitted += sum(part.count for part in made.omitted)
        progress = made.progress
    decided = len(fired) + omitted + (progress.buffered is not None)
    assert progress.upcoming is not None
    assert decided == round((progress.upcoming - ZERO) / 60) - 1
    assert fired == sorted(set(fired))
    assert all(time <= now for time in fired)
    assert (progress.runs, progress.missed + progress.skipped) == (len(fired), omitted)


@given(st.integers(1, 50), st.integers(1, 20))
def test_what_one_step_cannot_post_stays_due(minutes: int, most: int) -> None:
    schedule = minutely(coalesce="all", max_instances=None)
    progress, fired = progress_of(schedule), []
    now = ZERO + 60 * minutes
    while (due := next_due(schedule, progress, now)) is not None and due <= now:
        made = plan(schedule, progress, now, most)
        assert 0 < len(made.fires) <= most
        fired += made.fires
        progress = made.progress
    assert fired == [ZERO + 60 * n for n in range(1, minutes + 1)]


def test_what_waits_for_room_is_one_of_those_that_a_step_can_post() -> None:
    schedule = minutely(coalesce="all", max_instances=50, overlap="buffer_one")
    progress = progress_of(schedule, 300.0, buffered=ZERO + 300)
    made = plan(schedule, progress, ZERO + 1200, 10)
    assert made.fires == [ZERO + 60 * minute for minute in range(5, 15)]
    assert plan(schedule, made.progress, ZERO + 1200, 10).fires == [ZERO + 60 * minute for minute in range(15, 21)]


def test_years_cost_no_more_than_the_cap() -> None:
    schedule = Schedule("a", Every(seconds=1, start=START), "write", coalesce="all", max_instances=None)
    made = plan(schedule, progress_of(schedule), ZERO + 10 * 365 * 86400, MAX_CAUGHT_UP)
    last = ZERO + 10 * 365 * 86400
    assert made.fires == [last - MAX_CAUGHT_UP + number for number in range(1, MAX_CAUGHT_UP + 1)]
    assert [(part.kind, part.last) for part in made.omitted] == [(EventKind.MISSED, last - MAX_CAUGHT_UP)]


@given(st.integers(MAX_CAUGHT_UP - 5, 3 * MAX_CAUGHT_UP), st.sampled_from([0.0, 30.0, 90.0, 5000.0]))
def test_of_too_many_the_last_that_are_due_are_posted(minutes: int, jitter: float) -> None:
    schedule = minutely(coalesce="all", max_instances=None, jitter=jitter)
    now = ZERO + 60 * minutes
    made = plan(schedule, progress_of(schedule), now, 10 * MAX_CAUGHT_UP)
    times = takewhile(lambda time: due_at(schedule, time) <= now, fire_times(schedule, ZERO))
    assert made.fires == list(times)[-MAX_CAUGHT_UP:]
    assert made.progress.upcoming == made.fires[-1] + 60


@pytest.mark.parametrize(
    ("coalesce", "grace", "fired"),
    [("latest", None, 864_000), ("earliest", None, 60), ("earliest", 150, 863_880), ("latest", 30, 864_000)],
)
@pytest.mark.parametrize("jitter", [0.0, 90.0])
def test_of_many_only_the_ends_are_looked_at(coalesce: Any, grace: Any, fired: int, jitter: float) -> None:
    asked: list[datetime] = []

    class Counting(Every):
        def next_fire_time(self, after: datetime) -> datetime | None:
            asked.append(after)
            return super().next_fire_time(after)

    trigger = Counting(minutes=1, start=START)
    schedule = Schedule("a", trigger, "write", coalesce=coalesce, misfire_grace=grace, jitter=jitter)
    now = ZERO + 864_000
    made = plan(schedule, progress_of(schedule), now, 100)
    assert len(asked) < MAX_COUNTED + 10
    [posted] = made.fires
    assert abs(posted - ZERO - fired) <= 2 * jitter
    assert posted <= now < (made.progress.upcoming or 0) + jitter
    assert made.progress.missed >= MAX_COUNTED - 1


@pytest.mark.parametrize(("late", "fired"), [(30.0, [ZERO + 60]), (30.001, [])])
def test_a_fire_time_is_missed_if_it_is_later_than_the_grace(late: float, fired: list[float]) -> None:
    schedule = minutely(misfire_grace=30)
    assert plan(schedule, progress_of(schedule), ZERO + 60 + late, 100).fires == fired


def test_one_waits_for_room_and_then_goes_first() -> None:
    schedule = minutely(coalesce="all", overlap="buffer_one")
    made = plan(schedule, progress_of(schedule, live=["x"]), ZERO + 180, 100)
    assert (made.fires, made.progress.buffered) == ([], ZERO + 60)
    assert [(part.kind, part.count) for part in made.omitted] == [(EventKind.SKIPPED, 2)]
    due = next_due(schedule, made.progress, ZERO + 180)
    assert due == ZERO + 185
    made.progress.live = []
    made = plan(schedule, made.progress, ZERO + 185, 100)
    assert (made.fires, made.progress.buffered) == ([ZERO + 60], None)


def test_a_schedule_ends_with_its_runs() -> None:
    schedule = minutely(coalesce="all", max_instances=None, max_runs=3)
    made = plan(schedule, progress_of(schedule, runs=1), ZERO + 300, 100)
    assert made.fires == [ZERO + 60, ZERO + 120]
    assert (made.progress.upcoming, next_due(schedule, made.progress, ZERO + 300)) == (None, None)


def test_what_has_no_room_is_counted_whatever_runs_are_left() -> None:
    schedule = minutely(coalesce="all", max_instances=1, max_runs=3)
    made = plan(schedule, progress_of(schedule), ZERO + 600, 100)
    assert (made.fires, made.progress.skipped, made.progress.upcoming) == ([ZERO + 60], 9, ZERO + 660)
    schedule = minutely(coalesce="all", max_instances=4, max_runs=3)
    made = plan(schedule, progress_of(schedule), ZERO + 600, 100)
    assert (made.fires, made.progress.skipped, made.progress.upcoming) == ([ZERO + n for n in (60, 120, 180)], 0, None)


@pytest.mark.parametrize(
    "arguments",
    [
        {"id": ""}, {"id": "x" * 201}, {"id": 7}, {"trigger": "0 3 * * *"}, {"job": ""}, {"details": [1]},
        {"priority": "urgent"}, {"coalesce": "some"}, {"overlap": "wait"}, {"misfire_grace": -1},
        {"misfire_grace": "1"}, {"max_instances": 0}, {"max_instances": True}, {"max_runs": 0}, {"jitter": -1},
        {"jitter": float("nan")}, {"start": datetime(2030, 1, 1)}, {"end": "2030"}, {"max_attempts": 0},
        {"paused": 1}, {"start": START, "end": START - timedelta(seconds=1)},
        {"overlap": "buffer_one", "max_instances": None},
    ],
)  # fmt: skip
def test_a_bad_argument_is_named(arguments: dict[str, Any]) -> None:
    fields = {"id": "a", "trigger": At(START), "job": "write"} | arguments
    with pytest.raises((TypeError, ValueError), match=list(arguments)[-1].split("_")[0]):
        Schedule(**fields)


def test_a_schedule_comes_back_as_it_was_stored() -> None:
    schedule = Schedule(
        "größe", Cron("0 3 * * mon-fri", "Europe/Berlin"), "write", {"at": START, "raw": b"\xff"}, priority="HIGH",
        jitter=3, coalesce="all", misfire_grace=5, max_instances=None, start=START, end=START, max_runs=9,
        max_attempts=2,
    )  # fmt: skip
    record = FireRecord(EventKind.MISSED, START, START, None, "late", 7)
    progress = Progress(ZERO, ZERO + 1, 1, 2, 3, 4, [str(UUID(int=7))], ZERO, "note", "fault", [record])
    stored = unpack_schedule("größe", pack_schedule(schedule, progress))
    assert (stored, stored.progress) == (schedule, progress)
    assert "raw" not in repr(schedule)


@given(st.binary(max_size=60))
def test_garbage_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        unpack_schedule("a", data)


@pytest.mark.parametrize("cut", [1, 5, 20, 60])
def test_what_is_cut_short_is_a_value_error(cut: int) -> None:
    with pytest.raises(ValueError):
        unpack_schedule(minutely().id, pack_schedule(minutely(), Progress(ZERO))[:-cut])


@pytest.mark.parametrize(
    "change",
    [
        {"trigger": {"kind": "every"}}, {"trigger": 7}, {"start": 5}, {"start": "soon"}, {"uuid": "x"},
        {"priority": None},
    ],
)  # fmt: skip
def test_a_plain_schedule_that_is_wrong_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        schedule_from_plain(minutely().to_plain() | change)
    with pytest.raises((TypeError, ValueError)):
        schedule_from_plain({"id": "a"})
    with pytest.raises(TypeError):
        schedule_from_plain([1])


@pytest.mark.parametrize(
    ("options", "fires"),
    [
        ({}, [60]),
        ({"coalesce": "earliest"}, [1]),
        ({"coalesce": "earliest", "misfire_grace": 1800.0}, [50]),
        ({"coalesce": "all", "max_instances": None}, list(range(1, 61))),
        ({"misfire_grace": 600.0}, []),
    ],
)
def test_what_was_due_by_a_moment_is_late_by_the_present_one(options: dict[str, Any], fires: list[int]) -> None:
    schedule = minutely(**options)
    made = plan(schedule, progress_of(schedule), ZERO + 80 * 60, 100, until=ZERO + 60 * 60)
    assert (made.fires, made.progress.upcoming) == ([ZERO + 60 * n for n in fires], ZERO + 61 * 60)
    assert made.progress.missed == (0 if schedule.coalesce == "all" else MAX_COUNTED)
