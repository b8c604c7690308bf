"""Durable handlers in conductors: in all executors, with late owners, dead workers, and what it asks of the store."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from helpers import durable
from helpers.conducting import conducting, lossy_board, state_of
from helpers.memory_board import board

from jobboard import ClaimLost, Handlers, Job, JobBoard, JobState, Posting, RunningJob, telemetry
from jobboard.testing import eventually, posted

__all__ = ["board"]

EXECUTORS = ("thread", "process", "asyncio")


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    return tmp_path / "diary"


def is_silent(calls: Counter[str]) -> bool:
    """Whether nothing was asked since the last look."""
    count = sum(calls.values())
    calls.clear()
    return count == 0


def names_of(job: Job) -> list[str]:
    return [step.name for step in job.steps()]


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", ["order", "order later"])
def test_a_durable_handler_goes_on_where_it_was(board: JobBoard, diary: Path, executor: str, name: str) -> None:
    with conducting(board, durable.handlers, executor):
        job = board.post(name, details={"diary": str(diary)})
        eventually(lambda: state_of(board, job) is JobState.BLOCKED)
        assert (job.owner, job.attempts, job.record.state) == (None, 0, JobState.BLOCKED)
        assert board.signal(job, "approved", "ann") is True
        assert job.get_result(30) == {"charged": 1, "by": "ann"}
    assert diary.read_text().splitlines() == ["charge", "no hurry"]
    assert posted(board, "ship").details == {"order": job.uuid}
    assert names_of(job) == [
        *("charge", ":sleep", ":wait approved", ":signal approved", ":wait hurry", ":timeout hurry", "no hurry")
    ]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_what_is_posted_with_the_end_and_what_cannot_be_stored(board: JobBoard, diary: Path, executor: str) -> None:
    with conducting(board, durable.handlers, executor):
        ended = board.post("step and complete", details={"diary": str(diary)})
        assert ended.get_result(30) == "done"
        assert posted(board, "ship").state is JobState.UNCLAIMED
        failed = board.post("store what cannot be stored")
        assert failed.wait(30) is False
    assert "the result of the step 'look up' is 6000" in str(failed.record.last_error)
    assert failed.record.attempts == 1, "a step that has been taken is not taken again in vain"
    assert names_of(failed) == []


def test_a_worker_that_dies_before_the_save_runs_the_step_again_and_after_it_does_not(
    board: JobBoard, tmp_path: Path
) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    with conducting(board, durable.handlers, "process"):
        first = board.post("die before the save", details={"diary": str(before)})
        second = board.post("die after the save", details={"diary": str(after)})
        assert (first.get_result(30), second.get_result(30)) == (2, 1)
    assert before.read_text().splitlines() == ["charge", "charge"]
    assert after.read_text().splitlines() == ["charge", "run", "run"]


def test_a_late_owner_saves_no_step_and_learns_it_before_the_next_effect(board: JobBoard) -> None:
    """The first owner is released in the midst of its step; the second one has saved its own by then."""
    handlers, effects, lost = Handlers(), list[str](), list[str]()
    is_inside, goes_on = threading.Event(), threading.Event()

    @handlers.handler("order")
    def order(job: RunningJob) -> Any:
        def charge() -> str:
            effects.append(job.owner)
            if len(effects) == 1:
                is_inside.set()
                assert goes_on.wait(30)
            return f"charged {len(effects)}"

        try:
            return [job.step("charge", charge), job.step("ship", effects.append, "ship")]
        except ClaimLost:
            lost.append(job.owner)
            with pytest.raises(ClaimLost):
                job.step("ship", effects.append, "late")
            raise

    with conducting(board, handlers, concurrency=2):
        job = board.post("order")
        assert is_inside.wait(30)
        board.release(job)
        assert job.get_result(30) == ["charged 2", None]
        goes_on.set()
        eventually(lambda: lost)
    assert effects[2:] == ["ship"]
    assert [step.result for step in job.steps()] == ["charged 2", None]


def test_a_handler_without_steps_asks_nothing_and_each_step_is_one_request() -> None:
    handlers = Handlers()
    handlers.add("plain", lambda job: None)
    handlers.add("durable", lambda job: [job.step("add", sum, [number, 1]) for number in range(20)])
    with lossy_board(patience=5) as (board, backend), conducting(board, handlers):
        assert board.post("plain").wait(30)
        assert (backend.calls["steps.load"], backend.calls["steps.save"]) == (0, 0)
        job = board.post("durable")
        assert job.get_result(30) == list(range(1, 21))
        assert (backend.calls["steps.load"], backend.calls["steps.save"]) == (1, 20)


def test_recorded_steps_are_read_in_pages() -> None:
    handlers, calls = Handlers(), list[int]()

    @handlers.handler("durable")
    def durable_one(job: RunningJob) -> int:
        for number in range(230):
            job.step("count", calls.append, number)
        job.sleep(0)
        job.wait_for("go")
        return len(calls)

    with lossy_board(patience=5) as (board, backend), conducting(board, handlers):
        job = board.post("durable")
        eventually(lambda: state_of(board, job) is JobState.BLOCKED)
        assert backend.calls["steps.load"] == 1
        board.signal(job, "go")
        assert job.get_result(30) == 230
        assert backend.calls["steps.load"] == 1 + 5


def test_jobs_that_wait_hold_nothing_and_cost_an_idle_conductor_no_request() -> None:
    handlers = Handlers()
    handlers.add("wait", lambda job: job.wait_for("go", timeout=600))
    with lossy_board() as (board, backend), conducting(board, handlers, concurrency=4) as conductor:
        jobs = board.post_many([Posting("wait") for _ in range(200)])
        eventually(lambda: all(job.state is JobState.BLOCKED for job in jobs))
        eventually(lambda: conductor._run is not None and not conductor._run._renewer.held())
        backend.calls.clear()
        eventually(lambda: not threading.Event().wait(0.5) and is_silent(backend.calls))
        assert {job.owner for job in jobs} == {None}
        board.signal(jobs[7], "go", 7)
        assert jobs[7].get_result(30) == 7


def test_recorders_are_told_of_steps_and_signals(board: JobBoard, diary: Path) -> None:
    told: list[tuple[str, ...]] = []

    class Recorder(telemetry.Recorder):
        def stepped(self, job: telemetry.RunningJob, step: str, seconds: float) -> None:
            told.append((job.name, step))
            assert seconds >= 0

        def signalled(self, board: str, signal: str, outcome: str) -> None:
            told.append((board, signal, outcome))

        def ended(self, job: telemetry.RunningJob, outcome: str, seconds: float) -> None:
            told.append((job.name, outcome))

    handlers = Handlers()

    @handlers.handler("wait")
    def wait(job: RunningJob) -> None:
        job.step("charge", int)
        job.wait_for("go")

    remove = telemetry.add(Recorder())
    try:
        with conducting(board, handlers):
            job = board.post("wait")
            eventually(lambda: ("wait", "again") in told)
            assert [board.signal(job, "go"), job.wait(30), board.signal(board.post("other"), "go")] == [True] * 3
            eventually(lambda: ("wait", "consumed") in told)
    finally:
        remove()
    assert [each for each in told if each[0] == "wait"] == [
        *[("wait", step) for step in ("charge", ":wait go", "again", ":signal go", "consumed")]
    ]
    assert [each for each in told if each[0] == "work"] == [("work", "go", "done")] * 2
