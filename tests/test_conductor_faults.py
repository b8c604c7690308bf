"""What goes wrong in one handler, one job or the store stays there: the conductor works on."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections.abc import Callable
from typing import Any

import pytest
from helpers.conducting import conducting, lossy_board, state_of, until_begun
from helpers.memory_board import board
from helpers.odd_values import ODD_ERRORS, ODD_RESULTS

from jobboard import (
    Backoff,
    BoardUnavailable,
    Broken,
    Cancelled,
    ClaimLost,
    Conductor,
    EventKind,
    Handlers,
    JobBoard,
    JobState,
    Posting,
    RunAgain,
    RunningJob,
)
from jobboard.backends.base import Waiter
from jobboard.backends.memory import MemoryBackend
from jobboard.backends.rows import JobRow
from jobboard.errors import ReplyLost
from jobboard.testing import eventually

__all__ = ["board"]

QUICK = Backoff(first=0.01, factor=1, jitter=0)


@pytest.fixture
def handlers() -> Handlers:
    handlers = Handlers()
    handlers.add("echo", lambda job: job.details)
    return handlers


class TestHandlersFaults:
    @pytest.mark.parametrize(
        "arguments", [("x",), (1j,), (None,), (True,), (math.nan,), (math.inf,), (2**70,), (1, "x"), (1, 2, b"x")]
    )
    def test_progress_that_cannot_travel_is_the_handlers_own_fault(
        self, board: JobBoard, handlers: Handlers, arguments: Any
    ) -> None:
        handlers.add("report", lambda job: job.progress(*arguments), max_attempts=1)
        with conducting(board, handlers):
            job = board.post("report")
            eventually(lambda: state_of(board, job) is JobState.TRASHED)
            assert board.post("echo").wait(10)

    def test_odd_words_of_progress_are_told_as_far_as_they_can_be(self, board: JobBoard, handlers: Handlers) -> None:
        done = threading.Event()
        handlers.add("report", lambda job: (job.progress(1, text="\ud800" + "x" * 10_000), done.wait(10)))
        with conducting(board, handlers):
            job = board.post("report")
            progress = eventually(lambda: board.get(job.uuid).record.progress)
            done.set()
            assert progress["text"].startswith("\\ud800xxx")
            assert len(progress["text"]) == 500
            assert job.wait(10)

    def test_a_result_that_cannot_be_stored_sets_its_job_aside_though_batches_fail(
        self, board: JobBoard, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: Any, **__: Any) -> None:
            raise RuntimeError("a fault that nobody foresaw")

        monkeypatch.setattr(board, "consume_many", fail)
        handlers.add("bad", lambda job: {"call": 1j})
        with conducting(board, handlers):
            bad, good = board.post("bad"), board.post("echo")
            eventually(lambda: state_of(board, bad) is JobState.TRASHED)
            assert good.wait(10)
            assert (bad.attempts, bad.record.reason) == (
                1, "its result can't be kept: result.call can't be stored: complex is not supported; convert it to str",
            )  # fmt: skip

    @pytest.mark.parametrize("executor", ["thread", "asyncio"])
    @pytest.mark.parametrize("error", [Cancelled, asyncio.CancelledError, SystemExit, KeyboardInterrupt, GeneratorExit])
    def test_no_exception_is_more_than_a_failure(
        self, board: JobBoard, handlers: Handlers, executor: str, error: type[BaseException]
    ) -> None:
        async def fail(_job: RunningJob) -> None:
            raise error

        handlers.add("fail", fail, max_attempts=2, backoff=QUICK)
        with conducting(board, handlers, executor):
            job = board.post("fail")
            eventually(lambda: state_of(board, job) is JobState.TRASHED)
            assert (job.attempts, board.get(job.uuid).record.reason) == (2, error.__name__)
            assert board.post("echo").wait(10)

    def test_an_error_of_odd_text_is_told_all_the_same(self, board: JobBoard, handlers: Handlers) -> None:
        def fail(_job: RunningJob) -> None:
            raise ValueError("\ud800\x00" + "long " * 10_000 + "\nsecond line")

        handlers.add("fail", fail, max_attempts=1)
        with conducting(board, handlers):
            job = board.post("fail")
            eventually(lambda: state_of(board, job) is JobState.TRASHED)
            record = board.get(job.uuid).record
            assert (record.reason or "").startswith("ValueError: \\ud800")
            assert len(record.last_error or "") < 20_000

    @pytest.mark.parametrize("executor", ["thread", "asyncio"])
    @pytest.mark.parametrize("name", ODD_ERRORS)
    def test_an_error_that_cannot_be_shown_is_a_failure_all_the_same(
        self, board: JobBoard, handlers: Handlers, executor: str, name: str
    ) -> None:
        def fail(_job: RunningJob) -> None:
            raise ODD_ERRORS[name]()

        async def fail_later(_job: RunningJob) -> None:
            raise ODD_ERRORS[name]()

        handlers.add("fail", fail, max_attempts=1)
        handlers.add("fail later", fail_later, max_attempts=1)
        with conducting(board, handlers, executor) as conductor:
            jobs = [board.post("fail"), board.post("fail later")]
            eventually(lambda: [state_of(board, job) for job in jobs] == [JobState.TRASHED] * 2)
            assert all(name in (board.get(job.uuid).record.reason or "") for job in jobs)
            assert board.post("echo").wait(10)
            eventually(lambda: conductor._run._renewer.held() == [])

    @pytest.mark.parametrize("executor", ["thread", "asyncio"])
    @pytest.mark.parametrize("name", ODD_RESULTS)
    def test_a_result_that_cannot_be_read_is_a_failure_that_says_so(
        self, board: JobBoard, handlers: Handlers, executor: str, name: str
    ) -> None:
        handlers.add("lie", lambda _job: ODD_RESULTS[name](), max_attempts=1)
        with conducting(board, handlers, executor):
            job = board.post("lie")
            eventually(lambda: state_of(board, job) is JobState.TRASHED)
            assert (board.get(job.uuid).record.reason or "").startswith("its result can't be kept: ")
            assert board.post("echo").wait(10)

    def test_a_cancelled_job_that_fails_or_runs_again_is_gone(self, board: JobBoard, handlers: Handlers) -> None:
        def end(job: RunningJob, how: BaseException) -> None:
            eventually(lambda: job.cancelled)
            raise how

        handlers.add("fail", lambda job: end(job, ValueError("never mind")), max_attempts=1)
        handlers.add("again", lambda job: end(job, RunAgain()))
        with conducting(board, handlers, concurrency=2):
            jobs = [board.post("fail"), board.post("again")]
            for job in jobs:
                eventually(lambda job=job: state_of(board, job) is JobState.CLAIMED)
                assert board.cancel(job) is False
            eventually(lambda: board.job_count == 0)
            assert list(board.trashed()) == []

    def test_a_cancelled_job_that_finishes_is_complete(self, board: JobBoard, handlers: Handlers) -> None:
        handlers.add("finish", lambda job: eventually(lambda: job.cancelled))
        with conducting(board, handlers):
            job = board.post("finish")
            eventually(lambda: state_of(board, job) is JobState.CLAIMED)
            board.cancel(job)
            assert job.wait(10)
            assert job.result is True

    def test_a_handler_learns_of_its_loss_by_its_checkpoint(self, board: JobBoard, handlers: Handlers) -> None:
        seen: list[object] = []
        begun, gate = threading.Event(), threading.Event()

        def write(job: RunningJob) -> None:
            begun.set()
            gate.wait(10)
            try:
                job.checkpoint_state("mine")
            except ClaimLost:
                seen.append(job.lost)

        handlers.add("write", write)
        with conducting(board, handlers) as conductor:
            conductor._run._renewer._unsubscribe()
            job = board.post("write")
            assert begun.wait(10)
            board.pause("write")
            board.release(job, reason="a test")
            gate.set()
            eventually(lambda: seen)
            assert seen == [True]

    def test_who_claims_a_job_again_has_lost_it_before(self, board: JobBoard, handlers: Handlers) -> None:
        """Even if no event and no renewal says so: a slot of the same conductor may get the next claim."""
        lost: list[int] = []

        def wait(job: RunningJob) -> str:
            if job.token == 1:
                eventually(lambda: job.lost)
                lost.append(job.token)
            return f"done under token {job.token}"

        handlers.add("wait", wait)
        with conducting(board, handlers, concurrency=2, expiry=3600) as conductor:
            job = board.post("wait")
            until_begun(conductor, job)
            conductor._run._renewer._unsubscribe()
            board.release(job, reason="a test")
            assert job.wait(10)
            assert job.result == "done under token 2"
            eventually(lambda: lost == [1])

    def test_a_handler_sees_the_record_of_its_claim_and_the_board(self, board: JobBoard, handlers: Handlers) -> None:
        def look(job: RunningJob) -> object:
            if job.attempts == 1:
                raise ValueError("the first time")
            job.board.post("echo", details={"after": job.uuid})
            return [job.owner, job.record.state, "the first time" in (job.last_error or "")]

        handlers.add("look", look, backoff=QUICK)
        with conducting(board, handlers) as conductor:
            job = board.post("look")
            assert job.wait(10)
            assert job.result == [conductor.who, "CLAIMED", True]
            eventually(lambda: board.stats().names.get("echo") is None)


class TestTheStoresFaults:
    def test_a_claim_whose_answer_is_lost_for_good_comes_back(self, handlers: Handlers) -> None:
        """Without an expiry nobody else would ever take it back."""
        with lossy_board() as (board, backend):
            # Before the conductor starts: its first claim may find nothing otherwise, and loses nothing then.
            job = board.post("echo", details={"n": 1})
            backend.lose("claim_next", "reply")
            backend.lose("claimed_under", "request", times=1000)
            with conducting(board, handlers, expiry=math.inf):
                assert job.wait(10)
                assert (job.result, job.attempts) == ({"n": 1}, 1)
                assert EventKind.ABANDONED in [line.kind for line in job.history]

    def test_an_unknown_claim_that_cannot_be_given_back_keeps_nobody_from_claiming(
        self, handlers: Handlers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr("jobboard.conductor.claimer._MAX_PAUSE", 0.1)
        with lossy_board() as (board, backend):
            lost = board.post_many([Posting("echo") for _ in range(3)])
            backend.refuse([job.uuid for job in lost])
            backend.lose("claim_next", "reply")
            backend.lose("claimed_under", "request", times=1000)
            with conducting(board, handlers, expiry=math.inf, concurrency=3):
                eventually(lambda: all(job.uuid in caplog.text for job in lost))
                others = board.post_many([Posting("echo") for _ in range(5)])
                assert all(job.wait(10) for job in others)
                backend.heal()
                assert all(job.wait(10) for job in lost)
            assert {job.attempts for job in (*lost, *others)} == {1}

    def test_what_runs_stays_claimed_when_an_unknown_claim_is_given_back(self, handlers: Handlers) -> None:
        gate = threading.Event()
        handlers.add("long", lambda job: gate.wait(30))
        with lossy_board() as (board, backend):
            claim_next, tokens = backend.inner.jobs.claim_next, list[int]()

            def lose_first_claim(*arguments: Any) -> list[JobRow]:
                rows = claim_next(*arguments)
                tokens.extend(row.token for row in rows if row.name == "echo")
                if len(set(tokens)) == 1:
                    raise ReplyLost("the connection broke")
                return rows

            backend.inner.jobs.claim_next = lose_first_claim  # type: ignore[method-assign]
            backend.lose("claimed_under", "request", times=1000)
            with conducting(board, handlers, concurrency=2) as conductor:
                long = board.post("long")
                until_begun(conductor, long)
                job = board.post("echo")
                assert job.wait(10)
                gate.set()
                assert long.wait(10)
            assert [line.kind for line in job.history][1:3] == ["CLAIMED", "ABANDONED"]
            assert [line.kind for line in long.history] == ["POSTED", "CLAIMED", "CONSUMED"]

    def test_an_absence_while_ends_are_sent_one_by_one_fails_no_job(
        self, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: Any, **__: Any) -> None:
            raise RuntimeError("a fault that nobody foresaw")

        with lossy_board() as (board, backend):
            monkeypatch.setattr(board, "consume_many", fail)
            backend.lose("consume", "refused", times=2)
            with conducting(board, handlers):
                assert board.post("echo").wait(10)

    @pytest.mark.parametrize("primitive", ["claim_next", "extend", "consume", "abandon", "trash", "waiter", "listen"])
    def test_it_outlives_an_absence_of_the_store(self, handlers: Handlers, primitive: str) -> None:
        with lossy_board() as (board, backend):
            handlers.add("fail", lambda job: 1 / 0, max_attempts=2, backoff=QUICK)
            handlers.add("long", lambda job: eventually(lambda: not backend.armed))
            backend.lose(primitive, "refused", times=2)
            with conducting(board, handlers, expiry=3.0, concurrency=3):
                jobs = board.post_many([Posting("long"), Posting("echo"), Posting("fail")])
                ends = [JobState.COMPLETE, JobState.COMPLETE, JobState.TRASHED]
                eventually(lambda: [state_of(board, job) for job in jobs] == ends)
                assert [job.attempts for job in jobs] == [1, 1, 2]

    @pytest.mark.parametrize("primitive", ["claim_next", "extend", "consume", "abandon"])
    def test_it_outlives_a_fault_that_nobody_foresaw(self, handlers: Handlers, primitive: str) -> None:
        handlers.add("fail once", lambda job: 1 / (job.attempts - 1), backoff=QUICK)
        handlers.add("long", lambda job: eventually(lambda: not faults))
        with lossy_board() as (board, backend):
            faults = [ZeroDivisionError(), ZeroDivisionError()]
            real = getattr(backend.inner.jobs, primitive)

            def fail_first(*arguments: object) -> object:
                if faults:
                    raise faults.pop()
                return real(*arguments)

            setattr(backend.inner.jobs, primitive, fail_first)
            names = {"extend": "long", "abandon": "fail once"}
            with conducting(board, handlers, expiry=0.6):
                jobs = board.post_many([Posting(names.get(primitive, "echo")) for _ in range(3)])
                assert all(job.wait(10) for job in jobs)

    def test_an_outage_is_told_once_though_claims_that_find_nothing_work(
        self, handlers: Handlers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        asked = 0

        def fail_first(_waiter: Waiter) -> float | None:
            nonlocal asked
            asked += 1
            if asked < 4:
                # A fault of another kind before it hides nothing.
                raise BoardUnavailable("the index is damaged") if asked > 1 else RuntimeError("a fault")
            return None

        with lossy_board() as (board, backend):
            with backend.waiter(None) as waiter:
                monkeypatch.setattr(type(waiter), "ready_in", fail_first)
            with caplog.at_level(logging.INFO, "jobboard"), conducting(board, handlers):
                eventually(lambda: any("its store is back" in text for text in caplog.messages))
        for words in ("waits for its store", "its store is back"):
            assert len([text for text in caplog.messages if words in text]) == 1, words

    def test_a_record_that_cannot_be_decoded_harms_no_other(self, handlers: Handlers) -> None:
        with lossy_board() as (board, backend):
            jobs = board.post_many([Posting("echo") for _ in range(3)])
            assert isinstance(backend.inner, MemoryBackend)
            with backend.inner.store.lock:
                backend.inner.store.rows[jobs[1].uuid].checkpoint = b"\xc1"
            with conducting(board, handlers, concurrency=3):
                assert jobs[0].wait(10)
                assert jobs[2].wait(10)
                trashed = eventually(lambda: list(board.iterjobs(states={JobState.TRASHED})))
                assert [job.uuid for job in trashed] == [jobs[1].uuid]

    def test_ends_that_cannot_be_sent_do_not_pile_up_without_bound(self, handlers: Handlers) -> None:
        with lossy_board() as (board, backend):
            jobs = board.post_many([Posting("echo") for _ in range(100)])
            backend.lose("consume", "refused", times=100_000)
            with conducting(board, handlers, concurrency=2):
                eventually(lambda: board.stats().claimed == 20)
                eventually(lambda: backend.calls["consume"] >= 2)
                assert board.stats().claimed == 20
                backend.heal()
                assert all(job.wait(20) for job in jobs)
                assert {job.attempts for job in jobs} == {1}

    def test_it_starts_without_its_store_and_finds_it_later(self, handlers: Handlers) -> None:
        with lossy_board() as (board, backend):
            for primitive in ("claim_next", "waiter", "listen", "entities.put"):
                backend.lose(primitive, "refused", times=1)
            with conducting(board, handlers, expiry=0.3) as conductor:
                assert board.post("echo").wait(10)
                eventually(lambda: [entity.name for entity in board.entities()] == [conductor.who])
                eventually(lambda: conductor._run._renewer._unsubscribe is not None)


def test_a_cancel_and_a_release_reach_the_handler_at_once(board: JobBoard, handlers: Handlers) -> None:
    """Long before the next renewal is due."""
    told: dict[str, Callable[[JobBoard, Any], object]] = {
        "cancelled": lambda board, job: board.cancel(job),
        "lost": lambda board, job: board.release(job, reason="a test"),
    }
    for what, tell in told.items():
        seen = threading.Event()
        name = f"wait until {what}"

        def wait(job: RunningJob, what: str = what, seen: threading.Event = seen) -> None:
            eventually(lambda: getattr(job, what))
            seen.set()

        handlers.add(name, wait)
        conductor = Conductor("test", board, handlers, expiry=3600)
        conductor.start()
        job = board.post(name)
        until_begun(conductor, job)
        board.pause(name)
        tell(board, job)
        assert seen.wait(10)
        assert conductor.stop(timeout=10)


def test_a_reason_forges_no_line_of_the_log(board: JobBoard, caplog: pytest.LogCaptureFixture) -> None:
    handlers = Handlers()

    @handlers.handler("resize", max_attempts=1)
    def resize(job: RunningJob) -> None:
        raise Broken("bad\nINFO  all is well\r\x1b[31m\u202e")

    board.post("resize")
    with caplog.at_level(logging.INFO, "jobboard"):
        conductor = Conductor("mill", board, handlers)
        conductor.start()
        eventually(lambda: board.job_count == 0)
        conductor.stop()
    assert "bad\\nINFO" in caplog.text
    assert all(record.getMessage().isprintable() for record in caplog.records)
    [trashed] = board.trashed()
    assert (trashed.record.reason or "").startswith("bad\nINFO")
