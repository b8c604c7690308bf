"""How a graph of jobs stands, as a board says it."""

from __future__ import annotations

from datetime import datetime

import pytest

from jobboard.board import JobBoard
from jobboard.errors import NotFound
from jobboard.job import Job, Posting
from jobboard.testing.contract.edge_case import EdgeCase, end, of_edges
from jobboard.validation import new_uuid


def _post_run(board: JobBoard) -> dict[str, Job]:
    """Post three extracts, one with a key, a transform of each, and a report; return them by their names."""
    extracts = [Posting(f"e{number}", key=None if number else "monday") for number in range(3)]
    transforms = [Posting(f"t{number}", after=[each]) for number, each in enumerate(extracts)]
    jobs = board.post_many([*extracts, *transforms, Posting("r", after=transforms)])
    return {job.name: job for job in jobs}


def _seconds(since: datetime | None, until: datetime | None) -> float:
    assert since is not None
    assert until is not None
    return (until - since).total_seconds()


class StandingCases(EdgeCase):
    """What :meth:`~jobboard.JobBoard.graph` says."""

    @of_edges
    def test_a_run_with_a_failure_that_is_mended(self, board: JobBoard, other: JobBoard) -> None:
        jobs = _post_run(board)
        for name in ("e0", "e1", "e2", "t0", "t1"):
            end(board, jobs[name], {"rows": 7})
        board.claim(jobs["t2"], "alice")
        assert not other.graph(jobs["r"]).is_over
        board.trash(jobs["t2"], "alice", reason="KeyError: 'amount'")
        stuck = other.graph(jobs["e0"])
        assert stuck.is_over
        assert stuck.states() == {"TRASHED": 1, "BLOCKED": 1, "COMPLETE": 5}
        assert [(node.name, node.reason) for node in stuck.failed] == [("t2", "KeyError: 'amount'")]
        assert [node.name for node in stuck.held] == ["r"]
        assert [node.name for node in stuck.held_by(jobs["t2"].uuid)] == ["r"]
        nodes = {node.name: node for node in stuck.nodes.values()}
        assert [(nodes[name].attempts, nodes[name].owner) for name in ("e0", "t2", "r")] == [
            (1, "alice"), (1, None), (0, None),
        ]  # fmt: skip
        # A transform could be claimed once its extract had ended; a store's clocks may differ by a little.
        waited = [_seconds(nodes[f"e{at}"].last_modified, nodes[f"t{at}"].due_on) for at in range(3)]
        assert all(-0.01 <= seconds <= 1.0 for seconds in waited)
        took = [_seconds(node.due_on, node.last_modified) for name, node in nodes.items() if name != "r"]
        assert took == [node.seconds for name, node in nodes.items() if name != "r"]
        assert (nodes["r"].due_on, nodes["r"].seconds) == (None, None)
        # Also those that have ended have their keys and results, as long as their records are there.
        (ended,) = stuck.parents(jobs["t0"].uuid)
        assert (ended.key, ended.result) == ("monday", {"rows": 7})
        board.restore(jobs["t2"].uuid)
        assert not other.graph(jobs["e0"]).is_over
        for name in ("t2", "r"):
            end(board, jobs[name])
        run = other.graph(jobs["t1"].uuid)
        assert (run.is_over, run.is_whole, run.failed, run.states()) == (True, True, [], {"COMPLETE": 7})
        assert {node.name for node in run.nodes.values()} == set(jobs)
        assert run.created_on == min(job.created_on for job in jobs.values())
        assert run.ended_on == board.get(jobs["r"].uuid).record.last_modified

    @of_edges
    def test_a_job_that_the_board_does_not_know(self, board: JobBoard) -> None:
        with pytest.raises(NotFound):
            board.graph(new_uuid())
