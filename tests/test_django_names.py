"""Jobs have the names of their tasks; a queue is a part of the name only where it is not the task's own."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings
from django_site import tasks, tasks_setting
from django_site.further import aside
from helpers.django_fixtures import backend, board, migrated, run, site, working

from jobboard import Backoff, Conductor, JobBoard, JobState
from jobboard.contrib.django import JobBoardBackend, task_handlers
from jobboard.contrib.django.compat import InvalidTask, TaskResultStatus, task_backends
from jobboard.contrib.django.site import close_boards

__all__ = ["backend", "board", "migrated"]

MAIL, ADD = "django_site.tasks.mail", "django_site.tasks.add"


def names(board: JobBoard) -> list[str]:
    return sorted(job.name for job in board.iterjobs())


def test_a_job_has_the_name_of_its_task(backend: JobBoardBackend, board: JobBoard) -> None:
    result = tasks.mail.enqueue("you")
    assert names(board) == [MAIL]
    assert backend.get_result(result.id).task == tasks.mail
    with pytest.raises(InvalidTask, match="Queue"):
        tasks.add.using(queue_name="other")


def test_another_queue_than_its_own_is_a_part_of_the_name(backend: JobBoardBackend, board: JobBoard) -> None:
    result = tasks.add.using(queue_name="mail").enqueue(1, right=2)
    assert names(board) == [f"{ADD}@mail"]
    assert backend.get_result(result.id).task.queue_name == "mail"
    run(board, result)
    assert result.return_value == 3


def test_a_backend_without_queues_has_one_name_for_each_task(backend: JobBoardBackend) -> None:
    setting = tasks_setting(name=f"any-{uuid.uuid4()}")
    setting["default"]["QUEUES"] = []
    with override_settings(TASKS=setting):
        result = tasks.add.using(queue_name="whatever").enqueue(1)
        anyone = task_backends["default"]
        board = anyone.site.board()
        assert names(board) == [ADD]
        assert anyone.get_result(result.id).task.queue_name == "whatever"
        assert not [name for name in task_handlers().names if "@" in name or ":" in name]
        with pytest.raises(ImproperlyConfigured, match="no 'mail'; it has none"):
            task_handlers(queues=["mail"])
        run(board, result)
        assert result.return_value == 1
        close_boards()


def test_a_queues_conductor_claims_its_tasks_and_what_came_there(backend: JobBoardBackend) -> None:
    found = task_handlers(queues=["mail"]).names
    assert {MAIL, f"{ADD}@mail", "django:mail"} <= found
    assert not found & {ADD, f"{MAIL}@default", "django:default", "django"}
    assert task_handlers(queues=["mail", "default"]).names == task_handlers().names
    assert {"django", ADD, f"{ADD}@mail"} <= task_handlers().names


def test_only_some_tasks(backend: JobBoardBackend) -> None:
    assert task_handlers(only=[MAIL]).names == {MAIL, f"{MAIL}@mail", f"{MAIL}@default"}
    assert task_handlers(queues=["default"], only=[MAIL]).names == {f"{MAIL}@default"}


def test_a_queue_or_task_that_is_not_there_is_named(backend: JobBoardBackend) -> None:
    with pytest.raises(ImproperlyConfigured, match="no 'cpu'; it has default, mail"):
        task_handlers(queues=["mail", "cpu"])
    with pytest.raises(ImproperlyConfigured, match=r"no conductor has a task 'django_site.tasks.mial'.*tasks\.mail"):
        task_handlers(only=["django_site.tasks.mial"])
    with pytest.raises(ImproperlyConfigured, match=r"'mail'; did you mean django_site\.tasks\.mail\?"):
        task_handlers(only=["mail"])


def test_a_worker_of_one_queue_leaves_the_others(board: JobBoard) -> None:
    mine = tasks.mail.enqueue("you"), tasks.add.using(queue_name="mail").enqueue(1)
    other = tasks.add.enqueue(1)
    conductor = Conductor("mail", board, task_handlers(queues=["mail"]))
    conductor.start()
    assert all(board.get(each.id).wait(30) for each in mine)
    conductor.stop(timeout=30)
    other.refresh()
    assert other.status is TaskResultStatus.READY


@pytest.mark.parametrize("name", ["django", "django:default", "django:mail"])
def test_jobs_with_old_names_are_run(backend: JobBoardBackend, board: JobBoard, name: str) -> None:
    result = tasks.add.enqueue(1, right=2)
    [job] = board.iterjobs()
    board.cancel(job)
    board.post(name, job.details, uuid=str(uuid.uuid4()))
    [old] = board.iterjobs()
    result = backend.get_result(old.uuid)
    run(board, result)
    assert result.return_value == 3


def test_a_job_that_calls_another_task_than_its_name_says_is_trashed(board: JobBoard) -> None:
    tasks.add.enqueue(1)
    [job] = board.iterjobs()
    board.cancel(job)
    wrong = board.post(MAIL, job.details)
    with working(board):
        wrong.wait(30)
    assert wrong.state is JobState.TRASHED
    assert tasks.calls == []


def test_a_paused_task_leaves_the_others_running(board: JobBoard) -> None:
    board.pause(ADD)
    waits, runs = tasks.add.enqueue(1), tasks.mail.enqueue("you")
    run(board, runs)
    waits.refresh()
    assert (waits.status, runs.status) == (TaskResultStatus.READY, TaskResultStatus.SUCCESSFUL)


def test_a_module_that_is_no_apps_tasks_is_named_in_the_options(migrated: None) -> None:
    with site(), pytest.raises(InvalidTask, match=r"django_site\.further is not .*OPTIONS\['modules'\]"):
        aside.enqueue()
    with site(modules=["django_site.further"]) as backend:
        result = aside.enqueue()
        run(backend.site.board(), result)
        assert result.return_value == "aside"


def test_a_task_has_its_own_options(migrated: None) -> None:
    of_fail = {"max_attempts": 2, "backoff": Backoff(first=0), "timeout": 7}
    with site(max_attempts=1, timeout=30, TASKS={"django_site.tasks.fail": of_fail}) as backend:
        found = task_handlers()
        options: dict[str, Any] = {
            name: (found[name].max_attempts, found[name].timeout) for name in ("django_site.tasks.fail", ADD)
        }
        assert options == {"django_site.tasks.fail": (2, 7), ADD: (1, 30)}
        assert found["django_site.tasks.fail@mail"].timeout == 7
        twice, once = tasks.fail.enqueue(), tasks.fail_with_value.enqueue()
        own = tasks.fail.using(max_attempts=1).enqueue()
        run(backend.site.board(), twice, once, own)
    assert [result.attempts for result in (twice, once, own)] == [2, 1, 1]
    assert all(result.status is TaskResultStatus.FAILED for result in (twice, once, own))
