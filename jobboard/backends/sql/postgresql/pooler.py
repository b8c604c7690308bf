"""Whether a pooler between a board and its server gives one session to several clients in turn.

Such a pooler (PgBouncer with ``pool_mode = transaction`` or ``statement``) would give the settings of a board to
others, and its notifications and prepared statements to nobody.
"""

from __future__ import annotations

import logging
import time
from typing import Any

import psycopg

from jobboard.backends.sql.postgresql.mode import Connect
from jobboard.backends.timelimit import time_limit
from jobboard.errors import BoardUnavailable

logger = logging.getLogger("jobboard.backends.sql")

#: Other users of the pool may hide in one try that sessions are shared: at worst in about every second one.
_TRIES = 40
#: Seconds after which a try is the last one, for a server that is far away.
_LONG_ENOUGH = 2.0
#: Seconds within which a second session must be had, and each be found the same in all tries.
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
    other = connect(_TIMEOUT)
    try:
        other.autocommit = True
        own = {each: _process_of(each) for each in (connection, other)}
        is_enough = time.monotonic() + _LONG_ENOUGH
        for number in range(_TRIES):
            # While one keeps a session, the other one has the same session as before, unless they share.
            keeper, asker = (other, connection) if number % 2 == 0 else (connection, other)
            with keeper.transaction():
                found = {each: _process_of(each) for each in (keeper, asker)}
            if found != own or len(set(found.values())) == 1:
                return True
            if time.monotonic() > is_enough:
                break
    finally:
        other.close()
    return False


def _process_of(connection: psycopg.Connection[Any]) -> int:
    """Return the server's process that answers a connection now."""
    # Prepared, it would stay in the session.
    [(process,)] = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchall()
    return int(process)
