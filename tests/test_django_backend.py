"""Tasks are enqueued on a board, and found there again."""

from __future__ import annotations

import asyncio
import math
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.exceptions import SuspiciousOperation
from django.db import connections, transaction
from django.test import override_settings
from django_site import tasks
from django_site.models import Order
from helpers.django_fixtures import backend, board, migrated, received, site

from jobboard import AlreadyPosted, InvalidPosting, JobBoard, JobPriority, JobState
from jobboard.contrib.django import JobBoardBackend, JobBoardTask
from jobboard.contrib.django.compat import (
    InvalidTask,
    Task,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_enqueued,
)
from jobboard.contrib.django.task import job_priority

__all__ = ["backend", "board", "migrated"]


def jobs(board: JobBoard) -> list[dict[str, Any]]:
    return [job.details or {} for job in board.iterjobs()]


def test_it_has_every_capability(backend: JobBoardBackend) -> None:
    assert backend.supports_defer
    assert backend.supports_async_task
    assert backend.supports_get_result
    assert backend.supports_priority
    assert isinstance(tasks.add, JobBoardTask)


@pytest.mark.parametrize("task", [tasks.add, tasks.add_async])
def test_an_enqueued_task_is_ready(backend: JobBoardBackend, task: Task) -> None:
    with received(task_enqueued) as told:
        result = task.enqueue(1, right=3)
    assert told == [(JobBoardBackend, result.id, "READY")]
    assert uuid.UUID(result.id).version == 7
    assert (result.task, result.args, result.kwargs) == (task, [1], {"right": 3})
    assert (result.status, result.is_finished, result.attempts) == (TaskResultStatus.READY, False, 0)
    assert (result.started_at, result.last_attempted_at, result.finished_at) == (None, None, None)
    assert result.enqueued_at is not None
    with pytest.raises(ValueError, match="not finished"):
        _ = result.return_value
    assert task.get_result(result.id) == result
    result.refresh()
    assert task.get_result(result.id) == result


def test_the_same_by_coroutines(backend: JobBoardBackend) -> None:
    async def enqueue_and_read() -> None:
        result = await tasks.add.aenqueue(1, right=3)
        assert await tasks.add.aget_result(result.id) == result
        await result.arefresh()
        assert result.status is TaskResultStatus.READY
        with pytest.raises(TaskResultDoesNotExist):
            await tasks.add.aget_result("123")

    asyncio.run(enqueue_and_read())


@pytest.mark.parametrize("result_id", ["123", "5b1bdbbe-6f6c-4c1c-9a0e-3f1f0f4f5d7a"])
def test_a_result_that_is_not_there(backend: JobBoardBackend, result_id: str) -> None:
    with pytest.raises(TaskResultDoesNotExist):
        backend.get_result(result_id)


def test_another_job_of_the_board_is_no_result(backend: JobBoardBackend, board: JobBoard) -> None:
    with pytest.raises(TaskResultDoesNotExist):
        backend.get_result(board.post("report").uuid)


def test_a_job_that_names_no_task_is_suspicious(backend: JobBoardBackend, board: JobBoard) -> None:
    result = tasks.add.enqueue(1)
    [details] = jobs(board)
    for changes in ({"task": "django_site.tasks.not_a_task"}, {"args": "none"}):
        job = board.post("django_site.tasks.add", details={**details, **changes})
        with pytest.raises(SuspiciousOperation):
            backend.get_result(job.uuid)
    for path in ("subprocess.check_output", "antigravity.fly"):
        job = board.post("django_site.tasks.add", details={**details, "task": path})
        with pytest.raises(ImportError, match="no installed app"):
            backend.get_result(job.uuid)
    assert backend.get_result(result.id) == result


def test_what_json_lacks_is_refused(backend: JobBoardBackend, board: JobBoard) -> None:
    with pytest.raises(TypeError, match="Unsupported type"):
        tasks.add.enqueue(datetime.now(UTC))
    with pytest.raises(InvalidPosting, match=r"details\.args"):
        tasks.add.enqueue(2**80)
    for number in (math.nan, math.inf, -math.inf):
        with pytest.raises(InvalidPosting, match=rf"details\.args\[0\]\.mean\[1\].*JSON has no number {number}"):
            tasks.add.enqueue({"mean": [1.5, number]})
        with pytest.raises(InvalidPosting, match=r"details\.kwargs\.right"):
            tasks.add.enqueue(1, right=number)
    assert board.job_count == 0


def test_arguments_that_the_task_does_not_take_are_refused(backend: JobBoardBackend, board: JobBoard) -> None:
    for args, kwargs in [((), {}), ((1, 2, 3), {}), ((1,), {"middle": 2}), ((1,), {"left": 2})]:
        with pytest.raises(TypeError, match=r"django_site\.tasks\.add can't be called with these args"):
            tasks.add.enqueue(*args, **kwargs)
    assert board.job_count == 0


def test_a_decorator_may_give_a_task_further_arguments(backend: JobBoardBackend, board: JobBoard) -> None:
    tasks.with_session.enqueue(7)
    assert board.job_count == 1


def new_task(function: Any, kind: type[Task] = JobBoardTask) -> Task:
    """Return what the decorator makes of a function."""
    return kind(func=function, priority=0, backend="default", queue_name="default", run_after=None)


def not_of_an_app() -> None:
    """A function that could be a task, but is in no app's module."""


def test_a_task_that_no_worker_can_import_is_refused(backend: JobBoardBackend, board: JobBoard) -> None:
    with pytest.raises(InvalidTask, match="installed app"):
        new_task(not_of_an_app).enqueue()
    assert board.job_count == 0


def test_run_after_is_kept(backend: JobBoardBackend, board: JobBoard) -> None:
    later = datetime.now(UTC).replace(microsecond=123_456) + timedelta(hours=1)
    result = tasks.add.using(run_after=later).enqueue(1)
    [job] = board.iterjobs()
    assert (job.state, job.run_at) == (JobState.DELAYED, later)
    assert backend.get_result(result.id).task.run_after == later
    with pytest.raises(InvalidTask, match="aware"):
        tasks.add.using(run_after=datetime.now())


def test_naive_moments_are_of_the_sites_time_zone(backend: JobBoardBackend, board: JobBoard) -> None:
    later = datetime.now() + timedelta(hours=1)
    with override_settings(USE_TZ=False, TIME_ZONE="Asia/Tokyo"):
        result = tasks.add.using(run_after=later).enqueue(1)
        found = backend.get_result(result.id)
        assert found.enqueued_at.tzinfo is None
    [job] = board.iterjobs()
    assert job.run_at is not None
    assert job.run_at.replace(tzinfo=None) == later - timedelta(hours=9)


def test_a_priority_is_mapped_to_a_band_and_kept(backend: JobBoardBackend, board: JobBoard) -> None:
    result = tasks.add.using(priority=77).enqueue(1)
    [job] = board.iterjobs()
    assert (job.priority, backend.get_result(result.id).task.priority) == (JobPriority.VERY_HIGH, 77)
    assert tasks.add.get_result(result.id).task == tasks.add.using(priority=77)
    for wrong in (-101, 101, 3.1):
        with pytest.raises(InvalidTask, match="priority"):
            tasks.add.using(priority=wrong)


def test_the_bands_keep_the_order_of_all_priorities() -> None:
    bands = [job_priority(priority) for priority in range(-100, 101)]
    assert bands == sorted(bands)
    assert set(bands) == set(JobPriority)
    assert bands.count(JobPriority.NORMAL) == 1


def test_a_key_is_unique_among_live_tasks(backend: JobBoardBackend, board: JobBoard) -> None:
    task = tasks.add.using(key="order/7")
    first = task.enqueue(1)
    with pytest.raises(AlreadyPosted):
        task.enqueue(2)
    kept = task.using(if_exists="keep").enqueue(2)
    assert (kept.id, kept.args) == (first.id, [1])
    replaced = task.using(if_exists="replace", max_attempts=7).enqueue(3)
    assert (replaced.id, replaced.args) == (first.id, [3])
    [job] = board.iterjobs()
    assert (job.key, job.max_attempts) == ("order/7", 7)


def test_tasks_of_a_lane_keep_its_limit(backend: JobBoardBackend, board: JobBoard) -> None:
    board.limits.set(lane="tenant:*", running=1)
    for number in range(3):
        tasks.add.using(lane="tenant:42").enqueue(number)
    jobs = list(board.iterjobs())
    assert [job.lane for job in jobs] == ["tenant:42"] * 3
    assert len(board.claim_next("w", limit=3)) == 1
    with pytest.raises(InvalidTask, match="lane"):
        tasks.add.using(lane="tenant:*").enqueue(1)


def test_a_lane_and_a_key_are_made_of_the_arguments(backend: JobBoardBackend, board: JobBoard) -> None:
    task = tasks.add.using(lane=lambda left, right=0: f"tenant:{left}", key=lambda left, **_: str(left) or None)
    first = task.enqueue(1)
    assert task.using(if_exists="keep").enqueue(1).id == first.id
    task.enqueue(2, right=3)
    task.using(lane="own", key="own").enqueue(2)
    shown = [(job.lane, job.key) for job in board.iterjobs()]
    assert shown == [("tenant:1", "1"), ("tenant:2", "2"), ("own", "own")]
    for wrong, fault in [
        (lambda left: left, "what its function returned is refused: lane must be a str, not int"),
        (lambda: "a", "its function raised TypeError"),
    ]:
        with pytest.raises(InvalidPosting, match=f"the task '{tasks.add.module_path}' declares lane, but {fault}"):
            tasks.add.using(lane=wrong).enqueue(1)
    assert board.job_count == 3


def test_a_uuid_makes_one_task_of_two_calls(backend: JobBoardBackend, board: JobBoard) -> None:
    task = tasks.add.using(uuid=str(uuid.uuid4()))
    assert task.enqueue(1) == task.enqueue(1)
    assert board.job_count == 1
    assert task.enqueue(1).id == task.uuid


@pytest.mark.parametrize(
    "options", [{"key": 7}, {"key": ""}, {"if_exists": "perhaps"}, {"max_attempts": 0}, {"uuid": "seven"}]
)
def test_a_wrong_option_is_refused(backend: JobBoardBackend, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask, match=next(iter(options))):
        tasks.add.using(**options)


def test_a_rollback_posts_nothing(backend: JobBoardBackend, board: JobBoard) -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        Order.objects.create(number=1)
        tasks.add.enqueue(1)
        _ = 1 / 0
    assert (Order.objects.count(), board.job_count) == (0, 0)


def test_a_task_is_posted_in_the_transaction_itself(backend: JobBoardBackend, board: JobBoard) -> None:
    with transaction.atomic():
        Order.objects.create(number=1)
        result = tasks.add.enqueue(1)
        assert result.enqueued_at is not None
        assert board.job_count == 0
        with pytest.raises(TaskResultDoesNotExist):
            backend.get_result(result.id)
        assert connections["default"].run_on_commit == []
    assert board.job_count == 1
    assert backend.get_result(result.id) == result


def test_a_savepoint_that_is_undone_takes_its_task_along(backend: JobBoardBackend, board: JobBoard) -> None:
    with transaction.atomic():
        tasks.add.enqueue(1)
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            tasks.add.enqueue(2)
            _ = 1 / 0
    assert [details["args"] for details in jobs(board)] == [[1]]


def test_a_taken_key_leaves_the_transaction_usable(backend: JobBoardBackend, board: JobBoard) -> None:
    task = tasks.add.using(key="one")
    with transaction.atomic():
        task.enqueue(1)
        with pytest.raises(AlreadyPosted):
            task.enqueue(2)
        Order.objects.create(number=1)
    assert (Order.objects.count(), board.job_count) == (1, 1)


def test_the_first_use_of_a_board_may_be_in_a_transaction_that_writes(backend: JobBoardBackend) -> None:
    """As in a new process: a board that is there, as ``migrate`` has made it, is opened without a lock."""
    backend.site.migrate()
    with transaction.atomic():
        Order.objects.create(number=1)
        tasks.add.enqueue(1)
    assert (Order.objects.count(), backend.site.board().job_count) == (1, 1)


def test_a_board_elsewhere_gets_the_task_after_the_commit(migrated: None) -> None:
    with site(uri="memory://elsewhere") as backend, received(task_enqueued) as told:
        board = backend.site.board()
        with transaction.atomic():
            result = tasks.add.enqueue(1)
            assert (result.enqueued_at, told, board.job_count) == (None, [], 0)
        assert told == [(JobBoardBackend, result.id, "READY")]
        result.refresh()
        assert result.enqueued_at is not None
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            tasks.add.enqueue(1)
            _ = 1 / 0
        assert board.job_count == 1


def test_a_transaction_on_another_database_does_not_count(backend: JobBoardBackend, board: JobBoard) -> None:
    with transaction.atomic(using="other"):
        tasks.add.enqueue(1)
        assert board.job_count == 1


def test_a_board_in_another_database_follows_that_ones_transactions(migrated: None) -> None:
    with site(database="other") as backend:
        board = backend.site.board()
        with transaction.atomic(using="other"):
            tasks.add.enqueue(1)
            assert board.job_count == 0
        assert board.job_count == 1
        assert backend.site.conf["path"].endswith("other.db")


def test_a_transaction_without_autocommit_counts(backend: JobBoardBackend, board: JobBoard) -> None:
    transaction.set_autocommit(False)
    try:
        Order.objects.create(number=1)
        tasks.add.enqueue(1)
        transaction.rollback()
        assert (Order.objects.count(), board.job_count) == (0, 0)
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)


def test_a_plain_task_can_be_enqueued(backend: JobBoardBackend, board: JobBoard) -> None:
    """One that was made while the settings named another backend."""
    result = new_task(tasks.add.func, Task).enqueue(1)
    assert board.job_count == 1
    assert backend.get_result(result.id).task == tasks.add
