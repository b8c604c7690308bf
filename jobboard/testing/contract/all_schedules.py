"""All schedules of a board at once: paused, resumed, removed."""

from __future__ import annotations

import contextlib
import threading
from datetime import UTC, datetime, timedelta

import pytest

from jobboard.board import JobBoard
from jobboard.errors import NotFound
from jobboard.scheduler import Scheduler
from jobboard.testing.contract.case import Case, uuids_of
from jobboard.testing.contract.clockwork import fires_of, firing, hourly, overdue, spoil
from jobboard.testing.contract.races import at_once
from jobboard.testing.deadline import DEADLINE, eventually
from jobboard.testing.harness import Harness


class AllSchedulesCases(Case):
    def test_all_schedulers_are_paused_at_once(self, harness: Harness, board: JobBoard, other: JobBoard) -> None:
        board.schedules.resume_all()
        assert board.schedules.all_paused() is None
        board.schedules.add(hourly("other"))
        times = overdue(board, hourly(coalesce="all", max_instances=1, overlap="buffer_one"))
        for note in ("why", "the database moves"):
            other.schedules.pause_all(note)
        seen = board.schedules.all_paused()
        assert seen is not None
        assert (seen.note, abs(seen.since - datetime.now(UTC)) < timedelta(minutes=5)) == ("the database moves", True)
        made = firing(board).fire_due(10)
        assert (made.posted, made.taken, made.next_in, firing(board).fire_waiting(["report"]).taken) == (0, 0, None, 0)
        # It is nobody's schedule, and nothing by hand is kept from firing.
        assert ([found.id for found in board.schedules], board.schedules.unreadable()) == (["report", "other"], [])
        assert (len(board.schedules.export()), board.schedules.fire_now("other").schedule_id) == (2, "other")
        scheduler = Scheduler(harness.board(board.name))
        scheduler.start()
        try:
            eventually(lambda: [entity.kind for entity in board.entities()] == ["scheduler"])
            other.schedules.resume_all()
            eventually(lambda: times[0] in fires_of(board.iterjobs()))
        finally:
            assert scheduler.stop(10)
        board.schedules.pause_all()
        assert (board.schedules.remove_all(), board.schedules.all_paused() is None) == (2, False)
        with pytest.raises(ValueError, match="can't be 'jobboard:pause'"):
            board.schedules.add(hourly("jobboard:pause"))

    def test_all_are_removed_at_once(self, board: JobBoard, other: JobBoard) -> None:
        assert board.schedules.remove_all() == 0
        for number in range(130):
            board.schedules.add(hourly(f"report {number}"))
        job = board.schedules.fire_now("report 7")
        spoil(board, "report 8")
        assert (other.schedules.remove_all(), list(board.schedules), board.schedules.unreadable()) == (130, [], [])
        assert uuids_of(board.iterjobs()) == [job.uuid]

    def test_all_are_removed_beside_clients_that_change_and_delete(self, harness: Harness, board: JobBoard) -> None:
        changing, deleting = harness.board(board.name), harness.board(board.name)
        for number in range(40):
            board.schedules.add(hourly(f"report {number}"))
        begun, removed = [threading.Event(), threading.Event()], threading.Event()

        def remove() -> int:
            assert all(event.wait(DEADLINE) for event in begun)
            try:
                return board.schedules.remove_all()
            finally:
                removed.set()

        def change() -> None:
            with contextlib.suppress(NotFound):
                while not removed.is_set():
                    changing.schedules.pause("report 7")
                    begun[0].set()
                    changing.schedules.resume("report 7")

        def delete() -> None:
            while not removed.is_set():
                job = deleting.post("resize")
                deleting.trash(job, by="ada")
                deleting.purge(job)
                begun[1].set()

        assert at_once(remove, change, delete) == [40, None, None]
        assert (list(board.schedules), uuids_of(board.iterjobs()), board.audit()) == ([], [], [])
