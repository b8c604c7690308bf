"""The tables as PostgreSQL has them, and how it migrates to them while readers go on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Index, MetaData, Table, text
from sqlalchemy.schema import CreateIndex

from jobboard.backends.sql import schema
from jobboard.backends.sql.dialect import Dialect, TableNames
from jobboard.backends.sql.planner import FoundTable, Planner, Step, bare, must_be_set

# How far posts fill a page, in percent. A post, a claim and a consume each add an entry of their job to these indexes,
# next to each other: claims need not split a page that posts fill by a third. A claim and a consume each write the row
# of their job anew: in a page that posts fill by half they find room beside it, and change no other page.
_FILL_FACTORS = {"jobs": [("INDEX", "uuid", 30), ("TABLE", "jobs", 50)], "journal": [("INDEX", "history", 30)]}
# Each life changes these, so that autovacuum comes each minute. By the server's defaults it would wait until a fifth of
# a backlog is dead, and then read 30,000 rows for its statistics, which cost three times the CPU of the vacuum. Plans
# need fewer: the board's sessions leave them no choice but between indexes.
_CHANGED_BY_EACH_LIFE = ("jobs", "journal")
_STATISTICS = 20


def _tables() -> list[Table]:
    copies = MetaData()
    tables = [table.to_metadata(copies) for table in schema.metadata.sorted_tables]
    for index in (index for table in tables for index in table.indexes):
        index.dialect_kwargs["postgresql_where"] = index.dialect_options["sqlite"]["where"]
    jobs = copies.tables[schema.jobs.name]
    # A claim adds an entry less where the index of the ready order leaves claimed jobs to that of what is due. It has
    # those too whose claims never end, and tells them from the delayed ones.
    ready = next(index for index in jobs.indexes if index.name == "jobboard_ready")
    jobs.indexes = {index for index in jobs.indexes if index.name not in ("jobboard_ready", "jobboard_due")}
    Index(ready.name, *ready.columns, postgresql_where=text(f"state <> {schema.CLAIMED}"))
    due = text(f"due_at IS NOT NULL OR state = {schema.CLAIMED}")
    Index("jobboard_due", jobs.c.board, jobs.c.due_at, jobs.c.state, postgresql_where=due)
    return tables


_OF_TABLES = """
SELECT wanted.name, {columns} FROM unnest(CAST(%s AS text[]), CAST(%s AS text[])) AS wanted (name, written)
"""
_COLUMNS = (
    _OF_TABLES.format(columns="attname, NOT attnotnull")
    + "JOIN pg_attribute ON attrelid = to_regclass(wanted.written) WHERE attnum > 0 AND NOT attisdropped"
)
_CHECKS = (
    _OF_TABLES.format(columns="conname, convalidated")
    + "JOIN pg_constraint ON conrelid = to_regclass(wanted.written) WHERE contype = 'c'"
)
_INDEXES = (
    _OF_TABLES.format(
        columns="relname, indisvalid, ARRAY("
        "SELECT CAST(attname AS text) FROM pg_attribute WHERE attrelid = indexrelid ORDER BY attnum)"
        " || CASE WHEN indpred IS NOT NULL THEN ARRAY['WHERE'] ELSE CAST(ARRAY[] AS text[]) END"
    )
    + "JOIN pg_index ON indrelid = to_regclass(wanted.written) JOIN pg_class ON pg_class.oid = indexrelid"
)


def planner_of(cursor: Any, dialect: Dialect) -> Planner:
    """Return what plans the steps from what the database has now; raises the driver's own errors."""
    names = dialect.table_names
    tables = _tables()
    wanted = [bare(table.name) for table in tables]
    parameters = [wanted, [names.table(name) for name in wanted]]
    found: dict[str, FoundTable] = {}
    for table, column, may_be_null in cursor.execute(_COLUMNS, parameters).fetchall():
        found.setdefault(table, FoundTable()).columns[column] = may_be_null
    for table, check, is_valid in cursor.execute(_CHECKS, parameters).fetchall():
        found[table].checks[check] = is_valid
    for table, index, is_valid, columns in cursor.execute(_INDEXES, parameters).fetchall():
        found[table].indexes[index.removeprefix(names.prefix)] = columns
        if not is_valid:
            found[table].invalid.add(index.removeprefix(names.prefix))
    return PostgresqlPlanner(dialect, tables, found, missing_schema(cursor, names))


def missing_schema(cursor: Any, names: TableNames) -> str | None:
    """Return the schema that must be made; ``IF NOT EXISTS`` asks for the right to make one that exists, too."""
    if names.schema is None:
        return None
    found = cursor.execute("SELECT to_regnamespace(%s)", [f'"{names.schema}"']).fetchone()
    return names.schema if found == (None,) else None


class PostgresqlPlanner(Planner):
    """Builds indexes concurrently, and checks constraints after it has added them: each lock of a table is short."""

    def __init__(self, dialect: Dialect, tables: Any, found: Any, missing: str | None) -> None:
        super().__init__(dialect, tables, found)
        self._missing_schema = missing

    def steps(self, version: str | None) -> list[Step]:
        made: list[Step] = [] if self._missing_schema is None else [(f'CREATE SCHEMA "{self._missing_schema}"',)]
        return [*made, *super().steps(version)]

    def create(self, table: Table) -> list[str]:
        key = [self._key()] if table.name == schema.jobs.name else []
        name = bare(table.name)
        return [*super().create(table), *key, *self._fill_factors(name), *self._autovacuum(table)]

    def change_columns(self, table: Table, found: FoundTable) -> Iterator[Step]:
        name, wanted, bound = self.name(table.name), self.checks(table), must_be_set(table, found)
        # While it is filled, nobody adds a row without it.
        are_set = {f"{self.own(table.name)}_{column.name}_is_set": column.name for column in bound}
        added = [
            *self.added([column for column in table.columns if column.name not in found.columns]),
            *(f"DROP CONSTRAINT {check}" for check in found.checks if check not in wanted | are_set),
            *(f"ADD {self.constraint(check)} NOT VALID" for key, check in wanted.items() if key not in found.checks),
            *(
                f"ADD CONSTRAINT {check} CHECK ({column} IS NOT NULL) NOT VALID"
                for check, column in are_set.items()
                if check not in found.checks
            ),
        ]
        if added:
            yield (f"ALTER TABLE {name} {', '.join(added)}",)
        for column in bound:
            yield self.fill(table, column)
        for check in [*wanted, *are_set]:
            if not found.checks.get(check, False):
                yield (f"ALTER TABLE {name} VALIDATE CONSTRAINT {check}",)
        for check, column_name in are_set.items():
            # The constraint says that no row is without it, so that none is read for this.
            yield (
                f"ALTER TABLE {name} ALTER COLUMN {column_name} SET NOT NULL",
                f"ALTER TABLE {name} DROP CONSTRAINT {check}",
            )
        if "jobs_pkey" in found.indexes:
            yield (self._key(), *self._fill_factors(*_FILL_FACTORS))
        if autovacuum := self._autovacuum(table):
            yield tuple(autovacuum)

    def definition(self, index: Index) -> list[str]:
        is_partial = index.dialect_options["postgresql"]["where"] is not None
        return [*super().definition(index), *(["WHERE"] if is_partial else [])]

    def replace_index(self, index: Index, found: FoundTable) -> Iterator[Step]:
        name = bare(index.name)
        new = f"{name}_new"
        is_made = new not in found.invalid and found.indexes.get(new) == self.definition(index)
        if new in found.indexes and not is_made:
            yield (f"DROP INDEX CONCURRENTLY {self.name(new)}",)
        if not is_made:
            made = self.text(CreateIndex(index))
            yield (made.replace(f"INDEX {self.own(name)} ", f"INDEX CONCURRENTLY {self.own(new)} ", 1),)
        yield (
            f"DROP INDEX IF EXISTS {self.name(name)}",
            f"ALTER INDEX {self.name(new)} RENAME TO {self.own(name)}",
        )

    def _key(self) -> str:
        """Return what makes the uuid the key: an index by id would get an entry more by each claim and consume."""
        return (
            f"ALTER TABLE {self.name('jobs')} DROP CONSTRAINT {self.own('jobs_pkey')},"
            f" ADD PRIMARY KEY USING INDEX {self.own('uuid')}"
        )

    def _fill_factors(self, *tables: str) -> list[str]:
        factors = [factor for table in tables for factor in _FILL_FACTORS.get(table, [])]
        return [f"ALTER {kind} {self.name(name)} SET (fillfactor = {percent})" for kind, name, percent in factors]

    def _autovacuum(self, table: Table) -> list[str]:
        if bare(table.name) not in _CHANGED_BY_EACH_LIFE:
            return []
        columns = [f"ALTER COLUMN {column.name} SET STATISTICS {_STATISTICS}" for column in table.columns]
        options = ", ".join(["SET (autovacuum_vacuum_scale_factor = 0.01)", *columns])
        return [f"ALTER TABLE {self.name(table.name)} {options}"]
