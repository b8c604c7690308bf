"""A pytest plugin for the tests of all SQL stores: a harness of each, in turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harnesses.sql_harness import MysqlHarness, PostgresqlHarness
from harnesses.sqlite_harness import SqliteHarness
from jobboard.testing import Harness

pytest_plugins = ("harnesses.sql_fixtures",)


@pytest.fixture(params=["postgresql", "mariadb", "sqlite"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    if request.param == "sqlite":
        with SqliteHarness(tmp_path / "jobs.db") as harness:
            yield harness
        return
    server = request.getfixturevalue(request.param)
    with {"postgresql": PostgresqlHarness, "mariadb": MysqlHarness}[request.param](server.uri) as harness:
        yield harness
