"""Random histories on the embedded stores, compared with a model."""

from __future__ import annotations

from embedded import MemoryHarness
from hypothesis import HealthCheck, settings

from jobboard.testing import Harness
from jobboard.testing.machine import BoardMachine

BOUNDED = settings(max_examples=100, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck))


class MemoryMachine(BoardMachine):
    def open_harness(self) -> Harness:
        return MemoryHarness()


class TestMemoryMachine(MemoryMachine.TestCase):  # type: ignore[name-defined,misc]
    settings = BOUNDED
