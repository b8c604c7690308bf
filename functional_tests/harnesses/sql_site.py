"""An SQL store with boards on it, and words for what its other users do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from servers.mariadb_servers import MariadbServer
from servers.postgresql_servers import PostgresqlServer

from harnesses.sql_harness import SqlHarness
from jobboard import JobBoard
from jobboard.backends.sql.rows import place_of
from jobboard.testing import Harness

Server = PostgresqlServer | MariadbServer


class Place(NamedTuple):
    """An SQL store, and how the users of its database reach it."""

    harness: Harness
    engine_url: str
    connect: Callable[..., Any]


class Site(NamedTuple):
    """A server, and boards on it."""

    server: Server
    harness: SqlHarness

    @property
    def is_postgresql(self) -> bool:
        return isinstance(self.server, PostgresqlServer)

    def run(self, sql: str, *parameters: Any) -> list[Any]:
        """Do something in the database as somebody else would."""
        with self.server.client() as client, client.cursor() as cursor:
            cursor.execute(sql, parameters)
            return list(cursor.fetchall()) if cursor.description else []

    def analyze(self, *tables: str) -> None:
        """Let the planner know these tables as they are now."""
        if self.is_postgresql:
            self.run(f"VACUUM ANALYZE {', '.join(tables)}")
        else:
            self.run(f"ANALYZE TABLE {', '.join(tables)}")

    def fill(
        self, board: JobBoard, count: int, name: str = "resize", prefix: str = "jobboard_", is_keyed: bool = False
    ) -> None:
        """Put jobs on a board as fast as the server can; they are like those that were posted.

        :param is_keyed: gives each a key.
        """
        key_column = "key" if self.is_postgresql else "`key`"
        (number,) = self.run(f"SELECT id FROM {prefix}boards WHERE name = %s", board.name)[0]
        for first in range(0, count, 50_000):
            some = min(50_000, count - first)
            uuids, numbers = (
                ("gen_random_uuid()::text", f"generate_series(1, {some})")
                if self.is_postgresql
                else ("UUID()", f"seq_1_to_{some}")
            )
            key = uuids if is_keyed else "NULL"
            self.run(
                f"INSERT INTO {prefix}jobs (board, uuid, name, {key_column}, rank, place, created_on, body, state,"
                f" attempts, token, last_modified, cancel_asked) SELECT {number}, {uuids}, '{name}', {key}, -3,"
                f" {place_of(3, 1e9)}, 1e9, %s, 1, 0, 0, 1e9, 0 FROM {numbers}",
                b"\x95\x01\xc0\xc0\xc0\xc0\x80",
            )
