"""The tables as MariaDB and MySQL have them, which have no partial indexes, and how they migrate to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Column, Computed, Index, MetaData, Table, text
from sqlalchemy.dialects import mysql
from sqlalchemy.schema import CreateColumn, CreateIndex

from jobboard.backends.sql import schema
from jobboard.backends.sql.dialect import Dialect
from jobboard.backends.sql.planner import FoundTable, Planner, Step, bare, must_be_set


def _tables() -> list[Table]:
    copies = MetaData()
    tables = [table.to_metadata(copies) for table in schema.metadata.sorted_tables]
    _free_keys_of_the_gone(copies.tables[schema.jobs.name])
    replaced = next(index for index in copies.tables[schema.journal.name].indexes if index.name == "jobboard_replaced")
    replaced.dialect_kwargs["mysql_length"] = {"reason": 36}
    return tables


def _free_keys_of_the_gone(jobs: Table) -> None:
    """A key is unique among live jobs: as long as a job is live, a column repeats it, and NULLs don't collide."""
    jobs.indexes = {index for index in jobs.indexes if index.name != "jobboard_key"}
    alive = Computed(text(f"CASE WHEN state < {schema.COMPLETE} THEN `key` END"), persisted=True)
    jobs.append_column(Column("live_key", mysql.VARCHAR(255), alive))
    Index("jobboard_key", jobs.c.board, jobs.c.name, jobs.c.live_key, unique=True)


_COLUMNS = """
SELECT table_name, column_name, is_nullable = 'YES' FROM information_schema.columns WHERE table_schema = DATABASE()
"""
_CHECKS = """
SELECT table_name, constraint_name FROM information_schema.table_constraints
WHERE table_schema = DATABASE() AND constraint_type = 'CHECK'
"""
_INDEXES = """
SELECT table_name, index_name, column_name FROM information_schema.statistics WHERE table_schema = DATABASE()
ORDER BY seq_in_index
"""


def planner_of(cursor: Any, dialect: Dialect, is_mariadb: bool) -> Planner:
    """Return what plans the steps from what the database has now; raises the driver's own errors."""
    prefix, tables = dialect.table_names.prefix, _tables()
    wanted = {dialect.table_names.table(bare(table.name)): bare(table.name) for table in tables}
    found: dict[str, FoundTable] = {}
    for table, column, may_be_null in _rows(cursor, _COLUMNS):
        if table in wanted:
            found.setdefault(wanted[table], FoundTable()).columns[column] = bool(may_be_null)
    for table, check in _rows(cursor, _CHECKS):
        if table in wanted:
            found[wanted[table]].checks[check] = True
    for table, index, column in _rows(cursor, _INDEXES):
        if table in wanted:
            found[wanted[table]].indexes.setdefault(index.removeprefix(prefix), []).append(column)
    return MysqlPlanner(dialect, tables, found, is_mariadb)


def _rows(cursor: Any, statement: str) -> list[Any]:
    cursor.execute(statement)
    return list(cursor.fetchall())


class MysqlPlanner(Planner):
    """Each statement is a step: it takes effect as a whole, and commits by itself."""

    def __init__(self, *found: Any) -> None:
        *rest, self._is_mariadb = found
        super().__init__(*rest)

    def create(self, table: Table) -> list[str]:
        # Names differ that differ in a blank at their end, in case or in an accent: only collations without padding do
        # that. Where the server's default is an older format, an index can't hold a name.
        collation = "utf8mb4_nopad_bin" if self._is_mariadb else "utf8mb4_0900_bin"
        made, *indexes = super().create(table)
        return [f"{made} ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE={collation}", *indexes]

    def change_columns(self, table: Table, found: FoundTable) -> Iterator[Step]:
        alter, wanted, bound = f"ALTER TABLE {self.name(table.name)}", self.checks(table), must_be_set(table, found)
        added = self.added([column for column in table.columns if column.name not in found.columns])
        if added:
            yield (f"{alter} {', '.join(added)}",)
        for column in bound:
            yield self.fill(table, column)
        changed = [
            *(f"MODIFY COLUMN {self.text(CreateColumn(column))}" for column in bound),
            *(f"DROP CONSTRAINT {check}" for check in found.checks.keys() - wanted),
            *(f"ADD {self.constraint(check)}" for key, check in wanted.items() if key not in found.checks),
        ]
        if changed:
            yield (f"{alter} {', '.join(changed)}",)

    def replace_index(self, index: Index, found: FoundTable) -> Iterator[Step]:
        assert index.table is not None
        alter, name = f"ALTER TABLE {self.name(index.table.name)}", self.own(str(index.name))
        if f"{bare(index.name)}_new" in found.indexes:
            yield (f"{alter} DROP INDEX {name}_new",)
        yield (self.text(CreateIndex(index)).replace(f" {name} ", f" {name}_new ", 1),)
        dropped = f"DROP INDEX {name}, " if bare(index.name) in found.indexes else ""
        yield (f"{alter} {dropped}RENAME INDEX {name}_new TO {name}",)
