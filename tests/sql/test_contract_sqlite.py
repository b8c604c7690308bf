"""The contract on the SQLite backend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.embedded import kept_open
from helpers.embedded_sqlite import SqliteHarness

from jobboard.testing import CONTRACT_CASES, Contract, Harness


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield from kept_open(tmp_path_factory.mktemp("sqlite"), SqliteHarness)


@pytest.fixture
def harness(directory: Path) -> Iterator[Harness]:
    with SqliteHarness(directory) as harness:
        yield harness


class TestSqlite(Contract):
    executed_cases = CONTRACT_CASES
