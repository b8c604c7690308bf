"""The contract through the board for asyncio, on the stores without a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.embedded import MemoryHarness
from helpers.embedded_sqlite import SqliteHarness

from jobboard import JobBoard, Schedules
from jobboard.aio.job import FACTS
from jobboard.job import Job
from jobboard.testing import CONTRACT_CASES, Harness
from jobboard.testing.through_aio import (
    AioContract,
    BoardThroughAio,
    JobThroughAio,
    SchedulesThroughAio,
    ThroughAio,
)

#: What a board and a handle know without asking the store.
KNOWN = {"name", "store", "capabilities", "connected", "board", *FACTS}
#: Its wrapper is entered by ``async with``: test_keeping.py.
KEPT_APART = {"keep"}


class MemoryThroughAio(ThroughAio, MemoryHarness):
    pass


class SqliteThroughAio(ThroughAio, SqliteHarness):
    pass


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sqlite")


class TestMemoryThroughAio(AioContract):
    executed_cases = AioContract.all_cases - 7 * (AioContract.all_cases == CONTRACT_CASES)

    @pytest.fixture
    def harness(self) -> Iterator[Harness]:
        with MemoryThroughAio() as harness:
            yield harness


class TestSqliteThroughAio(AioContract):
    executed_cases = AioContract.all_cases

    @pytest.fixture
    def harness(self, directory: Path) -> Iterator[Harness]:
        with SqliteThroughAio(directory) as harness:
            yield harness


@pytest.mark.parametrize(
    ("original", "through_aio"),
    [(JobBoard, BoardThroughAio), (Job, JobThroughAio), (Schedules, SchedulesThroughAio)],
)
def test_every_call_of_the_contract_passes_through_the_wrapper(original: type, through_aio: type) -> None:
    public = {name for name in dir(original) if not name.startswith("_")}
    assert public - KNOWN - KEPT_APART - set(vars(through_aio)) == set()
