"""PostgreSQL by psycopg 3."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from psycopg.types.string import StrDumperUnknown

from jobboard.backends.sql import sequences
from jobboard.backends.sql.change_source import ChangeSource
from jobboard.backends.sql.dialect import Dialect, TableNames
from jobboard.backends.sql.driver import STEP_TIMEOUT, Beginning, Driver, has_input
from jobboard.backends.sql.floors import Look
from jobboard.backends.sql.migration import read_version
from jobboard.backends.sql.planner import Planner, Step
from jobboard.backends.sql.postgresql import change_source
from jobboard.backends.sql.postgresql.errors import PostgresqlErrors
from jobboard.backends.sql.postgresql.mode import Connect, Mode
from jobboard.backends.sql.postgresql.mode_choice import AUTO, choose_mode
from jobboard.backends.sql.postgresql.session_mode import SessionMode
from jobboard.backends.sql.postgresql.tables import planner_of
from jobboard.backends.sql.postgresql.transaction import PostgresqlTransaction
from jobboard.backends.sql.postgresql.user_connections import (
    NOW,
    AdaptedAsyncpgConnection,
    AdaptedPsycopgConnection,
    Psycopg2Connection,
    check_encoding,
    without_nul,
)
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.server_errors import not_empty
from jobboard.backends.sql.transaction import BoardStatus, Transaction
from jobboard.backends.sql.user_connection import COMMITS_BY_ITSELF
from jobboard.backends.timelimit import seconds_left
from jobboard.errors import BoardUnavailable

MIN_VERSION = 120000
#: How a database keeps text if it can keep every text; SQL_ASCII takes what clients send as it is.
_ENCODINGS = ("UTF8", "SQL_ASCII")

#: In the same text as the beginning, which therefore takes no parameters. The time is read once, for the index's sake.
_STATUS = """
WITH moment AS MATERIALIZED (SELECT extract(epoch FROM clock_timestamp())::float8 AS now), floor AS MATERIALIZED (
    SELECT CASE WHEN (SELECT value FROM jobboard_meta WHERE name = 'mark {board}') IS DISTINCT FROM {mark}
        THEN '-Infinity' ELSE float8 '{due_floor}' END AS due_at
)
SELECT now, (SELECT due_at FROM floor), (
        SELECT due_at FROM jobboard_jobs
        WHERE board = {board} AND due_at <= now AND due_at > (SELECT due_at FROM floor) ORDER BY due_at LIMIT 1
    ) IS NOT NULL,
    EXISTS (SELECT FROM jobboard_pauses WHERE board = {board}),
    EXISTS (SELECT FROM jobboard_lanes WHERE board = {board} AND blocked_name IS NOT NULL),
    EXISTS (SELECT FROM jobboard_marks WHERE board = {board} AND due_at <= now)
FROM moment
"""
#: A mark that the board never had before (``floors``).
_SET_MARK = """
INSERT INTO jobboard_meta (name, value) VALUES ('mark {board}', CAST({number} AS text))
ON CONFLICT (name) DO UPDATE SET value = excluded.value;
"""


class _Text(StrDumperUnknown):
    def dump(self, obj: str) -> Any:
        # Each connection of ours speaks UTF-8, and so does each of the user's that we take.
        return without_nul(obj).encode()


class PostgresqlDriver(Driver):
    name = "psycopg"
    error = psycopg.Error
    errors = PostgresqlErrors
    transaction = PostgresqlTransaction
    compiler = SessionMode.compiler
    as_list = list
    status = _STATUS
    now_statement = NOW
    other_connections = (Psycopg2Connection, AdaptedPsycopgConnection, AdaptedAsyncpgConnection)

    def __init__(self, connect: Connect, where: str, table_names: TableNames, wanted_mode: str = AUTO) -> None:
        super().__init__(connect, where, table_names)
        self._wanted_mode = wanted_mode
        #: Known from the first connection on.
        self._mode: Mode | None = None

    @property
    def mode(self) -> Mode:
        assert self._mode is not None
        return self._mode

    @property
    def has_channels(self) -> bool:  # type: ignore[override]
        return self.mode.has_channels

    @staticmethod
    def adopt(connection: Any, reply_timeout: float) -> None:
        assert isinstance(connection, psycopg.Connection)
        limit_replies(connection, reply_timeout)
        connection.rollback()

    def prepare(self, connection: psycopg.Connection[Any]) -> None:
        version = connection.info.server_version
        if version < MIN_VERSION:
            raise BoardUnavailable(f"{self.where} is PostgreSQL {version // 10000}; jobboard needs 12 or later")
        encoding = connection.info.parameter_status("server_encoding")
        if encoding not in _ENCODINGS:
            raise BoardUnavailable(
                f"{self.where} keeps text as {encoding}, which has no form for most characters; "
                "make its database with ENCODING 'UTF8'"
            )
        connection.autocommit = True
        if self._mode is None:
            self._mode = choose_mode(self._wanted_mode, connection, self._connect, self.where)
            self.dialect = Dialect(self._mode.compiler, list, self.dialect.table_names)
        connection.adapters.register_dumper(str, _Text)
        self._mode.set_up(connection)

    def is_alive(self, connection: psycopg.Connection[Any]) -> bool:
        if connection.closed or connection.pgconn.transaction_status != TransactionStatus.IDLE:
            return False
        if not has_input(connection.pgconn.socket):
            return True
        try:
            connection.pgconn.consume_input()
        except psycopg.OperationalError:
            return False
        return not connection.closed

    def end(self, connection: psycopg.Connection[Any]) -> None:
        if self._mode is not None:
            self._mode.forget(connection)
        connection.close()

    def rows(self, connection: psycopg.Connection[Any], text: str, parameters: Mapping[str, Any]) -> list[Row]:
        return self.mode.rows(connection, text, parameters)

    def rows_of_transaction(
        self, connection: psycopg.Connection[Any], texts: Sequence[tuple[str, Mapping[str, Any]]]
    ) -> list[list[Row]]:
        return self.mode.rows_of_transaction(connection, texts)

    def begin(self, cursor: Any, board: int, look: Look) -> Beginning:
        # Where the server or the user is set to be read-only, this fails as the statements without a BEGIN do.
        return self._begin(cursor, "READ COMMITTED", board, look)

    def begin_read(self, cursor: Any, board: int, look: Look) -> Beginning:
        return self._begin(cursor, "REPEATABLE READ READ ONLY", board, look)

    def _begin(self, cursor: Any, kind: str, board: int, look: Look) -> Beginning:
        # A mark is a number, unless another program has written it.
        mark = f"'{look.mark}'" if look.mark is not None and look.mark.isdecimal() else "NULL"
        status = self._status.format(board=board, mark=mark, due_floor=look.due)
        settings = self.mode.settings
        cursor.execute("; ".join([f"BEGIN ISOLATION LEVEL {kind}", *settings, status]))
        for _ in range(1 + len(settings)):
            cursor.nextset()
        [(now, due_floor, *status)] = not_empty(cursor.fetchall(), self.where)
        return Beginning(now, BoardStatus(*status), due_floor)

    def commit(self, transaction: Transaction, cursor: Any) -> None:
        mark = ""
        if transaction.is_below_floors:
            # Last, since others who set the mark wait for this commit.
            mark = self.dialect.table_names.apply(_SET_MARK.format(board=transaction.board, number=self.mode.new_mark))
        cursor.execute(f"{mark}COMMIT")

    def takes(self, connection: Any) -> bool:
        return isinstance(connection, psycopg.Connection)

    def cursor(self, connection: Any) -> Any:
        if connection.autocommit and connection.pgconn.transaction_status == TransactionStatus.IDLE:
            raise ValueError(COMMITS_BY_ITSELF)
        check_encoding(connection.info.parameter_status("client_encoding"))
        # Not of the connection's cursor_factory: Django's merges parameters into the text.
        cursor = psycopg.Cursor(connection, row_factory=tuple_row)
        cursor.adapters.register_dumper(str, _Text)
        return cursor

    def notify(self, cursor: Any, channel: str) -> None:
        cursor.execute(f"NOTIFY {channel}")

    def notify_at_once(self, connection: psycopg.Connection[Any], channel: str) -> bool:
        return bool(self.rows(connection, change_source.notify(channel), {}))

    def read_version(self, connection: psycopg.Connection[Any]) -> str | None:
        table_names, cursor = self.dialect.table_names, connection.cursor()
        cursor.execute("SELECT to_regclass(%s)", [table_names.table("meta")])
        if cursor.fetchone() == (None,):
            return None
        return read_version(cursor, self.dialect)

    @contextlib.contextmanager
    def migrating(self, connection: psycopg.Connection[Any], timeout: float) -> Iterator[None]:
        with self.mode.migrating(connection, self._connect, self.dialect.table_names, self.where, timeout):
            limit_replies(connection, STEP_TIMEOUT)
            yield

    def planner(self, connection: psycopg.Connection[Any]) -> Planner:
        return planner_of(connection.cursor(), self.dialect)

    def take(self, connection: psycopg.Connection[Any], step: Step) -> None:
        self.mode.take(connection, step)

    def mend_sequences(self, connection: psycopg.Connection[Any]) -> list[str]:
        with connection.transaction(), connection.cursor() as cursor:
            return sequences.mend(cursor, self.dialect)

    def change_source(self, connection: psycopg.Connection[Any], channel: str, event_channel: str) -> ChangeSource:
        return self.mode.change_source(self, connection, channel, event_channel)


def limit_replies(connection: psycopg.Connection[Any], reply_timeout: float) -> None:
    """Limit the wait for a reply on this connection, in seconds."""
    wait = connection.wait

    def wait_in_time(gen: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs.setdefault("timeout", seconds_left(reply_timeout))
        return wait(gen, *args, **kwargs)

    connection.wait = wait_in_time  # type: ignore[method-assign]


def connector(parameters: Mapping[str, Any], reply_timeout: float) -> Connect:
    """Return what connects by libpq's parameters.

    :param reply_timeout: seconds after which a server that does not reply is given up.
    """

    hosts = str(parameters.get("host", "")).count(",") + 1

    def connect(timeout: float) -> psycopg.Connection[Any]:
        # libpq takes whole seconds for each host, and 2 at least.
        seconds = max(2, math.ceil(timeout / hosts))
        connection = psycopg.Connection.connect(**parameters, connect_timeout=seconds, autocommit=True)
        limit_replies(connection, reply_timeout)
        if parameters.get("sslmode", "disable") != "disable" and not connection.pgconn.ssl_in_use:
            connection.close()
            raise psycopg.OperationalError("a Unix socket has no TLS; say sslmode=disable")
        return connection

    return connect
