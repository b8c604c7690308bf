"""The contract on four SQLite files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.embedded import kept_open
from helpers.sharded import SqliteShardsHarness

from jobboard.testing import CONTRACT_CASES, Contract, Harness
from jobboard.testing.contract import WHOLE_BOARD_CASES


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield from kept_open(tmp_path_factory.mktemp("shards"), SqliteShardsHarness)


@pytest.fixture
def harness(directory: Path) -> Iterator[Harness]:
    with SqliteShardsHarness(directory) as harness:
        yield harness


class TestSqliteShards(Contract):
    executed_cases = CONTRACT_CASES - WHOLE_BOARD_CASES
