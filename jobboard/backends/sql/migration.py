"""Creating and migrating the tables on a server, and refusing those of another version."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from jobboard.backends.findings import Migration
from jobboard.backends.sql import admin_statements, schema
from jobboard.backends.sql.dialect import Dialect
from jobboard.backends.sql.driver import Driver
from jobboard.backends.sql.planner import Step
from jobboard.backends.sql.transaction import Transaction
from jobboard.errors import BoardUnavailable, RequestRefused


def read_version(cursor: Any, dialect: Dialect) -> str | None:
    """Return the version that the tables have, which are there; raises the driver's own errors."""
    row = Transaction(cursor, dialect, 0, 0.0).row(admin_statements.READ_VERSION)
    return None if row is None else str(row[0])


def refuse_other_version(found: str, where: str) -> None:
    """Refuse tables of another version than ours.

    :raises BoardUnavailable: they are of another one; says which, and what to do.
    """
    refuse_newer(found, where)
    if found != str(schema.VERSION):
        raise RequestRefused(
            f"{where} has the tables of schema {found}, this jobboard needs schema {schema.VERSION}; use the version "
            "of jobboard that the board's other programs use, or stop them all and run `jobboard migrate`"
        )


def refuse_newer(found: str, where: str) -> None:
    """Refuse tables of a newer version than ours.

    :raises RequestRefused: they are newer.
    """
    if schema.is_newer(found):
        raise RequestRefused(
            f"{where} was made by a newer jobboard (schema {found}, this one reads {schema.VERSION}); upgrade jobboard"
        )


def migrate(driver: Driver, timeout: float) -> Migration:
    """Create or migrate the tables, and mend their sequences, over a connection of its own."""
    with _connected(driver, timeout) as connection, driver.migrating(connection, timeout):
        found = driver.read_version(connection)
        for step in _steps(driver, connection, found):
            driver.take(connection, step)
        return Migration(found, str(schema.VERSION), tuple(driver.mend_sequences(connection)))


def statements_of_migration(driver: Driver, timeout: float) -> list[str]:
    """Return the statements that :func:`migrate` would execute; changes nothing."""
    with _connected(driver, timeout) as connection:
        steps = _steps(driver, connection, driver.read_version(connection))
        return [statement for step in steps for statement in step]


def _steps(driver: Driver, connection: object, found: str | None) -> list[Step]:
    if found is not None:
        refuse_newer(found, driver.where)
    return [] if found == str(schema.VERSION) else driver.planner(connection).steps(found)


def check_tables(driver: Driver, connection: object, may_create: bool, timeout: float) -> None:
    """Check that the tables are of our version, after creating them if there are none and ``may_create``.

    Raises the driver's own errors too.

    :raises BoardUnavailable: they are missing or of another version.
    """
    found = driver.read_version(connection)
    if found is not None:
        refuse_other_version(found, driver.where)
    elif may_create:
        migrate(driver, timeout)
    else:
        needed = f"this jobboard needs schema {schema.VERSION}; run `jobboard migrate`"
        raise BoardUnavailable(f"{driver.where} has no tables, {needed}")


def board_names(driver: Driver, timeout: float) -> list[str]:
    """Return the boards that have been opened, over a connection of its own; makes no tables."""
    with _connected(driver, timeout) as connection:
        if driver.read_version(connection) is None:
            return []
        transaction = Transaction(connection.cursor(), driver.dialect, 0, 0.0)
        return [name for (name,) in transaction.rows(admin_statements.BOARD_NAMES)]


@contextlib.contextmanager
def _connected(driver: Driver, timeout: float) -> Iterator[Any]:
    connection = driver.connect(timeout)
    try:
        yield connection
    except driver.error as error:
        raise driver.explain(error) from error
    finally:
        driver.end(connection)
