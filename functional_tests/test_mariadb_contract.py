"""The contract on MariaDB."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from mariadb_servers import MariadbServer
from sql_harness import MysqlHarness

from jobboard.testing import CONTRACT_CASES, Contract, Harness


@pytest.fixture(scope="module")
def server() -> Iterator[MariadbServer]:
    with MariadbServer() as server:
        yield server


@pytest.fixture
def harness(server: MariadbServer) -> Iterator[Harness]:
    with MysqlHarness(server.uri) as harness:
        yield harness


class TestMariadb(Contract):
    executed_cases = CONTRACT_CASES
