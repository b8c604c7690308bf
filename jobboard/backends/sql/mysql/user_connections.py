"""Connections of the user's to MariaDB and MySQL that are not the board's own driver's."""

from __future__ import annotations

import sys
from typing import Any

from pymysql.constants import SERVER_STATUS

from jobboard.backends.sql.mysql.errors import code_of
from jobboard.backends.sql.transaction import StepwiseTransaction
from jobboard.backends.sql.user_connection import COMMITS_BY_ITSELF, OtherDriverConnection

#: Independent of the session's time zone.
NOW = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1e6"

#: The one that holds every text; ``utf8`` is another one, of which a character has three bytes at most.
CHARSET = "utf8mb4"

_NO_SAVEPOINT = 1305


def check_charset(charset: str) -> None:
    """Refuse a connection of the user's that can't write every text.

    :raises ValueError: if it is another character set than ``CHARSET``.
    """
    if charset != CHARSET:
        raise ValueError(f"the connection can't write every text: connect with charset='{CHARSET}', not {charset!r}")


class _OtherDriver(OtherDriverConnection):
    """Its statements are sent one by one."""

    transaction = StepwiseTransaction
    now_statement = NOW


class MysqlclientConnection(_OtherDriver):
    name = "mysqlclient"

    def takes(self, connection: Any) -> bool:
        module: Any = sys.modules.get("MySQLdb.connections")
        if module is None or not isinstance(connection, module.Connection):
            return False
        self.error = module.Error
        return True

    def cursor(self, connection: Any) -> Any:
        cursor = connection.cursor(sys.modules["MySQLdb.cursors"].Cursor)
        if connection.get_autocommit() and not self._is_in_transaction(cursor):
            raise ValueError(COMMITS_BY_ITSELF)
        check_charset(connection.character_set_name())
        return cursor

    def _is_in_transaction(self, cursor: Any) -> bool:
        """The driver does not tell; outside of a transaction a savepoint is gone as soon as it is made."""
        cursor.execute("SAVEPOINT jobboard")
        try:
            cursor.execute("RELEASE SAVEPOINT jobboard")
        except self.error as error:
            if code_of(error) == _NO_SAVEPOINT:
                return False
            raise
        return True


class AdaptedAsyncConnection(_OtherDriver):
    """Both libraries come from PyMySQL, and tell the same of their connections."""

    adapters = ("mysql.asyncmy", "mysql.aiomysql")

    def cursor(self, connection: Any) -> Any:
        below = connection.driver_connection
        if below.get_autocommit() and not below.server_status & SERVER_STATUS.SERVER_STATUS_IN_TRANS:
            raise ValueError(COMMITS_BY_ITSELF)
        check_charset(below.character_set_name())
        return connection.cursor()
