"""Jobs with children, steps and signals whose stored data somebody damages, and what must come of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from jobboard import BoardUnavailable, Job, JobBoard, JobState
from jobboard.backends.edge_rows import StepRow
from jobboard.backends.rows import Fence
from jobboard.board import client_of
from jobboard.testing.contract import edge_case
from jobboard.testing.contract.case import LONG
from jobboard.testing.contract.lane_case import states_of


def a_family(board: JobBoard) -> tuple[list[Job], list[Job]]:
    """Post three parents, and a child of all of them for each rule."""
    parents = [board.post("resize") for _ in range(3)]
    return parents, [board.post("report", after=parents, if_failed=rule) for rule in ("wait", "cancel", "run")]


def end(board: JobBoard, *jobs: Job) -> None:
    """Consume jobs; the result of each is its uuid."""
    for job in jobs:
        edge_case.end(board, job, job.uuid)


def have_results(children: Sequence[Job], parents: Sequence[Job]) -> bool:
    """Whether each child has the results of all parents."""
    results = {parent.uuid for parent in parents}
    return all({parent.result for parent in child.parents()} == results for child in children)


def mended(board: JobBoard) -> None:
    """Let an audit mend a board."""
    assert all(finding.repaired for finding in board.audit(repair=True))
    assert board.audit() == []


def with_steps(board: JobBoard, count: int) -> list[Job]:
    """Post three jobs, each of which alice has claimed, and so many steps of which she has done."""
    jobs = [board.post("order") for _ in range(3)]
    for job in jobs:
        fence = Fence(job.uuid, "alice", board.claim(job, "alice", LONG))
        for number in range(count):
            client_of(board).backend.steps.save(fence, StepRow(number, "charge", b"x"))
    return jobs


def is_put_aside(board: JobBoard, jobs: Sequence[Job], damaged: Job, problem: str) -> None:
    """Let an audit put the job aside of which a step can't be read, once it is not claimed any more."""
    # Its handler may be past that step.
    assert board.audit() == []
    for job in jobs:
        board.abandon(job, "alice")
    assert [(one.uuid, one.problem) for one in board.audit()] == [(damaged.uuid, problem)]
    mended(board)
    expected = [JobState.TRASHED if job == damaged else JobState.UNCLAIMED for job in jobs]
    assert states_of(board, *jobs) == expected
    assert board.get(damaged.uuid).record.reason == problem


def with_signals(board: JobBoard) -> list[Job]:
    """Post three jobs, to each of which a signal is sent."""
    jobs = [board.post("order") for _ in range(3)]
    for job in jobs:
        board.signal(job, "go", 1)
    return jobs


def loses_its_signal(board: JobBoard, jobs: Sequence[Job], damaged: Job) -> None:
    """Let an audit take away the signal that can't be read, so that it can be sent again."""
    steps = client_of(board).backend.steps
    with pytest.raises(BoardUnavailable, match=damaged.uuid):
        steps.signals(damaged.uuid)
    assert [len(steps.signals(job.uuid)) for job in jobs if job != damaged] == [1, 1]
    assert [found.uuid for found in board.audit()] == [damaged.uuid]
    mended(board)
    assert steps.signals(damaged.uuid) == []
    board.signal(damaged, "go", 2)
    assert [len(steps.signals(job.uuid)) for job in jobs] == [1, 1, 1]
