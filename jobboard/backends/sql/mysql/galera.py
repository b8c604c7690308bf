"""Nodes of a Galera cluster, as a connection to one of them knows it."""

from __future__ import annotations

from typing import Any

import pymysql

from jobboard.backends.sql.mysql.errors import NOT_READY

#: Before a node reads or changes rows, it takes in what the others have committed.
SEE_ALL = "SET wsrep_sync_wait = 7"


def is_galera(connection: Any) -> bool:
    return _shown(connection, "VARIABLES LIKE 'wsrep_on'") == "ON"


def check_ready(connection: Any) -> None:
    """Refuse a node that is cut off from its cluster: it takes connections, and refuses what reads a table.

    :raises pymysql.OperationalError: the error with which it refuses that.
    """
    if is_galera(connection) and _shown(connection, "GLOBAL STATUS LIKE 'wsrep_ready'") != "ON":
        raise pymysql.OperationalError(NOT_READY, "wsrep_ready is not ON")


def _shown(connection: Any, what: str) -> str | None:
    cursor = connection.cursor()
    cursor.execute(f"SHOW {what}")
    row = cursor.fetchone()
    return None if row is None else row[1]
