"""A run that gives no sign of life for too long has failed, like one that takes too long."""

from __future__ import annotations

import math
import re

import pytest
from helpers import silent
from helpers.conducting import conducting
from helpers.memory_board import board

from jobboard import Conductor, Entity, Handlers, Job, JobBoard, JobState
from jobboard.conductor.execution import Execution
from jobboard.operate.why import why
from jobboard.participants import silent_runs_of
from jobboard.testing import eventually

__all__ = ["board"]

EXECUTORS = ["thread", "process", "asyncio"]
SIGNS = ["progress", "step", "checkpoint", "book"]
REASON = "silent for 0.2 s: no progress, step or checkpoint"


def execution_of(conductor: Conductor, job: Job) -> Execution:
    """The execution of a job, once its handler has begun."""

    def begun() -> list[Execution]:
        assert conductor._run is not None
        return [each for each in conductor._run._renewer.held() if each.job == job and each.began_at is not None]

    eventually(lambda: bool(begun()), 30)
    return begun()[0]


@pytest.mark.parametrize("executor", EXECUTORS)
class TestOnEachExecutor:
    @pytest.mark.parametrize("name", ["plain", "later"])
    def test_silence_fails_a_run(self, board: JobBoard, executor: str, name: str) -> None:
        with conducting(board, silent.silent, executor):
            for sign in ("none", "progress"):
                job = board.post(name, {"sign": sign})
                eventually(lambda job=job: job.state is JobState.TRASHED, 30)  # type: ignore[misc]
                assert board.get(job.uuid).record.reason == REASON

    @pytest.mark.parametrize("sign", SIGNS)
    @pytest.mark.parametrize("name", ["plain", "later"])
    def test_each_sign_of_life_counts_anew(self, board: JobBoard, executor: str, name: str, sign: str) -> None:
        with conducting(board, silent.handlers, executor) as conductor:
            execution = execution_of(conductor, board.post(name, {"sign": sign}))
            began_at = execution.began_at or 0.0
            eventually(lambda: execution.heard_at > began_at, 30)
            assert execution.silent_at == execution.heard_at + silent.LONG

    def test_a_batch_is_silent_as_a_whole(self, board: JobBoard, executor: str) -> None:
        with conducting(board, silent.handlers, executor) as conductor:
            jobs = [board.post("batch", {"sign": "checkpoint"}) for _ in range(2)]
            first, second = (execution_of(conductor, job) for job in jobs)
            began_at = max(first.began_at or 0.0, second.began_at or 0.0)
            eventually(lambda: min(first.silent_at, second.silent_at) > began_at + silent.LONG, 30)
            assert first.silent_at == second.silent_at
        with conducting(board, silent.silent, executor):
            jobs = [board.post("batch", {"sign": "none"}) for _ in range(2)]
            eventually(lambda: all(job.state is JobState.TRASHED for job in jobs), 30)
            assert {board.get(job.uuid).record.reason for job in jobs} == {REASON}


def test_without_the_option_nobody_is_silent(board: JobBoard) -> None:
    handlers = Handlers()
    handlers.add("plain", silent.plain)
    with conducting(board, handlers) as conductor:
        execution = execution_of(conductor, board.post("plain", {"sign": "none"}))
        assert execution.silent_at == math.inf


def test_why_tells_of_a_run_that_is_silent(board: JobBoard) -> None:
    with conducting(board, silent.handlers) as conductor:
        execution = execution_of(conductor, job := board.post("plain", {"sign": "none"}))
        assert [reason.kind for reason in why(board, board.get(job.uuid))] == ["claimed"]
        execution.heard_at -= 0.75 * silent.LONG
        assert conductor._run is not None
        conductor._run._tell_operators()
        eventually(lambda: len(why(board, board.get(job.uuid))) == 2, 30)
        told = why(board, board.get(job.uuid))[1]
    assert told.kind == "handler_silent"
    # On a slow machine some seconds more.
    assert re.fullmatch(
        r"Its handler had given no sign of life for 45m(\d+s)? when its owner last told of it; "
        r"after 1h without progress, a step or a checkpoint its run counts as failed\.",
        told.text,
    )


@pytest.mark.parametrize("told", [3, [3], [{"uuid": 1}], [{"uuid": "x", "seconds": "1", "limit": 2}], {"uuid": "x"}])
def test_what_a_conductor_tells_is_read_with_care(told: object) -> None:
    assert silent_runs_of(Entity("conductor", "a", {"silent_runs": told}, alive=True)) == []
