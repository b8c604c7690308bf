"""Lets one process at a time migrate; by a locked row where locks of a session can't be had.

The row's lock is that of an open transaction on a connection of its own, so that it ends with the process. Such a
transaction has no snapshot, for whose end the making of an index would wait.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg

from jobboard.backends.sql.dialect import TableNames
from jobboard.backends.sql.postgresql.tables import missing_schema
from jobboard.errors import BoardUnavailable

#: Seconds between two tries.
_POLL = 0.02


def wait_for_turn(try_lock: Callable[[], bool], where: str, timeout: float) -> None:
    """Return once this process has the lock.

    Not by waiting for it: a statement that waits holds a snapshot, and the making of an index waits for that one's end.

    :param try_lock: takes the lock if nobody has it, and returns whether it did.
    :raises BoardUnavailable: others had it for longer than ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    while not try_lock():
        if time.monotonic() > deadline:
            raise BoardUnavailable(f"another process migrates {where} since more than {timeout:.0f} s")
        time.sleep(_POLL)


#: How a statement fails whose table was made meanwhile: by what it met of it first, its rows in the catalogue, the
#: table, or the type of its rows.
_MADE_MEANWHILE = (psycopg.errors.UniqueViolation, psycopg.errors.DuplicateTable, psycopg.errors.DuplicateObject)


@contextlib.contextmanager
def locked_row(
    connection: psycopg.Connection[Any], table_names: TableNames, where: str, timeout: float
) -> Iterator[None]:
    """Hold the lock of these tables within the block.

    :param connection: commits each statement; of nobody else.
    :raises BoardUnavailable: others held it for longer than ``timeout`` seconds.
    """
    table = table_names.table("migrating")
    _make(connection, table_names, table)
    wait_for_turn(lambda: _try_lock(connection, table), where, timeout)
    try:
        yield
    finally:
        with contextlib.suppress(psycopg.Error):
            connection.execute("ROLLBACK")


def _make(connection: psycopg.Connection[Any], table_names: TableNames, table: str) -> None:
    schema = missing_schema(connection, table_names)
    made = [] if schema is None else [f'CREATE SCHEMA IF NOT EXISTS "{schema}"']
    made += [
        f"CREATE TABLE IF NOT EXISTS {table} (id int PRIMARY KEY)",
        f"INSERT INTO {table} (id) VALUES (1) ON CONFLICT DO NOTHING",  # nosec B608 # a checked name
    ]
    if connection.execute("SELECT to_regclass(%s)", [table]).fetchone() != (None,):
        made = made[-1:]
    for statement in made:
        # Two that make it at the same moment: the one that comes later fails, and finds it.
        with contextlib.suppress(*_MADE_MEANWHILE):
            connection.execute(statement.encode())


def _try_lock(connection: psycopg.Connection[Any], table: str) -> bool:
    connection.execute("BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0")
    if connection.execute(f"SELECT id FROM {table} FOR UPDATE SKIP LOCKED".encode()).fetchall():  # nosec B608
        return True
    connection.execute("ROLLBACK")
    return False
