"""Workers run tasks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connections
from django_site import tasks
from django_site.models import Order
from helpers.django_fixtures import backend, board, migrated, received, run, site, working

from jobboard import JobBoard, JobState
from jobboard.contrib.django import JobBoardBackend
from jobboard.contrib.django.compat import Task, TaskResultStatus, task_finished, task_started
from jobboard.testing import eventually

__all__ = ["backend", "board", "migrated"]


@pytest.mark.parametrize("task", [tasks.add, tasks.add_async])
def test_a_task_runs(board: JobBoard, task: Task) -> None:
    with received(task_started) as started, received(task_finished) as finished:
        result = task.enqueue(1, right=2)
        run(board, result)
    assert (result.status, result.return_value, result.is_finished) == (TaskResultStatus.SUCCESSFUL, 3, True)
    assert result.enqueued_at <= result.started_at == result.last_attempted_at <= result.finished_at
    assert (result.errors, result.attempts) == ([], 1)
    assert result.worker_ids[0].startswith("worker@")
    assert started == [(JobBoardBackend, result.id, "RUNNING")]
    assert finished == [(JobBoardBackend, result.id, "SUCCESSFUL")]


def test_a_running_task_is_running(board: JobBoard) -> None:
    result = tasks.wait_to_go_on.enqueue()
    with working(board):
        eventually(lambda: tasks.calls == ["waits"])
        result.refresh()
        assert (result.status, result.attempts, result.is_finished) == (TaskResultStatus.RUNNING, 1, False)
        assert result.started_at is not None
        tasks.go_on.set()
        assert board.get(result.id).wait(30)


def test_a_task_gets_its_context(board: JobBoard) -> None:
    result = tasks.who_am_i.enqueue(1)
    run(board, result)
    assert result.return_value == [result.id, 1, "RUNNING"]


@pytest.mark.parametrize(
    ("task", "kind", "text"),
    [
        (tasks.fail, ValueError, "ValueError: no\n"),
        (tasks.leave, SystemExit, "SystemExit: left\n"),
        (tasks.fail_with_value, ValueError, "ValueError: inner\n"),
    ],
)
def test_a_task_fails(board: JobBoard, task: Task, kind: type, text: str) -> None:
    with received(task_finished) as finished:
        result = task.enqueue()
        run(board, result)
    assert (result.status, result.is_finished) == (TaskResultStatus.FAILED, True)
    assert result.started_at <= result.finished_at
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value
    [error] = result.errors
    assert (error.exception_class, error.traceback.endswith(text)) == (kind, True)
    assert finished == [(JobBoardBackend, result.id, "FAILED")]


@pytest.mark.parametrize(
    ("task", "kind"),
    [(tasks.odd_result, "TypeError"), (tasks.huge_number, "InvalidPosting"), (tasks.no_number, "InvalidPosting")],
)
def test_a_result_that_cannot_be_kept_fails_the_task_at_once(migrated: None, task: Task, kind: str) -> None:
    tasks.calls.clear()
    with site(max_attempts=5) as backend:
        result = task.enqueue()
        run(backend.site.board(), result)
    assert (result.status, len(tasks.calls)) == (TaskResultStatus.FAILED, 1)
    assert [error.exception_class.__name__ for error in result.errors] == [kind]


def test_a_task_without_a_number_of_attempts_of_its_own_fails_by_its_own_error(migrated: None) -> None:
    with site(max_attempts=None) as backend:
        assert backend.tasks.of("django_site.tasks.fail")["max_attempts"] == 5
        result = tasks.fail.using(max_attempts=None).enqueue()
        board = backend.site.board()
        with working(board):
            eventually(lambda: board.get(result.id).record.attempts > 0 and board.get(result.id).record.last_error)
        assert "ValueError: no" in (board.get(result.id).record.last_error or "")


def test_a_task_that_failed_is_tried_again(migrated: None) -> None:
    from jobboard import Backoff

    with site(max_attempts=3, backoff=Backoff(first=0)) as backend, received(task_finished) as finished:
        once, ever, final = tasks.fail_once.enqueue(), tasks.fail.enqueue("ever"), tasks.give_up.enqueue()
        run(backend.site.board(), once, ever, final)
    assert (once.return_value, once.attempts, len(once.errors)) == (2, 2, 1)
    assert once.started_at < once.last_attempted_at
    assert (ever.status, ever.attempts, len(ever.errors)) == (TaskResultStatus.FAILED, 3, 3)
    assert (final.status, final.attempts, len(final.errors)) == (TaskResultStatus.FAILED, 1, 1)
    assert sorted(finished) == sorted(
        (JobBoardBackend, each.id, state) for each, state in ((once, "SUCCESSFUL"), (ever, "FAILED"), (final, "FAILED"))
    )


def test_the_tasks_own_number_of_attempts_wins(migrated: None) -> None:
    with site(max_attempts=5) as backend:
        result = tasks.fail.using(max_attempts=1).enqueue()
        run(backend.site.board(), result)
    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 1)


def test_a_task_asks_to_run_again(board: JobBoard) -> None:
    result = tasks.again_once.enqueue()
    run(board, result)
    assert (result.return_value, result.errors, len(tasks.calls)) == ("done", [], 2)


def test_a_task_returns_that_it_runs_again(board: JobBoard) -> None:
    with received(task_finished) as finished:
        result = tasks.returns_again.enqueue()
        run(board, result)
    assert (result.return_value, result.errors, len(tasks.calls)) == ("done", [], 2)
    assert finished == [(JobBoardBackend, result.id, "SUCCESSFUL")]


def test_a_task_returns_what_follows_it(board: JobBoard) -> None:
    results = [tasks.returns_then.enqueue(number) for number in (1, 2, 3)]
    run(board, *results)
    assert [result.return_value for result in results] == [1, 2, 3]
    found = sorted((job.name, job.details["order"]) for job in board.iterjobs(names=["pack", "bill"]))
    assert found == [("bill", 1), ("bill", 2), ("bill", 3), ("pack", 1), ("pack", 2), ("pack", 3)]


def test_a_task_that_an_operator_put_aside_has_failed(backend: JobBoardBackend, board: JobBoard) -> None:
    result = tasks.add.enqueue(1)
    [job] = board.claim_next("me")
    board.trash(job, "me", reason="not wanted")
    found = backend.get_result(result.id)
    assert (found.status, found.errors[0].traceback) == (TaskResultStatus.FAILED, "not wanted")
    assert issubclass(found.errors[0].exception_class, Exception)


def test_order_of_priorities_and_of_time(board: JobBoard) -> None:
    for name, priority in (("low", -60), ("first", 0), ("high", 1), ("second", 0), ("top", 100)):
        tasks.mail.using(priority=priority).enqueue(name)
    last = tasks.mail.using(priority=-100).enqueue("last")
    later = tasks.mail.using(priority=100, run_after=datetime.now(UTC) + timedelta(hours=1)).enqueue("later")
    run(board, last)
    assert tasks.calls == ["top", "high", "first", "second", "low", "last"]
    later.refresh()
    assert later.status is TaskResultStatus.READY


def test_a_due_task_runs(board: JobBoard) -> None:
    result = tasks.add.using(run_after=datetime.now(UTC) + timedelta(seconds=0.2)).enqueue(1)
    run(board, result)
    assert result.return_value == 1


def test_each_task_has_its_own_transactions(board: JobBoard) -> None:
    first, twin = tasks.add_order.enqueue(7), tasks.add_order.enqueue(7)
    run(board, first, twin)
    assert (first.status, twin.status) == (TaskResultStatus.SUCCESSFUL, TaskResultStatus.FAILED)
    assert [error.exception_class.__name__ for error in twin.errors] == ["IntegrityError"]
    assert Order.objects.count() == 1


def test_a_connection_is_closed_after_each_task(board: JobBoard) -> None:
    result = tasks.connection_id.enqueue()
    run(board, result)
    [used] = tasks.calls
    assert used is not connections["default"]
    assert used.connection is None


@contextmanager
def posted(board: JobBoard, **changes: Any) -> Iterator[Any]:
    """Post what is no call of a task, and wait until a worker has put it aside."""
    result = tasks.add.enqueue(1)
    [job] = board.iterjobs()
    details = {**(job.details or {}), **changes}
    board.cancel(result.id)
    wrong = board.post("django:default", details={name: value for name, value in details.items() if value != "-"})
    with working(board):
        wrong.wait(30)
    yield wrong


@pytest.mark.parametrize(
    "changes",
    [
        {"task": "subprocess.check_output", "args": [["touch", "/tmp/harm"]]},
        {"task": "django_site.tasks.not_a_task"},
        {"task": "django_site.tasks.add", "args": "text"},
        {"task": "-"},
        {"more": 1},
    ],
)
def test_nothing_but_a_task_is_called(board: JobBoard, changes: dict[str, Any]) -> None:
    with posted(board, **changes) as job:
        assert (job.record.state, job.record.attempts) == (JobState.TRASHED, 1)
    assert tasks.calls == []


@pytest.mark.parametrize("path", ["this.that", "antigravity.fly", "django_site.tasks.newer", "plain", "backend.x"])
def test_a_task_that_is_not_here_may_be_elsewhere(board: JobBoard, path: str) -> None:
    """An older version of the program may not know it yet: a failed attempt. And no stranger is imported."""
    with posted(board, task=path) as job:
        assert job.record.state is JobState.TRASHED
        assert job.record.reason.startswith("ImportError")
    assert not {"this", "antigravity"} & set(sys.modules)


def test_a_receiver_that_fails_harms_no_task(board: JobBoard) -> None:
    def fail(**_: Any) -> None:
        raise RuntimeError("receiver")

    signals = (task_started, task_finished)
    for signal in signals:
        signal.connect(fail)
    try:
        result = tasks.add.enqueue(1)
        run(board, result)
    finally:
        for signal in signals:
            signal.disconnect(fail)
    assert result.return_value == 1
