"""A schedule's pause: what was due before it is posted or missed at its end, what falls into it is left out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobboard.board import JobBoard
from jobboard.events import EventKind, JobEvent
from jobboard.testing.contract.case import Case
from jobboard.testing.contract.clockwork import HOUR, fire, fires_of, firing, hourly, kinds_of, overdue, rewind, told
from jobboard.testing.deadline import eventually

FIRED, MISSED, SKIPPED, SCHEDULED = EventKind.FIRED, EventKind.MISSED, EventKind.SKIPPED, EventKind.SCHEDULED


class PausedScheduleCases(Case):
    def test_a_paused_schedule_is_not_due(self, board: JobBoard, other: JobBoard) -> None:
        times = overdue(board, hourly())
        other.schedules.pause("report", "the printer is broken")
        other.schedules.pause("report", "the printer is still broken")
        seen = board.schedules.get("report")
        assert (seen.state, seen.next_fire_time, fire(board)) == ("paused", None, 0)
        assert seen.progress is not None
        assert seen.progress.note == "the printer is still broken"
        board.schedules.resume("report")
        assert (fire(board), board.schedules.get("report").state) == (0, "active")
        assert board.schedules.resume("report").next_fire_time == board.schedules.upcoming("report", 1)[0]
        assert fires_of(board.iterjobs()) == times[-1:]

    def test_what_waits_for_room_waits_through_a_pause(self, board: JobBoard) -> None:
        for pause in (board.schedules.pause, lambda id: board.schedules.modify(id, paused=True)):
            times = overdue(board, hourly(overlap="buffer_one", coalesce="all"), hours=2)
            assert fire(board) == 1
            pause("report")
            made = firing(board).fire_waiting(["report"])
            assert (made.taken, made.waiting) == (0, {})
            board.schedules.resume("report")
            assert (fire(board), fires_of(board.iterjobs())) == (0, times[:1])
            board.cancel(next(board.iterjobs()))
            assert (firing(board).fire_waiting(["report"]).posted, fires_of(board.iterjobs())) == (1, times[1:2])
            board.cancel(next(board.iterjobs()))
            board.schedules.remove("report")

    @pytest.mark.parametrize(
        ("options", "posted", "history"),
        [
            ({}, [2], [(MISSED, 2), (FIRED, 1)]),
            ({"coalesce": "earliest"}, [0], [(MISSED, 2), (FIRED, 1)]),
            ({"coalesce": "all", "max_instances": None}, [0, 1, 2], [(FIRED, 1)] * 3),
            ({"coalesce": "all", "max_instances": 2}, [0, 1], [(SKIPPED, 1), (FIRED, 1), (FIRED, 1)]),
            ({"misfire_grace": 60.0}, [], [(MISSED, 3)]),
        ],
    )
    def test_what_was_due_before_the_pause_is_decided_about_at_its_end(
        self, board: JobBoard, other: JobBoard, options: dict[str, Any], posted: list[int], history: list[Any]
    ) -> None:
        ends: dict[str, Any] = {
            "resume": other.schedules.resume,
            "modify": lambda id: other.schedules.modify(id, paused=False),
        }
        events: list[JobEvent] = []
        other.subscribe(events.append, {FIRED, MISSED, SKIPPED, SCHEDULED})
        for id, end in ends.items():
            times = overdue(board, hourly(id, **options))
            board.schedules.pause(id)
            # An operator may change what is paused; that is neither a resume nor another pause.
            board.schedules.modify(id, priority="HIGH")
            board.schedules.add(hourly(id, **options), "replace")
            seen = end(id)
            jobs = [job for job in board.iterjobs() if job.schedule_id == id]
            assert (fires_of(jobs), kinds_of(board, id)) == ([times[n] for n in posted], history)
            assert (seen.state, seen.next_fire_time > datetime.now(UTC), fire(board)) == ("active", True, 0)
        # It was added, rewound, paused, modified, replaced, resumed.
        each = [SCHEDULED] * 6 + [kind for kind, _ in history]
        eventually(lambda: len(events) == 2 * len(each))
        assert told(events) == each * 2

    def test_what_falls_into_a_pause_is_left_out(self, board: JobBoard) -> None:
        for id in ("a", "b", "c"):
            board.schedules.add(hourly(id, coalesce="all", max_instances=None))
            board.schedules.pause(id)
            # As if the pause had begun three hours ago.
            assert len(rewind(board, id, 3 * HOUR)) == 3
            board.schedules.pause(id, "a second pause is none")
            board.schedules.resume(id)
            assert (fire(board), board.job_count, kinds_of(board, id)) == (0, 0, [])

    def test_more_than_one_step_can_post_is_posted_in_parts(self, board: JobBoard) -> None:
        large = {"text": "x" * 100_000}
        times = overdue(board, hourly(coalesce="all", max_instances=None, details=large), hours=12)
        board.schedules.pause("report")
        seen = board.schedules.resume("report")
        assert (seen.state, fires_of(board.iterjobs()), fire(board)) == ("active", times, 0)
        assert seen.next_fire_time is not None
        assert timedelta(0) < seen.next_fire_time - times[-1] <= timedelta(hours=1)
