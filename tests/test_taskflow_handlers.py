"""A flow of TaskFlow as a handler of our conductor."""

from __future__ import annotations

import gc
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from taskflow import task
from taskflow.patterns import linear_flow

from jobboard import Backoff, Conductor, Handlers, JobBoard, RunningJob, backend
from jobboard.taskflow import flow_handler
from jobboard.testing import eventually

RAN: list[str] = []
#: What the second step does, once each.
THEN: list[Any] = []
RUNNING: list[RunningJob] = []


class Step(task.Task):  # type: ignore[misc]
    def execute(self, amount: int) -> int:
        RAN.append(self.name)
        if self.name == "two" and THEN:
            THEN.pop(0)()
        return amount + 1

    def revert(self, amount: int, **_: Any) -> None:
        RAN.append(f"-{self.name}")


def flow() -> Any:
    return linear_flow.Flow("flow").add(*(Step(name, provides=name) for name in ("one", "two", "three")))


@pytest.fixture
def board() -> Iterator[JobBoard]:
    RAN.clear()
    THEN.clear()
    RUNNING.clear()
    with backend("flows", f"memory://{uuid.uuid4().hex}") as board:
        yield board


@pytest.fixture
def conductor(board: JobBoard) -> Iterator[Conductor]:
    handlers = Handlers(backoff=Backoff(first=0.0))
    run_flow = flow_handler(flow, result="three")

    @handlers.handler("flow")
    def run(job: RunningJob) -> Any:
        RUNNING.append(job)
        return run_flow(job)

    conductor = Conductor("test", board, handlers)
    conductor.start()
    yield conductor
    conductor.stop(drain=False)


def test_a_flow_runs_and_its_result_is_the_jobs(board: JobBoard, conductor: Conductor) -> None:
    job = board.post("flow", details={"amount": 4})
    assert job.get_result(timeout=30) == 5
    assert RAN == ["one", "two", "three"]
    [book] = board.books()
    assert (book.uuid, book.owner) == (job.uuid, job.uuid)


@pytest.mark.parametrize("is_noticed", [False, True])
def test_a_later_owner_goes_on_where_the_first_one_was_stopped(
    board: JobBoard, conductor: Conductor, is_noticed: bool
) -> None:
    """Whether the first one notices its loss while a task runs, or by the answer to what it saves next."""
    job = board.post("flow", details={"amount": 4})

    def lose() -> None:
        board.release(job.uuid, reason="as if its owner had died")
        if is_noticed:
            eventually(lambda: RUNNING[0].lost)

    THEN.append(lose)
    assert job.get_result(timeout=30) == 5
    assert RAN == ["one", "two", "two", "three"]
    # What an engine that was left in its midst raises when it is forgotten, is raised here.
    conductor.stop()
    gc.collect()


def test_a_flow_that_fails_is_reverted_and_tried_again(board: JobBoard, conductor: Conductor) -> None:
    def fail() -> None:
        raise RuntimeError("once")

    THEN.append(fail)
    job = board.post("flow", details={"amount": 4})
    assert job.get_result(timeout=30) == 5
    assert RAN == ["one", "two", "-two", "-one", "one", "two", "three"]
    assert "once" in str(job.last_error)


def test_a_cancel_stops_a_flow_before_its_next_task(board: JobBoard, conductor: Conductor) -> None:
    begun, told = threading.Event(), threading.Event()

    def wait_for_cancel() -> None:
        begun.set()
        assert told.wait(30)

    THEN.append(wait_for_cancel)
    job = board.post("flow", details={"amount": 4})
    assert begun.wait(30)
    assert not board.cancel(job)
    assert eventually(lambda: RUNNING[-1].cancelled)
    told.set()
    assert not job.wait(timeout=30)
    assert RAN == ["one", "two"]
