"""PostgreSQL and MariaDB under measurement: servers that wait for their disks, and the bare statements beside them."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pymysql

from benchmarks.space import Bare, Space, Store
from jobboard import fetch

# The servers of the tests, but with the settings that they come with.
sys.path.append(str(Path(__file__).parent.parent / "functional_tests"))
from servers.mariadb_servers import MariadbServer
from servers.postgresql_servers import PostgresqlServer

_TABLE = (
    "CREATE TABLE {name} (sequence {serial} PRIMARY KEY, uuid VARCHAR(36) UNIQUE, name VARCHAR(255), rank_ INT,"
    " body {blob}, state INT, owner VARCHAR(255), token INT, due {double})"
)
_INDEX = "CREATE INDEX {name}_ready ON {name} (state, rank_, sequence)"


class BarePostgresql:
    """An indexed table, and one autocommitted statement each for a post, a claim and an end."""

    beside = "bare psycopg"

    def __init__(self, server: PostgresqlServer) -> None:
        self._connection = server.client()
        self._name = name = f"bare_{uuid.uuid4().hex[:8]}"
        words = {"name": name, "serial": "BIGSERIAL", "blob": "BYTEA", "double": "FLOAT8"}
        self._connection.execute(_TABLE.format(**words))
        self._connection.execute(_INDEX.format(**words))
        self._connection.execute("SET enable_seqscan = off")

    def post(self, count: int, batch: int) -> int:
        for _ in range(0, count, batch):
            uuids = [str(uuid.uuid4()) for _ in range(batch)]
            self._connection.execute(
                f"INSERT INTO {self._name} (uuid, name, rank_, body, state, token)"
                " SELECT uuid, 'bench', 3, %s, 1, 0 FROM unnest(%s::text[]) AS uuid",
                (b"\x80", uuids),
            )
        return count

    def claim_and_consume(self, count: int, batch: int) -> int:
        for _ in range(0, count, batch):
            claimed = self._connection.execute(
                f"WITH heads AS MATERIALIZED (SELECT sequence FROM {self._name} WHERE state = 1"
                " ORDER BY rank_, sequence LIMIT %s FOR UPDATE SKIP LOCKED)"
                f" UPDATE {self._name} AS job SET state = 2, owner = 'me', token = token + 1,"
                " due = extract(epoch FROM now()) + 30 FROM heads WHERE job.sequence = heads.sequence"
                " RETURNING uuid, name, body, token",
                (batch,),
            ).fetchall()
            done = self._connection.execute(
                f"UPDATE {self._name} AS job SET state = 3, due = NULL"
                " FROM unnest(%s::text[], %s::int[]) AS end_ (u, t)"
                " WHERE job.uuid = end_.u AND token = end_.t AND owner = 'me' AND state = 2",
                ([row[0] for row in claimed], [row[3] for row in claimed]),
            ).rowcount
            if done != batch:
                raise AssertionError("a bare claim was lost in a benchmark")
        return count

    def close(self) -> None:
        self._connection.close()


class BareMariadb:
    """The same table; a claim is a transaction of two statements, since an UPDATE returns no rows."""

    beside = "bare PyMySQL"

    def __init__(self, server: MariadbServer) -> None:
        self._connection = server.client()
        self._cursor = self._connection.cursor()
        self._name = name = f"bare_{uuid.uuid4().hex[:8]}"
        words = {"name": name, "serial": "BIGINT AUTO_INCREMENT", "blob": "LONGBLOB", "double": "DOUBLE"}
        self._cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        self._cursor.execute(_TABLE.format(**words))
        self._cursor.execute(_INDEX.format(**words))

    def post(self, count: int, batch: int) -> int:
        for _ in range(0, count, batch):
            self._cursor.executemany(
                # PyMySQL makes one statement of many rows only if there is nothing but parameters in them.
                f"INSERT INTO {self._name} (uuid, name, rank_, body, state, token) VALUES (%s, %s, %s, %s, %s, %s)",
                [(str(uuid.uuid4()), "bench", 3, b"\x80", 1, 0) for _ in range(batch)],
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


def _space_of(start: Callable[[], Any], make_bare: Callable[[Any], Any]) -> Callable[[], AbstractContextManager[Space]]:
    @contextmanager
    def space() -> Iterator[Space]:
        with start() as server:

            @contextmanager
            def bare() -> Iterator[Bare]:
                limit = make_bare(server)
                try:
                    yield limit
                finally:
                    limit.close()

            yield Space(
                lambda name: fetch(name, server.uri, least_interval=0.1), bare, server.uri, largest_backlog=200_000
            )

    return space


def _postgresql_server() -> PostgresqlServer:
    return PostgresqlServer({"fsync": "on", "shared_buffers": "256MB", "max_wal_size": "4GB"})


def _mariadb_server() -> MariadbServer:
    return MariadbServer({"innodb-flush-log-at-trx-commit": "1", "innodb-buffer-pool-size": "256M"})


def _version_of(server: PostgresqlServer | MariadbServer) -> str:
    """Return what a server's program says of itself; it is not started."""
    [program] = [word for word in server.command if word.endswith(("/postgres", "/mariadbd"))]
    server.stop()
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()


_GOALS = {
    "claim_next with 200,000 waiting": "ratio <= 1.5",
    "claim_next + consume one by one": "ratio >= 0.6",
}

POSTGRESQL = Store(
    "postgresql",
    _space_of(_postgresql_server, BarePostgresql),
    {
        **_GOALS,
        "claim_next + consume in batches of 100": ">= 5,000/s",
        "pick-up in one process, p50": "< 5",
        "pick-up across processes, p50": "< 5",
    },
    lambda: f"{_version_of(PostgresqlServer())}, psycopg {psycopg.__version__}",
)
MARIADB = Store(
    "mariadb",
    _space_of(_mariadb_server, BareMariadb),
    _GOALS,
    lambda: f"{_version_of(MariadbServer())}, PyMySQL {pymysql.__version__}",
)
