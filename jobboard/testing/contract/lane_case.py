"""What the topics about lanes and limits share. Each of their cases ends with an audit that finds nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jobboard.board import JobBoard, client_of, handles_of
from jobboard.job import Job
from jobboard.states import JobState
from jobboard.testing.contract.case import LONG, Case, needs, uuids_of

LANE = "tenant:1"

BLOCKED, UNCLAIMED, DELAYED, CLAIMED = JobState.BLOCKED, JobState.UNCLAIMED, JobState.DELAYED, JobState.CLAIMED


def of_lanes(case: Callable[..., None]) -> Callable[..., None]:
    """Run the case on stores that have lanes, and audit its board."""
    sound: Callable[..., None] = pytest.mark.usefixtures("sound_lanes")(case)
    return needs(ties=True)(sound)


class LaneCase(Case):
    """The base of the topics about lanes."""

    @pytest.fixture
    def sound_lanes(self, board: JobBoard) -> Iterator[None]:
        yield
        assert board.audit() == []


def limit(board: JobBoard, running: int | None = 1, lane: str = LANE, **options: Any) -> None:
    """Set the limit of a lane."""
    board.limits.set(lane=lane, running=running, **options)


def post_in(board: JobBoard, lane: str = LANE, *, name: str = "resize", **options: Any) -> Job:
    """Post a job into a lane."""
    return board.post(name, lane=lane, **options)


def post_tied(board: JobBoard, lane: str = LANE, *, name: str = "resize", **options: Any) -> Job:
    """Post a job into a lane that has one slot, unless somebody has given it others."""
    if board.limits.of(lane) is None:
        limit(board, 1, lane)
    return post_in(board, lane, name=name, **options)


def states_of(board: JobBoard, *jobs: Job) -> list[JobState]:
    """Read the states of these jobs anew; one request."""
    client = client_of(board)
    rows = client.call(client.backend.jobs.read, uuids_of(jobs))
    assert None not in rows
    return [row.state for row in rows if row]


def kinds_told(board: JobBoard, job: Job) -> list[str]:
    """Return the kinds of the lines of a job's history."""
    return [str(line.kind) for line in handles_of(board).reader.history(job.uuid)]


def slots_of(board: JobBoard, lane: str = LANE) -> tuple[int, int, int]:
    """Return how many jobs of a lane are claimed, claimable and BLOCKED, as one look shows them."""
    row = board.limits.lane(lane)
    return row.running, row.claimable, row.blocked


def claim_all(board: JobBoard, who: str = "alice", limit: int = 100, **options: Any) -> list[Job]:
    """Claim all that can be claimed; the claims outlive the test unless ``expiry`` says otherwise."""
    options.setdefault("expiry", LONG)
    return board.claim_next(who, limit=limit, **options)


def run_to_the_end(board: JobBoard, who: str = "alice", limit: int = 1, most: int = 1000) -> list[str]:
    """Claim and consume until nothing can be claimed; return the uuids in the order of their claims."""
    order: list[str] = []
    for _ in range(most):
        jobs = claim_all(board, who, limit)
        if not jobs:
            return order
        order += uuids_of(jobs)
        assert board.consume_many(jobs, who) == [None] * len(jobs)
    raise AssertionError(f"there are still jobs after {most} claims")
