"""The harnesses of the boards on SQL servers."""

from __future__ import annotations

from typing import Any, ClassVar

from jobboard.backends.sql.mysql.backend import MysqlBackend
from jobboard.backends.sql.postgresql.backend import PostgresqlBackend
from jobboard.board import JobBoard
from jobboard.testing import Harness

GARBAGE = b"\xc1 no posting"


class ServerHarness(Harness):
    """A harness onto a server that runs already."""

    def __init__(self, uri: str) -> None:
        super().__init__()
        self._uri = uri

    def uri(self) -> str:
        return self._uri

    def corrupt(self, board: JobBoard, uuid: str) -> None:
        assert self.run_sql(board, "UPDATE jobboard_jobs SET body = %s WHERE uuid = %s", GARBAGE, uuid) == 1

    def run_sql(self, board: JobBoard, sql: str, *parameters: Any) -> int:
        """Change something by the board's own means of reaching the server; return how many rows."""
        backend: Any = self.backend(board.name)
        backend.open(5.0)
        with backend.database._borrow() as connection, connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            count = cursor.rowcount
        backend.close()
        return int(count)


class PostgresqlHarness(ServerHarness):
    backend_class: ClassVar[Any] = PostgresqlBackend


class MysqlHarness(ServerHarness):
    backend_class: ClassVar[Any] = MysqlBackend
