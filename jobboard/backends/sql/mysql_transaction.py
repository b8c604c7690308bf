"""Statements of one board inside one transaction on MariaDB and MySQL, in as few round trips as PyMySQL can."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pymysql.constants import CLIENT

from jobboard.backends.sql.transaction import StepwiseTransaction

#: Bytes of statements that are sent together; a server takes 16 MB by default.
_LARGEST_PACKET = 1_000_000


class MysqlTransaction(StepwiseTransaction):
    """Sends many changes as one text; PyMySQL itself does so with inserts only."""

    __slots__ = ()

    def _execute_many(self, sql: str, many: list[dict[str, Any]]) -> None:
        if sql.startswith("INSERT") or not takes_several(self._cursor):
            super()._execute_many(sql, many)
            return
        for text in _packets(self._cursor.mogrify(sql, parameters) for parameters in many):
            self._cursor.execute(text)
            while self._cursor.nextset():
                pass


def _packets(statements: Iterator[str]) -> Iterator[str]:
    packet: list[str] = []
    size = 0
    for statement in statements:
        if packet and size + len(statement) > _LARGEST_PACKET:
            yield "; ".join(packet)
            packet, size = [], 0
        packet.append(statement)
        size += len(statement)
    if packet:
        yield "; ".join(packet)


def takes_several(cursor: Any) -> bool:
    """Whether the cursor's connection takes several statements in one text; only some of the user's do."""
    return bool(cursor.connection.client_flag & CLIENT.MULTI_STATEMENTS)


def say(cursor: Any, *statements: str) -> Any:
    """Run statements, in one round trip where the connection can; return the last one's value, if it has one."""
    if takes_several(cursor):
        cursor.execute("; ".join(statements))
        for _ in statements[1:]:
            cursor.nextset()
    else:
        for statement in statements:
            cursor.execute(statement)
    row = cursor.fetchone() if cursor.description else None
    return row[0] if row else None
