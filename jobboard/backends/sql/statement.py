"""Statements: built by SQLAlchemy Core, compiled once for each kind of database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import bindparam, func, select, text
from sqlalchemy.engine import Dialect
from sqlalchemy.sql.expression import Executable


class Statement:
    """A Core construct, and its text for the dialects that ran it; ``:board`` and ``:now`` are the transaction's."""

    __slots__ = ("_texts", "clause")

    def __init__(self, clause: Executable) -> None:
        self.clause = clause
        self._texts: dict[str, tuple[str, dict[str, Any]]] = {}

    def on(self, dialect: Dialect) -> tuple[str, dict[str, Any]]:
        """Return the text, and the values of those parameters that are always the same."""
        found = self._texts.get(dialect.name)
        if found is None:
            compiled: Any = self.clause.compile(dialect=dialect)  # type: ignore[attr-defined]
            constants = {name: bind.value for bind, name in compiled.bind_names.items() if not bind.required}
            found = self._texts[dialect.name] = (str(compiled), constants)
        return found


def p(name: str) -> Any:
    return bindparam(name)


def in_list(column: Any, name: str) -> Any:
    """``column`` is one of a JSON array's values: one text for lists of any length, and no limit of parameters."""
    return column.in_(select(text("value")).select_from(func.json_each(p(name))))
