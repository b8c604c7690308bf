"""What ``status`` says of schedules."""

from __future__ import annotations

import sys
from datetime import timedelta

import pytest
from helpers.findings import NONE, conductor, found
from helpers.memory_board import board

from jobboard import Cron, Entity, Every, JobBoard, Schedule
from jobboard.operate import overview as overview_module
from jobboard.operate.status import status
from jobboard.schedules import schedule as schedule_module
from jobboard.schedules.triggers import cron_pattern
from jobboard.testing import clock_of, eventually, fire_due, memory_board

__all__ = ["board"]


def test_schedules(board: JobBoard) -> None:
    board.schedules.add(Schedule("late", Every(seconds=1), "a"))
    board.schedules.add(Schedule("paused", Every(hours=1), "a", paused=True))
    off, alone = ("ATTENTION", "schedule_paused", "paused"), ("ATTENTION", "no_scheduler", None)
    eventually(lambda: found(board, NONE) == [("BAD", "overdue", "late"), alone, off])
    assert found(board) == [alone, off]
    board.register_entity(Entity("scheduler", "clock", ttl=600))
    assert found(board, NONE) == [("ATTENTION", "overdue", "late"), off]
    view = status(board)["schedules"]
    assert (view["active"], view["paused"], view["set_aside"], view["complete"]) == (1, 1, (), True)
    board.schedules.pause_all()
    assert found(board, NONE) == [("ATTENTION", "schedulers_paused", None)]


def test_a_schedule_of_a_name_that_no_conductor_has(board: JobBoard) -> None:
    board.register_entity(Entity("scheduler", "clock", ttl=600))
    board.schedules.add(Schedule("nightly", Every(hours=1), "reprot"))
    board.schedules.add(Schedule("weekly", Every(weeks=1), "reprot"))
    assert found(board) == [], "no conductor is alive: it may be a restart"
    conductor(board, "report", "mail")
    assert found(board) == [("ATTENTION", "no_handler", "nightly")]
    view = status(board)
    assert view["schedules"]["unhandled"] == {"nightly": "reprot", "weekly": "reprot"}
    assert "'reprot'" in view["findings"][0]["text"]
    conductor(board, "reprot", refused=["reprot"])
    assert found(board) == []


def test_a_schedule_that_skips_since_its_job_never_ends() -> None:
    with memory_board() as board:
        board.register_entity(Entity("scheduler", "clock", ttl=1e6))
        board.schedules.add(Schedule("every minute", Every(minutes=1), "a"))
        board.schedules.add(Schedule("hourly", Every(hours=1), "a"))
        conductor(board, "a", ttl=1e6)
        kinds, texts = [], []
        for _ in range(26):
            clock_of(board).move(60)
            fire_due(board)
            board.claim_next("worker", limit=2)
            view = status(board)
            kinds.append([finding["kind"] for finding in view["findings"]])
            texts += [finding["text"] for finding in view["findings"]]
        assert kinds == [[]] * 3 + [["skips"]] * 23, "one that skips now and then is well"
        assert texts[0].startswith("Schedule 'every minute' has skipped its last 3 fires: ")
        assert texts[-1].startswith("Schedule 'every minute' has skipped its last 20 fires or more: ")
        assert texts[-1].endswith("jobboard schedule show 'every minute'")
        assert view["schedules"]["skipped"] == {"every minute": 20}
        [job] = [job for job in board.iterjobs() if job.schedule_id == "every minute"]
        board.consume(job, "worker")
        clock_of(board).move(60)
        fire_due(board)
        assert status(board)["findings"] == []


def test_a_schedule_whose_last_fire_was_missed_is_told_until_the_next_one() -> None:
    with memory_board() as board:
        conductor(board, "a", ttl=1e6)
        board.register_entity(Entity("scheduler", "clock", ttl=1e6))
        for id, grace in (("late", 60), ("later", 60), ("whatever", None)):
            board.schedules.add(Schedule(id, Every(hours=1), "a", misfire_grace=grace))
        told = []
        for late in (0, 120, 120, 0):
            due = board.schedules.get("late").next_fire_time
            assert due is not None
            clock_of(board).move_to(due + timedelta(seconds=late))
            fire_due(board)
            for job in board.claim_next("worker", limit=9):
                board.consume(job, "worker")
            view = status(board)
            told.append([each["about"] for each in view["findings"] if each["kind"] == "misses"])
            texts = [each["text"] for each in view["findings"] if each["kind"] == "misses"]
            if texts:
                assert "(the same holds for 1 other schedule). See: jobboard schedule show " in texts[0]
                assert {number for number, _ in view["schedules"]["missed"].values()} == {len(told) - 1}
        assert [len(each) for each in told] == [0, 1, 1, 0]


def test_paused_schedules_are_told_with_their_notes(board: JobBoard) -> None:
    for number in range(3):
        board.schedules.add(Schedule(f"s{number}", Every(hours=1), "a"))
    board.schedules.pause("s1", "no paper")
    board.schedules.pause("s2")
    told = [each for each in status(board)["findings"] if each["kind"] == "schedule_paused"]
    assert [(each["verdict"], each["about"]) for each in told] == [("ATTENTION", "s1")]
    assert told[0]["text"].startswith("Schedule 's1' is paused: no paper (1 more is paused, too: ")
    assert status(board)["schedules"]["pauses"] == {"s1": "no paper", "s2": None}


def test_a_host_without_cronsim_sees_the_board(board: JobBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    board.schedules.add(Schedule("nightly", Cron("0 3 * * *"), "a", paused=True))
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "cronsim", None)
        for cache in (schedule_module._known_trigger, cron_pattern.pattern_of):
            cache.cache_clear()
        view = status(board)["schedules"]
    assert (view["active"], view["paused"], view["set_aside"]) == (0, 0, ())
    assert status(board)["schedules"]["paused"] == 1


def test_a_board_of_schedules_without_a_scheduler_names_the_command(board: JobBoard) -> None:
    for id in "abc":
        board.schedules.add(Schedule(id, Every(hours=1), "a"))
    [finding] = status(board)["findings"]
    assert (finding["kind"], finding["cure"]) == ("no_scheduler", "Start one with: jobboard scheduler")


def test_what_was_not_read_of_many_schedules_is_not_counted_as_none(
    board: JobBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview_module, "_SCHEDULE_PAGE", 2)
    for id in "abcde":
        board.schedules.add(Schedule(id, Every(hours=1), "a"))
    [finding] = status(board)["findings"]
    assert finding["text"].startswith("No scheduler is alive; active schedules: 4 or more.")
    for id in "de":
        board.schedules.remove(id)
    [finding] = status(board)["findings"]
    assert finding["text"].startswith("No scheduler is alive; active schedules: 3.")
