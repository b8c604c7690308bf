"""Connections of the user's to PostgreSQL that are not the board's own driver's."""

from __future__ import annotations

import functools
import re
import sys
from typing import Any

from jobboard.backends.sql.transaction import Transaction
from jobboard.backends.sql.user_connection import (
    COMMITS_BY_ITSELF,
    ConvertingCursor,
    OtherDriverConnection,
    Parameters,
)

NOW = "SELECT extract(epoch FROM clock_timestamp())::float8"

_PARAMETER = re.compile(r"%\((\w+)\)s|%%")
_BYTEA = 17


def without_nul(text: str) -> str:
    """PostgreSQL's text can't hold a NUL, and a traceback may have one."""
    return text.replace("\0", "\\x00") if "\0" in text else text


def check_encoding(encoding: str | None) -> None:
    """Refuse a connection of the user's that can't write, or read, every text.

    :raises ValueError: if it is another encoding than UTF-8.
    """
    if encoding not in ("UTF8", "utf8"):
        raise ValueError(
            f"the connection can't write every text: connect with client_encoding='UTF8', not {encoding!r}"
        )


class _OtherDriver(OtherDriverConnection):
    transaction = Transaction
    now_statement = NOW

    def notify(self, cursor: Any, channel: str) -> None:
        cursor.execute(f"NOTIFY {channel}")


class Psycopg2Connection(_OtherDriver):
    name = "psycopg2"

    def takes(self, connection: Any) -> bool:
        extensions: Any = sys.modules.get("psycopg2.extensions")
        if extensions is None or not isinstance(connection, extensions.connection):
            return False
        self.error = sys.modules["psycopg2"].Error
        return True

    def cursor(self, connection: Any) -> Any:
        extensions: Any = sys.modules["psycopg2.extensions"]
        if connection.autocommit and connection.info.transaction_status == extensions.TRANSACTION_STATUS_IDLE:
            raise ValueError(COMMITS_BY_ITSELF)
        check_encoding(connection.info.parameter_status("client_encoding"))
        cursor = connection.cursor(cursor_factory=extensions.cursor)
        # Of this cursor only: by default they are a memoryview.
        extensions.register_type(_bytes_type(), cursor)
        return ConvertingCursor(cursor, _with_safe_texts)


@functools.cache
def _bytes_type() -> Any:
    psycopg2: Any = sys.modules["psycopg2"]

    def to_bytes(value: Any, cursor: Any) -> bytes | None:
        return None if value is None else bytes(psycopg2.BINARY(value, cursor))

    return psycopg2.extensions.new_type((_BYTEA,), "JOBBOARD_BYTES", to_bytes)


class AdaptedPsycopgConnection(_OtherDriver):
    adapters = ("postgresql.psycopg",)

    def cursor(self, connection: Any) -> Any:
        if connection.autocommit and connection.info.transaction_status == 0:
            raise ValueError(COMMITS_BY_ITSELF)
        check_encoding(connection.driver_connection.info.parameter_status("client_encoding"))
        return ConvertingCursor(connection.cursor(), _with_safe_texts)


class AdaptedAsyncpgConnection(_OtherDriver):
    adapters = ("postgresql.asyncpg",)

    def cursor(self, connection: Any) -> Any:
        if connection.autocommit and not connection.driver_connection.is_in_transaction():
            raise ValueError(COMMITS_BY_ITSELF)
        return ConvertingCursor(connection.cursor(), _with_numbers)


def _with_safe_texts(sql: str, parameters: Parameters) -> tuple[str, Any]:
    return sql, {name: without_nul(value) if isinstance(value, str) else value for name, value in parameters.items()}


def _with_numbers(sql: str, parameters: Parameters) -> tuple[str, Any]:
    text, names = _numbered(sql)
    values = (parameters[name] for name in names)
    return text, tuple(without_nul(value) if isinstance(value, str) else value for value in values)


@functools.cache
def _numbered(sql: str) -> tuple[str, tuple[str, ...]]:
    """Return a statement of ours, of which there are not many, with ``$1`` for each name, and the names in order."""
    names: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        return "%" if found[1] is None else f"${names.setdefault(found[1], len(names) + 1)}"

    return _PARAMETER.sub(number, sql), tuple(names)
