"""Whether a pooler between a board and its server gives one session to several clients in turn.

Such a pooler (PgBouncer with ``pool_mode = transaction`` or ``statement``) would give the settings of a board to
others, and its notifications and prepared statements to nobody.
"""

from __future__ import annotations

import logging
from typing import Any

import psycopg

from jobboard.backends.sql.postgresql.mode import Connect
from jobboard.backends.timelimit import time_limit
from jobboard.errors import BoardUnavailable

logger = logging.getLogger("jobboard.backends.sql")

#: Other users of the pool may hide in one try that sessions are shared.
_TRIES = 5
#: Seconds within which a second session must be had.
_TIMEOUT = 5.0
#: How PgBouncer refuses a transaction where each statement may have another session.
_NO_TRANSACTIONS = "statement pooling"


def shares_sessions(connection: psycopg.Connection[Any], connect: Connect, where: str) -> bool:
    """Whether a new connection shares its session with others; changes nothing in any session.

    :param connection: commits each statement.
    :param connect: makes another one, within the given seconds.
    :raises BoardUnavailable: each statement may have another session.
    """
    # A pooler has no one process of the server for a client, and so gives it a number of its own making.
    if _process_of(connection) == connection.info.backend_pid:
        return False
    try:
        with time_limit(_TIMEOUT):
            return _is_shared(connection, connect)
    except psycopg.Error as error:
        refuse_statement_pooling(error, where)
        logger.warning(
            "%s is behind a pooler, which gives no second session (%s): a board needs pool_mode = session there, or"
            " mode=distributed",
            where,
            error,
        )
        return False


def refuse_statement_pooling(error: psycopg.Error, where: str) -> None:
    """Say what to do if a transaction was refused since each statement may have another session.

    :raises BoardUnavailable: it was.
    """
    if _NO_TRANSACTIONS in str(error):
        raise BoardUnavailable(
            f"{where} is behind a pooler that allows no transactions: a board needs pool_mode = session or transaction"
        ) from error


def _is_shared(connection: psycopg.Connection[Any], connect: Connect) -> bool:
    process = _process_of(connection)
    other = connect(_TIMEOUT)
    try:
        other.autocommit = True
        for _ in range(_TRIES):
            # While another client keeps a session, the first one has the same session as before, unless they share.
            other.execute("BEGIN")
            if _process_of(other) == process or _process_of(connection) != process:
                return True
            other.execute("ROLLBACK")
    finally:
        other.close()
    return False


def _process_of(connection: psycopg.Connection[Any]) -> int:
    """Return the server's process that answers a connection now."""
    # Prepared, it would stay in the session.
    [(process,)] = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchall()
    return int(process)
