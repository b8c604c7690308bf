"""No handler begins after its claim is over by the conductor's own clock, whichever way it gets its slot."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import work
from helpers.conducting import conducting, state_of

from jobboard import Conductor, Job, JobBoard, JobState, fetch, telemetry
from jobboard.testing import LossyBackend, eventually

EXECUTORS = ["thread", "process", "asyncio"]
#: Of the conductor's claims, in seconds.
EXPIRY = 1.0
LONG = 600.0


@pytest.fixture(params=["memory", "sqlite"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"memory://{uuid.uuid4().hex}" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def other(uri: str) -> Iterator[JobBoard]:
    with fetch("work", uri) as board:
        yield board


@pytest.fixture
def lossy(uri: str) -> LossyBackend:
    return LossyBackend(fetch("work", uri)._backend)


@pytest.fixture
def board(lossy: LossyBackend) -> Iterator[JobBoard]:
    with JobBoard("work", lossy, patience=0.05) as board:
        yield board


class Begun(telemetry.Recorder):
    """The uuids of the jobs whose handlers have begun."""

    def __init__(self) -> None:
        self.uuids: list[str] = []

    def started(self, job: telemetry.RunningJob) -> None:
        self.uuids.append(job.uuid)


@pytest.fixture
def begun() -> Iterator[Begun]:
    begun = Begun()
    remove = telemetry.add(begun)
    yield begun
    remove()


def wait_until(moment: float) -> None:
    eventually(lambda: time.monotonic() >= moment)


def until_ended(conductor: Conductor) -> None:
    run = conductor._run
    assert run is not None
    eventually(lambda: not run._renewer.held() and run._slots.taken == 0)
    assert run.health()["stuck"] == 0
    assert run._stuck.all() == []


@pytest.mark.parametrize("executor", EXECUTORS)
def test_an_answer_that_comes_after_its_claim_is_over_runs_nothing(
    board: JobBoard, lossy: LossyBackend, other: JobBoard, begun: Begun, executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim_next = lossy.inner.jobs.claim_next
    taken: list[Job] = []

    def answer_late(*arguments: Any) -> Any:
        rows = claim_next(*arguments)
        # Two jobs: the second one is the one of another name.
        if rows and not taken:
            eventually(lambda: taken.extend(other.claim_next("bob", limit=9, expiry=LONG)) or len(taken) == len(rows))
        return rows

    monkeypatch.setattr(lossy.inner.jobs, "claim_next", answer_late)
    jobs = [board.post(name) for name in ("echo", "echo later", "echo")]
    with conducting(board, work.handlers, executor, concurrency=3, expiry=EXPIRY) as conductor:
        eventually(lambda: len(taken) == len(jobs))
        until_ended(conductor)
        last = board.post("echo")
        assert last.wait(30)
        assert begun.uuids == [last.uuid]
        assert [other.find_owner(job) for job in jobs] == ["bob"] * 3


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_job_whose_claim_was_over_before_its_answer_came_goes_back_uncounted(
    board: JobBoard, lossy: LossyBackend, begun: Begun, executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request may be what was late: then the store keeps the claim."""
    claim_next = lossy.inner.jobs.claim_next
    late: list[float] = []

    def arrive_late(*arguments: Any) -> Any:
        if not late:
            late.append(time.monotonic())
            wait_until(late[0] + EXPIRY)
        return claim_next(*arguments)

    job = board.post("echo", max_attempts=1)
    monkeypatch.setattr(lossy.inner.jobs, "claim_next", arrive_late)
    with conducting(board, work.handlers, executor, expiry=EXPIRY):
        assert job.wait(30)
        assert (begun.uuids, job.record.attempts) == ([job.uuid], 1)
        told = [(line.kind.value, line.reason) for line in job.history]
        assert told[:3] == [
            ("POSTED", None),
            ("CLAIMED", None),
            ("ABANDONED", "its claim was over before its handler could begin"),
        ]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_job_that_waited_for_a_slot_beyond_its_claim_is_not_run(
    board: JobBoard, lossy: LossyBackend, begun: Begun, executor: str
) -> None:
    """The thread that watches the clock may be late: the process was stopped, or something held the interpreter."""
    with conducting(board, work.handlers, executor, expiry=EXPIRY, prefetch=False) as conductor:
        run: Any = conductor._run
        run._deadlines.stop()
        submit, held, opened = run._executor.submit, threading.Event(), threading.Event()

        def submit_late(executions: Any) -> None:
            if not opened.is_set():
                held.set()
                assert opened.wait(30)
            submit(executions)

        run._executor.submit = submit_late
        lossy.lose("extend", "refused", 10_000)
        job = board.post("echo")
        assert held.wait(30)
        [execution] = run._renewer.held()
        wait_until(execution.held_until)
        opened.set()
        until_ended(conductor)
        lossy.heal()
        eventually(lambda: state_of(board, job) is JobState.COMPLETE, 30)
        assert begun.uuids == [job.uuid]
        assert execution.began_at is None
