"""The contract on MariaDB, with tables of other names; most other tests have the usual ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from harnesses.sql_harness import OTHER_NAMES, MysqlHarness
from servers.mariadb_servers import MariadbServer

from jobboard.testing import CONTRACT_CASES, Contract, Harness

pytest_plugins = ("harnesses.sql_fixtures",)


@pytest.fixture
def harness(mariadb: MariadbServer) -> Iterator[Harness]:
    with MysqlHarness(mariadb.uri, **OTHER_NAMES) as harness:
        yield harness


class TestMariadb(Contract):
    executed_cases = CONTRACT_CASES
