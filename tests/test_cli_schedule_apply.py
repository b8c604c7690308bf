"""``jobboard schedule apply``, on real SQLite boards."""

from __future__ import annotations

import json
from pathlib import Path

from helpers.command_line import Run, as_json, process

from jobboard import Every, JobBoard, Schedule
from jobboard.cli.app import USAGE
from jobboard.cli.session import me

pytest_plugins = ("helpers.command_fixtures",)


def written(file: Path, *schedules: Schedule) -> str:
    file.write_text(json.dumps([schedule.to_plain() for schedule in schedules]))
    return str(file)


def test_apply_shows_the_difference_asks_and_removes(jobboard: Run, board: JobBoard, tmp_path: Path) -> None:
    hourly, daily = (Schedule(id, Every(hours=hours), "write", {"secret": 1}) for id, hours in (("a", 1), ("b", 24)))
    board.schedules.add(Schedule("mine", Every(hours=1), "write"))
    file = tmp_path / "schedules.json"
    command = ("schedule", "apply", written(file, hourly, daily), "--source", "shop")
    again = f"jobboard schedule apply {file} --source shop --yes"
    assert jobboard(*command, "--dry-run").splitlines() == [
        "added: a", "added: b", f"2 schedules would change; nothing was changed. Change them with: {again}",
    ]  # fmt: skip
    assert again in jobboard(*command, status=USAGE), "there is no terminal to ask on"
    assert [schedule.id for schedule in board.schedules] == ["mine"]
    assert jobboard(*command, "--yes").splitlines()[-1] == "2 schedules changed"
    assert jobboard(*command, "--yes") == "the schedules of 'shop' are as the file says\n"
    assert as_json(jobboard("schedule", "show", "a", "--json"))["source"] == "shop"

    jobboard("schedule", "pause", "a", "--note", "no paper")
    written(file, Schedule("a", Every(hours=2), "write", {"secret": 2}, priority="high"))
    lines = jobboard(*command, "--yes", "--note", "release 7").splitlines()
    assert lines == [
        "changed: a (trigger: every hour -> every 2 hours, details, priority: NORMAL -> HIGH)", "removed: b",
        "2 schedules changed",
    ]  # fmt: skip
    assert board.schedules.get("a").state == "paused"
    assert f"replaced, by {me()}: release 7" in jobboard("schedule", "show", "a")
    written(file)
    told = as_json(jobboard(*command, "--yes", "--json"))
    assert told == {"added": [], "changed": {}, "removed": ["a"], "unchanged": [], "dry_run": False}
    assert [schedule.id for schedule in board.schedules] == ["mine"]


def test_apply_refuses_a_file_without_a_source_and_a_wrong_one(jobboard: Run, board: JobBoard, tmp_path: Path) -> None:
    one = Schedule("a", Every(hours=1), "write")
    file = written(tmp_path / "schedules.json", one)
    assert "--source" in jobboard("schedule", "apply", file, "--yes", status=USAGE)
    twice = written(tmp_path / "twice.json", one, one)
    assert "two schedules 'a'" in jobboard("schedule", "apply", twice, "--source", "shop", "--yes", status=USAGE)
    assert list(board.schedules) == []


def test_a_crontab_can_be_applied(board: JobBoard) -> None:
    options = ("--crontab", "--job", "shell", "--tz", "Europe/Berlin", "--source", "cron")
    for text, number in (("0 3 * * * backup\n@hourly sync\n", 2), ("@hourly sync\n", 1)):
        tried = process("schedule", "apply", "-", *options, "--dry-run", input=text)
        again = "schedule apply - --source cron --crontab --job shell --tz Europe/Berlin --yes"
        assert (tried.returncode, again in tried.stdout) == (0, True), tried.stderr
        done = process("schedule", "apply", "-", *options, "--yes", input=text)
        assert (done.returncode, len(list(board.schedules))) == (0, number), done.stderr
    assert [schedule.details for schedule in board.schedules] == [{"command": "sync"}]
