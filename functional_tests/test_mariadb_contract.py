"""The contract on MariaDB."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from mariadb_servers import MariadbServer
from sql_harness import MysqlHarness

from jobboard.testing import CONTRACT_CASES, Contract, Harness

pytest_plugins = ("sql_servers",)


@pytest.fixture
def harness(mariadb: MariadbServer) -> Iterator[Harness]:
    with MysqlHarness(mariadb.uri) as harness:
        yield harness


class TestMariadb(Contract):
    executed_cases = CONTRACT_CASES
