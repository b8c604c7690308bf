"""The contract on four SQLite files; CI runs what a deployment can change, and all of it in turn (``turns.GROUPS``)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.embedded import kept_open
from helpers.sharded import SqliteShardsHarness
from turns import has_its_turn

from jobboard.testing import Contract, DeploymentContract, Harness
from jobboard.testing.counting import count_cases

Cases: Any = Contract if has_its_turn("contract on SQLite shards") else DeploymentContract


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield from kept_open(tmp_path_factory.mktemp("shards"), SqliteShardsHarness)


@pytest.fixture
def harness(directory: Path) -> Iterator[Harness]:
    with SqliteShardsHarness(directory) as harness:
        yield harness


class TestSqliteShards(Cases):
    executed_cases = Cases.all_cases - count_cases(Cases, sharded=False)
