"""The contract on PostgreSQL in the distributed mode, behind a pooler that gives each transaction another session.

CI runs what a deployment can change, and all of it in turn (``turns.GROUPS``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from harnesses.deployments import FurtherContract
from harnesses.sql_harness import IN_SCHEMA, DistributedHarness
from servers.pgbouncer_servers import PgbouncerServer
from servers.postgresql_servers import PostgresqlServer
from turns import has_its_turn

from jobboard.testing import Contract, Harness

pytest_plugins = ("harnesses.sql_fixtures",)

Cases: Any = Contract if has_its_turn("contract on distributed PostgreSQL") else FurtherContract


@pytest.fixture(scope="module")
def pgbouncer(postgresql: PostgresqlServer) -> Iterator[PgbouncerServer]:
    # In turn, so that no client has a session for long.
    with PgbouncerServer(postgresql, pool_mode="transaction", server_round_robin=1, min_pool_size=4) as pgbouncer:
        yield pgbouncer


@pytest.fixture
def harness(pgbouncer: PgbouncerServer) -> Iterator[Harness]:
    with DistributedHarness(pgbouncer.uri, **IN_SCHEMA) as harness:
        yield harness


class TestDistributedPostgresql(Cases):
    executed_cases = Cases.all_cases
