"""Conductors come to an end, however they are stopped, and whatever goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator

import pytest
from helpers.conducting import conducting, lossy_board, state_of, until_begun

from jobboard import Conductor, Handlers, JobBoard, JobState, RunningJob, fetch
from jobboard.testing import eventually


@pytest.fixture
def board() -> Iterator[JobBoard]:
    with fetch("work", f"memory://{uuid.uuid4().hex}") as board:
        yield board


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What the handler ``gate`` waits for; opened in the end."""
    gate = threading.Event()
    yield gate
    gate.set()


@pytest.fixture
def handlers(gate: threading.Event) -> Handlers:
    handlers = Handlers()
    handlers.add("gate", lambda job: eventually(lambda: gate.is_set() or job.lost, 20))
    handlers.add("echo", lambda job: job.details)
    return handlers


@pytest.mark.parametrize("executor", ["thread", "asyncio"])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_handler_may_stop_its_own_conductor(board: JobBoard, executor: str, is_async: bool) -> None:
    handlers, answers = Handlers(), []

    def stop(job: RunningJob) -> str:
        with conductor._lock:  # which what goes on behind its back needs
            answers.extend([conductor.stop(), conductor._run._claimer.stopping])
        return "went on"

    async def stop_later(job: RunningJob) -> str:
        await asyncio.sleep(0)
        return stop(job)

    handlers.add("stop", stop_later if is_async else stop)
    conductor = Conductor("test", board, handlers, executor=executor)
    job, untouched = board.post("stop"), board.post("stop")
    conductor.run()
    assert answers == [False, True], "the one who asks has not finished, but nothing more is claimed"
    assert (job.result, state_of(board, untouched)) == ("went on", JobState.UNCLAIMED)
    assert conductor.stop()


def test_a_handler_cannot_start_its_own_conductor_while_it_stops(board: JobBoard) -> None:
    handlers, errors = Handlers(), []

    def restart(job: RunningJob) -> None:
        conductor.start()  # it works already
        conductor.stop()
        eventually(lambda: "working" not in repr(conductor) or conductor._run.stopping)
        try:
            conductor.start()
        except RuntimeError as error:
            errors.append(str(error))

    handlers.add("restart", restart)
    conductor = Conductor("test", board, handlers)
    board.post("restart")
    conductor.run()
    assert len(errors) == 1
    conductor.start()
    job = board.post("restart")
    assert job.wait(10)


def test_a_signal_handler_may_stop_the_conductor_that_runs_in_its_thread(board: JobBoard, handlers: Handlers) -> None:
    conductor, begun, answers, over = Conductor("test", board, handlers), [], [], threading.Event()

    def stop(*_: object) -> None:
        begun.append(None)
        answers.append(conductor.stop())

    before = signal.signal(signal.SIGUSR1, stop)

    def signal_again_and_again() -> None:
        while not over.wait(0.001):
            # Each interrupts the one before, and the stack has an end.
            if len(begun) - len(answers) < 5:
                os.kill(os.getpid(), signal.SIGUSR1)

    killer = threading.Thread(target=signal_again_and_again)
    killer.start()
    try:
        for _ in range(20):
            conductor.run()
    finally:
        over.set()
        killer.join(10)
        signal.signal(signal.SIGUSR1, before)
    assert len(answers) >= 20
    assert set(answers) == {True}


def test_a_signal_that_another_thread_gets_is_heard_too(board: JobBoard, handlers: Handlers) -> None:
    """As it is after a SIGCONT: then nothing interrupts the main thread."""
    conductor, answers = Conductor("test", board, handlers), []
    before = signal.signal(signal.SIGUSR1, lambda *_: answers.append(conductor.stop()))

    def kill_oneself() -> None:
        main = threading.main_thread().ident or 0
        assert board.post("echo").wait(10)
        eventually(lambda: sys._current_frames()[main].f_code.co_filename == threading.__file__)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    killer = threading.Thread(target=kill_oneself)
    killer.start()
    try:
        conductor.run()
    finally:
        killer.join(10)
        signal.signal(signal.SIGUSR1, before)
    assert answers == [True]


def test_ctrl_c_gives_the_jobs_back_and_goes_through(board: JobBoard, handlers: Handlers) -> None:
    conductor, job = Conductor("test", board, handlers), board.post("gate")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    watcher = threading.Thread(
        target=lambda: (
            eventually(lambda: state_of(board, job) is JobState.CLAIMED),
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1),
        )
    )
    watcher.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            conductor.run()
    finally:
        watcher.join(20)
        signal.signal(signal.SIGUSR1, before)
    record = board.get(job.uuid).record
    assert (record.state, record.attempts) == (JobState.UNCLAIMED, 0)
    assert conductor.wait(0)


def test_a_second_stop_hurries_the_first(board: JobBoard, handlers: Handlers) -> None:
    with conducting(board, handlers) as conductor:
        job = board.post("gate")
        until_begun(conductor, job)
        answers: list[bool] = []
        patient = threading.Thread(target=lambda: answers.append(conductor.stop()))
        patient.start()
        eventually(lambda: conductor._run.stopping)
        assert conductor.stop(drain=True, timeout=0.01) is False
        patient.join(10)
        assert answers == [False]
        assert state_of(board, job) is JobState.UNCLAIMED


def test_a_stop_in_vain_of_another_thread_does_not_end_the_next_run(board: JobBoard, handlers: Handlers) -> None:
    with conducting(board, handlers) as conductor:
        for _ in range(10):
            stoppers = [threading.Thread(target=conductor.stop) for _ in range(4)]
            for stopper in stoppers:
                stopper.start()
            assert conductor.stop(timeout=10)
            conductor.start()
            for stopper in stoppers:
                stopper.join(10)
            conductor.start()
            assert board.post("echo").wait(10)


def test_what_is_claimed_during_a_stop_is_given_back_unrun(handlers: Handlers) -> None:
    with lossy_board() as (board, backend):
        conductor = Conductor("test", board, handlers)
        stopping = threading.Event()
        claim_next = backend.inner.jobs.claim_next

        def stop_meanwhile(*arguments: object) -> object:
            claimed = claim_next(*arguments)  # type: ignore[arg-type]
            if claimed:
                stopper.start()
                eventually(lambda: conductor._run._claimer.stopping)
                stopping.set()
            return claimed

        backend.inner.jobs.claim_next = stop_meanwhile  # type: ignore[method-assign,assignment]
        stopper = threading.Thread(target=conductor.stop)
        conductor.start()
        job = board.post("echo")
        assert stopping.wait(10)
        stopper.join(10)
        assert conductor.wait(0)
        record = board.get(job.uuid).record
        assert (record.state, record.attempts, record.reason) == (JobState.UNCLAIMED, 0, "its conductor stopped")


def test_a_stop_comes_to_its_end_without_the_store(handlers: Handlers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobboard.conductor.run._STOP_TIMEOUT", 0.2)
    with lossy_board() as (board, backend):
        with conducting(board, handlers, expiry=60) as conductor:
            job = board.post("gate")
            eventually(lambda: state_of(board, job) is JobState.CLAIMED)
            for primitive in ("claim_next", "abandon", "consume", "extend", "entities.remove", "waiter"):
                backend.lose(primitive, "refused", times=100_000)
            completer, began = conductor._run._completer, time.monotonic()
            assert conductor.stop(drain=False) is False
            assert time.monotonic() - began < 10
            eventually(lambda: not completer._thread.is_alive())
            backend.heal()
            conductor.start()
            assert board.post("echo").wait(10), "it works again"
        assert state_of(board, job) is JobState.CLAIMED, "until its expiry"


def test_a_handler_that_never_returns_keeps_no_process_from_its_end() -> None:
    script = """
import threading, jobboard
handlers, began = jobboard.Handlers(), threading.Event()
@handlers.handler("hang")
def hang(job):
    began.set()
    threading.Event().wait()
with jobboard.fetch("work", "memory://x") as board:
    conductor = jobboard.Conductor("test", board, handlers, executor=EXECUTOR)
    conductor.start()
    board.post("hang")
    assert began.wait(10)
    assert conductor.stop(timeout=0.01) is False
"""
    codes = [script.replace("EXECUTOR", repr(executor)) for executor in ("thread", "asyncio")]
    processes = [subprocess.Popen([sys.executable, "-c", code]) for code in codes]
    assert [process.wait(30) for process in processes] == [0, 0]


def test_a_block_starts_it_and_lets_its_handlers_finish(
    board: JobBoard, handlers: Handlers, gate: threading.Event
) -> None:
    job = board.post("gate")
    with Conductor("test", board, handlers) as conductor:
        until_begun(conductor, job)
        threading.Timer(0.1, gate.set).start()
    assert (job.state, repr(conductor).endswith("stopped>")) == (JobState.COMPLETE, True)
    with conductor:
        assert board.post("echo", {"n": 1}).get_result(30) == {"n": 1}


def test_an_exception_in_its_block_gives_the_jobs_back_and_goes_on(board: JobBoard, handlers: Handlers) -> None:
    job = board.post("gate")
    with pytest.raises(KeyError, match="mine"), Conductor("test", board, handlers) as conductor:
        until_begun(conductor, job)
        raise KeyError("mine")
    assert (job.state, job.attempts) == (JobState.UNCLAIMED, 0)
    assert conductor.wait(0)


@pytest.mark.parametrize("kind", ["sees job.lost", "is within a step", "is a coroutine"])
def test_a_job_that_is_given_back_does_not_run_twice_at_once(board: JobBoard, kind: str) -> None:
    effects: list[str] = []
    first = Handlers()
    hurry = threading.Event()

    def pay() -> None:
        effects.append("pays")
        hurry.wait(10)
        time.sleep(0.2)
        effects.append("has paid")

    async def pay_soon(job: object) -> None:
        effects.append("pays")
        try:
            await asyncio.sleep(20)
        finally:
            await asyncio.sleep(0.2)
            effects.append("has stopped")

    def until_lost(job: RunningJob) -> None:
        effects.append("pays")
        eventually(lambda: job.lost, 20)
        time.sleep(0.2)
        effects.append("has stopped")

    if kind == "is within a step":
        first.add("pay", lambda job: job.step("pay", pay))
    else:
        first.add("pay", pay_soon if kind == "is a coroutine" else until_lost)
    second = Handlers()
    second.add("pay", lambda job: job.step("pay", lambda: effects.append("pays again")))
    with conducting(board, first, executor="asyncio" if kind == "is a coroutine" else "thread") as conductor:
        jobs = [board.post("pay") for _ in range(1)]
        eventually(lambda: effects == ["pays"])
        with conducting(board, second):
            stopping = threading.Thread(target=conductor.stop, kwargs={"drain": False})
            stopping.start()
            eventually(lambda: conductor._run.stopping)
            hurry.set()
            assert jobs[0].wait(20)
            stopping.join(20)
    again = [] if kind == "is within a step" else ["pays again"]
    assert effects == ["pays", "has paid" if kind == "is within a step" else "has stopped", *again]
