"""Schedules of tasks: by the command, in Python, and in the settings."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line
from django.test import override_settings
from django_site import tasks, tasks_setting
from helpers.django_fixtures import backend, board, migrated, run

from jobboard import At, Cron, Every, JobBoard, JobPriority, Posting, Schedule, Scheduler
from jobboard.contrib.django import JobBoardBackend
from jobboard.contrib.django.compat import InvalidTask, TaskResultStatus, task_backends
from jobboard.contrib.django.schedules import applying_settings, schedules_of_settings
from jobboard.contrib.django.site import close_boards
from jobboard.contrib.django.task import TaskCall
from jobboard.operate.schedules import changes_view
from jobboard.testing import eventually

__all__ = ["backend", "board", "migrated"]

ADD = "django_site.tasks.add"
NIGHTLY = Cron("0 3 * * *")


def command(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        execute_from_command_line(["manage.py", "jobboard", *arguments])
    return int(ended.value.code or 0)


@pytest.mark.parametrize("args", [[1, 2], {"left": 1, "right": 2}])
def test_a_scheduled_task_runs_as_an_enqueued_one(backend: JobBoardBackend, board: JobBoard, args: Any) -> None:
    due = datetime.now(UTC) - timedelta(seconds=1)
    board.schedules.add(Schedule("once", At(due), tasks.add, args))
    scheduler = Scheduler(board)
    scheduler.start()
    try:
        eventually(lambda: board.job_count == 1)
    finally:
        scheduler.stop()
    [job] = board.iterjobs()
    assert (job.name, job.schedule_id) == (ADD, "once")
    result = tasks.add.get_result(job.uuid)
    assert (result.status, result.task) == (TaskResultStatus.READY, tasks.add)
    run(board, result)
    assert (result.return_value, result.status) == (3, TaskResultStatus.SUCCESSFUL)
    assert (result.args or result.kwargs) == args


def test_a_schedule_in_another_queue_keeps_the_tasks_options(backend: JobBoardBackend, board: JobBoard) -> None:
    task = tasks.add.using(priority=77, queue_name="mail")
    schedule = Schedule("it", NIGHTLY, task, [1], max_instances=None)
    assert (schedule.job, schedule.max_instances) == (f"{ADD}@mail", None)
    board.schedules.add(schedule)
    result = tasks.add.get_result(board.schedules.fire_now("it").uuid)
    assert (result.task.priority, result.task.queue_name) == (77, "mail")
    posting = Posting.of(tasks.add, [1, 2])
    assert (posting.name, TaskCall.of(posting.details).args) == (ADD, [1, 2])


def test_a_schedule_has_the_lane_that_the_task_declares(backend: JobBoardBackend, board: JobBoard) -> None:
    task = tasks.add.using(
        priority=77, max_attempts=7, lane=lambda left: f"tenant:{left}", key=lambda left: "a", if_exists="keep"
    )
    made = Schedule("it", NIGHTLY, task, [1])
    assert (made.lane, made.priority, made.max_attempts) == ("tenant:1", JobPriority.VERY_HIGH, 7)
    assert Schedule("it", NIGHTLY, task, [1], lane=None).lane is None
    posting = Posting.of(task, [2], priority="low")
    assert (posting.lane, posting.key, posting.if_exists, posting.priority) == ("tenant:2", "a", "keep", "low")


@pytest.mark.parametrize(
    ("task", "args", "kind", "text"),
    [
        (tasks.add, [], TypeError, "missing a required argument: 'left'"),
        (tasks.add, {"lft": 1}, TypeError, "can't be called with these args"),
        (tasks.add, [1, 2, 3], TypeError, "too many positional"),
        (tasks.add, "1", TypeError, "args must be a list"),
        (tasks.add, [object()], TypeError, "Unsupported type"),
        (tasks.add.using(key="k"), [1], InvalidTask, "key is an option of enqueue"),
        (tasks.add.using(run_after=datetime.now(UTC)), [1], InvalidTask, "run_after is an option of enqueue"),
    ],
)
def test_what_no_schedule_can_post_is_refused(
    backend: JobBoardBackend, task: Any, args: Any, kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        Schedule("it", NIGHTLY, task, args)


def test_a_task_that_takes_its_context_is_called_without(backend: JobBoardBackend) -> None:
    assert Schedule("it", NIGHTLY, tasks.who_am_i).job == "django_site.tasks.who_am_i"
    with pytest.raises(TypeError, match="unexpected keyword"):
        Schedule("it", NIGHTLY, tasks.fail_once, {"more": 1})


def test_the_command_adds_a_schedule_of_a_task(backend: JobBoardBackend, board: JobBoard) -> None:
    cron = ("--cron", "0 3 * * *")
    assert command("schedule", "add", "nightly", "--task", ADD, *cron, "--args", '{"left": 1}', "--max-runs", "2") == 0
    found = board.schedules.get("nightly")
    assert found == Schedule("nightly", NIGHTLY, tasks.add, {"left": 1}, max_runs=2)
    assert command("schedule", "fire", "nightly") == 0
    [job] = board.iterjobs()
    assert tasks.add.get_result(job.uuid).kwargs == {"left": 1}
    assert command("schedule", "add", "plain", "report", *cron, "--details", '{"day": 1}') == 0
    assert board.schedules.get("plain").details == {"day": 1}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--task", "django_site.tasks.ad"], "did you mean django_site.tasks.add"),
        (["--task", ADD, "--args", "[1"], "--args is no JSON"),
        (["--task", ADD, "--args", "7"], "args must be a list, or a dict by name, not int"),
        (["--task", ADD], "missing a required argument: 'left'"),
        (["--task", ADD, "--args", "[1]", "--details", "{}"], "--details belongs to JOB"),
        (["report", "--args", "[1]"], "--args belongs to --task"),
        (["report", "--task", ADD], "--task TASK, or a JOB"),
        ([ADD], f"is a task: say --task {ADD}"),
        ([], "name the task: --task TASK"),
    ],
)
def test_what_the_command_refuses(
    backend: JobBoardBackend, board: JobBoard, arguments: list[str], text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert command("schedule", "add", "nightly", *arguments, "--cron", "0 3 * * *") == 2
    assert text in capfd.readouterr().err
    assert list(board.schedules) == []


SETTING: dict[str, dict[str, Any]] = {
    "nightly": {"trigger": NIGHTLY, "task": ADD, "args": [1]},
    "often": {"trigger": Every(minutes=5), "task": "django_site.tasks.mail", "args": {"to": "me"}, "max_instances": 2},
}


def applied(board: JobBoard, setting: dict[str, Any], dry_run: bool = False) -> dict[str, Any]:
    with override_settings(JOBBOARD_SCHEDULES=setting):
        wanted = schedules_of_settings("default").values()
    applying = applying_settings(board, "default")
    view = changes_view(applying.changes_to(wanted) if dry_run else applying.apply(wanted), wanted, dry_run)
    assert view.pop("dry_run") is dry_run
    return view


def outcome(**lists: Any) -> dict[str, Any]:
    return {"added": [], "changed": {}, "removed": [], "unchanged": [], **lists}


def test_the_settings_schedules_are_applied(backend: JobBoardBackend, board: JobBoard) -> None:
    by_hand = board.schedules.add(Schedule("by hand", NIGHTLY, tasks.add, [1]))
    both = outcome(added=["nightly", "often"])
    assert applied(board, SETTING, dry_run=True) == both
    assert list(board.schedules) == [by_hand]
    assert applied(board, SETTING) == both
    often = board.schedules.get("often")
    assert (often.job, often.priority) == ("django_site.tasks.mail", JobPriority.HIGH)
    assert applied(board, SETTING) == outcome(unchanged=["nightly", "often"])

    other = {"nightly": SETTING["nightly"] | {"args": [2], "misfire_grace": 60}, "new": SETTING["often"]}
    changes = outcome(added=["new"], changed={"nightly": ["details", "misfire_grace"]}, removed=["often"])
    assert applied(board, other, dry_run=True) == changes
    before = board.schedules.get("nightly").next_fire_time
    assert applied(board, other) == changes
    assert {schedule.id for schedule in board.schedules} == {"by hand", "nightly", "new"}
    assert board.schedules.get("nightly").next_fire_time == before
    assert applied(board, {}) == outcome(removed=["new", "nightly"])
    assert list(board.schedules) == [by_hand]


def test_what_an_operator_paused_stays_paused(backend: JobBoardBackend, board: JobBoard) -> None:
    applied(board, SETTING)
    board.schedules.pause("nightly", "the printer is broken")
    assert applied(board, SETTING) == outcome(unchanged=["nightly", "often"])
    changed = SETTING | {"nightly": SETTING["nightly"] | {"max_runs": 3}}
    assert applied(board, changed)["changed"] == {"nightly": ["max_runs"]}
    assert board.schedules.get("nightly").paused


def test_a_schedule_that_somebody_added_is_taken_over(backend: JobBoardBackend, board: JobBoard) -> None:
    board.schedules.add(Schedule("nightly", NIGHTLY, "report"))
    assert applied(board, SETTING)["changed"] == {"nightly": ["job", "details"]}
    assert applied(board, {})["removed"] == ["nightly", "often"]


def test_each_backend_has_its_own_schedules(migrated: None) -> None:
    setting = SETTING | {"elsewhere": {"trigger": NIGHTLY, "task": ADD, "args": [1], "backend": "mail"}}
    two = {alias: tasks_setting(uri="memory://both")["default"] for alias in ("default", "mail")}
    with override_settings(TASKS=two, JOBBOARD_SCHEDULES=setting):
        board = task_backends["default"].site.board()
        for alias in two:
            applying_settings(board, alias).apply(schedules_of_settings(alias).values())
        assert {schedule.id: (schedule.details or {})["backend"] for schedule in board.schedules} == {
            "nightly": "default", "often": "default", "elsewhere": "mail",
        }  # fmt: skip
        assert [(change.kind, change.id) for change in applying_settings(board, "mail").apply([])] == [
            ("removed", "elsewhere")
        ]
        close_boards()


def test_several_processes_apply_at_once(backend: JobBoardBackend, board: JobBoard) -> None:
    with override_settings(JOBBOARD_SCHEDULES={f"s{n}": SETTING["nightly"] | {"args": [n]} for n in range(20)}):
        wanted = schedules_of_settings("default")
    gate, done, faults = threading.Barrier(4), [], []

    def apply() -> None:
        gate.wait(30)
        try:
            done.extend(applying_settings(board, "default").apply(wanted.values()))
        except Exception as fault:
            faults.append(fault)

    threads = [threading.Thread(target=apply) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert faults == []
    assert sorted((change.id, change.kind) for change in done) == [(id, "added") for id in sorted(wanted)]
    assert {schedule.id for schedule in board.schedules} == set(wanted)


def test_the_command_applies_them(backend: JobBoardBackend, board: JobBoard, capfd: pytest.CaptureFixture[str]) -> None:
    with override_settings(JOBBOARD_SCHEDULES=SETTING):
        assert command("schedules", "apply", "--dry-run", "--json") == 0
        told = json.loads(capfd.readouterr().out)
        assert told == {**outcome(added=["nightly", "often"]), "dry_run": True}
        assert command("schedules", "apply") == 0
        assert capfd.readouterr().out.splitlines() == ["added: nightly", "added: often", "unchanged: 0"]
        assert command("schedule", "apply", "--json") == 0
        assert json.loads(capfd.readouterr().out)["unchanged"] == ["nightly", "often"]


def test_a_first_deploy_can_be_tried(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "new.db"
    with override_settings(TASKS=tasks_setting(uri=f"sqlite:///{file}"), JOBBOARD_SCHEDULES=SETTING):
        assert command("schedules", "apply", "--dry-run", "--json") == 0
    told = json.loads(capfd.readouterr().out)
    assert (told["added"], file.exists()) == (["nightly", "often"], False)


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"task": ADD}, "has no 'trigger'"),
        ({"trigger": NIGHTLY}, "has no 'task'"),
        ({"trigger": "0 3 * * *", "task": ADD, "args": [1]}, "trigger must be a trigger"),
        ({"trigger": NIGHTLY, "task": "django_site.tasks.aad"}, "did you mean"),
        ({"trigger": NIGHTLY, "task": "nightly"}, r"a handler that is no task.*board\(\)\.schedules\.add"),
        ({"trigger": NIGHTLY, "task": ADD}, "missing a required argument"),
        ({"trigger": NIGHTLY, "task": ADD, "args": [1], "misfire": 3}, "misfire"),
        ({"trigger": NIGHTLY, "task": ADD, "args": [float("nan")]}, "JSON has no number"),
        ({"trigger": NIGHTLY, "task": ADD, "args": [1], "backend": "mial"}, "no backend 'mial'; it has default"),
        (7, "int"),
    ],
)
def test_an_entry_that_is_wrong_is_named(
    backend: JobBoardBackend, board: JobBoard, entry: Any, text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    setting = {**SETTING, "bad": entry}
    with override_settings(JOBBOARD_SCHEDULES=setting):
        with pytest.raises(ImproperlyConfigured, match=rf"JOBBOARD_SCHEDULES\['bad'\].*{text}"):
            schedules_of_settings("default")
        assert command("schedules", "apply") == 2
        assert [message.id for message in run_checks() if message.id.startswith("jobboard")] == ["jobboard.E003"]
    assert "JOBBOARD_SCHEDULES['bad']" in capfd.readouterr().err
    assert list(board.schedules) == []
