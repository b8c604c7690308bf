"""The contract on PostgreSQL, with tables of other names in a schema; most other tests have the usual ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from harnesses.sql_harness import IN_SCHEMA, WarmPostgresqlHarness
from servers.postgresql_servers import PostgresqlServer

from jobboard.testing import CONTRACT_CASES, Contract, Harness

pytest_plugins = ("harnesses.sql_fixtures",)


@pytest.fixture(scope="module")
def idle_connections() -> Iterator[list[Any]]:
    idle: list[Any] = []
    yield idle
    for connection in idle:
        connection.close()


@pytest.fixture
def harness(postgresql: PostgresqlServer, idle_connections: list[Any]) -> Iterator[Harness]:
    with WarmPostgresqlHarness(postgresql.uri, idle_connections, **IN_SCHEMA) as harness:
        yield harness


class TestPostgresql(Contract):
    executed_cases = CONTRACT_CASES
