"""A board that is opened while one of its shards is away: it works without it, and takes it in when it is back."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.sharded import Folders

import jobboard
from jobboard import BoardUnavailable, Conductor, Every, Handlers, JobBoard, Schedule, Scheduler
from jobboard.backends.base import PAUSE_ID
from jobboard.backends.shards import health
from jobboard.backends.shards.placement import rendezvous
from jobboard.cli.app import run as jobboard_command
from jobboard.events import EventKind, JobEvent
from jobboard.operate.status import status
from jobboard.testing import eventually


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    monkeypatch.setattr(health, "FIRST_PAUSE", 0.05)
    monkeypatch.setattr(health, "MAX_PAUSE", 0.1)
    return Folders(tmp_path)


@pytest.fixture
def posted(files: Folders) -> set[str]:
    with files.fetch() as board:
        found = {board.post("resize").uuid for _ in range(60)}
    files.take_away()
    return found


@pytest.fixture
def board(files: Folders, posted: set[str]) -> Iterator[JobBoard]:
    with files.fetch() as board:
        yield board


def test_it_works_on_the_others_and_takes_the_shard_in(
    files: Folders, posted: set[str], board: JobBoard, caplog: pytest.LogCaptureFixture
) -> None:
    (warning,) = caplog.get_records("setup")
    assert (warning.levelno, "shard 2: " in warning.message) == (logging.WARNING, True)
    done: set[str] = set()
    while jobs := board.claim_next("alice", limit=50):
        done.update(job.uuid for job in jobs)
        board.consume_many(jobs, "alice")
    assert 10 < len(done) < 60
    later = {board.post("resize").uuid for _ in range(20)}
    assert {finding["verdict"] for finding in status(board)["findings"]} == {"BAD"}
    with pytest.raises(BoardUnavailable, match="shard 2: "):
        board.stats()
    files.bring_back()
    eventually(lambda: board.job_count == 80 - len(done))
    while jobs := board.claim_next("alice", limit=50):
        done.update(job.uuid for job in jobs)
        board.consume_many(jobs, "alice")
    assert done == posted | later
    assert board.audit() == []


def test_the_shards_are_listed_also_while_one_is_away(
    files: Folders, posted: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--board", files.uri, "--name", "jobs", "shards", "--json"]
    assert jobboard_command(arguments) == 2
    rows = json.loads(capsys.readouterr().out)
    assert [(row["shard"], row["problem"] is None) for row in rows] == [(0, True), (1, True), (2, False)]
    assert "shard 2: " in rows[2]["problem"]
    assert rows[2]["unclaimed"] is None
    files.bring_back()
    assert jobboard_command(arguments) == 0
    assert sum(row["unclaimed"] for row in json.loads(capsys.readouterr().out)) == len(posted)


def test_a_board_of_one_store_has_no_shards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with jobboard.backend("jobs", f"sqlite:///{tmp_path}/jobs.db") as board:
        board.post("resize")
    assert jobboard_command(["--board", f"sqlite:///{tmp_path}/jobs.db", "--name", "jobs", "shards"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_its_events_are_told_from_its_return_on(files: Folders, board: JobBoard) -> None:
    told: list[JobEvent] = []
    board.subscribe(told.append, {EventKind.POSTED})
    files.bring_back()
    eventually(lambda: board.job_count == 60)
    posted = {board.post("mail").uuid for _ in range(60)}
    eventually(lambda: {event.uuid for event in told} == posted)
    assert len(told) == 60


@pytest.fixture
def scheduled(files: Folders) -> None:
    with files.fetch() as board:
        for number in range(9):
            board.schedules.add(Schedule(f"s{number}", Every(seconds=1), "tick", details={"number": number}))


@pytest.mark.usefixtures("scheduled")
def test_schedules_of_the_others_fire(files: Folders) -> None:
    assert rendezvous(f"schedule\0{PAUSE_ID}", 3) == 2
    files.take_away("a")
    handlers, fired = Handlers(), set[int]()
    handlers.add("tick", lambda job: fired.add(job.details["number"]))
    with files.fetch() as board, Scheduler(board), Conductor("mill", board, handlers):
        eventually(lambda: len(fired) > 2)
        assert len(fired) < 9
        files.bring_back("a")
        eventually(lambda: len(fired) == 9)


@pytest.mark.usefixtures("scheduled")
def test_nothing_fires_while_nobody_knows_whether_schedulers_are_paused(files: Folders) -> None:
    with files.fetch() as board:
        board.schedules.pause_all()
    files.take_away("c")
    with files.fetch() as board, Scheduler(board):
        time.sleep(2.5)
        assert board.claim_next("alice") == []


def test_a_new_board_needs_all_of_them(files: Folders) -> None:
    files.take_away()
    with pytest.raises(BoardUnavailable, match="shard 2: "):
        files.fetch().connect()
    files.bring_back()
    with files.fetch() as board:
        assert board.job_count == 0


def test_another_store_in_its_place_is_not_taken_in(files: Folders, board: JobBoard, tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    with jobboard.backend("jobs", f"sqlite:///{tmp_path}/c/c.db") as stranger:
        stranger.post("resize")
    with pytest.raises(BoardUnavailable, match="shard 2: .*has jobs, and is no shard"):
        board.stats()
    assert board.claim_next("alice") != []
