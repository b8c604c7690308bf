"""What a handler reads of its job, in threads, on asyncio and in worker processes."""

from __future__ import annotations

import pickle
import traceback
import uuid
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from helpers.memory_board import board

from jobboard import AsyncRunningJob, Backoff, Handlers, InvalidPosting, JobBoard, JobState, LogBook, RunningJob
from jobboard.conductor.job_facts import JobFacts, JobSnapshot
from jobboard.logbook import BookRef
from jobboard.testing import memory_board, run_due

__all__ = ["board"]

FACTS = sorted(name for name, member in vars(JobFacts).items() if isinstance(member, property))


def snapshot_of(board: JobBoard, **options: Any) -> JobSnapshot:
    board.post("resize", **options)
    (job,) = board.claim_next("somebody")
    return JobSnapshot(job)


def running(snapshot: JobSnapshot) -> RunningJob:
    return RunningJob(snapshot, cast(Any, None))


def test_the_facts_are_those_of_the_claimed_job(board: JobBoard) -> None:
    book = LogBook("moves")
    snapshot = snapshot_of(board, book=book, details={"a": 1}, key="k", priority="HIGH", max_attempts=3)
    job, claimed = running(snapshot), snapshot.job
    of_the_handle = [name for name in FACTS if name not in {"attempts", "board_name", "last_error", "owner"}]
    assert {name: getattr(job, name) for name in of_the_handle} == {
        name: getattr(claimed, name) for name in of_the_handle
    }
    assert (job.board_name, job.owner, job.attempts, job.last_error) == ("work", "somebody", 1, None)
    assert (job.details, job.key, job.book_uuid, job.book_name) == ({"a": 1}, "k", book.uuid, "moves")


def test_they_are_the_same_for_async_handlers_and_in_worker_processes(board: JobBoard) -> None:
    ref = BookRef("taskflow", "postgresql://db/flows", "resize", uuid.uuid4().hex)
    snapshot = snapshot_of(board, book=ref, details={"at": datetime(2030, 1, 2, tzinfo=UTC)})
    job, elsewhere = running(snapshot), running(pickle.loads(pickle.dumps(snapshot)))
    facts = {name: getattr(job, name) for name in FACTS}
    assert {name: getattr(AsyncRunningJob(job), name) for name in FACTS} == facts
    assert {name: getattr(elsewhere, name) for name in FACTS} == facts


def test_nothing_is_made_of_what_is_not_read(board: JobBoard) -> None:
    job = running(snapshot_of(board))
    assert (job.uuid, job.details, job.attempts, job.token) is not None
    assert job._snapshot.job._record is None
    assert job.record.attempts == 1
    assert job._snapshot.job._record is not None


@pytest.mark.parametrize("name", ["snapshot", "context", "job", "detials", "progres"])
def test_an_unknown_name_suggests_nothing_internal(board: JobBoard, name: str) -> None:
    job = running(snapshot_of(board))
    for one in (job, AsyncRunningJob(job)):
        with pytest.raises(AttributeError) as caught:
            getattr(one, name)
        told = "".join(traceback.format_exception(caught.value)).splitlines()[-1]
        assert "_" not in told.replace(f"'{name}'", "")
    assert {"details", "progress", "checkpoint_state"} <= set(dir(job))


@pytest.mark.parametrize(("state", "path"), [({"found": object()}, "checkpoint.found"), (b"x" * 600_000, "checkpoint")])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_checkpoint_that_cannot_be_stored_is_the_last_attempt(state: object, path: str, is_async: bool) -> None:
    async def order_later(job: AsyncRunningJob) -> None:
        await job.checkpoint_state(state)

    handlers = Handlers(backoff=Backoff(first=0, jitter=0))
    handlers.add("order", order_later if is_async else lambda job: job.checkpoint_state(state))
    with memory_board() as board:
        job = board.post("order", max_attempts=3)
        with pytest.raises(InvalidPosting) as caught:
            run_due(board, handlers)
        assert caught.value.path == path
        assert (job.state, job.record.attempts) == (JobState.TRASHED, 1)
