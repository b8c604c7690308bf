"""Which mode a board takes: the one that is asked for, or the one that its server and its pooler allow."""

from __future__ import annotations

import logging
from typing import Any

import psycopg

from jobboard.backends.sql.postgresql.distributed_mode import DistributedMode
from jobboard.backends.sql.postgresql.mode import PLANNER_SETTINGS, SETTINGS, Connect, Mode
from jobboard.backends.sql.postgresql.pooler import refuse_statement_pooling, shares_sessions
from jobboard.backends.sql.postgresql.session_mode import SessionMode
from jobboard.errors import BoardUnavailable

logger = logging.getLogger("jobboard.backends.sql")

AUTO = "auto"
MODES = (AUTO, SessionMode.name, DistributedMode.name)

_COCKROACHDB = "CockroachDB"
#: What a ``version()`` has in it -> which database that is.
_RELATIVES = {_COCKROACHDB: _COCKROACHDB, "-YB-": "YugabyteDB"}


def choose_mode(wanted: str, connection: psycopg.Connection[Any], connect: Connect, where: str) -> Mode:
    """Return the mode for a new connection, in whose session nothing is changed by this.

    :param wanted: one of ``MODES``.
    :param connection: commits each statement.
    :param connect: makes another one.
    :raises BoardUnavailable: the server or its pooler doesn't allow the one that is asked for.
    """
    relative = _relative(connection)
    if wanted == DistributedMode.name:
        _check_transactions(connection, where)
        return _distributed(relative)
    reason = f"is {relative}" if relative else None
    if reason is None and shares_sessions(connection, connect, where):
        reason = "is behind a pooler that shares its sessions among clients"
    if reason is None:
        return SessionMode()
    if wanted == SessionMode.name:
        raise BoardUnavailable(f"{where} {reason}: a board needs mode=distributed or, at a pooler, pool_mode = session")
    logger.info("%s %s: its boards take mode=distributed", where, reason)
    return _distributed(relative)


def _relative(connection: psycopg.Connection[Any]) -> str | None:
    """Return which relative of PostgreSQL the server is, if it is one."""
    [(version,)] = connection.execute("SELECT version()").fetchall()
    return next((name for mark, name in _RELATIVES.items() if mark in version), None)


def _check_transactions(connection: psycopg.Connection[Any], where: str) -> None:
    try:
        with connection.transaction():
            pass
    except psycopg.Error as error:
        refuse_statement_pooling(error, where)
        raise


def _distributed(relative: str | None) -> DistributedMode:
    # CockroachDB's planner has settings of its own.
    return DistributedMode(SETTINGS if relative == _COCKROACHDB else (*SETTINGS, *PLANNER_SETTINGS))
