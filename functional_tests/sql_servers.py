"""What the tests of both SQL servers share: one server of each a module, its harness, and words for what they do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from mariadb_servers import MariadbServer
from postgresql_servers import PostgresqlServer
from sql_harness import MysqlHarness, PostgresqlHarness, ServerHarness

from jobboard import JobBoard

Server = PostgresqlServer | MariadbServer


class Site(NamedTuple):
    """A server, and boards on it."""

    server: Server
    harness: ServerHarness

    @property
    def is_postgresql(self) -> bool:
        return isinstance(self.server, PostgresqlServer)

    def run(self, sql: str, *parameters: Any) -> list[Any]:
        """Do something in the database as somebody else would."""
        with self.server.client() as client, client.cursor() as cursor:
            cursor.execute(sql, parameters)
            return list(cursor.fetchall()) if cursor.description else []

    def fill(self, board: JobBoard, count: int, name: str = "resize") -> None:
        """Put jobs on a board as fast as the server can; they are like those that were posted."""
        uuids, numbers = (
            ("gen_random_uuid()::text", f"generate_series(1, {count})")
            if self.is_postgresql
            else ("UUID()", f"seq_1_to_{count}")
        )
        (number,) = self.run("SELECT id FROM jobboard_boards WHERE name = %s", board.name)[0]
        self.run(
            "INSERT INTO jobboard_jobs (board, uuid, name, rank, created_on, body, state, attempts, token,"
            f" last_modified, cancel_asked) SELECT {number}, {uuids}, '{name}', -3, 1e9, %s, 1, 0, 0, 1e9, 0"
            f" FROM {numbers}",
            b"\x80",
        )


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    with PostgresqlServer() as server:
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariadbServer]:
    with MariadbServer() as server:
        yield server


def site_of(server: Server) -> Site:
    kind = PostgresqlHarness if isinstance(server, PostgresqlServer) else MysqlHarness
    return Site(server, kind(server.uri))


@pytest.fixture(params=["postgresql", "mariadb"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """A server that all cases share."""
    found = site_of(request.getfixturevalue(request.param))
    with found.harness:
        yield found


@pytest.fixture(params=["postgresql", "mariadb"])
def own_site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """A server of the case's own, which it may break."""
    server: Server = PostgresqlServer() if request.param == "postgresql" else MariadbServer()
    with server:
        found = site_of(server)
        with found.harness:
            yield found
