"""PostgreSQL by psycopg 3."""

from __future__ import annotations

import contextlib
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from psycopg.types.string import StrDumperUnknown
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from jobboard.backends.sql import sequences
from jobboard.backends.sql.change_source import ChangeSource
from jobboard.backends.sql.dialect import TableNames
from jobboard.backends.sql.driver import LOCK_TIMEOUT, STEP_TIMEOUT, Beginning, Driver, has_input
from jobboard.backends.sql.floors import Look
from jobboard.backends.sql.migration import read_version
from jobboard.backends.sql.planner import Planner, Step
from jobboard.backends.sql.postgresql import change_source
from jobboard.backends.sql.postgresql.change_source import PostgresqlChangeSource
from jobboard.backends.sql.postgresql.errors import PostgresqlErrors
from jobboard.backends.sql.postgresql.pooler import check_sessions
from jobboard.backends.sql.postgresql.prepared import PreparedStatement
from jobboard.backends.sql.postgresql.tables import planner_of
from jobboard.backends.sql.postgresql.transaction import PostgresqlTransaction, in_one_trip
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

Connect = Callable[[float], psycopg.Connection[Any]]

MIN_VERSION = 120000
#: Each step of a migration waits for locks for this long.
_MIGRATION_LOCK_TIMEOUT = "SET lock_timeout = '10s'"
#: Seconds between two tries to be the one that migrates.
_LOCK_POLL = 0.02

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
INSERT INTO jobboard_meta (name, value) VALUES ('mark {board}', CAST(txid_current() AS text))
ON CONFLICT (name) DO UPDATE SET value = excluded.value;
"""
# An index serves every statement of ours, in its order. A planner that has no statistics of a new table, or those of an
# empty board, must not choose another plan. So the values make no difference either: without a generic plan, each claim
# is planned anew, since its LIMIT is a parameter, and that takes longer than the claim.
_OFF = ("enable_seqscan", "enable_bitmapscan", "enable_sort", "enable_hashjoin", "enable_mergejoin", "jit")
# Nor may it start worker processes, each of which takes longer than the statement.
_SET_UP = "; ".join(
    [
        # Whatever the environment, the user or the database is set to: every text, moments to the last digit, and
        # backslashes as psycopg writes those of bytes.
        "SET client_encoding = 'UTF8'",
        "SET extra_float_digits = 1",
        "SET standard_conforming_strings = on",
        # The statements that are transactions by themselves run at the level of all others.
        "SET default_transaction_isolation = 'read committed'",
        *(f"SET {name} = off" for name in _OFF),
        "SET max_parallel_workers_per_gather = 0",
        "SET plan_cache_mode = force_generic_plan",
        f"SET lock_timeout = '{LOCK_TIMEOUT}s'",
        # A process that is frozen in a transaction would keep its jobs locked, and so from being taken back.
        "SET idle_in_transaction_session_timeout = '10s'",
    ]
)


class _Text(StrDumperUnknown):
    def dump(self, obj: str) -> Any:
        # Each connection of ours speaks UTF-8, and so does each of the user's that we take.
        return without_nul(obj).encode()


class PostgresqlDriver(Driver):
    name = "psycopg"
    error = psycopg.Error
    errors = PostgresqlErrors
    transaction = PostgresqlTransaction
    compiler = PGDialect_psycopg()  # type: ignore[no-untyped-call]
    as_list = list
    status = _STATUS
    now_statement = NOW
    has_channels = True
    other_connections = (Psycopg2Connection, AdaptedPsycopgConnection, AdaptedAsyncpgConnection)

    def __init__(self, connect: Connect, where: str, table_names: TableNames) -> None:
        super().__init__(connect, where, table_names)
        #: Whether it is known that each connection has a session to itself.
        self._has_own_sessions = False
        self._statements: defaultdict[psycopg.Connection[Any], dict[str, PreparedStatement]] = defaultdict(dict)

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
        if not self._has_own_sessions:
            check_sessions(connection, self._connect, self.where)
            self._has_own_sessions = True
        connection.adapters.register_dumper(str, _Text)
        connection.execute(_SET_UP)

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
        self._statements.pop(connection, None)
        connection.close()

    def rows(self, connection: psycopg.Connection[Any], text: str, parameters: Mapping[str, Any]) -> list[Row]:
        statements = self._statements[connection]
        statement = statements.get(text)
        if statement is None:
            statement = statements[text] = PreparedStatement(connection, text)
        return statement.rows(parameters)

    def rows_of_transaction(
        self, connection: psycopg.Connection[Any], texts: Sequence[tuple[str, Mapping[str, Any]]]
    ) -> list[list[Row]]:
        cursors = [connection.cursor() for _ in texts]
        with in_one_trip(connection):
            connection.execute("BEGIN")
            for cursor, (sql, parameters) in zip(cursors, texts, strict=True):
                cursor.execute(sql.encode(), parameters, prepare=True)
            connection.execute("COMMIT")
        return [cursor.fetchall() for cursor in cursors]

    def begin(self, cursor: Any, board: int, look: Look) -> Beginning:
        # Where the server or the user is set to be read-only, this fails as the statements without a BEGIN do.
        return self._begin(cursor, "READ COMMITTED", board, look)

    def begin_read(self, cursor: Any, board: int, look: Look) -> Beginning:
        return self._begin(cursor, "REPEATABLE READ READ ONLY", board, look)

    def _begin(self, cursor: Any, kind: str, board: int, look: Look) -> Beginning:
        # A mark is a number, unless another program has written it.
        mark = f"'{look.mark}'" if look.mark is not None and look.mark.isdecimal() else "NULL"
        status = self._status.format(board=board, mark=mark, due_floor=look.due)
        cursor.execute(f"BEGIN ISOLATION LEVEL {kind}; {status}")
        cursor.nextset()
        [(now, due_floor, *status)] = not_empty(cursor.fetchall(), self.where)
        return Beginning(now, BoardStatus(*status), due_floor)

    def commit(self, transaction: Transaction, cursor: Any) -> None:
        mark = ""
        if transaction.is_below_floors:
            # Last, since others who set the mark wait for this commit.
            mark = self.dialect.table_names.apply(_SET_MARK.format(board=transaction.board))
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
        table_names, deadline = self.dialect.table_names, time.monotonic() + timeout
        key = int(table_names.fingerprint, 16)
        # Not by waiting for the lock: a statement that waits holds a snapshot, and the making of an index waits for
        # that one's end.
        while not _try_lock(connection, key):
            if time.monotonic() > deadline:
                raise BoardUnavailable(f"another process migrates {self.where} since more than {timeout:.0f} s")
            time.sleep(_LOCK_POLL)
        try:
            # A statement that reads a whole table is to read it in its order. Tables in use are waited for.
            connection.execute("; ".join([*(f"SET {name} = on" for name in _OFF), _MIGRATION_LOCK_TIMEOUT]))
            limit_replies(connection, STEP_TIMEOUT)
            yield
        finally:
            if not connection.closed:
                connection.execute("SELECT pg_advisory_unlock(%s)", [key])

    def planner(self, connection: psycopg.Connection[Any]) -> Planner:
        return planner_of(connection.cursor(), self.dialect)

    def take(self, connection: psycopg.Connection[Any], step: Step) -> None:
        # A single statement is a transaction by itself; an index can't be made concurrently in any other.
        with connection.transaction() if len(step) > 1 else contextlib.nullcontext():
            for statement in step:
                connection.execute(statement.encode())

    def mend_sequences(self, connection: psycopg.Connection[Any]) -> list[str]:
        with connection.transaction(), connection.cursor() as cursor:
            return sequences.mend(cursor, self.dialect)

    def change_source(self, connection: psycopg.Connection[Any], channel: str, event_channel: str) -> ChangeSource:
        return PostgresqlChangeSource(self, connection, channel, event_channel)


def _try_lock(connection: psycopg.Connection[Any], key: int) -> bool:
    return connection.execute("SELECT pg_try_advisory_lock(%s)", [key]).fetchone() == (True,)


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
