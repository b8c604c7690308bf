"""The harnesses of the boards on SQL servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import urlencode

from harnesses.server_harness import GARBAGE, ServerHarness
from jobboard.backends.address import Address
from jobboard.backends.base import Backend
from jobboard.backends.sql.dialect import TableNames
from jobboard.backends.sql.mysql.backend import MysqlBackend
from jobboard.backends.sql.postgresql.backend import PostgresqlBackend
from jobboard.backends.sql.postgresql.driver import PostgresqlDriver
from jobboard.backends.sql.postgresql.mode import Connect
from jobboard.board import JobBoard

#: Tables of other names than the usual ones, with which everything must work as well.
OTHER_NAMES = {"prefix": "ours_"}
IN_SCHEMA = {**OTHER_NAMES, "schema": "others"}


class SqlHarness(ServerHarness):
    """A database on a server that runs already.

    :param options: of the boards, also of those that another process opens.
    """

    def __init__(self, uri: str, **options: str) -> None:
        super().__init__(uri)
        self._options = {**self.backend_options, **options}

    def uri(self) -> str:
        query = urlencode(self._options)
        return f"{super().uri()}?{query}" if query else super().uri()

    def backend(self, name: str) -> Backend:
        return self.backend_class(name, Address.parse(self.uri()), **self._options)

    def corrupt(self, board: JobBoard, uuid: str) -> None:
        assert self.run_sql(board, "UPDATE jobboard_jobs SET body = %s WHERE uuid = %s", GARBAGE, uuid) == 1

    def write_layout(self, board: JobBoard, number: str) -> str:
        backend: Any = board._backend
        named = backend._table_names.apply
        with backend.database._borrow() as connection, connection.cursor() as cursor:
            cursor.execute(named("SELECT value FROM jobboard_meta WHERE name = 'version'"))
            before = str(cursor.fetchone()[0])
            cursor.execute(named("UPDATE jobboard_meta SET value = %s WHERE name = 'version'"), (number,))
        return before

    def run_sql(self, board: JobBoard, sql: str, *parameters: Any) -> int:
        """Change something by the board's own means of reaching the server; return how many rows."""
        backend: Any = self.backend(board.name)
        backend.open(5.0)
        with backend.database._borrow() as connection, connection.cursor() as cursor:
            cursor.execute(backend._table_names.apply(sql), parameters)
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


class WarmPostgresqlHarness(PostgresqlHarness):
    """Its boards leave their connections to those of later tests.

    A connection is a process of the server; a new one reads the catalogs and plans each statement anew, which would
    take most of the time of a short test.

    :param idle: the connections that no board has.
    """

    def __init__(self, uri: str, idle: list[Any], **options: str) -> None:
        super().__init__(uri, **options)
        self._idle = idle

    def backend(self, name: str) -> Backend:
        return _WarmBackend(self._idle, name, Address.parse(self.uri()), **self._options)


class _WarmBackend(PostgresqlBackend):
    def __init__(self, idle: list[Any], name: str, address: Address, **options: Any) -> None:
        super().__init__(name, address, **options)
        self._idle = idle

    def _driver_of(self, connect: Connect, where: str, table_names: TableNames) -> PostgresqlDriver:
        return _WarmDriver(self._idle, connect, where, table_names)


class _WarmDriver(PostgresqlDriver):
    def __init__(self, idle: list[Any], connect: Connect, where: str, table_names: TableNames) -> None:
        super().__init__(self._connect_warm, where, table_names)
        self._idle, self._connect_anew = idle, connect

    def _connect_warm(self, timeout: float) -> Any:
        try:
            return self._idle.pop()
        except IndexError:
            return self._connect_anew(timeout)

    def end(self, connection: Any) -> None:
        """Leave it to others, once its session holds and hears nothing."""
        if self._mode is None or not self.is_alive(connection):
            super().end(connection)
            return
        self._mode.forget(connection)
        connection.execute("UNLISTEN *; SELECT pg_advisory_unlock_all()")
        while connection.pgconn.notifies() is not None:
            pass
        self._idle.append(connection)
