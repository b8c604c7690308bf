"""The contract on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from postgresql_servers import PostgresqlServer
from sql_harness import PostgresqlHarness

from jobboard.testing import CONTRACT_CASES, Contract, Harness


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresqlServer]:
    with PostgresqlServer() as server:
        yield server


@pytest.fixture
def harness(server: PostgresqlServer) -> Iterator[Harness]:
    with PostgresqlHarness(server.uri) as harness:
        yield harness


class TestPostgresql(Contract):
    executed_cases = CONTRACT_CASES
