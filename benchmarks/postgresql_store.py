"""PostgreSQL under measurement, and the bare statements beside it."""

from __future__ import annotations

import uuid

import psycopg
from servers.postgresql_servers import PostgresqlServer

from benchmarks.pressure import Cell, Pressure
from benchmarks.space import Store, space_of
from benchmarks.sql_store import GOALS, INDEX, LARGEST_BACKLOG, TABLE, version_of
from jobboard.validation import new_uuid


class BarePostgresql:
    """An indexed table, and one autocommitted statement each for a post, a claim and an end."""

    beside = "bare psycopg"

    def __init__(self, server: PostgresqlServer) -> None:
        self._connection = server.client()
        self._name = name = f"bare_{uuid.uuid4().hex[:8]}"
        words = {"name": name, "serial": "BIGSERIAL", "blob": "BYTEA", "double": "FLOAT8"}
        self._connection.execute(TABLE.format(**words))
        self._connection.execute(INDEX.format(**words))
        self._connection.execute("SET enable_seqscan = off")

    def post(self, count: int, batch: int) -> int:
        for _ in range(0, count, batch):
            uuids = [new_uuid() for _ in range(batch)]
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


def postgresql_server() -> PostgresqlServer:
    """Return a server that writes through to its disk."""
    return PostgresqlServer({"fsync": "on", "shared_buffers": "256MB", "max_wal_size": "4GB"})


POSTGRESQL = Store(
    "postgresql",
    space_of(postgresql_server, BarePostgresql, largest_backlog=LARGEST_BACKLOG),
    {
        **GOALS,
        "claim_next + consume in batches of 100": ">= 5,000/s",
        "pick-up in one process, p50": "< 5",
        "pick-up across processes, p50": "< 5",
    },
    lambda: f"{version_of(PostgresqlServer())}, psycopg {psycopg.__version__}",
)

_SNAPSHOT = ("BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM {table}")
PRESSURE = Pressure(
    postgresql_server,
    {
        "nothing": Cell(),
        "long snapshot": Cell(_SNAPSHOT),
        "long snapshot, by name": Cell(_SNAPSHOT, names=("bench", "other")),
        "long snapshot, retries": Cell(_SNAPSHOT, retries=2),
        "retries": Cell(retries=2),
        "idle in transaction": Cell(("CREATE TABLE notes (line text)", "BEGIN", "INSERT INTO notes VALUES ('x')")),
        "slow reader": Cell(
            ("BEGIN", "DECLARE reader NO SCROLL CURSOR FOR SELECT * FROM {table}"), "FETCH 10 FROM reader"
        ),
        "backlog": Cell(backlog=True),
        "backlog, long snapshot": Cell(_SNAPSHOT, backlog=True),
    },
)
