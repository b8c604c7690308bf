"""MariaDB under measurement, and the bare statements beside it."""

from __future__ import annotations

import uuid

import pymysql
from servers.mariadb_servers import MariadbServer

from benchmarks.pressure import Cell, Pressure
from benchmarks.space import Store, space_of
from benchmarks.sql_store import GOALS, INDEX, LARGEST_BACKLOG, TABLE, version_of
from jobboard.validation import new_uuid


class BareMariadb:
    """The same table; a claim is a transaction of two statements, since an UPDATE returns no rows."""

    beside = "bare PyMySQL"

    def __init__(self, server: MariadbServer) -> None:
        self._connection = server.client()
        self._cursor = self._connection.cursor()
        self._name = name = f"bare_{uuid.uuid4().hex[:8]}"
        words = {"name": name, "serial": "BIGINT AUTO_INCREMENT", "blob": "LONGBLOB", "double": "DOUBLE"}
        self._cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        self._cursor.execute(TABLE.format(**words))
        self._cursor.execute(INDEX.format(**words))

    def post(self, count: int, batch: int) -> int:
        for _ in range(0, count, batch):
            self._cursor.executemany(
                # PyMySQL makes one statement of many rows only if there is nothing but parameters in them.
                f"INSERT INTO {self._name} (uuid, name, rank_, body, state, token) VALUES (%s, %s, %s, %s, %s, %s)",
                [(new_uuid(), "bench", 3, b"\x80", 1, 0) for _ in range(batch)],
            )
        return count

    def claim_and_consume(self, count: int, batch: int) -> int:
        for _ in range(0, count, batch):
            self._cursor.execute("START TRANSACTION")
            self._cursor.execute(
                f"SELECT sequence, uuid, name, body, token FROM {self._name} WHERE state = 1"
                " ORDER BY rank_, sequence LIMIT %s FOR UPDATE SKIP LOCKED",
                (batch,),
            )
            claimed = self._cursor.fetchall()
            self._cursor.execute(
                f"UPDATE {self._name} SET state = 2, owner = 'me', token = token + 1, due = 1e12 WHERE sequence IN %s",
                ([row[0] for row in claimed],),
            )
            self._cursor.execute("COMMIT")
            done = self._cursor.execute(
                f"UPDATE {self._name} SET state = 3, due = NULL"
                " WHERE (uuid, token) IN %s AND owner = 'me' AND state = 2",
                ([(row[1], row[4] + 1) for row in claimed],),
            )
            if done != batch:
                raise AssertionError("a bare claim was lost in a benchmark")
        return count

    def close(self) -> None:
        self._connection.close()


def mariadb_server() -> MariadbServer:
    """Return a server that writes through to its disk."""
    return MariadbServer({"innodb-flush-log-at-trx-commit": "1", "innodb-buffer-pool-size": "256M"})


MARIADB = Store(
    "mariadb",
    space_of(mariadb_server, BareMariadb, largest_backlog=LARGEST_BACKLOG),
    GOALS,
    lambda: f"{version_of(MariadbServer())}, PyMySQL {pymysql.__version__}",
)

_SNAPSHOT = ("START TRANSACTION WITH CONSISTENT SNAPSHOT", "SELECT count(*) FROM {table}")
PRESSURE = Pressure(
    mariadb_server,
    {
        "nothing": Cell(),
        "long snapshot": Cell(_SNAPSHOT),
        "backlog": Cell(backlog=True),
        "backlog, long snapshot": Cell(_SNAPSHOT, backlog=True),
    },
)
