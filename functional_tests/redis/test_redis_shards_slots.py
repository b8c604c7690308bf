"""A limit of a name on three Redis servers: ``why`` says who has the slot, and a slot moves as it says."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from servers.redis_servers import RedisServer

from jobboard import Conductor, Handlers, Job, JobBoard, fetch
from jobboard.backends.shards.placement import new_uuid
from jobboard.operate.why import why
from jobboard.states import JobState
from jobboard.testing import eventually

NAME = "resize"


@pytest.fixture
def board() -> Iterator[JobBoard]:
    with ExitStack() as stack:
        uris = [stack.enter_context(RedisServer()).uri for _ in range(3)]
        yield stack.enter_context(fetch("photos", "shards://", uris=uris))


def text(board: JobBoard, job: Job) -> str:
    return next(reason.text for reason in why(board, board.get(job.uuid)) if reason.kind == "name_slots")


def test_each_job_is_told_which_shard_runs_another(board: JobBoard) -> None:
    board.limits.set(name=NAME, running=1)
    ends = threading.Semaphore(0)
    handlers = Handlers()
    handlers.add(NAME, lambda job: ends.acquire(timeout=60))
    left = {number: board.post(NAME, uuid=new_uuid(number)) for number in range(3)}
    with Conductor("mill", board, handlers, concurrency=4):
        while left:
            eventually(lambda: any(board.iterjobs(states={JobState.CLAIMED})), within=60)
            [running] = board.iterjobs(states={JobState.CLAIMED})
            [on] = [number for number, job in left.items() if job.uuid == running.uuid]
            del left[on]
            for number, job in left.items():
                said = text(board, job)
                assert said.startswith(f"It is on shard {number}, which has 0 of 1 slots of its name.")
                assert f"Shard {on} has 1: job {running.uuid} (resize) runs since" in said
                assert said.endswith(
                    f"one is free once such a job has ended. To end one: jobboard cancel {running.uuid}"
                )
            ends.release()
            eventually(lambda uuid=running.uuid: board.get(uuid).record.state is JobState.COMPLETE)  # type: ignore[misc]
