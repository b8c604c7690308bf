"""The contract on the memory backend."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from helpers.embedded import MemoryHarness

from jobboard.testing import CONTRACT_CASES, Contract, Harness


@pytest.fixture
def harness() -> Iterator[Harness]:
    with MemoryHarness() as harness:
        yield harness


class TestMemory(Contract):
    executed_cases = CONTRACT_CASES - 8  # these need several processes
