"""The kit for users' own tests: a board of one test, its clock, what was posted, and mode inline."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import ANY
from uuid import UUID

import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession

from jobboard import (
    Backoff,
    Converter,
    Every,
    Handlers,
    Job,
    JobBoard,
    JobState,
    Posting,
    RunningJob,
    Schedule,
    aio,
    backend,
    fetch,
)
from jobboard.errors import NotSupported
from jobboard.testing import all_posted, clock_of, fire_due, inline, memory_board, posted, refuse, run_due
from jobboard.testing.deadline import DEADLINE

handlers = Handlers()


@handlers.handler("add")
def add(job: RunningJob) -> int:
    return sum(job.details["numbers"])


@handlers.handler("add later")
async def add_later(job: RunningJob) -> int:
    await asyncio.sleep(0)
    return sum(job.details["numbers"])


@handlers.handler("fail", max_attempts=2, backoff=Backoff(first=60, jitter=0))
def fail(job: RunningJob) -> None:
    raise LookupError("no such order")


@handlers.handler("chain")
def chain(job: RunningJob) -> None:
    if job.details["left"]:
        job.board.post("chain", details={"left": job.details["left"] - 1})


@pytest.fixture
def board() -> Iterator[JobBoard]:
    with memory_board() as board:
        yield board


# -- the clock -------------------------------------------------------------------------------------------------------


def test_a_delay_ends_when_the_clock_is_moved(board: JobBoard) -> None:
    job = board.post("add", details={"numbers": [1]}, delay=3600)
    at = board.post("add", details={"numbers": [2]}, run_at=datetime.now(UTC) + timedelta(days=1))
    assert run_due(board, handlers) == []
    clock_of(board).move(timedelta(hours=1))
    assert run_due(board, handlers) == [job]
    clock_of(board).move_to(datetime.now(UTC) + timedelta(days=1))
    assert run_due(board, handlers) == [at]


def test_a_claim_expires_when_the_clock_is_moved(board: JobBoard) -> None:
    job = board.post("add")
    board.claim(job, "somebody", 30)
    clock_of(board).move(31)
    assert job.state is JobState.UNCLAIMED


def test_a_schedule_fires_when_the_clock_is_moved(board: JobBoard) -> None:
    board.schedules.add(
        Schedule("nightly", Every(minutes=5), "add", details={"numbers": [1]}, coalesce="all", max_instances=None)
    )
    assert fire_due(board) == 0
    clock_of(board).move(timedelta(minutes=15))
    assert fire_due(board) == 3
    assert len(run_due(board, handlers)) == 3


def test_the_clock_begins_where_a_test_says() -> None:
    eve = datetime(1999, 12, 31, 23, 59, tzinfo=UTC)
    with memory_board(now=eve) as board:
        job = board.post("add")
        assert eve <= job.created_on < eve + timedelta(minutes=1)
        assert clock_of(board).move_to(eve + timedelta(minutes=1)).year == 2000


def test_whoever_waits_wakes_when_the_clock_is_moved(board: JobBoard) -> None:
    board.post("add", delay=3600)
    found: list[list[Job]] = []
    waiting = threading.Event()

    def wait() -> None:
        waiting.set()
        found.append(list(board.wait(3000)))

    thread = threading.Thread(target=wait)
    thread.start()
    waiting.wait(DEADLINE)
    clock_of(board).move(3600)
    thread.join(DEADLINE)
    assert [[job.name for job in jobs] for jobs in found] == [["add"]]


def test_boards_on_one_store_share_the_clock_that_was_put_into_it() -> None:
    with backend("shared", "memory://kit-clock") as one, backend("shared", "memory://kit-clock") as two:
        job = one.post("add", delay=3600)
        clock_of(two).move(3600)
        assert job.state is JobState.UNCLAIMED
        assert clock_of(one) is clock_of(two)


@pytest.mark.parametrize("step", [-1, float("nan"), float("inf"), timedelta(seconds=-1)])
def test_time_goes_forward_only(board: JobBoard, step: object) -> None:
    with pytest.raises(ValueError):
        clock_of(board).move(step)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="memory_board"):
        clock_of(board).move_to(datetime(1999, 12, 31, tzinfo=UTC))


def test_what_cannot_be_moved_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotSupported, match=r"sqlite board goes by time\.time"):
        clock_of(fetch("kit", f"sqlite:///{tmp_path}/jobs.db"))
    with pytest.raises(NotSupported, match="redis board goes by its server's clock"):
        clock_of(fetch("kit", "redis://localhost:1"))


# -- what was posted -------------------------------------------------------------------------------------------------


def test_a_posted_job_is_found_by_a_part_of_its_details(board: JobBoard) -> None:
    job = board.post("mail", details={"to": ("ann", "bob"), "order": 1}, key="one")
    assert posted(board, "mail") == job
    assert posted(board, "mail", details={"to": ("ann", "bob")}, key="one") == job
    assert posted(board, "mail", {"order": ANY}) == job
    refuse(board, "mail", details={"order": 2})
    refuse(board, "mail", details={"late": None})
    refuse(board, "mail", key="two")
    refuse(board, "add")


def test_details_of_further_types_are_found() -> None:
    with memory_board(converter=Converter()) as board:
        ids = (UUID(int=1), UUID(int=2))
        job = board.post("mail", details={"to": ids})
        assert posted(board, "mail", details={"to": ids}) == job
        refuse(board, "mail", details={"to": ids[:1]})


def test_the_newest_of_several_is_returned_and_all_are_listed(board: JobBoard) -> None:
    first = board.post("add", details={"numbers": []}, priority="low")
    run_due(board, handlers)
    second, third = board.post("add", delay=60), board.post("add", priority="high")
    assert posted(board, "add") == third
    assert all_posted(board, "add") == all_posted(board) == [first, second, third]


def test_what_is_missing_is_told_with_what_there_is(board: JobBoard) -> None:
    with pytest.raises(AssertionError, match="no job 'mail' was posted; the board is empty"):
        posted(board, "mail")
    board.post("mail", details={"to": "ann"})
    with pytest.raises(AssertionError, match=r"(?s)'mail' with details {'to': 'bob'}.*UNCLAIMED details={'to': 'ann'}"):
        posted(board, "mail", details={"to": "bob"})
    with pytest.raises(AssertionError, match="a job 'mail' was posted"):
        refuse(board, "mail")


def test_what_ended_is_still_there_after_years(board: JobBoard) -> None:
    board.post("add", details={"numbers": [1]})
    run_due(board, handlers)
    clock_of(board).move(timedelta(days=1000))
    assert posted(board, "add").result == 1


# -- inline ----------------------------------------------------------------------------------------------------------


def test_inline_runs_the_handler_at_the_post(board: JobBoard) -> None:
    with inline(board, handlers):
        job = board.post("add", details={"numbers": [1, 2]})
        assert (job.result, job.token) == (3, None)
        (one, other) = board.post_many([Posting("add", details={"numbers": [n]}) for n in (1, 2)])
        assert (one.result, other.result) == (1, 2)
        board.post("chain", details={"left": 2})
        with pytest.raises(LookupError):
            board.post("fail")
        later, unknown = board.post("add", delay=60), board.post("nobody's")
    assert [job.state for job in all_posted(board, "chain")] == [JobState.COMPLETE] * 3
    assert [posted(board, "fail").state, later.state, unknown.state] == [
        JobState.DELAYED,
        JobState.DELAYED,
        JobState.UNCLAIMED,
    ]
    assert board.post("add", details={"numbers": []}).state is JobState.UNCLAIMED


def test_code_that_posts_in_a_transaction_can_be_tested_in_memory(board: JobBoard) -> None:
    job = board.post("add", details={"numbers": [1]}, connection=object())
    assert posted(board, "add") == job
    with inline(board, handlers):
        assert board.post("add", details={"numbers": [2]}, connection=object()).result == 2


def test_what_is_posted_in_a_transaction_does_not_run_before_the_commit(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/jobs.db")
    with backend("kit", f"sqlite:///{tmp_path}/jobs.db") as board, inline(board, handlers):
        with engine.begin() as connection:
            job = board.post("add", details={"numbers": [1]}, connection=connection)
        assert job.state is JobState.UNCLAIMED
        assert run_due(board, handlers) == [job]
    engine.dispose()


def test_a_board_of_coroutines_shares_the_board_of_the_test(board: JobBoard) -> None:
    async def test() -> None:
        app = aio.AsyncJobBoard(board)
        async with AsyncSession() as session:
            job = await app.post("add later", details={"numbers": [1, 2]}, connection=session)
        assert posted(board, "add later").uuid == job.uuid
        run_due(board, handlers)
        assert await job.result == 3

    asyncio.run(test())


def test_a_board_in_memory_is_gone_at_the_end() -> None:
    with memory_board("orders") as board:
        board.post("add")
    with memory_board("orders") as again:
        assert again.job_count == 0


@pytest.mark.parametrize("bad", [None, object()])
def test_bad_arguments_are_refused(board: JobBoard, bad: object) -> None:
    for call in (
        clock_of,
        fire_due,
        all_posted,
        lambda board: posted(board, "add"),
        lambda board: run_due(board, handlers),
    ):
        with pytest.raises(TypeError, match="board must be"):
            call(bad)  # type: ignore[operator]
    with pytest.raises(TypeError, match="handlers must be"):
        run_due(board, bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        run_due(board, handlers, limit=0)


def test_the_kit_needs_no_pytest() -> None:
    code = (
        "import sys; from jobboard.testing import memory_board, posted, run_due, inline, clock_of;"
        "assert not {'pytest', 'hypothesis'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
