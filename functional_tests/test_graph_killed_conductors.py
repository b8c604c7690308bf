"""A child of many parents, whose conductors are killed at random and whose store is restarted: it runs once, last.

``JOBBOARD_PARENTS=10000`` tests with more parents than CI does.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harnesses.diaries import whole_lines
from harnesses.fixtures import a_store
from servers.durable_stores import STORES, Store

from jobboard import JobBoard, JobState, Posting, fetch
from jobboard.testing import eventually

pytestmark = pytest.mark.in_turn(1)

Start = Callable[..., subprocess.Popen[str]]
PARENTS = int(os.environ.get("JOBBOARD_PARENTS", "200"))
CREW, KILLS = 2, 3
#: For how long all may take, in seconds.
PATIENCE = 60.0 + PARENTS / 20


store = a_store(STORES)


@pytest.fixture
def board(store: Store) -> Iterator[JobBoard]:
    with fetch("graph", store.uri, patience=60.0) as board:
        yield board


def runs_of(diary: Path) -> list[tuple[str, str]]:
    """Return what the handlers wrote down, in its order: a job, and whether its run began or ended."""
    return [(uuid, what) for uuid, _, _, what in map(str.split, whole_lines(diary))]


@pytest.mark.timeout(2 * PATIENCE)
def test_a_child_runs_once_and_last(start: Start, store: Store, board: JobBoard, tmp_path: Path) -> None:
    diary, chance = tmp_path / "diary", random.Random(35)
    details = {"diary": str(diary), "seconds": 0.001}
    parents = [Posting("step", details) for _ in range(PARENTS)]
    *_, child = jobs = board.post_many([*parents, Posting("step", details, after=parents)])

    def conductor() -> subprocess.Popen[str]:
        return start(
            "--board", store.uri, "--name", board.name, "conductor", "harnesses.crew_work:handlers",
            # Nobody reads what it logs: a line for each end would fill its pipe, and hold it up.
            *("--expiry", "2", "--concurrency", "8", "--log-level", "warning"),
        )  # fmt: skip

    def until_begun(count: int) -> None:
        eventually(lambda: len(runs_of(diary)) >= 2 * count, PATIENCE, every=0.05)

    crew = [conductor() for _ in range(CREW)]
    moments = sorted(chance.sample(range(PARENTS // 10, PARENTS * 9 // 10), KILLS))
    for number, moment in enumerate(moments):
        until_begun(moment)
        crew.pop(0).kill()
        if number == KILLS // 2 and store.restart is not None:
            store.restart()
        crew.append(conductor())
    assert child.get_result(PATIENCE) is not None
    runs = runs_of(diary)
    assert runs[-2:] == [(child.uuid, "began"), (child.uuid, "ended")]
    assert [uuid for uuid, _ in runs].count(child.uuid) == 2
    assert {uuid for uuid, what in runs if what == "ended"} == {job.uuid for job in jobs}
    assert {(parent.state, type(parent.result)) for parent in child.parents()} == {(JobState.COMPLETE, int)}
    assert (board.job_count, board.audit()) == (0, [])
