"""Jobs that somebody posts from a schedule: now, or for fire times that have passed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from jobboard.board import JobBoard
from jobboard.events import EventKind
from jobboard.testing.contract.case import Case, uuids_of
from jobboard.testing.contract.clockwork import FULL_HOURS, HOUR, fire, fires_of, hourly, kinds_of, rewind
from jobboard.testing.contract.schedules import each_fault
from jobboard.testing.faults import Fault, LossyBackend


class FiredByHandCases(Case):
    @each_fault
    def test_a_job_fired_by_hand_is_posted_once(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault
    ) -> None:
        board.schedules.add(hourly())
        lossy.lose("schedules.step", fault)
        job = board.schedules.fire_now("report")
        assert uuids_of(other.iterjobs()) == [job.uuid]
        assert kinds_of(other) == [(EventKind.FIRED, 1)]

    def test_fire_now_leaves_the_schedule_where_it_is(self, board: JobBoard, other: JobBoard) -> None:
        before = board.schedules.add(hourly(max_runs=1))
        first, second = other.schedules.fire_now("report"), other.schedules.fire_now("report")
        after = board.schedules.get("report")
        assert (after.next_fire_time, after.state) == (before.next_fire_time, "active")
        assert (first.schedule_id, first.name, first.details) == ("report", "write", {"id": "report"})
        assert first.fire_time is not None
        assert second.fire_time is not None
        assert first.fire_time < second.fire_time
        assert (first.record.state, board.job_count) == (board.get(first.uuid).record.state, 2)

    def test_jobs_fired_by_hand_that_ended_are_forgotten(self, board: JobBoard) -> None:
        board.schedules.add(hourly(paused=True))
        for _ in range(3):
            board.cancel(board.schedules.fire_now("report"))
        kept = board.schedules.fire_now("report")
        assert board.schedules.get("report").progress.live == [kept.uuid]  # type: ignore[union-attr]

    def test_a_paused_schedule_can_be_fired_by_hand(self, board: JobBoard) -> None:
        board.schedules.add(hourly(paused=True))
        assert board.schedules.fire_now("report").schedule_id == "report"
        assert board.schedules.get("report").state == "paused"

    def test_a_backfill_posts_every_fire_time_once(self, board: JobBoard, other: JobBoard) -> None:
        board.schedules.add(hourly(trigger=FULL_HOURS))
        start = datetime(2024, 2, 28, 22, tzinfo=UTC)
        hours = [start + timedelta(hours=n) for n in range(5)]
        jobs = board.schedules.backfill("report", start, hours[-1] + timedelta(minutes=59))
        assert fires_of(jobs) == hours
        again = other.schedules.backfill("report", start, hours[-1])
        assert (uuids_of(again), board.job_count) == (uuids_of(jobs), 5)

    def test_a_long_backfill_is_posted_whole(self, board: JobBoard) -> None:
        board.schedules.add(hourly(trigger=FULL_HOURS))
        start = datetime(2024, 1, 1, tzinfo=UTC)
        jobs = board.schedules.backfill("report", start, start + timedelta(hours=249))
        assert fires_of(board.iterjobs()) == fires_of(jobs) == [start + timedelta(hours=n) for n in range(250)]

    def test_a_backfill_does_not_keep_its_schedule_from_firing(self, board: JobBoard, other: JobBoard) -> None:
        board.schedules.add(hourly())
        times = rewind(board, "report", 3 * HOUR)
        start = datetime(2024, 1, 1, tzinfo=UTC)
        posted = other.schedules.backfill("report", start, start + timedelta(hours=119, minutes=59))
        assert board.schedules.get("report").progress.live == []  # type: ignore[union-attr]
        assert fire(board) == 1
        regular = [job for job in board.iterjobs() if job.uuid not in uuids_of(posted)]
        assert fires_of(regular) == times[-1:]
        # Those of the schedule itself, and those that are fired by hand, go on counting.
        rewind(board, "report", HOUR)
        assert fire(board) == 0

    def test_a_backfill_is_one_line_of_history(self, board: JobBoard) -> None:
        board.schedules.add(hourly(trigger=FULL_HOURS))
        by_hand = board.schedules.fire_now("report")
        start = datetime(2024, 1, 1, tzinfo=UTC)
        board.schedules.backfill("report", start, start + timedelta(hours=249))
        board.schedules.backfill("report", start, start)
        first, whole, single = board.schedules.history("report")
        assert (first.uuid, first.count) == (by_hand.uuid, 1)
        assert (whole.kind, whole.count, whole.uuid) == (EventKind.FIRED, 250, None)
        assert whole.fire_time == start + timedelta(hours=249)
        assert (single.count, single.fire_time) == (1, start)

    def test_a_backfill_without_a_fire_time_writes_nothing(self, board: JobBoard) -> None:
        board.schedules.add(hourly(trigger=FULL_HOURS))
        start = datetime(2024, 1, 1, 0, 10, tzinfo=UTC)
        assert board.schedules.backfill("report", start, start + timedelta(minutes=40)) == []
        assert board.schedules.history("report") == []
