"""The contract on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from harnesses.sql_harness import PostgresqlHarness
from servers.postgresql_servers import PostgresqlServer

from jobboard.testing import CONTRACT_CASES, Contract, Harness

pytest_plugins = ("harnesses.sql_fixtures",)


@pytest.fixture
def harness(postgresql: PostgresqlServer) -> Iterator[Harness]:
    with PostgresqlHarness(postgresql.uri) as harness:
        yield harness


class TestPostgresql(Contract):
    executed_cases = CONTRACT_CASES
