"""What a handler reports right before its end is in the record of the job, however it ends, and what that costs."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Sequence
from typing import Any

import pytest
from helpers import work
from helpers.conducting import conducting, lossy_board
from helpers.memory_board import board

from jobboard import Handlers, JobBoard, JobState, Posting, RunningJob, fetch
from jobboard.board.renewer import LeaseRenewer
from jobboard.conductor.completer import Completer
from jobboard.conductor.execution import Execution
from jobboard.conductor.outcome import Failed, Succeeded
from jobboard.conductor.slots import Slots
from jobboard.testing import eventually

__all__ = ["board"]

EXECUTORS = ("thread", "process", "asyncio")
REPORT = {"done": 20, "total": 20}
ENDS = {
    "return": JobState.COMPLETE, "complete": JobState.COMPLETE, "broken": JobState.TRASHED, "raise": JobState.DELAYED,
    "again": JobState.DELAYED, "sleep": JobState.DELAYED, "wait": JobState.BLOCKED,
}  # fmt: skip


@pytest.mark.parametrize("executor", EXECUTORS)
def test_the_record_shows_the_last_report_however_the_run_ends(board: JobBoard, executor: str) -> None:
    with conducting(board, work.handlers, executor, concurrency=2):
        jobs = {end: board.post("report and end", {"end": end}) for end in ENDS}
        later = board.post("report and end later")
        assert later.wait(30)
        eventually(lambda: {end: board.get(job.uuid).state for end, job in jobs.items()} == ENDS, 30)
    records = {end: board.get(job.uuid).record for end, job in jobs.items()}
    assert {end: record.progress for end, record in records.items()} == dict.fromkeys(ENDS, REPORT)
    assert board.get(later.uuid).record.progress == REPORT


def test_a_report_that_is_larger_than_details_may_be_stops_no_renewal() -> None:
    handlers, inside = Handlers(), threading.Event()

    @handlers.handler("report")
    def report(job: RunningJob) -> None:
        job.progress(1, text="\u8a9e" * 500)
        assert inside.wait(30)

    with fetch("work", f"memory://{uuid.uuid4().hex}", largest_details=1000) as board:
        jobs = board.post_many([Posting("report") for _ in range(3)])
        with conducting(board, handlers, concurrency=3):
            eventually(lambda: all(board.get(job.uuid).record.progress for job in jobs))
            inside.set()
            assert all(job.wait(10) for job in jobs)


class Ends:
    """A completer and a renewer whose threads a test starts; the executions of jobs that it claimed."""

    def __init__(self, board: JobBoard, number: int) -> None:
        board.post_many([Posting("echo") for _ in range(number)])
        handlers = Handlers()
        handlers.add("echo", lambda job: None, max_attempts=1)
        jobs = board.claim_next("alice", limit=number)
        self.executions = [Execution(job, handlers["echo"], 0.0, self) for job in jobs]
        self.ended = list[str]()
        self.renewer = LeaseRenewer[Execution](
            *(board, "alice", 30.0, lambda _: None, lambda _: None, lambda: None, logging.getLogger("test"), "a test")
        )
        self._completer = Completer(
            *(board, "alice", Slots(number), self.renewer.send_reports, self._note_ends, lambda: None)
        )

    def send(self, *, is_failure: bool = False) -> None:
        """Send all ends in one batch, and wait for them."""
        for execution in self.executions:
            execution.decide(Failed("a test") if is_failure else Succeeded())
            self._completer.send(execution)
        self._completer.start()
        eventually(lambda: len(self.ended) == len(self.executions))
        self._completer.stop(10)

    def _note_ends(self, executions: Sequence[Execution]) -> None:
        self.ended += [execution.ended_as for execution in executions]

    def began(self, execution: Execution) -> None: ...
    def reported(self, execution: Execution) -> None: ...
    def ending(self, execution: Execution) -> None: ...
    def lost(self, execution: Execution) -> None: ...


@pytest.mark.parametrize(("reporting", "requests"), [(0, 0), (1, 1), (3, 1)])
@pytest.mark.parametrize("is_failure", [False, True])
def test_a_batch_of_ends_costs_one_request_more_if_there_is_a_report(
    reporting: int, requests: int, is_failure: bool
) -> None:
    with lossy_board() as (board, backend):
        ends = Ends(board, 3)
        backend.calls.clear()
        for number, execution in enumerate(ends.executions[:reporting]):
            execution.report({"done": number})
        ends.send(is_failure=is_failure)
        calls = dict(backend.calls)
        shown = [board.get(each.job.uuid).record.progress for each in ends.executions]
    its_ends = {"trash": 3} if is_failure else {"consume": 1}
    assert calls == its_ends | ({"extend": requests} if requests else {})
    assert shown == [{"done": number} for number in range(reporting)] + [None] * (3 - reporting)


@pytest.mark.parametrize("fault", ["refused", "reply", "request"])
def test_a_report_that_does_not_get_through_stops_no_end(fault: Any) -> None:
    with lossy_board() as (board, backend):
        ends = Ends(board, 3)
        for execution in ends.executions:
            execution.report(REPORT)
        backend.lose("extend", fault, times=10)
        ends.send()
    assert ends.ended == ["consumed"] * 3


def test_reports_are_sent_with_the_ends_once_the_store_is_back() -> None:
    with lossy_board() as (board, backend):
        ends = Ends(board, 3)
        for execution in ends.executions:
            execution.report(REPORT)
        # After each of the first two, it is read whether the store answers at all.
        for primitive, times in (("extend", 1), ("consume", 1), ("read", 2)):
            backend.lose(primitive, "refused", times)
        ends.send()
        shown = [board.get(each.job.uuid).record.progress for each in ends.executions]
    assert (ends.ended, shown) == (["consumed"] * 3, [REPORT] * 3)


def test_a_claim_that_is_lost_costs_the_reports_of_no_others() -> None:
    with lossy_board() as (board, _):
        ends = Ends(board, 3)
        for execution in ends.executions:
            execution.report(REPORT)
        lost = ends.executions[1].job
        board.release(lost)
        ends.send()
        shown = [board.get(each.job.uuid).record.progress for each in ends.executions]
    assert (ends.ended.count("consumed"), ends.ended.count("lost")) == (2, 1)
    assert shown == [REPORT, None, REPORT]


def test_an_earlier_report_that_is_under_way_does_not_become_the_last_one() -> None:
    with lossy_board() as (board, backend):
        ends, entered, done = Ends(board, 1), threading.Event(), threading.Event()
        extend, consume = backend.inner.jobs.extend, backend.inner.jobs.consume

        def slow_at_first(extensions: Any) -> Any:
            if entered.is_set():
                return extend(extensions)
            entered.set()
            threading.Event().wait(0.1)
            answers = extend(extensions)
            done.set()
            return answers

        def consume_then(ends: Any) -> Any:
            assert done.wait(10)
            return consume(ends)

        backend.inner.jobs.extend, backend.inner.jobs.consume = slow_at_first, consume_then  # type: ignore[method-assign]
        execution = ends.executions[0]
        ends.renewer.add([execution])
        execution.report({"done": 15})
        ends.renewer.start()
        ends.renewer.renew_soon()
        assert entered.wait(10)
        execution.report(REPORT)
        ends.send()
        ends.renewer.stop(10)
        assert board.get(execution.job.uuid).record.progress == REPORT


def test_a_report_that_a_renewal_has_sent_is_not_sent_again() -> None:
    with lossy_board() as (board, backend):
        ends = Ends(board, 1)
        execution = ends.executions[0]
        ends.renewer.add([execution])
        execution.report(REPORT)
        ends.renewer.start()
        ends.renewer.renew_soon()
        eventually(lambda: execution.progress is None)
        ends.renewer.stop(10)
        sent = backend.calls["extend"]
        ends.send()
        assert (backend.calls["extend"], board.get(execution.job.uuid).record.progress) == (sent, REPORT)
