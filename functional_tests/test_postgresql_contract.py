"""The contract on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from postgresql_servers import PostgresqlServer
from sql_harness import PostgresqlHarness

from jobboard.testing import CONTRACT_CASES, Contract, Harness

pytest_plugins = ("sql_servers",)


@pytest.fixture
def harness(postgresql: PostgresqlServer) -> Iterator[Harness]:
    with PostgresqlHarness(postgresql.uri) as harness:
        yield harness


class TestPostgresql(Contract):
    executed_cases = CONTRACT_CASES
