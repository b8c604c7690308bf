"""The contract on the SQLite backend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.embedded_sqlite import SqliteHarness

from jobboard.testing import CONTRACT_CASES, Contract, Harness


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One file for all cases: each has a board of its own in it.

    Another board stays open: the last one that closes a file writes its log back, which takes longer than most cases.
    """
    directory = tmp_path_factory.mktemp("sqlite")
    with SqliteHarness(directory) as harness:
        harness.board()
        yield directory


@pytest.fixture
def harness(directory: Path) -> Iterator[Harness]:
    with SqliteHarness(directory) as harness:
        yield harness


class TestSqlite(Contract):
    executed_cases = CONTRACT_CASES
