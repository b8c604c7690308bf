"""Schedules: added, changed, looked at and removed by any client."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from jobboard.board import JobBoard
from jobboard.errors import AlreadyScheduled, BoardUnavailable, InvalidPosting, NotFound, UnreadableSchedule
from jobboard.events import EventKind, JobEvent
from jobboard.schedules.schedule import Schedule
from jobboard.schedules.triggers import AnyOf, At, Every, Excluding
from jobboard.testing.contract.case import Case
from jobboard.testing.contract.clockwork import (
    FULL_HOURS,
    HOUR,
    HOURLY,
    fire,
    fires_of,
    firing,
    hourly,
    in_an_hour,
    kinds_of,
    overdue,
    rewind,
    spoil,
    told,
)
from jobboard.testing.deadline import eventually
from jobboard.testing.faults import Fault, LossyBackend
from jobboard.testing.harness import Harness

each_fault = pytest.mark.parametrize("fault", ["reply", "request"])


#: Every public call of a board's schedules, and the calls of a scheduler.
CALLS: dict[str, Callable[[JobBoard], Any]] = {
    "add": lambda board: board.schedules.add(hourly("other")),
    "get": lambda board: board.schedules.get("report"),
    "modify": lambda board: board.schedules.modify("report", job="other"),
    "pause": lambda board: board.schedules.pause("report"),
    "resume": lambda board: board.schedules.resume("report"),
    "remove": lambda board: board.schedules.remove("report"),
    "fire_now": lambda board: board.schedules.fire_now("report"),
    "backfill": lambda board: board.schedules.backfill("report", *([datetime(2020, 1, 1, tzinfo=UTC)] * 2)),
    "export": lambda board: board.schedules.export(),
    "load": lambda board: board.schedules.load([hourly("other").to_plain()]),
    "apply": lambda board: board.schedules.apply([hourly("other")], "shop"),
    "changes_to": lambda board: board.schedules.changes_to([hourly("other")], "shop"),
    "unreadable": lambda board: board.schedules.unreadable(),
    "remove_all": lambda board: board.schedules.remove_all(),
    "pause_all": lambda board: board.schedules.pause_all(),
    "resume_all": lambda board: board.schedules.resume_all(),
    "all_paused": lambda board: board.schedules.all_paused(),
    "upcoming": lambda board: board.schedules.upcoming("report", 1),
    "due_at": lambda board: board.schedules.due_at("report"),
    "history": lambda board: board.schedules.history("report"),
    "fire_due": lambda board: firing(board).fire_due(1),
    "fire_waiting": lambda board: firing(board).fire_waiting(["report"]),
}


class ScheduleCases(Case):
    @pytest.mark.parametrize("call", CALLS)
    def test_after_close_every_call_of_schedules_raises(self, board: JobBoard, other: JobBoard, call: str) -> None:
        added = board.schedules.add(hourly())
        board.close()
        with pytest.raises(BoardUnavailable):
            CALLS[call](board)
        assert list(other.schedules) == [added]

    def test_a_schedule_is_seen_by_any_client(self, board: JobBoard, other: JobBoard) -> None:
        schedule = hourly(details={"größe": [1, b"\xff"]}, priority="HIGH", misfire_grace=60, jitter=2, max_attempts=3)
        added = board.schedules.add(schedule)
        seen = other.schedules.get("report")
        assert seen == schedule == added
        assert (seen.state, seen.next_fire_time) == ("active", other.schedules.upcoming("report", 1)[0])
        assert [found.id for found in other.schedules] == ["report"]

    def test_one_that_is_there_is_not_added_again(self, board: JobBoard, other: JobBoard) -> None:
        board.schedules.add(hourly())
        with pytest.raises(AlreadyScheduled):
            other.schedules.add(hourly(job="other"))
        assert other.schedules.add(hourly(job="other"), "keep").job == "write"
        assert board.schedules.get("report").job == "write"

    def test_a_replacement_goes_on_from_where_the_old_one_was(self, board: JobBoard) -> None:
        times = overdue(board, hourly())
        board.schedules.add(hourly(job="other", coalesce="all", max_instances=None), "replace")
        assert fire(board) == len(times)
        assert {job.name for job in board.iterjobs()} == {"other"}

    def test_a_replacement_with_another_trigger_begins_anew(self, board: JobBoard) -> None:
        overdue(board, hourly())
        seen = board.schedules.add(hourly(trigger=Every(hours=2)), "replace")
        assert fire(board) == 0
        assert seen.next_fire_time is not None
        assert seen.next_fire_time > datetime.now(UTC) - timedelta(seconds=60)

    def test_a_modified_schedule_goes_on_from_where_it_was(self, board: JobBoard, other: JobBoard) -> None:
        times = overdue(board, hourly())
        seen = other.schedules.modify("report", job="other", details={"n": 2})
        assert (seen.job, seen.details) == ("other", {"n": 2})
        assert fire(board) == 1
        [job] = board.iterjobs()
        assert (job.name, job.details, job.fire_time) == ("other", {"n": 2}, times[-1])

    def test_a_replacement_does_not_resume_what_was_paused(self, board: JobBoard, other: JobBoard) -> None:
        board.schedules.add(hourly())
        other.schedules.pause("report", "the printer is broken")
        for replacement in (hourly(job="other"), hourly(trigger=Every(hours=2))):
            seen = board.schedules.add(replacement, "replace")
            assert (seen, seen.state) == (replace(replacement, paused=True), "paused")
            assert seen.progress is not None
            assert seen.progress.note == "the printer is broken"
        seen = board.schedules.modify("report", paused=False)
        assert (seen.state, seen.progress.note) == ("active", None)  # type: ignore[union-attr]

    def test_fewer_runs_than_there_were_finish_it(self, board: JobBoard) -> None:
        overdue(board, hourly(coalesce="all", max_instances=None))
        assert fire(board) == 3
        seen = board.schedules.modify("report", max_runs=2)
        assert (seen.state, seen.next_fire_time, board.schedules.upcoming("report", 1)) == ("finished", None, [])
        assert board.schedules.modify("report", max_runs=None).state == "active"

    def test_what_is_settled_stays_so_though_a_clock_was_set_back(self, board: JobBoard) -> None:
        board.schedules.add(hourly())
        # As if the clock had been two hours ahead when a scheduler stepped it.
        rewind(board, "report", -2 * HOUR)
        settled = board.schedules.get("report").progress.settled  # type: ignore[union-attr]
        board.schedules.pause("report")
        board.schedules.resume("report")
        board.schedules.modify("report", trigger=Every(minutes=1))
        board.schedules.add(hourly(), "replace")
        seen = board.schedules.get("report")
        assert seen.next_fire_time is not None
        assert seen.next_fire_time.timestamp() > settled

    def test_a_removed_schedule_is_gone_and_its_jobs_stay(self, board: JobBoard, other: JobBoard) -> None:
        overdue(board, hourly())
        assert fire(board) == 1
        other.schedules.remove("report")
        for call in (board.schedules.get, board.schedules.remove, board.schedules.fire_now, board.schedules.pause):
            with pytest.raises(NotFound):
                call("report")
        assert (list(board.schedules), board.job_count) == ([], 1)
        board.schedules.add(hourly())
        assert [found.id for found in other.schedules] == ["report"]

    def test_schedules_come_by_next_fire_time(self, board: JobBoard) -> None:
        now = datetime.now(UTC)
        order = [3, 1, 12, 2, 30]
        for hours in order:
            board.schedules.add(Schedule(f"in {hours}", At(now + timedelta(hours=hours)), "write"))
        board.schedules.add(hourly("paused", paused=True))
        assert [found.id for found in board.schedules] == ["in 1", "in 2", "in 3", "in 12", "in 30", "paused"]

    def test_more_schedules_than_one_page_are_all_seen_once(self, board: JobBoard) -> None:
        at = in_an_hour()
        wanted = [f"{number:04}" for number in range(620)]
        for id in wanted:
            board.schedules.add(Schedule(id, At(at), "write"))
        assert [found.id for found in board.schedules] == wanted

    def test_upcoming_tells_what_is_to_come(self, board: JobBoard) -> None:
        board.schedules.add(hourly(max_runs=3))
        upcoming = board.schedules.upcoming("report", 5)
        assert [(later - earlier).total_seconds() for earlier, later in itertools.pairwise(upcoming)] == [
            HOUR,
            HOUR,
        ]
        board.schedules.pause("report")
        assert board.schedules.upcoming("report", 3) == upcoming

    def test_one_that_would_never_fire_is_refused(self, board: JobBoard) -> None:
        at = At(datetime(2020, 1, 1, tzinfo=UTC))
        with pytest.raises(ValueError, match="never fire"):
            board.schedules.add(Schedule("late", at, "write", start=datetime(2021, 1, 1, tzinfo=UTC)))
        with pytest.raises(ValueError, match="never fire"):
            board.schedules.add(Schedule("late", AnyOf(at, at), "write"))
        with pytest.raises(ValueError, match="never fire"):
            board.schedules.add(hourly(end=datetime(2020, 1, 1, tzinfo=UTC)))
        assert list(board.schedules) == []

    def test_a_moment_that_has_passed_is_due_at_once_and_once(self, board: JobBoard) -> None:
        first, second = (datetime.now(UTC) - timedelta(minutes=minutes) for minutes in (9, 2))
        once = Schedule("once", At(first), "write")
        added = board.schedules.add(once)
        assert (added.next_fire_time, board.schedules.upcoming("once", 2)) == (first, [first])
        board.schedules.add(Schedule("late", At(first), "write", misfire_grace=60))
        assert fire(board) == 1
        assert (fires_of(board.iterjobs()), kinds_of(board, "late")) == ([first], [(EventKind.MISSED, 1)])
        # A program that adds it whenever it starts posts nothing twice, nor do two that know of different moments.
        for trigger, posted in ((At(first), 0), (At(second), 1), (At(first), 0), (At(second), 0)):
            board.schedules.add(Schedule("once", trigger, "write", max_instances=None), "replace")
            assert (fire(board), board.schedules.get("once").state) == (posted, "finished")
        # One that has posted nothing yet may go back.
        board.schedules.add(hourly())
        board.schedules.modify("report", trigger=At(first))
        assert fire(board) == 1

    def test_the_first_fire_time_may_be_any(self, board: JobBoard) -> None:
        first = datetime.now(UTC).replace(microsecond=0) + timedelta(days=3, minutes=7)
        assert board.schedules.add(hourly(), next_run_time=first).next_fire_time == first
        upcoming = board.schedules.upcoming("report", 3)
        assert (upcoming[0], upcoming[2] - upcoming[1]) == (first, timedelta(hours=1))
        assert first < upcoming[1] < first + timedelta(hours=1)
        # A program that adds it whenever it starts does not put it off.
        soon = datetime.now(UTC) - timedelta(minutes=1)
        assert board.schedules.add(hourly(priority="high"), "replace", next_run_time=soon).next_fire_time == first
        assert fire(board) == 0
        seen = board.schedules.add(hourly(trigger=FULL_HOURS), "replace", next_run_time=soon)
        assert (seen.next_fire_time, fire(board)) == (soon, 1)
        following = board.schedules.get("report").next_fire_time
        assert following is not None
        assert (following > datetime.now(UTC), following.minute) == (True, 0)
        for bound in ({"start": first + timedelta(days=1)}, {"end": first - timedelta(days=1)}):
            with pytest.raises(ValueError, match="next_run_time.*(before the start|after the end)"):
                board.schedules.add(hourly("other", **bound), next_run_time=first)
        with pytest.raises(ValueError, match="aware"):
            board.schedules.add(hourly("other"), next_run_time=datetime(2030, 1, 1))

    def test_start_and_end_bound_the_fire_times(self, board: JobBoard) -> None:
        now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        start, end = now + timedelta(hours=5), now + timedelta(hours=7)
        board.schedules.add(hourly(trigger=FULL_HOURS, start=start, end=end))
        assert board.schedules.upcoming("report", 9) == [start, start + timedelta(hours=1), end]

    @pytest.mark.parametrize(
        "call",
        [
            lambda schedules: schedules.add("report"),
            lambda schedules: schedules.add(hourly("other"), "overwrite"),
            lambda schedules: schedules.get(""),
            lambda schedules: schedules.get(7),
            lambda schedules: schedules.modify("report", id="other"),
            lambda schedules: schedules.modify("report", coalesce="some"),
            lambda schedules: schedules.modify("report", details={"call": print}),
            lambda schedules: schedules.modify("report", trigger="hourly"),
            lambda schedules: schedules.pause("report", 7),
            lambda schedules: schedules.upcoming("report", 0),
            lambda schedules: schedules.backfill("report", datetime(2020, 1, 1), datetime(2020, 1, 2)),
            lambda schedules: schedules.backfill("report", in_an_hour(), datetime(2020, 1, 2, tzinfo=UTC)),
            lambda schedules: schedules.backfill("report", datetime(1990, 1, 1, tzinfo=UTC), in_an_hour()),
        ],
    )
    def test_a_bad_argument_changes_nothing(self, board: JobBoard, call: Any) -> None:
        board.schedules.add(hourly())
        before = board.schedules.get("report")
        with pytest.raises((TypeError, ValueError)):
            call(board.schedules)
        after = board.schedules.get("report")
        assert (after, after.progress, board.job_count) == (before, before.progress, 0)

    def test_details_that_cannot_be_stored_are_refused(self, board: JobBoard) -> None:
        with pytest.raises(InvalidPosting, match=r"details\.call"):
            board.schedules.add(hourly(details={"call": print}))
        with pytest.raises(NotFound):
            board.schedules.get("report")

    @each_fault
    def test_a_change_whose_reply_is_lost_is_made_once(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault
    ) -> None:
        lossy.lose("schedules.step", fault)
        board.schedules.add(hourly())
        lossy.lose("schedules.step", fault)
        board.schedules.modify("report", job="other")
        assert other.schedules.get("report").job == "other"
        lossy.lose("schedules.step", fault)
        board.schedules.remove("report")
        assert list(other.schedules) == []

    @pytest.mark.parametrize("primitive", ["schedules.read", "schedules.page", "schedules.due"])
    def test_a_read_whose_reply_is_lost_answers(self, board: JobBoard, lossy: LossyBackend, primitive: str) -> None:
        board.schedules.add(hourly())
        lossy.lose(primitive, "reply")
        assert board.schedules.get("report").id == "report"
        assert [found.id for found in board.schedules] == ["report"]
        assert firing(board).fire_due(10).posted == 0

    def test_exported_schedules_can_be_loaded_elsewhere(self, harness: Harness, board: JobBoard) -> None:
        schedules = [hourly("a", jitter=3, start=in_an_hour()), hourly("b", paused=True, priority="LOW")]
        for schedule in schedules:
            board.schedules.add(schedule)
        copy = harness.board()
        copy.schedules.load(board.schedules.export())
        assert [copy.schedules.get(schedule.id) for schedule in schedules] == schedules
        with pytest.raises(AlreadyScheduled):
            copy.schedules.load(board.schedules.export())
        assert len(copy.schedules.load(board.schedules.export(), "keep")) == 2

    def test_schedules_of_two_boards_are_apart(self, harness: Harness, board: JobBoard) -> None:
        other = harness.board()
        board.schedules.add(hourly())
        overdue(other, hourly(job="other"))
        assert (fire(board), fire(other)) == (0, 1)
        other.schedules.remove("report")
        assert [found.id for found in board.schedules] == ["report"]

    def test_changes_are_told(self, board: JobBoard, other: JobBoard) -> None:
        events: list[JobEvent] = []
        other.subscribe(events.append, {EventKind.SCHEDULED, EventKind.UNSCHEDULED, EventKind.FIRED})
        board.schedules.add(hourly())
        board.schedules.pause("report", "a note")
        job = board.schedules.fire_now("report")
        board.schedules.remove("report")
        eventually(lambda: len(events) == 4)
        scheduled, unscheduled = EventKind.SCHEDULED, EventKind.UNSCHEDULED
        assert told(events) == [scheduled, scheduled, EventKind.FIRED, unscheduled]
        assert {event.who for event in events} == {"report"}
        assert (events[1].reason, events[2].uuid, events[2].name) == ("paused: a note", job.uuid, "write")

    def test_one_that_cannot_be_decoded_harms_nobody(self, board: JobBoard, other: JobBoard) -> None:
        events: list[JobEvent] = []
        other.subscribe(events.append, {EventKind.FAILED})
        board.schedules.add(hourly("spoilt"))
        spoil(board, "spoilt")
        overdue(board, hourly())
        assert fire(board) == 1
        assert [found.id for found in other.schedules] == ["report"]
        assert [found.id for found in other.schedules.unreadable()] == ["spoilt"]
        with pytest.raises(UnreadableSchedule):
            other.schedules.get("spoilt")
        eventually(lambda: [event.who for event in events] == ["spoilt"])
        assert firing(board).fire_due(10).next_in != 0.0
        other.schedules.add(hourly("spoilt"), "replace")
        assert board.schedules.get("spoilt").trigger == HOURLY
        spoil(board, "spoilt")
        other.schedules.remove("spoilt")
        assert board.schedules.unreadable() == []

    def test_one_that_would_flood_the_board_is_refused(self, harness: Harness, board: JobBoard) -> None:
        often = Excluding(AnyOf(At(in_an_hour()), Every(seconds=0.01)), date(2030, 1, 1))
        with pytest.raises(ValueError, match="least_interval"):
            board.schedules.add(hourly("flood", trigger=often))
        board.schedules.add(hourly())
        with pytest.raises(ValueError, match="least_interval"):
            board.schedules.modify("report", trigger=often)
        careless = harness.board(board.name, least_interval=0.01)
        careless.schedules.add(hourly("flood", trigger=often))
        # The board that added it was allowed to.
        rewind(careless, "flood", 1)
        assert (fire(board), board.schedules.get("flood").state) == (1, "active")
        assert board.schedules.modify("flood", priority="HIGH").trigger == often
        with pytest.raises(ValueError, match="least_interval"):
            board.schedules.modify("flood", trigger=often)

    def test_large_details_are_judged_where_they_are_added(self, harness: Harness, board: JobBoard) -> None:
        small = harness.board(board.name, largest_details=100)
        large = {"text": "x" * 1000}
        times = overdue(board, hourly(details=large))
        assert fire(small) == 1
        assert small.schedules.modify("report", priority="HIGH", max_instances=None).details == large
        small.schedules.fire_now("report")
        small.schedules.backfill("report", times[0], times[0])
        assert [job.details for job in board.iterjobs()] == [large] * 3
        with pytest.raises(InvalidPosting, match="details"):
            small.schedules.modify("report", details=large)

    def test_any_id_and_job_name_can_be_scheduled(self, board: JobBoard) -> None:
        for id in ("größe/{a}*", "a b", "..", "%2F", "x" * 200, "0"):
            times = overdue(board, hourly(id, job=id))
            assert fire(board) == 1
            [job] = board.iterjobs(names=[id])
            assert (job.schedule_id, job.fire_time) == (id, times[-1])
            board.schedules.remove(id)
