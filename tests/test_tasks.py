"""Tasks: what the decorator returns is called as the function, and posts jobs for it."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import pickle
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from helpers import tasks
from helpers.conducting import conducting
from helpers.tasks import Address, Line, Order, Person

from jobboard import Every, Handlers, InvalidPosting, JobBoard, JobPriority, Posting, Schedule, Task, aio, fetch
from jobboard.testing import fire_due, inline, memory_board, run_due

ID = UUID("12345678-1234-5678-1234-567812345678")
ORDER = Order(7, (Line(ID, Decimal("1.50")),))
PLAIN = {"number": 7, "lines": [{"article": str(ID), "price": "1.50"}]}


@pytest.fixture
def board() -> Iterator[JobBoard]:
    with memory_board() as board:
        yield board


class TestCalled:
    def test_it_is_called_as_the_function_itself(self) -> None:
        assert tasks.greet(Person(**{"full-name": "Ann"})) == "Ann"
        assert isinstance(tasks.greet, Task)
        assert (tasks.greet.__name__, tasks.greet.__module__) == ("greet", "helpers.tasks")
        assert inspect.signature(tasks.pack) == inspect.signature(tasks.pack.function)
        assert repr(tasks.pack) == "<Task 'pack' of helpers.tasks.pack>"

    def test_an_async_one_is_awaited(self) -> None:
        class Job:
            name = "by hand"

        assert asyncio.run(tasks.send(Job(), {"street": "High Street"})) == "by hand High Street"  # type: ignore[arg-type]
        if sys.version_info >= (3, 12):
            assert inspect.iscoroutinefunction(tasks.send)
            assert not inspect.iscoroutinefunction(tasks.pack)

    @pytest.mark.parametrize("task", [tasks.pack, tasks.send, tasks.twice])
    def test_the_task_of_a_module_is_pickled_by_its_place(self, task: Task[Any, ..., Any]) -> None:
        assert pickle.loads(pickle.dumps(task)) is task
        assert copy.deepcopy(task) is task

    @pytest.mark.parametrize("task", [*(one.task for one in tasks.handlers), tasks.first, tasks.third])
    def test_further_names_of_a_function_are_pickled_too(self, task: Task[Any, ..., Any]) -> None:
        there = pickle.loads(pickle.dumps(task))
        assert (there.name, there.function) == (task.name, task.function)

    def test_a_function_of_several_names_keeps_them_apart(self) -> None:
        assert tasks.twice.name == "outer"
        assert tasks.handlers["inner"].function is tasks.handlers["outer"].function
        assert (tasks.first.name, tasks.second.name, tasks.third.name) == ("first", "second", "third")
        assert tasks.third.function is tasks.pack.function

    def test_a_partial_of_a_task_is_a_handler_too(self) -> None:
        task = Handlers().add("late", functools.partial(tasks.pack, order=ORDER))
        assert task.encode(None) == {}


class TestPosted:
    @pytest.mark.parametrize("executor", ["thread", "process", "asyncio"])
    def test_each_is_run_with_what_was_posted(self, executor: str) -> None:
        with fetch("work", f"memory://{uuid.uuid4().hex}") as board, conducting(board, tasks.handlers, executor):
            jobs = [
                tasks.pack.post(board, ORDER),
                tasks.send.post(board, Address(street="High Street")),
                tasks.greet.post(board, Person(**{"full-name": "Ann"})),
                tasks.count.post(board, {"a": 1, "b": 2}),
                tasks.count.post(board),
                tasks.twice.post(board),
                board.post("inner"),
                tasks.first.post(board),
                tasks.second.post(board),
                tasks.third.post(board, ORDER),
            ]
            assert [job.get_result(30) for job in jobs] == [
                ["pack", "7", "1.50"], "send High Street", "Ann", 2, 0, "outer", "inner", "first", "second",
                ["third", "7", "1.50"],
            ]  # fmt: skip

    def test_the_options_are_those_of_a_post(self, board: JobBoard) -> None:
        job = tasks.pack.post(board, ORDER, key="k", priority="high", delay=60, max_attempts=2)
        assert (job.name, job.details, job.key, job.priority) == ("pack", PLAIN, "k", JobPriority.HIGH)
        assert (job.max_attempts, job.record.state) == (2, "DELAYED")
        assert tasks.pack.post(board, ORDER, key="k", if_exists="keep") == job

    def test_a_board_for_asyncio_returns_what_is_awaited(self) -> None:
        async def post() -> aio.AsyncJob:
            async with aio.backend("work", f"memory://{uuid.uuid4().hex}") as board:
                return await tasks.pack.post(board, ORDER, key="k")

        job = asyncio.run(post())
        assert isinstance(job, aio.AsyncJob)
        assert (job.name, job.details, job.key) == ("pack", PLAIN, "k")

    def test_the_kit_runs_it_as_any_post(self, board: JobBoard) -> None:
        with inline(board, tasks.handlers):
            assert tasks.pack.post(board, ORDER).result == ["pack", "7", "1.50"]
        waiting = tasks.count.post(board)
        assert run_due(board, tasks.handlers) == [waiting]

    def test_a_posting_of_it(self, board: JobBoard) -> None:
        posting = Posting.of(tasks.pack, ORDER, key="k", delay=5)
        assert posting == Posting("pack", PLAIN, key="k", delay=5)
        assert [job.details for job in board.post_many([posting, Posting.of(tasks.count)])] == [PLAIN, {}]

    def test_nothing_of_asyncio_is_imported_for_a_post(self) -> None:
        program = (
            "import sys; from helpers import tasks; from jobboard.testing import memory_board\n"
            "with memory_board() as board: tasks.count.post(board)\n"
            "sys.exit('jobboard.aio' in sys.modules)"
        )
        assert subprocess.run([sys.executable, "-c", program], cwd="tests", check=False).returncode == 0


def no_board(task: Callable[..., Any]) -> Any:
    return task(object())


class TestRefused:
    @pytest.mark.parametrize(
        ("task", "details", "error", "says"),
        [
            (tasks.pack, None, TypeError, "task 'pack' needs details: Order"),
            (tasks.pack, PLAIN, TypeError, "must be Order, not dict"),
            (tasks.pack, "SECRET", TypeError, "must be Order, not str"),
            (tasks.pack, Order("SECRET"), InvalidPosting, r"details\.number must be int, not str"),  # type: ignore[arg-type]
            (tasks.pack, Order(1, ("SECRET",)), InvalidPosting, r"details\.lines\[0\] must be Line"),  # type: ignore[arg-type]
            (tasks.send, {"stret": "SECRET"}, InvalidPosting, r"details\.stret is no field of Address"),
            (tasks.send, {}, InvalidPosting, r"details\.street is missing"),
            (tasks.greet, {"full-name": "SECRET"}, TypeError, "must be Person, not dict"),
            (tasks.count, ORDER, TypeError, "must be a dict or None, not Order: its function takes the job alone"),
        ],
    )
    def test_details_of_another_type_are_refused_before_anything_is_sent(
        self, board: JobBoard, task: Task[Any, ..., Any], details: Any, error: type[Exception], says: str
    ) -> None:
        async def post_later() -> None:
            async with aio.AsyncJobBoard(board) as later:
                await task.post(later, details)

        for post in (
            lambda: task.post(board, details),
            lambda: Posting.of(task, details),
            lambda: Schedule("nightly", Every(hours=1), task, details),
        ):
            with pytest.raises(error, match=says) as caught:
                post()
            assert "SECRET" not in str(caught.value)
        assert list(board.iterjobs()) == []
        with pytest.raises(error, match=says):
            asyncio.run(post_later())

    def test_what_is_no_board_and_no_task(self) -> None:
        with pytest.raises(TypeError, match="a JobBoard or an AsyncJobBoard, not object"):
            tasks.count.post(object())  # type: ignore[call-overload]
        with pytest.raises(TypeError, match="task must be a Task"):
            Posting.of("pack", {})  # type: ignore[call-overload]
        with pytest.raises(TypeError, match="task must be a Task"):
            Posting.of(tasks.pack.function, ORDER)  # type: ignore[call-overload]
        with pytest.raises(TypeError, match="job must be a name or a Task, not int"):
            Schedule("nightly", Every(hours=1), 5)  # type: ignore[call-overload]


class TestScheduled:
    def test_the_schedule_holds_the_name_and_plain_details(self, board: JobBoard) -> None:
        schedule = Schedule("nightly", Every(hours=1), tasks.pack, ORDER, priority="high")
        assert schedule == Schedule("nightly", Every(hours=1), "pack", PLAIN, priority="high")
        assert Schedule("hourly", Every(hours=1), tasks.count) == Schedule("hourly", Every(hours=1), "count")
        board.schedules.add(schedule, next_run_time=datetime.now(UTC) + timedelta(minutes=1))
        assert board.schedules.get("nightly") == schedule
        job = board.schedules.fire_now("nightly")
        assert (job.name, job.details) == ("pack", PLAIN)
        run_due(board, tasks.handlers)
        assert (job.result, fire_due(board)) == (["pack", "7", "1.50"], 0)

    def test_it_is_modified_with_a_task_and_its_details(self, board: JobBoard) -> None:
        board.schedules.add(Schedule("nightly", Every(hours=1), "count"))
        changed = board.schedules.modify("nightly", job=tasks.pack, details=ORDER)
        assert (changed.job, changed.details) == ("pack", PLAIN)
        with pytest.raises(TypeError, match="must be Person, not dict"):
            board.schedules.modify("nightly", job=tasks.greet)
        assert board.schedules.get("nightly").job == "pack"
