"""Creating and upgrading the tables on a server, and refusing those that are newer."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Table
from sqlalchemy.schema import CreateIndex, CreateTable

from jobboard.backends.rows import Migration
from jobboard.backends.sql import admin_statements, schema
from jobboard.backends.sql.dialect import Dialect
from jobboard.backends.sql.driver import Driver
from jobboard.backends.sql.transaction import Transaction
from jobboard.errors import BoardUnavailable

#: The tables that came after the first version, and with which; so far nothing else has changed.
ADDED = {schema.schedules.name: 2, schema.book_entries.name: 3}


def found_version(driver: Driver, version: str | None) -> int:
    """Return the version that was found, 0 for no tables.

    :raises BoardUnavailable: it is newer than ours.
    """
    if version is None:
        return 0
    if schema.is_newer(version):
        raise BoardUnavailable(
            f"{driver.where} was made by a newer jobboard (schema {version}, this one reads {schema.VERSION}); "
            "upgrade jobboard"
        )
    return int(version)


def read_version(cursor: Any, dialect: Dialect) -> str | None:
    """Return the version that the tables have, which are there; raises the driver's own errors."""
    row = Transaction(cursor, dialect, 0, 0.0).row(admin_statements.READ_VERSION)
    return None if row is None else str(row[0])


def write_version(cursor: Any, dialect: Dialect, found: int) -> None:
    """Note that the tables have our version; ``found`` is the earlier one, or 0. Raises the driver's own errors."""
    statement = admin_statements.CHANGE_VERSION if found else admin_statements.WRITE_VERSION
    Transaction(cursor, dialect, 0, 0.0).run(statement, version=str(schema.VERSION))


def migrate(driver: Driver, timeout: float) -> Migration:
    """Create or upgrade the tables, and mend their sequences, over a connection of its own."""
    connection = driver.connect(timeout)
    try:
        found = bring_to_our_version(driver, connection)
        return Migration(found, str(schema.VERSION), tuple(driver.mend_sequences(connection)))
    except driver.error as error:
        raise driver.explain(error) from error
    finally:
        driver.end(connection)


def board_names(driver: Driver, timeout: float) -> list[str]:
    """Return the boards that have been opened, over a connection of its own; makes no tables."""
    connection = driver.connect(timeout)
    try:
        if driver.read_version(connection) is None:
            return []
        transaction = Transaction(connection.cursor(), driver.dialect, 0, 0.0)
        return [name for (name,) in transaction.rows(admin_statements.BOARD_NAMES)]
    except driver.error as error:
        raise driver.explain(error) from error
    finally:
        driver.end(connection)


def bring_to_our_version(driver: Driver, connection: object) -> str | None:
    """Return the version that was found before, None for no tables; raises the driver's own errors."""
    found = driver.read_version(connection)
    if found_version(driver, found) < schema.VERSION:
        driver.upgrade(connection)
    return found


def check_version(driver: Driver, connection: object) -> None:
    """Refuse tables that are missing, older or newer; raises the driver's own errors too."""
    found = driver.read_version(connection)
    if found_version(driver, found) < schema.VERSION:
        has = "has no tables" if found is None else f"has the tables of schema {found}"
        raise BoardUnavailable(
            f"{driver.where} {has}, this jobboard needs schema {schema.VERSION}; run `jobboard migrate`"
        )


def statements_to_upgrade(tables: list[Table], version: int, dialect: Dialect) -> list[str]:
    """Return what brings the tables from a version to ours; 0 is nothing at all."""
    missing = [table for table in tables if ADDED.get(table.name, 1) > version]
    return [text for table in missing for text in _statements_of(table, dialect)]


def _statements_of(table: Table, dialect: Dialect) -> list[str]:
    indexes = sorted(table.indexes, key=lambda index: str(index.name))
    clauses: list[Any] = [CreateTable(table), *(CreateIndex(index) for index in indexes)]
    return [dialect.table_names.apply(str(clause.compile(dialect=dialect.compiler))) for clause in clauses]
