"""What a conductor asks its store, and how often."""

from __future__ import annotations

import threading
import time

import pytest
from helpers.conducting import conducting, lossy_board

from jobboard import Handlers, Posting, RunningJob
from jobboard.testing import eventually


@pytest.fixture
def handlers() -> Handlers:
    handlers = Handlers()
    handlers.add("echo", lambda job: job.details)
    return handlers


def test_free_slots_are_filled_in_one_request_and_emptied_in_few(handlers: Handlers) -> None:
    with lossy_board() as (board, backend):
        jobs = board.post_many([Posting("echo") for _ in range(160)])
        with conducting(board, handlers, concurrency=16):
            assert all(job.wait(10) for job in jobs)
        # A busy machine makes smaller batches.
        assert backend.calls["claim_next"] <= 120
        assert backend.calls["consume"] <= 120


def test_an_idle_conductor_asks_nothing_however_many_jobs_others_hold(handlers: Handlers) -> None:
    with lossy_board() as (board, backend):
        board.post_many([Posting("echo") for _ in range(500)])
        assert len(board.claim_next("another", limit=500, expiry=600)) == 500
        with conducting(board, handlers):
            assert backend.blocked.wait(10)
            backend.calls.clear()
            assert not threading.Event().wait(0.5)
            assert sum(backend.calls.values()) == 0


def test_it_looks_for_unknown_claims_only_after_a_claim_without_an_answer(handlers: Handlers) -> None:
    with lossy_board() as (board, backend), conducting(board, handlers):
        assert backend.blocked.wait(10)
        for _ in range(3):
            assert board.post("echo").wait(10)
        assert backend.calls["page"] == 0


def test_a_job_that_is_said_to_be_ready_but_is_not_there_is_no_reason_to_spin(handlers: Handlers) -> None:
    with lossy_board() as (board, backend):
        board.post("echo")
        backend.inner.jobs.claim_next = lambda *_: []  # type: ignore[method-assign]
        began = time.monotonic()
        with conducting(board, handlers):
            eventually(lambda: backend.calls["claim_next"] > 2)
            assert not threading.Event().wait(0.3)
        assert backend.calls["claim_next"] < 200 * (time.monotonic() - began)


def test_many_reports_of_progress_are_few_requests(handlers: Handlers) -> None:
    def report(job: RunningJob) -> None:
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            job.progress(until)

    handlers.add("report", report)
    began = time.monotonic()
    with lossy_board() as (board, backend), conducting(board, handlers):
        assert board.post("report").wait(10)
        assert backend.calls["extend"] <= 2 + 2 * (time.monotonic() - began)
