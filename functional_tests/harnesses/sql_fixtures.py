"""A pytest plugin for the tests of SQL servers: one server of each kind, started once for each process of the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from servers.mariadb_servers import MariadbServer
from servers.postgresql_servers import PostgresqlServer

from harnesses.sql_harness import MysqlHarness, PostgresqlHarness
from harnesses.sql_site import Server, Site


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    with PostgresqlServer() as server:
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariadbServer]:
    with MariadbServer() as server:
        yield server


@pytest.fixture(params=["postgresql", "mariadb"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """A server that all cases of a process share; one that was killed is started again for the next."""
    server: Server = request.getfixturevalue(request.param)
    kind = PostgresqlHarness if isinstance(server, PostgresqlServer) else MysqlHarness
    with kind(server.uri) as harness:
        yield Site(server, harness)
    if not server.is_running:
        server.start()
