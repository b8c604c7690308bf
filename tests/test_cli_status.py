"""``jobboard status`` as a monitoring system and an operator run it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.command_line import Run, as_json, process

from jobboard import Entity, JobBoard, Posting
from jobboard.cli.app import run
from jobboard.testing import eventually

pytest_plugins = ("helpers.command_fixtures",)


def test_the_exit_status_is_the_verdict(board: JobBoard, capsys: pytest.CaptureFixture[str]) -> None:
    assert (run(["status"]), capsys.readouterr().out.splitlines()[0]) == (0, "WELL  board 'test' on sqlite")
    board.pause("mail")
    assert run(["status", "--json"]) == 1
    told = capsys.readouterr()
    assert (as_json(told.out)["verdict"], told.err) == ("ATTENTION", "")
    board.register_entity(Entity("conductor", "w", {"names": ["a"], "healthy": False, "fault": "no fork"}, 600))
    bad = process("status")
    assert (bad.returncode, "w can't run anything for now: no fork." in bad.stdout) == (2, True)


def test_one_screen(jobboard: Run, board: JobBoard, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(30):
        board.post(f"n{number}")
        board.trash(board.post(f"t{number}"), by="me", reason=f"E{number}: bad")
    assert run(["status"]) == 1
    told = capsys.readouterr().out
    assert told.count("\n") <= 40
    assert "  and 50 more; --json has all\n" in told
    assert "conductors  0 alive, 0 quiet, 0 gone; 0 of 0 slots taken, 0 stuck\n" in told


def test_it_says_of_how_much_trash_it_speaks(board: JobBoard, capsys: pytest.CaptureFixture[str]) -> None:
    def told() -> list[str]:
        assert run(["status"]) == 1
        return [line[13:] for line in capsys.readouterr().out.splitlines() if "in the trash" in line]

    see = "Restore or purge them; see: jobboard trashed --job-name a"

    for job in board.post_many([Posting("a") for _ in range(100)]):
        board.trash(job, by="me", reason="OSError: disk")
    assert told() == [f"100 jobs named 'a' in the trash. The reason: OSError: disk. {see}"]
    for number, job in enumerate(board.post_many([Posting("a") for _ in range(49)])):
        board.trash(job, by="me", reason=f"E{number}: x")
    assert told() == [f"149 jobs named 'a' in the trash. Most often (100 of 100 that were read): OSError: disk. {see}"]
    assert run(["status", "--json"]) == 1
    view = as_json(capsys.readouterr().out)
    assert (view["trash_read"], view["names"]["a"]["trashed"]) == (100, 149)


def test_a_longer_wait_may_be_well(jobboard: Run, board: JobBoard) -> None:
    board.register_entity(Entity("conductor", "w", {"names": ["a"]}, 600))
    board.post("a")
    assert run(["status", "--max-wait", "0s"]) == 1
    jobboard("status", "--max-wait", "1d")


def test_a_store_that_is_away_is_bad(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["--board", "sqlite:////no/such/directory/jobs.db", "--json", "status"]) == 2
    (finding,) = as_json(capsys.readouterr().out)["findings"]
    assert (finding["kind"], "/no/such/directory" in finding["text"]) == ("store", True)


@pytest.mark.parametrize("which", [["--name", "tset"], ["--board", "sqlite:///jbos.db"]])
def test_a_mistyped_board_is_refused(jobboard: Run, which: list[str]) -> None:
    assert "there is no" in jobboard(*which, "status", status=1)


def test_it_looks_again_and_again(board: JobBoard, tmp_path: Path) -> None:
    told = tmp_path / "told"
    command = [sys.executable, "-m", "jobboard", "status", "--watch", "--interval", "0.01", "--json"]
    with told.open("w") as out:
        watcher = subprocess.Popen(command, stdout=out)
    try:
        eventually(lambda: told.read_text().count("\n") > 2, within=60)
        watcher.send_signal(signal.SIGINT)
        assert watcher.wait(60) == 130
    finally:
        watcher.kill()
        watcher.wait()
    assert {as_json(line)["verdict"] for line in told.read_text().split("\n")[:-1]} == {"WELL"}


@pytest.mark.parametrize("option", ["--interval", "--for"])
def test_what_says_how_to_watch_is_refused_without_it(jobboard: Run, board: JobBoard, option: str) -> None:
    assert "--watch" in jobboard("status", option, "1s", status=2)


def test_it_ends_after_a_while_with_the_verdict(jobboard: Run, board: JobBoard) -> None:
    board.pause()
    assert run(["status", "--watch", "--interval", "0.01", "--for", "0.02"]) == 1
    assert "10ms" in jobboard("status", "--watch", "--interval", "10ms", status=2)
    for interval in ("0", "1e10"):
        assert "--interval" in jobboard("status", "--watch", "--interval", interval, "--for", "0.02", status=2)


def test_a_run_that_no_conductor_has_told_yet(jobboard: Run, board: JobBoard) -> None:
    assert "oldest run  nothing runs\n" in jobboard("status")
    board.claim(board.post("a"), "me")
    assert "oldest run  none was told yet; conductors tell every 10 s\n" in jobboard("status")


def test_a_conductor_that_has_missed_two_heartbeats(jobboard: Run, board: JobBoard) -> None:
    board.register_entity(Entity("conductor", "w", {"names": ["a"], "concurrency": 2}, ttl=1))
    assert eventually(lambda: "1 alive (1 of them not heard of for two heartbeats), 0 quiet" in jobboard("status"), 10)


def test_blocked_jobs_have_a_column_where_there_are_some(board: JobBoard, capsys: pytest.CaptureFixture[str]) -> None:
    board.register_entity(Entity("conductor", "w", {"names": ["a"]}, 600))
    board.limits.set(lane="tenant:*", running=1)
    board.post("a", lane="tenant:1")
    assert (run(["status"]), "blocked" in capsys.readouterr().out) == (0, False)
    board.post_many([Posting("a", lane="tenant:1")] * 2)
    assert run(["status"]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    columns = next(line for line in lines if line[0] == "name")
    row = next(line for line in lines if line[0] == "a")
    assert row[columns.index("blocked")] == "2"
