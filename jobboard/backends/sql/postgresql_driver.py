"""PostgreSQL by psycopg 3."""

from __future__ import annotations

import math
import select
from collections.abc import Callable, Mapping
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from psycopg.types.string import StrDumperUnknown
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from jobboard.backends.sql import postgresql_faults as faults
from jobboard.backends.sql import schema, sidelines
from jobboard.backends.sql.database import Lookout
from jobboard.backends.sql.driver import Driver
from jobboard.backends.sql.layout import statements_from
from jobboard.backends.sql.migrating import found_version
from jobboard.backends.sql.naming import Naming
from jobboard.backends.sql.postgresql_lookout import PostgresqlLookout
from jobboard.backends.sql.statement import Tongue
from jobboard.backends.sql.transaction import Look, Transaction
from jobboard.backends.timelimit import seconds_left, time_limit
from jobboard.errors import BoardUnavailable

Connect = Callable[[float], psycopg.Connection[Any]]

_OLDEST = 120000

_NOW = "SELECT extract(epoch FROM clock_timestamp())::float8"
#: In the same text as the beginning, which therefore takes no parameters. The time is read once, for the index's sake.
_LOOK = """
WITH moment AS MATERIALIZED (SELECT extract(epoch FROM clock_timestamp())::float8 AS now)
SELECT now,
    (SELECT due_at FROM jobboard_jobs WHERE board = {board} AND due_at <= now ORDER BY due_at LIMIT 1) IS NOT NULL,
    EXISTS (SELECT FROM jobboard_pauses WHERE board = {board})
FROM moment
"""
# Every statement of ours is served by an index, in its order. A planner that knows nothing of a new table, or that last
# looked when the board was empty, must not think of anything else.
_SET_UP = "; ".join(
    f"SET {setting}"
    for setting in (
        "enable_seqscan = off", "enable_bitmapscan = off", "enable_sort = off", "enable_hashjoin = off",
        "enable_mergejoin = off", "jit = off", "lock_timeout = '10s'",
    )
)  # fmt: skip


class _Text(StrDumperUnknown):
    """PostgreSQL's text holds no NUL, and a traceback may."""

    def dump(self, obj: str) -> Any:
        return super().dump(obj.replace("\0", "\\x00") if "\0" in obj else obj)


class PostgresqlDriver(Driver):
    """
    :param connect: makes a connection within so many seconds; raises psycopg's errors.
    :param where: the server and the database, for messages.
    """

    error = psycopg.Error
    transaction = Transaction

    def __init__(self, connect: Connect, where: str, naming: Naming) -> None:
        self._connect = connect
        self._where = where
        self.tongue = Tongue(PGDialect_psycopg(), list, naming)  # type: ignore[no-untyped-call]
        self._look = naming.apply(_LOOK)

    @property
    def where(self) -> str:
        return self._where

    def connect(self, timeout: float) -> psycopg.Connection[Any]:
        with time_limit(timeout):
            return self._set_up(seconds_left(timeout))

    def _set_up(self, timeout: float) -> psycopg.Connection[Any]:
        try:
            connection = self._connect(timeout)
        except psycopg.Error as error:
            raise faults.unreachable(error, self._where) from error
        try:
            self._check(connection)
            connection.autocommit = True
            connection.adapters.register_dumper(str, _Text)
            connection.execute(_SET_UP)
        except BaseException as error:
            self.end(connection)
            if isinstance(error, psycopg.Error):
                raise faults.unreachable(error, self._where) from error
            raise
        return connection

    def _check(self, connection: psycopg.Connection[Any]) -> None:
        version = connection.info.server_version
        if version < _OLDEST:
            raise BoardUnavailable(f"{self._where} is PostgreSQL {version // 10000}; jobboard needs 12 or later")

    def is_alive(self, connection: psycopg.Connection[Any]) -> bool:
        if connection.closed or connection.pgconn.transaction_status != TransactionStatus.IDLE:
            return False
        # An idle server says nothing, unless it says goodbye.
        poll = select.poll()
        poll.register(connection.pgconn.socket, select.POLLIN)
        if not poll.poll(0):
            return True
        try:
            connection.pgconn.consume_input()
        except psycopg.OperationalError:
            return False
        return not connection.closed

    def end(self, connection: psycopg.Connection[Any]) -> None:
        connection.close()

    def begin(self, cursor: Any, board: int) -> tuple[float, Look]:
        return self._begin(cursor, "READ COMMITTED READ WRITE", board)

    def begin_look(self, cursor: Any, board: int) -> tuple[float, Look]:
        return self._begin(cursor, "REPEATABLE READ READ ONLY", board)

    def _begin(self, cursor: Any, kind: str, board: int) -> tuple[float, Look]:
        cursor.execute(f"BEGIN ISOLATION LEVEL {kind}; {self._look.format(board=board)}")
        cursor.nextset()
        now, is_any_due, is_any_paused = cursor.fetchone()
        return now, Look(is_any_due, is_any_paused)

    def now(self, cursor: Any) -> float:
        return float(cursor.execute(_NOW).fetchone()[0])

    def commit(self, transaction: Transaction, cursor: Any, channel: str | None) -> None:
        cursor.execute("COMMIT" if channel is None else f"NOTIFY {channel}; COMMIT")

    def cursor(self, connection: Any) -> Any:
        if not isinstance(connection, psycopg.Connection):
            raise TypeError(f"connection must be SQLAlchemy's or psycopg's, not {type(connection).__name__}")
        if connection.autocommit and connection.pgconn.transaction_status == TransactionStatus.IDLE:
            raise ValueError("the connection commits every statement by itself; begin a transaction first")
        cursor = connection.cursor(row_factory=tuple_row)
        cursor.adapters.register_dumper(str, _Text)
        return cursor

    def announce(self, cursor: Any, channel: str) -> None:
        cursor.execute(f"NOTIFY {channel}")

    def explain(self, error: Exception) -> BoardUnavailable:
        return faults.explain(error, self._where)

    def explain_commit(self, error: Exception) -> BoardUnavailable:
        return faults.explain_commit(error, self._where)

    def read_version(self, connection: psycopg.Connection[Any]) -> str | None:
        naming, cursor = self.tongue.naming, connection.cursor()
        cursor.execute("SELECT to_regclass(%s)", [naming.table("meta")])
        if cursor.fetchone() == (None,):
            return None
        row = Transaction(cursor, self.tongue, 0, 0.0).row(sidelines.READ_VERSION)
        return None if row is None else str(row[0])

    def upgrade(self, connection: psycopg.Connection[Any]) -> None:
        naming = self.tongue.naming
        with connection.transaction(), connection.cursor() as cursor:
            # Boards that are opened at the same time queue here, and all but the first find the work done.
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [int(naming.mark, 16)])
            cursor.execute("SELECT to_regnamespace(%s)", [naming.schema or "public"])
            if naming.schema is not None and cursor.fetchone() == (None,):
                cursor.execute(f'CREATE SCHEMA "{naming.schema}"')
            found = found_version(self, self.read_version(connection))
            for statement in statements_from(schema.metadata.sorted_tables, found, self.tongue):
                cursor.execute(statement.encode())
            transaction = Transaction(cursor, self.tongue, 0, 0.0)
            transaction.run(sidelines.CHANGE_VERSION if found else sidelines.WRITE_VERSION, version=str(schema.VERSION))

    def lookout(self, connection: psycopg.Connection[Any], channel: str) -> Lookout:
        return PostgresqlLookout(connection, self.tongue, channel, self.explain)


def give_up_on_silence(connection: psycopg.Connection[Any], reply_timeout: float) -> None:
    """Let nobody wait on this connection for a reply for longer than that, in seconds."""
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
        give_up_on_silence(connection, reply_timeout)
        if parameters.get("sslmode", "disable") != "disable" and not connection.pgconn.ssl_in_use:
            connection.close()
            raise psycopg.OperationalError("TLS is asked for, and a Unix socket has none")
        return connection

    return connect
