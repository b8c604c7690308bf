"""Firing: each fire time is posted once, or the history says why not, with any number of schedulers (promise 7)."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobboard.board import JobBoard
from jobboard.errors import NotFound
from jobboard.events import EventKind, JobEvent
from jobboard.scheduler import Scheduler
from jobboard.schedules.schedule import Schedule
from jobboard.schedules.triggers import At, Every, Trigger
from jobboard.states import JobState
from jobboard.testing.contract.case import Case, claim_one, drain, needs, uuids_of
from jobboard.testing.contract.clockwork import (
    HOUR,
    fire,
    fires_of,
    firing,
    hourly,
    kinds_of,
    overdue,
    overwrite,
    rewind,
    spoil,
    stored,
    told,
)
from jobboard.testing.deadline import eventually
from jobboard.testing.faults import Fault, LossyBackend
from jobboard.testing.harness import Harness

FIRED, MISSED, SKIPPED = EventKind.FIRED, EventKind.MISSED, EventKind.SKIPPED
each_fault = pytest.mark.parametrize("fault", ["reply", "request"])


class FiringCases(Case):
    def test_a_due_schedule_posts_its_job(self, board: JobBoard, other: JobBoard) -> None:
        times = overdue(board, hourly(priority="HIGH", max_attempts=2))
        assert fire(other) == 1
        [job] = board.iterjobs()
        assert (job.name, job.details, str(job.priority), job.max_attempts) == ("write", {"id": "report"}, "HIGH", 2)
        assert (job.schedule_id, job.fire_time, job.record.state) == ("report", times[-1], JobState.UNCLAIMED)
        assert job.key == f"report@{times[-1].isoformat()}"
        assert (fire(board), fire(other), board.job_count) == (0, 0, 1)

    def test_what_is_not_due_is_not_posted(self, board: JobBoard) -> None:
        board.schedules.add(Schedule("late", At(datetime.now(UTC) + timedelta(hours=1)), "write"))
        made = firing(board).fire_due(10)
        assert (made.posted, made.taken) == (0, 0)
        assert made.next_in is not None
        assert 3500 < made.next_in <= 3660

    def test_an_empty_board_has_no_next_fire_time(self, board: JobBoard) -> None:
        assert firing(board).fire_due(10).next_in is None
        board.schedules.add(hourly(paused=True))
        assert firing(board).fire_due(10).next_in is None

    def test_a_schedule_that_fired_for_the_last_time_is_finished(self, board: JobBoard) -> None:
        board.schedules.add(Schedule("once", At(datetime.now(UTC) + timedelta(seconds=1)), "write"))
        eventually(lambda: fire(board) == 1)
        seen = board.schedules.get("once")
        assert (seen.state, seen.next_fire_time, board.schedules.upcoming("once", 3)) == ("finished", None, [])
        assert firing(board).fire_due(10).next_in is None

    def test_the_latest_of_what_was_missed_is_posted(self, board: JobBoard) -> None:
        times = overdue(board, hourly())
        assert fire(board) == 1
        assert fires_of(board.iterjobs()) == times[-1:]
        assert kinds_of(board) == [(MISSED, 2), (FIRED, 1)]

    def test_the_earliest_of_what_was_missed_is_posted(self, board: JobBoard) -> None:
        times = overdue(board, hourly(coalesce="earliest"))
        assert fire(board) == 1
        assert fires_of(board.iterjobs()) == times[:1]
        assert kinds_of(board) == [(MISSED, 2), (FIRED, 1)]

    def test_all_of_what_was_missed_is_posted(self, board: JobBoard) -> None:
        times = overdue(board, hourly(coalesce="all", max_instances=None), hours=230)
        assert fire(board) == len(times) == 230
        assert fires_of(board.iterjobs()) == times
        assert board.schedules.get("report").progress.runs == 230  # type: ignore[union-attr]

    @pytest.mark.parametrize("coalesce", ["latest", "earliest"])
    def test_years_of_missed_times_are_bounded(self, board: JobBoard, coalesce: Any) -> None:
        times = overdue(board, hourly(coalesce=coalesce, max_instances=None), hours=2500)
        assert fire(board) == 1
        assert fires_of(board.iterjobs()) == [times[-1] if coalesce == "latest" else times[0]]
        assert kinds_of(board)[0][0] is MISSED
        assert firing(board).fire_due(10).posted == 0

    @pytest.mark.parametrize("hours", [1000, 1001, 1500])
    def test_of_more_than_a_thousand_missed_times_the_last_thousand_are_posted(
        self, board: JobBoard, other: JobBoard, hours: int
    ) -> None:
        events: list[JobEvent] = []
        other.subscribe(events.append, {MISSED})
        times = overdue(board, hourly(coalesce="all", max_instances=None), hours=hours)
        assert (len(times), fire(board)) == (hours, 1000)
        assert fires_of(board.iterjobs()) == times[-1000:]
        seen = board.schedules.get("report").progress
        assert seen is not None
        assert (seen.runs, seen.missed) == (1000, min(1, hours - 1000))
        if hours > 1000:
            eventually(lambda: told(events) == [MISSED])
            assert events[0].reason is not None
            assert times[-1001].isoformat() in events[0].reason
        assert firing(board).fire_due(10).posted == 0

    def test_what_is_later_than_its_grace_is_told_and_not_posted(self, board: JobBoard, other: JobBoard) -> None:
        events: list[JobEvent] = []
        other.subscribe(events.append, {FIRED, MISSED})
        board.schedules.add(hourly(coalesce="all", max_instances=None, misfire_grace=2.5 * 3600))
        times = rewind(board, "report", 5 * 3600)
        late = [time for time in times if time < datetime.now(UTC) - timedelta(hours=2.5)]
        assert (fire(board), len(times)) == (len(times) - len(late), 5)
        assert fires_of(board.iterjobs()) == times[len(late) :]
        eventually(lambda: len(events) == 1 + len(times) - len(late))
        assert told(events)[0] is MISSED
        assert (events[0].uuid, events[0].who) == (None, "report")
        assert events[0].reason is not None
        assert "misfire_grace" in events[0].reason
        assert board.schedules.get("report").progress.missed == len(late)  # type: ignore[union-attr]

    def test_no_more_jobs_are_live_than_may_be(self, board: JobBoard, other: JobBoard) -> None:
        events: list[JobEvent] = []
        other.subscribe(events.append, {SKIPPED})
        overdue(board, hourly(max_instances=2, coalesce="all"), hours=5)
        assert (fire(board), board.job_count) == (2, 2)
        eventually(lambda: told(events) == [SKIPPED])
        rewind(board, "report", 3600)
        assert fire(board) == 0
        claimed = claim_one(board)
        rewind(board, "report", 3600)
        assert fire(other) == 0
        board.consume(claimed, "alice")
        # Its other job may have the key of that fire time; if not, the fire time is posted. At most two are live.
        rewind(board, "report", 3600)
        fire(other)
        assert board.job_count <= 2
        assert board.schedules.get("report").progress.skipped >= 4  # type: ignore[union-attr]

    def test_any_number_may_be_live_without_a_limit(self, board: JobBoard) -> None:
        board.schedules.add(hourly(max_instances=None))
        for hours in (8, 6, 4, 2):
            start = datetime.now(UTC) - timedelta(hours=hours)
            board.schedules.backfill("report", start, start + timedelta(hours=1))
        rewind(board, "report", 3600)
        assert fire(board) == 1

    def test_one_that_found_no_room_waits_for_it(self, board: JobBoard, other: JobBoard) -> None:
        times = overdue(board, hourly(overlap="buffer_one", coalesce="all"), hours=4)
        made = firing(board).fire_due(10)
        [first] = board.iterjobs()
        assert (made.posted, made.waiting, first.fire_time) == (1, {first.uuid: "report"}, times[0])
        assert firing(board).fire_waiting(["report"]).posted == 0
        claimed = claim_one(other)
        assert firing(board).fire_waiting(["report"]).posted == 0
        other.consume(claimed, "alice")
        assert firing(board).fire_waiting(["report"]).posted == 1
        assert fires_of(board.iterjobs()) == [times[1]]
        assert [kind for kind, _ in kinds_of(board)] == [SKIPPED, FIRED, FIRED]

    def test_a_scheduler_posts_what_waited_for_room_soon(self, board: JobBoard, other: JobBoard) -> None:
        times = overdue(board, hourly(overlap="buffer_one", coalesce="all"), hours=2)
        scheduler = Scheduler(other)
        scheduler.start()
        try:
            eventually(lambda: fires_of(board.iterjobs()) == times[:1])
            board.consume(claim_one(board), "alice")
            eventually(lambda: fires_of(board.iterjobs()) == times[1:])
        finally:
            assert scheduler.stop(10)

    def test_a_schedule_ends_after_its_runs(self, board: JobBoard) -> None:
        times = overdue(board, hourly(coalesce="all", max_instances=None, max_runs=2), hours=5)
        assert fire(board) == 2
        assert fires_of(board.iterjobs()) == times[:2]
        assert board.schedules.get("report").state == "finished"
        seen = board.schedules.modify("report", max_runs=3)
        assert (seen.state, seen.progress.runs) == ("active", 2)  # type: ignore[union-attr]
        rewind(board, "report", 3 * 3600)
        assert fire(board) == 1
        assert board.schedules.get("report").state == "finished"

    @pytest.mark.parametrize("is_readable", [True, False])
    def test_one_whose_trigger_raises_is_quarantined(
        self, board: JobBoard, other: JobBoard, monkeypatch: pytest.MonkeyPatch, is_readable: bool
    ) -> None:
        class Mine(RuntimeError):
            def __str__(self) -> str:
                if not is_readable:
                    raise ValueError("no text")
                return super().__str__()

            __repr__ = __str__

        def fails(self: Trigger, after: datetime) -> datetime | None:
            raise Mine("a trigger that fails" + "!" * 1_000_000)

        overdue(board, hourly("broken", trigger=Every(minutes=7)))
        times = overdue(board, hourly())
        with monkeypatch.context() as patch:
            patch.setattr(Every, "next_fire_time", lambda self, after: self._fail_or(after), raising=True)
            patch.setattr(
                Every,
                "_fail_or",
                lambda self, after: fails(self, after) if self == Every(minutes=7) else NEXT(self, after),
                raising=False,
            )
            assert fire(board) == 1
        [job] = board.iterjobs()
        assert job.fire_time == times[-1]
        broken = other.schedules.get("broken")
        assert (broken.state, broken.next_fire_time) == ("set aside", None)
        assert broken.progress is not None
        assert ("a trigger that fails" if is_readable else "Mine, which can't be shown") in (
            broken.progress.fault or ""
        )
        assert len(broken.progress.fault or "") < 1000
        assert [line.kind for line in other.schedules.history("broken")] == [EventKind.FAILED]
        other.schedules.resume("broken")
        assert board.schedules.get("broken").state == "active"

    def test_one_that_can_be_decoded_again_waits_until_it_is_resumed(self, board: JobBoard, other: JobBoard) -> None:
        board.schedules.add(hourly())
        row = spoil(board, "report")
        assert fire(board) == 0
        # A scheduler of another version can decode what this one could not.
        overwrite(board, replace(row, next_at=stored(board, "report").next_at))
        seen = other.schedules.get("report")
        assert (seen.state, seen.next_fire_time) == ("set aside", None)
        assert other.schedules.resume("report").state == board.schedules.get("report").state == "active"
        next_in = firing(board).fire_due(10).next_in
        assert next_in is not None
        assert 0 < next_in <= HOUR

    @each_fault
    def test_a_fire_whose_reply_is_lost_is_posted_once(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault
    ) -> None:
        times = overdue(board, hourly(coalesce="all", max_instances=None), hours=12)
        lossy.lose("schedules.step", fault)
        fire(board)
        assert fires_of(other.iterjobs()) == times
        assert board.schedules.get("report").progress.runs == 12  # type: ignore[union-attr]

    @each_fault
    def test_a_fire_sent_twice_is_posted_once_though_it_is_consumed_in_between(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault
    ) -> None:
        overdue(board, hourly())
        lossy.lose("schedules.step", fault, meanwhile=lambda: list(drain(other)))
        fire(board)
        assert len(list(drain(other))) == (0 if fault == "reply" else 1)

    def test_jitter_puts_a_fire_off_but_not_its_fire_time(self, board: JobBoard) -> None:
        board.schedules.add(hourly(jitter=1800))
        nominal = board.schedules.upcoming("report", 1)[0]
        due = board.schedules.due_at("report")
        assert due is not None
        assert nominal <= due < nominal + timedelta(seconds=1800)
        next_in = firing(board).fire_due(10).next_in
        assert next_in is not None
        assert abs(next_in - (due - datetime.now(UTC)).total_seconds()) < 60

    @needs(sharded=False)
    def test_many_due_at_once_are_posted_once_by_fire_time_and_then_by_id(self, board: JobBoard) -> None:
        first = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=5)
        expected = []
        # More than a scheduler takes in one step; the ids are in another order than the fire times, which many share.
        for number in range(230):
            trigger = Every(hours=2 if number % 3 else 1, start=first + timedelta(minutes=number * 37 % 40))
            schedule = hourly(f"report {number:03}", trigger=trigger)
            expected.append((overdue(board, schedule, hours=4.5)[-1], schedule.id))
        assert firing(board).fire_due(500).posted == 230
        assert [(job.fire_time, job.schedule_id) for job in drain(board)] == sorted(expected)

    def test_large_details_are_posted_in_steps_that_the_store_can_take(self, board: JobBoard) -> None:
        large = {"text": "x" * 60_000}
        times = overdue(board, hourly(details=large, coalesce="all", max_instances=None), hours=30)
        for number in range(10):
            overdue(board, hourly(f"report {number}", details=large), hours=1)
        assert fire(board) == 40
        assert Counter(job.schedule_id for job in board.iterjobs())["report"] == len(times) == 30
        jobs = board.schedules.backfill("report", times[0] - timedelta(hours=30), times[0] - timedelta(minutes=1))
        assert (len(jobs), board.job_count) == (30, 70)

    def test_the_largest_details_are_posted(self, board: JobBoard) -> None:
        largest = {"text": "x" * (board._client.largest_details - 100)}
        overdue(board, hourly(details=largest, max_instances=2, overlap="buffer_one"), hours=1)
        assert fire(board) == 1
        board.schedules.fire_now("report")
        assert [job.details for job in board.iterjobs()] == [largest] * 2

    def test_several_clients_at_once_post_every_fire_time_once(self, harness: Harness, board: JobBoard) -> None:
        times = {}
        for number in range(30):
            schedule = hourly(f"report {number}", coalesce="all", max_instances=None)
            times[schedule.id] = overdue(board, schedule, hours=4)
        boards = [harness.board(board.name) for _ in range(5)]
        together = threading.Barrier(5)

        def race(client: JobBoard) -> int:
            together.wait()
            return fire(client)

        with ThreadPoolExecutor(5) as threads:
            posted = sum(threads.map(race, boards))
        seen = Counter((job.schedule_id, job.fire_time) for job in board.iterjobs())
        assert seen == Counter((id, time) for id, some in times.items() for time in some)
        assert posted == 120

    def test_schedulers_beside_each_other_fire_every_second_once(self, harness: Harness, board: JobBoard) -> None:
        # Not over before it is added, also on a busy machine.
        start = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=3)
        board.schedules.add(
            Schedule("tick", Every(seconds=1), "tick", max_instances=None, coalesce="all", start=start, max_runs=3)
        )
        schedulers = [Scheduler(harness.board(board.name)) for _ in range(3)]
        for scheduler in schedulers:
            scheduler.start()
        eventually(lambda: board.schedules.get("tick").state == "finished", within=20)
        for scheduler in schedulers:
            assert scheduler.stop(10)
        assert fires_of(board.iterjobs()) == [start + timedelta(seconds=n) for n in range(3)]

    def test_a_scheduler_notices_what_another_client_adds(
        self, board: JobBoard, other: JobBoard, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # It would see it anyhow when it looks for itself.
        monkeypatch.setattr("jobboard.scheduler._MAX_SLEEP", 600.0)
        scheduler = Scheduler(board, "the clock")
        scheduler.start()
        try:
            eventually(lambda: [entity.kind for entity in other.entities()] == ["scheduler"])
            at = datetime.now(UTC) + timedelta(seconds=0.5)
            other.schedules.add(Schedule("soon", At(at), "write"))
            eventually(lambda: other.job_count == 1)
        finally:
            assert scheduler.stop(10)
        assert (other.entities(), scheduler.wait(0), scheduler.stop()) == ([], True, True)

    def test_a_scheduler_can_be_started_again(self, board: JobBoard) -> None:
        scheduler = Scheduler(board)
        for number in range(2):
            scheduler.start()
            scheduler.start()
            overdue(board, hourly(f"report {number}"), hours=1)
            eventually(lambda number=number: board.job_count == number + 1)  # type: ignore[misc]
            assert scheduler.stop(10)

    def test_a_scheduler_survives_an_absent_store(self, board: JobBoard, lossy: LossyBackend) -> None:
        scheduler = Scheduler(board)
        lossy.lose("schedules.due", "refused")
        scheduler.start()
        try:
            overdue(board, hourly())
            eventually(lambda: board.job_count == 1)
        finally:
            assert scheduler.stop(10)

    def test_a_schedule_changed_meanwhile_is_stepped_on_from_there(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend
    ) -> None:
        overdue(board, hourly())
        lossy.lose("schedules.step", "request", meanwhile=lambda: other.schedules.remove("report"))
        assert (fire(board), board.job_count) == (0, 0)
        with pytest.raises(NotFound):
            board.schedules.get("report")

    def test_the_job_of_a_fire_time_is_not_live_twice(self, board: JobBoard) -> None:
        times = overdue(board, hourly(max_instances=None))
        [job] = board.schedules.backfill("report", times[-1], times[-1])
        fire(board)
        assert uuids_of(board.iterjobs()) == [job.uuid]


NEXT = Every.next_fire_time
