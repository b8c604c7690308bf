"""Handlers use their conductor's board, and can't close it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from helpers.conducting import conducting
from helpers.forks import FORKS, in_child
from helpers.memory_board import board

from jobboard import AsyncRunningJob, Handlers, Job, JobBoard, Posting, RunningJob, fetch
from jobboard.board import lend
from jobboard.testing import eventually

__all__ = ["board"]


def block(job: RunningJob) -> str:
    with job.board as board:
        return board.post("next").uuid


def close(job: RunningJob) -> str:
    posted = job.board.post("next")
    job.board.close()
    job.board.close()
    return posted.uuid


def close_by_a_job(job: RunningJob) -> str:
    posted = job.board.post("next")
    for found in (posted, job.board.get(posted.uuid), *job.board.iterjobs()):
        found.board.close()  # type: ignore[attr-defined]
    return posted.uuid


async def block_later(job: AsyncRunningJob) -> str:
    async with job.board as board:
        return (await board.post("next")).uuid


async def close_later(job: AsyncRunningJob) -> str:
    posted = await job.board.post("next")
    await job.board.close()
    await job.board.close()
    return posted.uuid


@pytest.mark.parametrize("executor", ["thread", "asyncio"])
@pytest.mark.parametrize("handler", [block, close, close_by_a_job, block_later, close_later])
def test_the_conductor_works_on_whatever_a_handler_closes(
    board: JobBoard, executor: str, handler: Callable[[Any], Any]
) -> None:
    handlers = Handlers(max_attempts=1)
    handlers.add("work", handler)
    handlers.add("next", lambda job: "done")
    told: list[str] = []
    board.subscribe(lambda event: told.append(event.uuid or ""))
    with conducting(board, handlers, executor, concurrency=2):
        for _ in range(2):
            jobs = board.post_many([Posting("work") for _ in range(3)])
            posted: list[Job] = [board.get(job.get_result(30)) for job in jobs]
            assert [job.get_result(30) for job in posted] == ["done"] * 3
    assert board.connected
    # The subscriptions of its owner go on as well.
    eventually(lambda: {job.uuid for job in posted} <= set(told))


def test_a_stream_of_another_handler_goes_on(board: JobBoard) -> None:
    handlers, listens, received = Handlers(max_attempts=1), threading.Event(), list[str]()

    @handlers.handler("listen")
    async def listen(job: AsyncRunningJob) -> None:
        async with job.board.subscribe() as events:
            listens.set()
            async for event in events:
                received.append(event.name or "")
                if event.name == "last":
                    return

    handlers.add("close", close_later)
    handlers.add("next", lambda job: None)
    with conducting(board, handlers, "asyncio", concurrency=2):
        listening = board.post("listen")
        assert listens.wait(30)
        for _ in range(2):
            assert board.post("close").wait(30)
        board.post("last")
        assert listening.wait(30)
    assert "close" in received


def test_what_is_lent_is_the_same_for_all_and_closed_with_its_board(board: JobBoard) -> None:
    lent = lend(board)
    assert lend(board) is lend(lent) is lent
    job = board.post("work")
    assert lent.get(job.uuid) == job
    [claimed] = lent.claim_next("alice")
    # What one knows of a claim, both know.
    board.consume(claimed.uuid, "alice")
    assert (lent.name, lent.connected) == (board.name, True)
    board.close()
    assert not lent.connected


@FORKS
def test_a_forked_child_closes_what_it_has_opened_itself(tmp_path: Any) -> None:
    with fetch("work", f"sqlite:///{tmp_path}/jobs.db") as board:
        lent = lend(board)

        def work() -> None:
            with lent as own:
                own.post("work")
                assert own.connected
            assert not lent.connected

        assert in_child(work) == 0
        assert (lent.connected, board.job_count) == (True, 1)
