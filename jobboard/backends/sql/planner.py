"""Plans a migration on a server: the steps from the tables that it has to those that this code uses.

A plan has what is missing. So a migration that was killed goes on where it ended, by another plan.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, Column, Index, Table, case, cast, column, update
from sqlalchemy.schema import CreateColumn, CreateIndex, CreateTable

from jobboard.backends.sql import schema
from jobboard.backends.sql.dialect import DEFAULT_PREFIX, Dialect
from jobboard.backends.sql.schema import PLACES_OF_A_RANK, PLACES_OF_A_SECOND, jobs

#: Statements that take effect together where the database can undo such statements; else there is only one.
Step = tuple[str, ...]

_run_at: Any = column("run_at")
_created_on: Any = column("created_on")
_places: Any = case((_run_at > _created_on, _run_at), else_=_created_on) * PLACES_OF_A_SECOND
_moment = case((_places < PLACES_OF_A_RANK, cast(_places, BigInteger)), else_=PLACES_OF_A_RANK - 1)
#: What rows get that are older than a column; in names of columns, which no table qualifies.
FILLS: Mapping[str, Any] = {jobs.c.place.name: column("rank") * PLACES_OF_A_RANK + _moment}


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table of the database.

    ``columns``: whether each may be NULL. ``indexes``: the definition of each, by its name without the prefix.
    ``invalid``: indexes whose making was interrupted. ``checks``: whether it is known that each row keeps them, by
    their names.
    """

    columns: dict[str, bool] = field(default_factory=dict)
    indexes: dict[str, list[str]] = field(default_factory=dict)
    invalid: set[str] = field(default_factory=set)
    checks: dict[str, bool] = field(default_factory=dict)


class Planner(abc.ABC):
    """The steps for one installation, in one kind of database.

    :param tables: those that are wanted.
    :param found: those of them that are there, by their names without the prefix.
    """

    def __init__(self, dialect: Dialect, tables: Sequence[Table], found: Mapping[str, FoundTable]) -> None:
        self._dialect, self._tables, self._found = dialect, tables, found

    def steps(self, version: str | None) -> list[Step]:
        """Return all steps; the first one marks tables that have a version as those that nobody can use meanwhile."""
        marked = None if version is None else schema.upgrading_from(version)
        steps = [] if marked in (None, version) else [self._write_version(str(marked), is_new=False)]
        missing = [table for table in self._tables if bare(table.name) not in self._found]
        if missing:
            steps.append(tuple(text for table in missing for text in self.create(table)))
        for table in self._tables:
            if table not in missing:
                steps += self._change(table, self._found[bare(table.name)])
        return [*steps, self._write_version(str(schema.VERSION), is_new=version is None)]

    def _write_version(self, version: str, is_new: bool) -> Step:
        meta = self.name(schema.meta.name)
        if is_new:
            return (f"INSERT INTO {meta} (name, value) VALUES ('version', '{version}')",)  # nosec B608 # our own names
        return (f"UPDATE {meta} SET value = '{version}' WHERE name = 'version'",)  # nosec B608 # our own names

    def _change(self, table: Table, found: FoundTable) -> Iterator[Step]:
        yield from self.change_columns(table, found)
        for index in _indexes_of(table):
            if found.indexes.get(bare(index.name)) != self.definition(index):
                yield from self.replace_index(index, found)

    def create(self, table: Table) -> list[str]:
        """Return what makes a table and its indexes."""
        return [self.text(CreateTable(table)), *(self.text(CreateIndex(index)) for index in _indexes_of(table))]

    def definition(self, index: Index) -> list[str]:
        """Return what tells an index from another one of its name."""
        return [column.name for column in index.columns]

    @abc.abstractmethod
    def change_columns(self, table: Table, found: FoundTable) -> Iterator[Step]:
        """Return what adds columns, fills them, and lets the table have our constraints only."""

    @abc.abstractmethod
    def replace_index(self, index: Index, found: FoundTable) -> Iterator[Step]:
        """Return what makes an index, while readers go on, and then puts it into the place of an earlier one."""

    # -- words that all databases share ----------------------------------------------------------------------------

    def text(self, clause: Any) -> str:
        """Return a statement of SQLAlchemy's, with its values and with this installation's names."""
        compiled = clause.compile(dialect=self._dialect.compiler, compile_kwargs={"literal_binds": True})
        return self._dialect.table_names.apply(str(compiled)).strip()

    def name(self, default: str) -> str:
        """Return how a table or an index is written that has this name in the schema."""
        return self._dialect.table_names.table(bare(default))

    def own(self, default: str) -> str:
        """Return how a name is written that lies in the schema of its table, such as that of a constraint."""
        return f"{self._dialect.table_names.prefix}{bare(default)}"

    def checks(self, table: Table) -> dict[str, CheckConstraint]:
        """Return the constraints of a table by their names in this installation."""
        return {self.own(str(it.name)): it for it in table.constraints if isinstance(it, CheckConstraint)}

    def added(self, columns: Sequence[Column[Any]]) -> list[str]:
        """Return the parts of an ALTER TABLE that add columns, which may be NULL at first."""
        return [f"ADD COLUMN {self.text(CreateColumn(_optional(column)))}" for column in columns]

    def fill(self, table: Table, column: Column[Any]) -> Step:
        """Return what gives a column to the rows that have none."""
        return (self.text(update(table).where(column.is_(None)).values({column: FILLS[column.name]})),)

    def constraint(self, check: CheckConstraint) -> str:
        """Return a constraint as it stands in a table."""
        text = self._dialect.compiler.ddl_compiler(self._dialect.compiler, None).process(check)  # type: ignore[arg-type]
        return self._dialect.table_names.apply(text)


def bare(name: Any) -> str:
    """Return a name of the schema without the prefix."""
    return str(name).removeprefix(DEFAULT_PREFIX)


def must_be_set(table: Table, found: FoundTable) -> list[Column[Any]]:
    """Return the columns that may be NULL, or are missing, and must not be NULL."""
    return [column for column in table.columns if not column.nullable and found.columns.get(column.name, True)]


def _indexes_of(table: Table) -> list[Index]:
    return sorted(table.indexes, key=lambda index: str(index.name))


def _optional(column: Column[Any]) -> Column[Any]:
    copy = column._copy()
    copy.nullable = True
    return copy
