"""Random histories on the embedded stores, compared with a model."""

from __future__ import annotations

import tempfile
from pathlib import Path

from helpers.embedded import MemoryHarness
from helpers.embedded_sqlite import SqliteHarness
from hypothesis import HealthCheck, settings

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
