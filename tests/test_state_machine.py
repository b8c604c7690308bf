"""Random histories on the embedded stores, compared with a model."""

from __future__ import annotations

import tempfile
from pathlib import Path

from helpers.embedded import MemoryHarness
from helpers.embedded_sqlite import SqliteHarness
from hypothesis import HealthCheck, settings

from jobboard import JobPriority, JobState
from jobboard.testing import Harness
from jobboard.testing.machine import BoardMachine

BOUNDED = settings(stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck))


class MemoryMachine(BoardMachine):
    def open_harness(self) -> Harness:
        return MemoryHarness()


class SqliteMachine(BoardMachine):
    #: One file for all histories, each of which has a board of its own in it.
    directory = tempfile.TemporaryDirectory()

    def open_harness(self) -> Harness:
        return SqliteHarness(Path(self.directory.name))


class TestMemoryMachine(MemoryMachine.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(BOUNDED, max_examples=120)


class TestSqliteMachine(SqliteMachine.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(BOUNDED, max_examples=40)


def test_a_restored_child_is_not_cancelled_with_its_parent() -> None:
    """Chance seldom leads there: an operator who restores a job wants it to run."""
    machine = MemoryMachine()
    machine.open()
    board, jobs = machine.boards[0], machine.model.jobs
    machine.post_after(0, "resize", JobPriority.NORMAL, 0, False, None, None, [0], "cancel")
    child = max(jobs.values(), key=lambda job: job.number)
    [parent] = (jobs[uuid] for uuid in child.parents)
    try:
        for operate, job in ((machine._trash, child), (machine._restore, child), (machine._trash, parent)):
            operate(board, job)
            machine.the_board_shows_what_the_model_does()
    finally:
        machine.teardown()
    assert (child.state, parent.state) == (JobState.BLOCKED, JobState.TRASHED)
