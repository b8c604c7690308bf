"""Parents and children on boards whose stored data somebody damages, and what must come of them."""

from __future__ import annotations

from collections.abc import Sequence

from jobboard import Job, JobBoard
from jobboard.testing.contract import edge_case


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
