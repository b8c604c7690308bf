"""How SQL is written for one kind of database and for one installation: several may share a database."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import Dialect as Compiler

DEFAULT_PREFIX = "jobboard_"

_TABLE = re.compile(
    rf"\b(OF )?{DEFAULT_PREFIX}(meta|boards|jobs|lanes|limits|rates|journal|pauses|entities|books|book_entries"
    r"|schedules|edges|marks|steps|signals|windows)\b"
)
_INDEX = re.compile(rf"\b((?:CREATE (?:UNIQUE )?INDEX |CONSTRAINT |UNIQUE KEY |FORCE INDEX \()){DEFAULT_PREFIX}")
_ALLOWED = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,30}")


@dataclass(frozen=True, slots=True)
class TableNames:
    """The names of one installation's tables; statements are written with the default prefix and no schema."""

    prefix: str = DEFAULT_PREFIX
    schema: str | None = None

    def apply(self, text: str) -> str:
        """Return a statement with this installation's names."""
        if self.prefix == DEFAULT_PREFIX and self.schema is None:
            return text
        return _TABLE.sub(self._table_found, _INDEX.sub(rf"\g<1>{self.prefix}", text))

    def _table_found(self, found: re.Match[str]) -> str:
        # FOR UPDATE OF wants the name without its schema.
        return f"{found[1]}{self.prefix}{found[2]}" if found[1] else self.table(found[2])

    def table(self, name: str) -> str:
        """Return how a table is written; ``name`` is without the prefix."""
        return f"{self.prefix}{name}" if self.schema is None else f'"{self.schema}".{self.prefix}{name}'

    @property
    def fingerprint(self) -> str:
        """A short text that no other installation of the database has."""
        return hashlib.sha256(f"{self.schema}.{self.prefix}".encode()).hexdigest()[:8]


def check_name(value: Any) -> str:
    """Return a prefix or a schema's name that needs no quotes and leaves room for the tables' own names."""
    if not isinstance(value, str) or not _ALLOWED.fullmatch(value):
        raise ValueError(f"must be a letter or _, then up to 30 letters, digits and _; got {value!r}")
    return value


class Dialect:
    """How statements are written for one installation in a database.

    :param compiler: writes SQLAlchemy's constructs as text.
    :param as_list: makes the parameter of :func:`~jobboard.backends.sql.statement.in_list`.
    """

    __slots__ = ("as_list", "compiler", "key", "table_names")

    def __init__(
        self, compiler: Compiler, as_list: Callable[[Iterable[str | int]], Any], table_names: TableNames | None = None
    ) -> None:
        self.compiler = compiler
        self.as_list = as_list
        self.table_names = table_names or TableNames()
        #: A text, whose hash is made once: every statement is looked up under it.
        self.key = repr((kinds_of(compiler), self.table_names))


def kinds_of(compiler: Compiler) -> tuple[str, ...]:
    """Return the kinds of databases in whose words a compiler writes, the nearest one first."""
    kinds: tuple[str, ...] = getattr(compiler, "kinds", (compiler.name,))
    return kinds
