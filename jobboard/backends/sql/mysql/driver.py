"""MariaDB and MySQL by PyMySQL."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import pymysql
from pymysql.constants import SERVER_STATUS
from sqlalchemy import text
from sqlalchemy.dialects.mysql.pymysql import MySQLDialect_pymysql

from jobboard.backends.sql.change_source import ChangeSource
from jobboard.backends.sql.dialect import TableNames
from jobboard.backends.sql.driver import LOCK_TIMEOUT, STEP_TIMEOUT, Beginning, Driver, has_input
from jobboard.backends.sql.floors import ALWAYS, Look
from jobboard.backends.sql.migration import read_version
from jobboard.backends.sql.mysql.change_source import MysqlChangeSource
from jobboard.backends.sql.mysql.errors import NO_TABLE, MysqlErrors, code_of
from jobboard.backends.sql.mysql.galera import SEE_ALL, is_galera
from jobboard.backends.sql.mysql.replies import answers, is_mariadb, say
from jobboard.backends.sql.mysql.tables import planner_of
from jobboard.backends.sql.mysql.transaction import MysqlTransaction
from jobboard.backends.sql.mysql.user_connections import (
    CHARSET,
    NOW,
    AdaptedAsyncConnection,
    MysqlclientConnection,
    check_charset,
)
from jobboard.backends.sql.planner import Planner, Step
from jobboard.backends.sql.server_errors import not_empty
from jobboard.backends.sql.statement import Statement, literal_list
from jobboard.backends.sql.transaction import BoardStatus, Transaction
from jobboard.backends.sql.user_connection import COMMITS_BY_ITSELF
from jobboard.errors import BoardUnavailable

#: The first with SKIP LOCKED.
MIN_MARIADB, MIN_MYSQL = (10, 6), (8, 0)

#: A statement knows a variable's value when it is planned, and so can use an index for it.
_NOW = "CAST(UNIX_TIMESTAMP(SYSDATE(6)) AS DOUBLE)"
SET_NOW = f"SET @jobboard_now = {_NOW}"
#: The same, and the board's mark (``floors``). Not by SET, which would lock what it reads.
SET_NOW_AND_MARK = f"""
SELECT {_NOW}, (SELECT value FROM jobboard_meta WHERE name = CONCAT('mark ', {{board}}))
INTO @jobboard_now, @jobboard_mark
"""  # nosec B608 # constants


def due_floor(mark: str, floor: str) -> str:
    """Return after which moment to look for what is due: a floor, if the board's mark is the one it was made under."""
    return f"IF(@jobboard_mark <=> {mark}, {floor}, {ALWAYS})"


# A least value of an index is found while a statement is planned, for half of what a read of one row costs. Entries of
# claims that have ended stay in the index until it is purged, and a scan passes them on its way to an entry that lives,
# also beyond the end of its range. From low to high each takes an eighth of the time.
def least_due(board: str, floor: str) -> str:
    """Return what asks when the first claim or delay is over, after a floor."""
    due = f"FROM jobboard_jobs FORCE INDEX (jobboard_due) WHERE board = {board} AND due_at > {floor}"
    return f"(SELECT MIN(due_at) {due})"  # nosec B608 # made of constants only; values are bound parameters


def least_due_mark(board: str) -> str:
    return f"(SELECT MIN(due_at) FROM jobboard_marks WHERE board = {board})"  # nosec B608


def is_over(moment: str) -> str:
    return f"({moment} <= @jobboard_now) IS TRUE"


def is_any_blocked(board: str) -> str:
    return f"(SELECT MIN(blocked_name) FROM jobboard_lanes WHERE board = {board}) IS NOT NULL"  # nosec B608


_DUE_FLOOR = due_floor("{mark}", "{due_floor}")
_STATUS = f"""
SELECT @jobboard_now, {_DUE_FLOOR}, {is_over(least_due("{board}", _DUE_FLOOR))},
    EXISTS (SELECT 1 FROM jobboard_pauses WHERE board = {{board}}),
    {is_any_blocked("{board}")}, {is_over(least_due_mark("{board}"))}
"""  # nosec B608 # constants
#: A mark that the board never had before.
_SET_MARK = Statement(
    text("""
INSERT INTO jobboard_meta (name, value) VALUES (CONCAT('mark ', :board), CAST(FLOOR(RAND() * 9e15) AS UNSIGNED))
ON DUPLICATE KEY UPDATE value = VALUES(value)
""")
)
_SET_UP = (
    # UNIX_TIMESTAMP reads a local time, and the session time zone is ambiguous when DST ends.
    # Whatever the server or the user is set to: a commit ends the transaction, and not the connection too; a SELECT
    # returns all that it finds, and is never refused for how much it might read.
    f"SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES', innodb_lock_wait_timeout = {LOCK_TIMEOUT},"
    " completion_type = 0,"
    " sql_select_limit = 18446744073709551615, sql_big_selects = 1",
    # Locks of gaps between rows would make posts wait.
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
)
# A process that is frozen in a transaction would keep its jobs locked. MySQL knows no time limit for that, and so ends
# also connections that wait for their next call.
_END_FROZEN_ON_MARIADB, _END_FROZEN_ON_MYSQL = "SET idle_transaction_timeout = 10", "SET wait_timeout = 30"
_BEGIN = ("START TRANSACTION READ WRITE",)
BEGIN_READ = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
)


class MysqlDriver(Driver):
    name = "PyMySQL"
    error = pymysql.Error
    errors = MysqlErrors
    transaction = MysqlTransaction
    compiler = MySQLDialect_pymysql(paramstyle="pyformat")
    as_list = literal_list
    status = _STATUS
    now_statement = NOW
    has_channels = False
    other_connections = (MysqlclientConnection, AdaptedAsyncConnection)

    def __init__(self, connect: Callable[[float], Any], where: str, table_names: TableNames) -> None:
        super().__init__(connect, where, table_names)
        self._now_and_mark = table_names.apply(SET_NOW_AND_MARK)

    @staticmethod
    def adopt(connection: Any, reply_timeout: float) -> None:
        assert isinstance(connection, pymysql.Connection)
        limit_replies(connection, reply_timeout)

    def prepare(self, connection: Any) -> None:
        _check(connection, self.where)
        connection.autocommit(True)
        if connection.charset != CHARSET:
            # An engine's.
            connection.set_character_set(CHARSET)
        say(connection.cursor(), *_SET_UP, _END_FROZEN_ON_MARIADB if is_mariadb(connection) else _END_FROZEN_ON_MYSQL)
        if is_galera(connection):
            say(connection.cursor(), SEE_ALL)

    def is_alive(self, connection: Any) -> bool:
        if not connection.open or connection.server_status & SERVER_STATUS.SERVER_STATUS_IN_TRANS:
            return False
        return not has_input(connection._sock)

    def end(self, connection: Any) -> None:
        with contextlib.suppress(pymysql.Error, OSError):
            connection.close()

    def begin(self, cursor: Any, board: int, look: Look) -> Beginning:
        return self._begin(cursor, _BEGIN, board, look)

    def begin_read(self, cursor: Any, board: int, look: Look) -> Beginning:
        return self._begin(cursor, BEGIN_READ, board, look)

    def _begin(self, cursor: Any, kind: tuple[str, ...], board: int, look: Look) -> Beginning:
        mark = cursor.connection.escape(look.mark)
        begin = self._now_and_mark.format(board=board)
        ask = self._status.format(board=board, mark=mark, due_floor=look.due)
        *_, found = not_empty(answers(cursor, *kind, begin, ask), self.where)
        [(now, due_floor, *status)] = not_empty(found, self.where)
        return Beginning(float(now), BoardStatus(*map(bool, status)), float(due_floor))

    def commit(self, transaction: Transaction, cursor: Any) -> None:
        assert isinstance(transaction, MysqlTransaction)
        if transaction.is_below_floors:
            # Last, since others who set the mark wait for this commit.
            transaction.do(_SET_MARK)
        transaction.commit()

    def takes(self, connection: Any) -> bool:
        return isinstance(connection, pymysql.connections.Connection)

    def cursor(self, connection: Any) -> Any:
        status: Any = connection
        in_transaction = status.server_status & SERVER_STATUS.SERVER_STATUS_IN_TRANS
        if connection.get_autocommit() and not in_transaction:
            raise ValueError(COMMITS_BY_ITSELF)
        check_charset(connection.character_set_name())
        return connection.cursor(pymysql.cursors.Cursor)

    def read_version(self, connection: Any) -> str | None:
        try:
            return read_version(connection.cursor(), self.dialect)
        except pymysql.ProgrammingError as error:
            if code_of(error) == NO_TABLE:
                return None
            raise

    @contextlib.contextmanager
    def migrating(self, connection: Any, timeout: float) -> Iterator[None]:
        cursor = connection.cursor()
        cursor.execute("SELECT DATABASE()")
        lock = f"jobboard_{self.dialect.table_names.fingerprint}_{cursor.fetchone()[0]}"[:64]
        cursor.execute("SELECT GET_LOCK(%s, %s)", (lock, timeout))
        if cursor.fetchone() != (1,):
            raise BoardUnavailable(f"another process migrates {self.where} since more than {timeout:.0f} s")
        limit_replies(connection, STEP_TIMEOUT)
        try:
            yield
        finally:
            with contextlib.suppress(pymysql.Error):
                cursor.execute("SELECT RELEASE_LOCK(%s)", (lock,))

    def planner(self, connection: Any) -> Planner:
        return planner_of(connection.cursor(), self.dialect, is_mariadb(connection))

    def take(self, connection: Any, step: Step) -> None:
        for statement in step:
            connection.cursor().execute(statement)

    def change_source(self, connection: Any, channel: str, event_channel: str) -> ChangeSource:
        return MysqlChangeSource(self, connection)


def limit_replies(connection: Any, seconds: float) -> None:
    """Limit the wait for a reply on this connection."""
    connection._read_timeout = connection._write_timeout = seconds


def _check(connection: Any, where: str) -> None:
    said = connection.get_server_info()
    kind, oldest = ("MariaDB", MIN_MARIADB) if is_mariadb(connection) else ("MySQL", MIN_MYSQL)
    # MariaDB may put 5.5.5- before its version, for clients that expect a first number of one digit.
    found = re.search(r"(\d+)\.(\d+)", said.removeprefix("5.5.5-"))
    if found is None or (int(found[1]), int(found[2])) < oldest:
        raise BoardUnavailable(f"{where} is {kind} {said}; jobboard needs {oldest[0]}.{oldest[1]} or later")
