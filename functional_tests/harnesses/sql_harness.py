"""The harnesses of the boards on SQL servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from harnesses.server_harness import GARBAGE, ServerHarness
from jobboard.backends.sql.mysql.backend import MysqlBackend
from jobboard.backends.sql.postgresql.backend import PostgresqlBackend
from jobboard.board import JobBoard


class SqlHarness(ServerHarness):
    def corrupt(self, board: JobBoard, uuid: str) -> None:
        assert self.run_sql(board, "UPDATE jobboard_jobs SET body = %s WHERE uuid = %s", GARBAGE, uuid) == 1

    def write_layout(self, board: JobBoard, number: str) -> str:
        backend: Any = board._backend
        with backend.database._borrow() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT value FROM jobboard_meta WHERE name = 'version'")
            before = str(cursor.fetchone()[0])
            cursor.execute("UPDATE jobboard_meta SET value = %s WHERE name = 'version'", (number,))
        return before

    def run_sql(self, board: JobBoard, sql: str, *parameters: Any) -> int:
        """Change something by the board's own means of reaching the server; return how many rows."""
        backend: Any = self.backend(board.name)
        backend.open(5.0)
        with backend.database._borrow() as connection, connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            count = cursor.rowcount
        backend.close()
        return int(count)


class PostgresqlHarness(SqlHarness):
    backend_class: ClassVar[Any] = PostgresqlBackend


class MysqlHarness(SqlHarness):
    backend_class: ClassVar[Any] = MysqlBackend


class DistributedHarness(PostgresqlHarness):
    """In the mode that leaves nothing in sessions, whatever the server allows."""

    backend_options: ClassVar[Mapping[str, Any]] = {"mode": "distributed"}

    def uri(self) -> str:
        return f"{super().uri()}?mode=distributed"
