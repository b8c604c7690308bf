"""Edges that were damaged on each SQL store: an audit names them, and a repair lets jobs go on."""

from __future__ import annotations

from typing import Any

import msgpack
from harnesses.families import end
from harnesses.fixtures import a_board
from harnesses.sql_clients import backend_of, claimed, consume, post, post_after, state_of
from sqlalchemy import text

from jobboard import JobBoard, JobState
from jobboard.backends.edge_rows import EdgeCounts
from jobboard.backends.sql.statement import Statement

pytest_plugins = ("harnesses.sql_stores",)
board = a_board()


def run(board: JobBoard, sql: str, **parameters: Any) -> None:
    """Do something to the tables of a board as nobody should."""
    with backend_of(board).database.write() as transaction:
        assert transaction.run(Statement(text(sql)), **parameters)


def problems_of(board: JobBoard, repair: bool = False) -> list[tuple[str | None, str]]:
    return [(found.uuid, found.problem) for found in board.audit(repair=repair)]


def test_edges_of_jobs_that_are_gone(board: JobBoard) -> None:
    backend = backend_of(board)
    parents = [post(backend) for _ in range(3)]
    [posted] = post_after(backend, *parents)
    other = post_after(backend, parents[0])[0].row
    run(board, "DELETE FROM jobboard_jobs WHERE uuid = :uuid", uuid=posted.row.uuid)
    run(board, "DELETE FROM jobboard_journal WHERE job = :id", id=posted.row.sequence)
    found = [(None, "3 edges belong to no job")]
    assert problems_of(board) == problems_of(board, repair=True) == found
    assert board.audit() == []
    assert backend.edges.counts([posted.row.uuid, other.uuid]) == [EdgeCounts(), EdgeCounts(open=1)]


def test_a_job_whose_parents_have_ended_unseen(board: JobBoard) -> None:
    backend = backend_of(board)
    fences = [claimed(backend) for _ in range(3)]
    children = [post_after(backend, fence.uuid)[0].row.uuid for fence in fences]
    # So a jobboard would leave it that knows nothing of children.
    for fence in fences[:2]:
        run(board, "UPDATE jobboard_jobs SET ties = NULL WHERE uuid = :uuid", uuid=fence.uuid)
        consume(backend, fence)
    ended = zip(children[:2], fences[:2], strict=True)
    found = {(child, f"it waits for job {fence.uuid}, which has ended") for child, fence in ended}
    assert set(problems_of(board)) == set(problems_of(board, repair=True)) == found
    assert board.audit() == []
    assert [state_of(backend, child) for child in children] == [
        JobState.UNCLAIMED,
        JobState.UNCLAIMED,
        JobState.BLOCKED,
    ]


def test_a_parent_that_came_back_without_a_word(board: JobBoard) -> None:
    parents = [board.post("resize") for _ in range(3)]
    child, free, ran = (board.post("report", after=parents, if_failed=way) for way in ("wait", "run", "run"))
    for parent in parents:
        board.trash(parent, by="ada")
    board.claim(ran, "ann")
    # So a jobboard would bring them back that knows nothing of children.
    live = "(SELECT * FROM (SELECT state FROM jobboard_jobs WHERE uuid = :child) AS other)"
    for parent in parents[:2]:
        run(board, f"UPDATE jobboard_jobs SET state = {live} WHERE uuid = :uuid", uuid=parent.uuid, child=free.uuid)
    found = {(child.uuid, f"it waits for job {back.uuid} in the trash, which is not there") for back in parents[:2]}
    assert set(problems_of(board)) == set(problems_of(board, repair=True)) == found
    assert board.audit() == []
    edges = backend_of(board).edges
    # One that was claimed without its parents waits for none of them.
    counts = [EdgeCounts(open=2, failed=1), EdgeCounts(open=2, failed=1), EdgeCounts(failed=3)]
    assert edges.counts([child.uuid, free.uuid, ran.uuid]) == counts
    end(board, *parents[:2])
    board.restore(parents[2].uuid)
    end(board, parents[2])
    assert [job.state for job in (child, free, ran)] == [JobState.UNCLAIMED, JobState.UNCLAIMED, JobState.CLAIMED]
    assert board.audit() == []


def test_jobs_of_which_nobody_can_read_what_they_wait_for(board: JobBoard) -> None:
    """Their parents are known by their edges."""
    backend = backend_of(board)
    fence, parent = claimed(backend), post(backend)
    done, open, alone = [post_after(backend, uuid)[0].row.uuid for uuid in (fence.uuid, parent, parent)]
    run(board, "DELETE FROM jobboard_edges WHERE child = :child", child=alone)
    for ties, child in ((b"\0", done), (b"\0garbage", open), (msgpack.packb({"on_trashed": 2**63}), alone)):
        run(board, "UPDATE jobboard_jobs SET ties = :ties WHERE uuid = :child", ties=b"\0" + ties, child=child)
    consume(backend, fence)
    found = {(child, "it is blocked, but waits for nothing") for child in (done, open, alone)}
    assert set(problems_of(board)) == set(problems_of(board, repair=True)) == found
    assert board.audit() == []
    assert [state_of(backend, child) for child in (done, open, alone)] == [
        JobState.UNCLAIMED,
        JobState.BLOCKED,
        JobState.UNCLAIMED,
    ]


def test_a_job_that_nothing_holds_back(board: JobBoard) -> None:
    backend = backend_of(board)
    parents = [post(backend) for _ in range(3)]
    children = [post_after(backend, parent)[0].row.uuid for parent in parents]
    run(board, "DELETE FROM jobboard_edges WHERE child = :child", child=children[0])
    found = [(children[0], "it waits for parents, none of which holds it back")]
    assert problems_of(board) == problems_of(board, repair=True) == found
    assert board.audit() == []
    assert [state_of(backend, child) for child in children] == [
        JobState.UNCLAIMED,
        JobState.BLOCKED,
        JobState.BLOCKED,
    ]
