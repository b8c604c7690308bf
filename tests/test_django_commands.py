"""``manage.py jobboard`` knows tasks and queues: pauses, and what a conductor runs."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from django.core.management import execute_from_command_line
from django_site import tasks
from helpers.django_fixtures import backend, board, migrated

from jobboard import JobBoard
from jobboard.contrib.django import JobBoardBackend, task_handlers

__all__ = ["backend", "board", "migrated"]

MAIL, ADD = "django_site.tasks.mail", "django_site.tasks.add"


def command(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        execute_from_command_line(["manage.py", "jobboard", *arguments])
    return int(ended.value.code or 0)


def test_a_task_is_paused_in_all_its_queues(
    backend: JobBoardBackend, board: JobBoard, capfd: pytest.CaptureFixture[str]
) -> None:
    assert command("pause", MAIL, "--by", "ada", "--note", "no disk", "--json") == 0
    told, names = json.loads(capfd.readouterr().out), [MAIL, f"{MAIL}@default", f"{MAIL}@mail"]
    assert (told["board"], told["names"], board.paused()) == (False, names, set(names))
    assert [(pause.name, pause.by, pause.reason) for pause in board.pauses()] == [
        (name, "ada", "no disk") for name in names
    ]
    assert command("resume", MAIL) == 0
    assert board.paused() == set()


def test_a_queue_is_paused_with_all_tasks(backend: JobBoardBackend, board: JobBoard) -> None:
    assert command("pause", "--queue", "mail") == 0
    assert board.paused() == task_handlers(queues=["mail"]).names
    assert command("resume", "--queue", "mail") == 0
    assert board.paused() == set()


def test_other_names_and_the_whole_board_are_paused_as_before(
    backend: JobBoardBackend, board: JobBoard, capfd: pytest.CaptureFixture[str]
) -> None:
    assert command("pause") == command("pause", "report") == 0
    assert "there is no task 'report'" in capfd.readouterr().err
    assert board.paused() == {None, "report"}
    assert command("resume") == command("resume", "report") == 0
    assert board.paused() == set()


def test_printed_commands_are_those_of_manage_py(
    backend: JobBoardBackend, board: JobBoard, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    job = tasks.add.enqueue(1).id
    (tmp_path / "limits.toml").write_text("[limits.lane.a]\nrunning = 1\n")
    command("status", "--max-wait", "0s")
    command("pause")
    command("status")
    command("why", job)
    command("limits", "apply", str(tmp_path / "limits.toml"), "--dry-run")
    told = capfd.readouterr().out
    printed = re.findall(r"(?:: |; |with )((?:manage\.py )?jobboard [a-z][^;.\n]*)", told)
    assert len(printed) > 3
    assert [words for words in printed if not words.startswith("manage.py ")] == []
    [resume, *_] = [words for words in printed if "resume" in words]
    assert command(*shlex.split(resume)[2:]) == 0
    assert board.paused() == set()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["pause", "--queue", "cpu"], "has no 'cpu'; it has default, mail"),
        (["pause", MAIL, "--queue", "mail"], "one of them"),
        (["conductor", "--queues", "mail,cpu"], "has no 'cpu'; it has default, mail"),
        (["conductor", "--only", "django_site.tasks.mial"], "did you mean django_site.tasks.mail"),
        (["conductor", "jobs:handlers", "--only", MAIL], "not for MODULE:HANDLERS"),
    ],
)
def test_what_is_not_there_is_named(
    backend: JobBoardBackend, arguments: list[str], text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert command(*arguments) == 2
    assert text in capfd.readouterr().err
