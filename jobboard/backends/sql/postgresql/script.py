"""Statements that are sent as one text, with their values in it: one message, and one transaction.

Settings for the transaction cost no trip of their own so, and nothing of it stays in the session. A simple query of
several statements is a transaction by itself, which an error ends; a prepared one would have only one statement. Tested
with psycopg 3.3.9.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import psycopg
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.generators import execute
from psycopg.pq import ExecStatus

from jobboard.backends.sql.postgresql.mode import Request
from jobboard.backends.sql.rows import Row

_PARAMETER = re.compile(r"%\((\w+)\)s")
_ANSWERS = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)


def run_script(
    connection: psycopg.Connection[Any], settings: Sequence[str], requests: Sequence[Request]
) -> list[list[Row]]:
    """Execute statements after settings, as one transaction, and return the rows of each statement.

    :param connection: commits each statement, and is in no transaction.
    """
    transformer = Transformer(connection)
    texts = [*(setting.encode() for setting in settings), *(_written(transformer, *each) for each in requests)]
    connection.pgconn.send_query(b";\n".join(texts))
    results = connection.wait(execute(connection.pgconn))
    for result in results:
        if result.status not in _ANSWERS:
            raise error_from_result(result, transformer.encoding)
    if len(results) != len(texts):
        raise psycopg.InternalError(f"the server gave {len(results)} results for {len(texts)} statements")
    return [_rows_of(transformer, result) for result in results[len(settings) :]]


def _rows_of(transformer: Any, result: Any) -> list[Row]:
    transformer.set_pgresult(result)
    try:
        rows: list[Row] = transformer.load_rows(0, result.ntuples, tuple)
        return rows
    finally:
        transformer.set_pgresult(None)


def _written(transformer: Any, text: str, parameters: Mapping[str, Any]) -> bytes:
    """Return a statement with its values."""
    parts, names = _parts_of(text)
    values = {name: _literal(transformer, parameters[name]) for name in set(names)}
    return b"".join([parts[0], *(values[name] + part for name, part in zip(names, parts[1:], strict=True))])


def _literal(transformer: Any, value: Any) -> bytes:
    if value is None:
        return b"NULL"
    literal: bytes = transformer.as_literal(value)
    return literal


@cache
def _parts_of(text: str) -> tuple[list[bytes], list[str]]:
    """Return what stands around the parameters of a statement of ours, of which there are not many, and their names."""
    parts = _PARAMETER.split(text)
    return [part.replace("%%", "%").encode() for part in parts[::2]], parts[1::2]
