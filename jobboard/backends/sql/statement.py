"""Statements: built by SQLAlchemy Core, compiled once for each kind of database and each installation in it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.expression import Executable
from sqlalchemy.sql.schema import Table
from sqlalchemy.types import NullType

from jobboard.backends.sql.dialect import Dialect


class Statement:
    """A Core construct, and its text in each dialect that ran it; ``:board`` and ``:now`` are the transaction's.

    :param otherwise: what says the same to a kind of database that needs other words, by the dialect's name.
    """

    __slots__ = ("_texts", "clause", "otherwise")

    def __init__(self, clause: Executable, **otherwise: Executable) -> None:
        self.clause = clause
        self.otherwise: Mapping[str, Executable] = otherwise
        self._texts: dict[str, tuple[str, dict[str, Any]]] = {}

    def on(self, dialect: Dialect) -> tuple[str, dict[str, Any]]:
        """Return the text, and the values of those parameters that are always the same."""
        found = self._texts.get(dialect.key)
        if found is None:
            clause = self.otherwise.get(dialect.compiler.name, self.clause)
            compiled: Any = clause.compile(dialect=dialect.compiler)  # type: ignore[attr-defined]
            constants = {name: bind.value for bind, name in compiled.bind_names.items() if not bind.required}
            found = self._texts[dialect.key] = (dialect.table_names.apply(str(compiled)), constants)
        return found


@dataclass(frozen=True, slots=True)
class Returning:
    """A change whose rows are wanted: in one statement, or where there is no RETURNING, locked, changed and read."""

    at_once: Statement
    #: Finds and locks the rows; the first column is the id. None where the ``ids`` are known, and the rows locked.
    find: Statement | None
    #: Both take the ``ids``.
    change: Statement
    read: Statement


def p(name: str) -> Any:
    """Return the parameter of this name."""
    return bindparam(name)


def parameters(*names: str) -> dict[str, Any]:
    """Return what sets these columns to the parameters of their names."""
    return {name: p(name) for name in names}


# -- what each kind of database says in its own way --------------------------------------------------------------------


class _InList(ColumnElement[Any]):
    inherit_cache = False
    # Not a Boolean, of which a dialect without such a type would ask whether it is 1.
    type = NullType()

    def __init__(self, column: Any, values: Any) -> None:
        self.column = column
        self.values = values


def in_list(column: Any, name: str) -> Any:
    """``column`` is one of a list's values: one text for lists of any length, and no limit of parameters."""
    return _InList(column, bindparam(name))


@compiles(_InList)
def _in_json(element: _InList, compiler: SQLCompiler, **kw: Any) -> str:
    values = compiler.process(element.values, **kw)
    return f"{compiler.process(element.column, **kw)} IN (SELECT value FROM json_each({values}))"  # nosec B608 # both are compiled


@compiles(_InList, "postgresql")
def _in_array(element: _InList, compiler: SQLCompiler, **kw: Any) -> str:
    return f"{compiler.process(element.column, **kw)} = ANY({compiler.process(element.values, **kw)})"


@compiles(_InList, "mysql")
def _in_literals(element: _InList, compiler: SQLCompiler, **kw: Any) -> str:
    return f"{compiler.process(element.column, **kw)} IN {compiler.process(element.values, **kw)}"


class _Either(ColumnElement[Any]):
    inherit_cache = False
    type = NullType()

    def __init__(self, otherwise: Any, on_postgresql: Any) -> None:
        self.otherwise = otherwise
        self.on_postgresql = on_postgresql


def either(otherwise: Any, *, postgresql: Any) -> Any:
    """A condition that PostgreSQL's planner wants in words of its own."""
    return _Either(otherwise, postgresql)


@compiles(_Either)
def _otherwise(element: _Either, compiler: SQLCompiler, **kw: Any) -> str:
    return compiler.process(element.otherwise.self_group(), **kw)


@compiles(_Either, "postgresql")
def _on_postgresql(element: _Either, compiler: SQLCompiler, **kw: Any) -> str:
    return compiler.process(element.on_postgresql.self_group(), **kw)


def json_list(values: Iterable[str | int]) -> str:
    return json.dumps(list(values))


def literal_list(values: Iterable[str | int]) -> tuple[str | int | None, ...]:
    """Return what a driver writes as ``(1, 2)``; of nothing, a list that nothing is in."""
    return tuple(values) or (None,)


def insert_new(table: Table, values: dict[str, Any]) -> Statement:
    """Insert a row unless there is one of its key."""
    return Statement(
        sqlite.insert(table).inline().values(values).on_conflict_do_nothing(),
        postgresql=postgresql.insert(table).inline().values(values).on_conflict_do_nothing(),
        mysql=mysql.insert(table).values(values).prefix_with("IGNORE"),
    )


def put(table: Table, keys: list[str], values: dict[str, Any]) -> Statement:
    """Insert a row, or change that of its key."""
    changed = {name: value for name, value in values.items() if name not in keys}
    return Statement(
        sqlite.insert(table).inline().values(values).on_conflict_do_update(index_elements=keys, set_=changed),
        postgresql=postgresql.insert(table)
        .inline()
        .values(values)
        .on_conflict_do_update(index_elements=keys, set_=changed),
        mysql=mysql.insert(table).values(values).on_duplicate_key_update(changed),
    )
