"""Creating the tables of an SQLite file, and migrating them: a table that has changed is rebuilt."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import Table, insert, select
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from jobboard.backends.sql import schema
from jobboard.backends.sql.migration import refuse_newer
from jobboard.backends.sql.planner import FILLS

_COMPILER = SQLiteDialect_pysqlite()
_VERSION = f"INSERT OR REPLACE INTO jobboard_meta (name, value) VALUES ('version', '{schema.VERSION}')"  # nosec B608 # constant


def version_of(connection: sqlite3.Connection) -> str | None:
    """Return the version of the tables, None if there are none."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [schema.meta.name]).fetchone() is None:
        return None
    row = connection.execute("SELECT value FROM jobboard_meta WHERE name = 'version'").fetchone()
    return None if row is None else str(row[0])


def statements(connection: sqlite3.Connection, path: Path) -> list[str]:
    """Return what makes our tables of those that the file has; to be executed in one transaction.

    :raises BoardUnavailable: they are newer.
    """
    version = version_of(connection)
    if version is not None:
        refuse_newer(version, str(path))
    if version == str(schema.VERSION):
        return []
    found: dict[str, str] = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
    changes = [text for table in schema.metadata.sorted_tables for text in _change(connection, table, found)]
    return [*changes, _VERSION]


def _change(connection: sqlite3.Connection, table: Table, found: dict[str, str]) -> list[str]:
    made, indexes = _text(CreateTable(table)), {str(index.name): _text(CreateIndex(index)) for index in table.indexes}
    if table.name not in found:
        return [made, *indexes.values()]
    if _words(found[table.name]) != _words(made):
        columns = {name for _, name, *_ in connection.execute(f"PRAGMA table_info({table.name})")}
        return [*_rebuild(table, made, columns), *indexes.values()]
    changed = {name: text for name, text in indexes.items() if _words(found.get(name, "")) != _words(text)}
    return [text for name, made in changed.items() for text in (f"DROP INDEX IF EXISTS {name}", made)]


def _rebuild(table: Table, made: str, columns: set[str]) -> list[str]:
    """Return what copies all rows into a new table, which goes on to number them, and then has the old one's name."""
    name, new = table.name, f"{table.name}_new"
    values: dict[str, Any] = {
        column.name: column if column.name in columns else FILLS[column.name]
        for column in table.columns
        if column.name in columns or column.name in FILLS
    }
    copied = _text(insert(table).from_select(list(values), select(*values.values())))
    numbered = f"INSERT INTO sqlite_sequence SELECT '{new}', seq FROM sqlite_sequence WHERE name = '{name}'"  # nosec B608 # our own names
    return [
        made.replace(name, new, 1),
        copied.replace(name, new, 1),
        *([f"DELETE FROM sqlite_sequence WHERE name = '{new}'", numbered] if "AUTOINCREMENT" in made else []),  # nosec B608 # our own names
        f"DROP TABLE {name}",
        f"ALTER TABLE {new} RENAME TO {name}",
    ]


def _text(clause: Any) -> str:
    return str(clause.compile(dialect=_COMPILER, compile_kwargs={"literal_binds": True})).strip()


def _words(text: str) -> list[str]:
    """Return a definition without what SQLite or another version of SQLAlchemy writes differently."""
    return re.findall(r"\w+|[^\s\w]", text.replace('"', ""))
