"""Statements: built by SQLAlchemy Core, compiled once for each kind of database and each installation in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

from sqlalchemy import ARRAY, Text, bindparam, cast, func, insert, literal_column, select, true
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.expression import Executable
from sqlalchemy.sql.schema import Table
from sqlalchemy.types import NullType

from jobboard.backends.sql.dialect import Dialect, kinds_of

T = TypeVar("T")

_Clause = Executable | Callable[[], Executable]


class Statement:
    """A Core construct, and its text in each dialect that ran it; ``:board`` and ``:now`` are the transaction's.

    :param clause: the construct, or what makes it once it is wanted.
    :param otherwise: what says the same to a kind of database that needs other words, by the name of the kind.
    """

    __slots__ = ("_texts", "clause", "otherwise")

    def __init__(self, clause: _Clause, **otherwise: _Clause) -> None:
        self.clause = clause
        self.otherwise: Mapping[str, _Clause] = otherwise
        self._texts: dict[str, tuple[str, dict[str, Any]]] = {}

    def on(self, dialect: Dialect) -> tuple[str, dict[str, Any]]:
        """Return the text, and the values of those parameters that are always the same."""
        found = self._texts.get(dialect.key)
        if found is None:
            clause: Any = _in_words_of(dialect.compiler, self.otherwise, self.clause)
            compiled = (clause() if callable(clause) else clause).compile(dialect=dialect.compiler)
            constants = {name: bind.value for bind, name in compiled.bind_names.items() if not bind.required}
            found = self._texts[dialect.key] = (dialect.table_names.apply(str(compiled)), constants)
        return found


def _in_words_of(compiler: Any, otherwise: Mapping[str, T], usual: T) -> T:
    """Return what is meant for the compiler's kind of database."""
    return next((otherwise[kind] for kind in kinds_of(compiler) if kind in otherwise), usual)


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

#: Returns the text of a part in the statement that is compiled.
_TextOf = Callable[[Any], str]
_Words = Callable[[_TextOf], str]


class _InItsWords(ColumnElement[Any]):
    inherit_cache = False
    # Not a Boolean, of which a dialect without such a type would ask whether it is 1.
    type = NullType()

    def __init__(self, words: _Words, **otherwise: _Words) -> None:
        self.words = words
        self.otherwise: Mapping[str, _Words] = otherwise


@compiles(_InItsWords)
def _text_of(element: _InItsWords, compiler: SQLCompiler, **kw: Any) -> str:
    words = _in_words_of(compiler.dialect, element.otherwise, element.words)
    return words(lambda part: compiler.process(part, **kw))


def in_list(column: Any, name: str) -> Any:
    """``column`` is one of a list's values: one text for lists of any length, and no limit of parameters."""
    values = p(name)
    return _InItsWords(
        lambda text_of: f"{text_of(column)} IN (SELECT value FROM json_each({text_of(values)}))",  # nosec B608 # compiled
        postgresql=lambda text_of: f"{text_of(column)} = ANY({text_of(values)})",
        mysql=lambda text_of: f"{text_of(column)} IN {text_of(values)}",
    )


def in_array(column: Any, other: Any) -> Any:
    """PostgreSQL's ``column = other``, by which no index can begin a plan."""
    return _InItsWords(lambda text_of: f"{text_of(column)} = ANY (ARRAY[{text_of(other)}])")


def is_selective(condition: Any) -> Any:
    """Return a condition of which SQLite's planner is to think that few rows fulfil it.

    Without statistics it takes another index, by a column that all rows share, if that has all columns which are read.
    """
    return func.unlikely(condition)


def each_of(name: str) -> Any:
    """Return PostgreSQL's table of a list of texts: each once, in order, as ``value``."""
    value = func.unnest(cast(p(name), ARRAY(Text))).column_valued("listed").collate("C").label("value")
    return select(value).distinct().order_by(value).subquery("wanted")


def for_each_of(name: str, wanted: Any, matches: Callable[[Any], Any]) -> Any:
    """Return what selects on PostgreSQL what is wanted for each text of a list, in their order.

    With ``= ANY``, a plan that was made for few rows reads all of an index, and so does each plan that has to keep its
    order. OFFSET 0 keeps the lookup from becoming a join, which may do the same.

    :param matches: makes the condition that finds the row of a text.
    """
    texts = each_of(name)
    found = wanted.where(matches(texts.c.value)).offset(literal_column("0")).lateral("found")
    return select(found).select_from(texts.join(found, true()))


def either(usual: Any, **otherwise: Any) -> Any:
    """A condition that some kinds of databases want in words of their own."""
    return _InItsWords(_words_of(usual), **{kind: _words_of(condition) for kind, condition in otherwise.items()})


def _words_of(condition: Any) -> _Words:
    return lambda text_of: text_of(condition.self_group())


def json_list(values: Iterable[str | int]) -> str:
    return json.dumps(list(values))


def literal_list(values: Iterable[str | int]) -> tuple[str | int | None, ...]:
    """Return what a driver writes as ``(1, 2)``; of nothing, a list that nothing is in."""
    return tuple(values) or (None,)


def _insert(kind: str, table: Table) -> Any:
    """Return the INSERT of a kind of database; its dialect takes 25 ms to import, and a board needs one of them."""
    return import_module(f"sqlalchemy.dialects.{kind}").insert(table)


def insert_new(table: Table, keys: list[str], values: dict[str, Any]) -> Statement:
    """Insert a row unless there is one of its key."""

    def of(kind: str) -> Executable:
        clause: Executable = _insert(kind, table).inline().values(values).on_conflict_do_nothing(index_elements=keys)
        return clause

    on_mysql = insert(table).values(values).prefix_with("IGNORE")
    return Statement(partial(of, "sqlite"), postgresql=partial(of, "postgresql"), mysql=on_mysql)


def put(table: Table, keys: list[str], values: dict[str, Any]) -> Statement:
    """Insert a row, or change that of its key."""
    changed = {name: value for name, value in values.items() if name not in keys}

    def of(kind: str) -> Executable:
        row = _insert(kind, table).inline().values(values)
        clause: Executable = row.on_conflict_do_update(index_elements=keys, set_=changed)
        return clause

    def on_mysql() -> Executable:
        # Its values are written into it: each only once, since it may be large.
        row = _insert("mysql", table).values(values)
        clause: Executable = row.on_duplicate_key_update({name: row.inserted[name] for name in changed})
        return clause

    return Statement(partial(of, "sqlite"), postgresql=partial(of, "postgresql"), mysql=on_mysql)
