"""Jobs that a conductor claims ahead begin at once or go back: none waits behind a long one, and none is lost."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from helpers import work
from helpers.conducting import conducting, lossy_board, state_of
from helpers.memory_board import board

from jobboard import Conductor, EventKind, Handlers, Job, JobBoard, JobState, Posting
from jobboard.quiet import set_quiet
from jobboard.testing import eventually

__all__ = ["board"]

EXECUTORS = ("thread", "process", "asyncio")


@pytest.fixture
def far_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every handler counts as quick, so what is claimed ahead does not depend on how busy the machine is."""
    monkeypatch.setattr("jobboard.conductor.slots._SOON", 3600.0)


def nap(seconds: float, executor: str = "thread") -> Posting:
    return Posting("nap later" if executor == "asyncio" else "nap", details={"seconds": seconds})


def waiting(conductor: Conductor) -> list[Job]:
    run = conductor._run
    return [] if run is None else [execution.job for execution in list(run._slots._waiting)]


def claim_ahead(board: JobBoard, conductor: Conductor, executor: str, slots: int = 1) -> list[Job]:
    """Let a conductor of one or two slots claim ahead behind handlers that run on and on; return what waits."""
    quick, long = nap(0, executor), nap(60, executor)
    posted = board.post_many([quick] * 3 * slots + [long] * slots + [quick] * 10 * slots)
    behind = posted[4 * slots : 5 * slots]
    return eventually(lambda: waiting(conductor) == behind and behind, 20)


@pytest.mark.parametrize("executor", EXECUTORS)
class TestEveryExecutor:
    def test_of_many_quick_jobs_beside_a_long_one_none_waits(self, board: JobBoard, executor: str) -> None:
        with conducting(board, work.handlers, executor, concurrency=3):
            jobs = board.post_many([nap(0, executor)] * 100 + [nap(60, executor)] + [nap(0, executor)] * 500)
            long = jobs.pop(100)
            assert all(job.wait(60) for job in jobs)
            assert state_of(board, long) is JobState.CLAIMED
            for job in jobs:
                claimed = max(line.at for line in job.history if line.kind is EventKind.CLAIMED).timestamp()
                assert job.record.result - claimed < 20
                assert job.record.attempts == 1

    def test_what_waits_behind_a_long_one_goes_to_another_conductor(
        self, board: JobBoard, executor: str, far_ahead: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with conducting(board, work.handlers, executor) as conductor:
            [job] = claim_ahead(board, conductor, executor)
            monkeypatch.undo()
            lines = eventually(lambda: (lines := job.history)[-1].kind is EventKind.ABANDONED and lines)
            assert (lines[-2].kind, lines[-1].reason) == (EventKind.CLAIMED, "no slot was free for it in time")
            assert (lines[-1].at - lines[-2].at).total_seconds() < 20
            with conducting(board, work.handlers, executor):
                assert job.wait(20)
                assert job.attempts == 1, "it began once"

    def test_a_stop_gives_back_at_once_what_has_not_begun(
        self, board: JobBoard, executor: str, far_ahead: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("jobboard.conductor.slots.MAX_WAIT", 3600.0)
        with conducting(board, work.handlers, executor, concurrency=2) as conductor:
            last = claim_ahead(board, conductor, executor, 2)[-1]
            assert state_of(board, last) is JobState.CLAIMED
            stopper = threading.Thread(target=conductor.stop)
            stopper.start()
            eventually(lambda: state_of(board, last) is JobState.UNCLAIMED, 10)
            record = board.get(last.uuid).record
            assert (record.attempts, record.reason) == (0, "its conductor stopped")
            assert stopper.is_alive(), "what runs may finish"
            conductor.stop(drain=False)
            stopper.join(10)

    def test_a_cancel_and_a_release_reach_what_has_not_begun(
        self, board: JobBoard, executor: str, far_ahead: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("jobboard.conductor.slots.MAX_WAIT", 3600.0)
        with conducting(board, work.handlers, executor, concurrency=2, grace=0.05) as conductor:
            first, second = claim_ahead(board, conductor, executor, 2)
            board.pause()
            board.cancel(first)
            board.release(second, reason="a test")
            eventually(lambda: waiting(conductor) == [])
            eventually(lambda: first.uuid not in {job.uuid for job in board.iterjobs()})
            assert (state_of(board, second), second.attempts) == (JobState.UNCLAIMED, 1)
            assert conductor._run.health()["stuck"] == 0

    def test_it_claims_only_for_free_slots_if_told_so(self, executor: str) -> None:
        with lossy_board() as (board, backend):
            asked = watch_claims(backend)
            with conducting(board, work.handlers, executor, prefetch=False, concurrency=2) as conductor:
                asked.of = conductor
                jobs = board.post_many([nap(0.001, executor)] * 100)
                assert all(job.wait(30) for job in jobs)
                assert asked.most <= 2

    def test_it_claims_at_most_as_many_again_as_it_has_slots(self, executor: str, far_ahead: None) -> None:
        with lossy_board() as (board, backend):
            asked = watch_claims(backend)
            with conducting(board, work.handlers, executor, concurrency=2) as conductor:
                asked.of = conductor
                jobs = board.post_many([nap(0.001, executor)] * 100)
                assert all(job.wait(30) for job in jobs)
                assert 2 < asked.most <= 4


def test_a_quiet_conductor_gives_back_what_has_not_begun(
    board: JobBoard, far_ahead: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobboard.conductor.slots.MAX_WAIT", 3600.0)
    with conducting(board, work.handlers) as conductor:
        [job] = claim_ahead(board, conductor, "thread")
        set_quiet(board, [conductor.who], True)
        conductor._run._heartbeat.register_again()
        conductor._run._renewer.renew_soon()
        eventually(lambda: state_of(board, job) is JobState.UNCLAIMED)
        assert board.get(job.uuid).record.reason == "its conductor is to be quiet"


def test_a_slot_in_place_of_a_stuck_one_runs_what_waits(
    board: JobBoard, far_ahead: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobboard.conductor.slots.MAX_WAIT", 3600.0)
    gate, handlers = threading.Event(), Handlers()
    handlers.add("nap", lambda job: job.details["seconds"] and gate.wait(30))
    with conducting(board, handlers, grace=0.05) as conductor:
        [job] = claim_ahead(board, conductor, "thread")
        # The end of a quick one may be under way still.
        [long] = [each for each in board.iterjobs(states={JobState.CLAIMED}) if each.details["seconds"]]
        # Another claim would start it, too.
        board.pause()
        board.cancel(long)
        assert job.wait(10)
        gate.set()


class Asked:
    """The most jobs that had begun or waited, or were asked for, when a conductor claimed."""

    most = 0
    of: Conductor | None = None


def watch_claims(backend: Any) -> Asked:
    asked, claim_next = Asked(), backend.inner.jobs.claim_next

    def watch(claim: Any, names: Any, limit: int) -> Any:
        if asked.of is not None:
            asked.most = max(asked.most, asked.of._run._slots.taken + len(waiting(asked.of)) + limit)
        return claim_next(claim, names, limit)

    backend.inner.jobs.claim_next = watch
    return asked


class TestOrder:
    def test_jobs_begin_in_the_boards_order_whatever_their_names(
        self, board: JobBoard, far_ahead: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # A job that is given back begins later.
        monkeypatch.setattr("jobboard.conductor.slots.MAX_WAIT", 3600.0)
        begun: list[int] = []
        handlers = Handlers()
        for name in ("quick", "slow"):
            handlers.add(name, lambda job: (begun.append(job.sequence), time.sleep(0.002 * (job.name == "slow"))))
        jobs = board.post_many([Posting(("quick", "slow")[n % 3 == 0], priority="low") for n in range(100)])
        with conducting(board, handlers):
            assert all(job.wait(20) for job in jobs)
        assert begun == sorted(begun)

    def test_nothing_is_claimed_ahead_of_a_name_that_takes_long(self) -> None:
        with lossy_board() as (board, backend):
            asked = watch_claims(backend)
            with conducting(board, work.handlers, concurrency=2) as conductor:
                asked.of = conductor
                jobs = board.post_many([nap(0.1)] * 10)
                assert all(job.wait(30) for job in jobs)
                assert asked.most <= 2

    def test_an_empty_board_is_asked_once_for_each_job(self) -> None:
        """Then it waits for a job with a slot that is free, or it would take the wake-up of another conductor."""
        with lossy_board() as (board, backend), conducting(board, work.handlers):
            for _ in range(5):
                assert backend.blocked.wait(10)
                backend.blocked.clear()
                backend.calls.clear()
                assert board.post("nap", details={"seconds": 0}).wait(10)
                assert backend.blocked.wait(10)
                assert backend.calls["claim_next"] <= 2


@pytest.mark.parametrize("value", [None, 1, "no"])
def test_odd_options_are_refused(board: JobBoard, value: Any) -> None:
    with pytest.raises(TypeError, match="prefetch"):
        Conductor("test", board, work.handlers, prefetch=value)
