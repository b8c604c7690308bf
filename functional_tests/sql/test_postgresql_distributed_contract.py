"""The contract on PostgreSQL in the distributed mode, behind a pooler that gives each transaction another session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from harnesses.sql_harness import DistributedHarness
from servers.pgbouncer_servers import PgbouncerServer
from servers.postgresql_servers import PostgresqlServer

from jobboard.testing import CONTRACT_CASES, Contract, Harness

pytest_plugins = ("harnesses.sql_fixtures",)


@pytest.fixture(scope="module")
def pgbouncer(postgresql: PostgresqlServer) -> Iterator[PgbouncerServer]:
    # In turn, so that no client has a session for long.
    with PgbouncerServer(postgresql, pool_mode="transaction", server_round_robin=1, min_pool_size=4) as pgbouncer:
        yield pgbouncer


@pytest.fixture
def harness(pgbouncer: PgbouncerServer) -> Iterator[Harness]:
    with DistributedHarness(pgbouncer.uri) as harness:
        yield harness


class TestDistributedPostgresql(Contract):
    executed_cases = CONTRACT_CASES
