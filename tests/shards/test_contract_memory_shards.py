"""The contract on four shards in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from helpers.sharded import MemoryShardsHarness

from jobboard.testing import CONTRACT_CASES, Contract, Harness
from jobboard.testing.contract import WHOLE_BOARD_CASES


@pytest.fixture
def harness() -> Iterator[Harness]:
    with MemoryShardsHarness() as harness:
        yield harness


class TestMemoryShards(Contract):
    executed_cases = CONTRACT_CASES - WHOLE_BOARD_CASES - 7  # these need several processes
