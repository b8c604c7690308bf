"""Words for what clients of an SQL board do at the seam, and for what several do at once."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

from jobboard import JobBoard, JobState
from jobboard.backends.rows import ClaimRequest, Consumption, Fence, JobRow, NewJob, Posted

LONG = 600.0


def backend_of(board: JobBoard) -> Any:
    return board._backend


def post(backend: Any, **options: Any) -> str:
    new = NewJob(str(uuid.uuid4()), "order", 3, b"body", **options)
    backend.jobs.post([new])
    return new.uuid


def claim(backend: Any, job: str, who: str = "ann", expiry: float = LONG) -> JobRow:
    row: JobRow = backend.jobs.claim(job, ClaimRequest(who, uuid.uuid4().hex, expiry))
    assert row.state is JobState.CLAIMED
    return row


def claimed(backend: Any, who: str = "ann", **options: Any) -> Fence:
    row = claim(backend, post(backend, **options), who)
    return Fence(row.uuid, who, row.token)


def post_after(backend: Any, *parents: str) -> list[Posted]:
    posted: list[Posted] = backend.jobs.post([NewJob(str(uuid.uuid4()), "order", 3, b"body", parents=parents)])
    return posted


def consume(backend: Any, fence: Fence) -> list[Any]:
    verdicts: list[Any] = backend.jobs.consume([Consumption(fence, b"result", LONG)])
    return verdicts


def state_of(backend: Any, job: str) -> JobState:
    [row] = backend.jobs.read([job])
    state: JobState = row.state
    return state


def meet(race: int, *calls: Callable[[], Any]) -> list[Any]:
    """Make calls at the same moment, each in a thread of its own; return their answers.

    :param race: its number. The thread that comes last goes first, and so each call has its turn to be that.
    """
    barrier, first = Barrier(len(calls)), race % len(calls)

    def wait_and_call(call: Callable[[], Any]) -> Any:
        barrier.wait(60)
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        answers = list(pool.map(wait_and_call, [*calls[first:], *calls[:first]]))
    return [*answers[-first:], *answers[:-first]] if first else answers
