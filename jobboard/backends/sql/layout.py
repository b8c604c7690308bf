"""The statements that make the tables, or bring them from one version to the next."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Table
from sqlalchemy.schema import CreateIndex, CreateTable

from jobboard.backends.sql import schema
from jobboard.backends.sql.statement import Tongue

#: The tables that came after the first version, and with which; so far nothing else has changed.
ADDED = {schema.schedules.name: 2}


def statements_from(tables: list[Table], version: int, tongue: Tongue) -> list[str]:
    """Return what brings the tables from a version to ours; 0 is nothing at all."""
    missing = [table for table in tables if ADDED.get(table.name, 1) > version]
    return [text for table in missing for text in _statements_of(table, tongue)]


def _statements_of(table: Table, tongue: Tongue) -> list[str]:
    indexes = sorted(table.indexes, key=lambda index: str(index.name))
    clauses: list[Any] = [CreateTable(table), *(CreateIndex(index) for index in indexes)]
    return [tongue.naming.apply(str(clause.compile(dialect=tongue.dialect))) for clause in clauses]
