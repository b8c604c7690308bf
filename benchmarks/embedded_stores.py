"""Memory and SQLite under measurement: stores without a server."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

from benchmarks.space import Space, Store
from benchmarks.sqlite_same import SameSqlite
from jobboard import fetch
from jobboard.backends.address import Address
from jobboard.backends.memory import MemoryBackend
from jobboard.backends.rows import ClaimRequest, Consumption, Fence, NewJob
from jobboard.validation import new_uuid


class BareSqlite:
    """An indexed table and two statements a job, each batch in a transaction of its own."""

    beside = "bare sqlite3"

    def __init__(self, path: Path, synchronous: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute(f"PRAGMA synchronous={synchronous}")
        self._connection.executescript(
            "CREATE TABLE job (sequence INTEGER PRIMARY KEY, uuid TEXT UNIQUE, name TEXT, rank INT, body BLOB,"
            " state INT, owner TEXT, token INT, due REAL);"
            "CREATE INDEX ready ON job (state, rank, sequence);"
        )

    def post(self, count: int, batch: int) -> int:
        for _ in range(0, count, batch):
            rows = [(new_uuid(), "bench", 3, b"\x80", 1, 0) for _ in range(batch)]
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(
                "INSERT INTO job (uuid, name, rank, body, state, token) VALUES (?, ?, ?, ?, ?, ?)", rows
            )
            self._connection.execute("COMMIT")
        return count

    def claim_and_consume(self, count: int, batch: int) -> int:
        for _ in range(0, count, batch):
            self._connection.execute("BEGIN IMMEDIATE")
            claimed = self._connection.execute(
                "UPDATE job SET state = 2, owner = 'me', token = token + 1, due = 1e12 WHERE sequence IN"
                " (SELECT sequence FROM job WHERE state = 1 ORDER BY rank, sequence LIMIT ?)"
                " RETURNING sequence, uuid, name, body, token",
                (batch,),
            ).fetchall()
            self._connection.execute("COMMIT")
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(
                "UPDATE job SET state = 3, due = NULL WHERE uuid = ? AND owner = 'me' AND token = ? AND state = 2",
                [(row[1], row[4]) for row in claimed],
            )
            self._connection.execute("COMMIT")
        return count

    def close(self) -> None:
        self._connection.close()


class BareMemory:
    """The memory backend itself, without the board above it."""

    beside = "bare backend"

    def __init__(self) -> None:
        self._backend = MemoryBackend(f"bare-{uuid.uuid4()}", Address("memory"))
        self._backend.open(1.0)

    def post(self, count: int, batch: int) -> int:
        for _ in range(0, count, batch):
            self._backend.jobs.post([NewJob(new_uuid(), "bench", 3, b"\x80") for _ in range(batch)])
        return count

    def claim_and_consume(self, count: int, batch: int) -> int:
        for _ in range(0, count, batch):
            claimed = self._backend.jobs.claim_next(ClaimRequest("me", uuid.uuid4().hex, 30.0), None, batch)
            self._backend.jobs.consume([Consumption(Fence(job.uuid, "me", job.token), None, 0.0) for job in claimed])
        return count

    def close(self) -> None:
        self._backend.close()


@contextmanager
def _sqlite_space(synchronous: str) -> Iterator[Space]:
    with tempfile.TemporaryDirectory(prefix="jobboard-bench-") as directory:
        uri = f"sqlite:///{directory}/jobs.db?synchronous={synchronous}"
        yield Space(
            lambda name: fetch(name, uri, least_interval=0.1),
            lambda: closing(BareSqlite(Path(directory) / f"bare-{uuid.uuid4()}.db", synchronous)),
            uri,
            100_000,
            lambda: closing(SameSqlite(Path(directory) / f"same-{uuid.uuid4()}.db", synchronous)),
        )


class SqliteFolder:
    """A folder for a board's file, as if it were a server, whose process is this one."""

    def __enter__(self) -> SqliteFolder:
        self._owned = tempfile.TemporaryDirectory(prefix="jobboard-")
        self.folder = Path(self._owned.name)
        self.uri = f"sqlite:///{self.folder}/board.db"
        self.process = SimpleNamespace(pid=os.getpid())
        return self

    def __exit__(self, *_: object) -> None:
        self._owned.cleanup()


@contextmanager
def _memory_space() -> Iterator[Space]:
    uri = f"memory://{uuid.uuid4().hex}"
    yield Space(lambda name: fetch(name, uri, least_interval=0.1), lambda: closing(BareMemory()), None, 1_000_000)


_GOALS = {
    "claim_next with 100,000 waiting": "ratio <= 1.5",
    "claim_next with 1,000,000 waiting": "ratio <= 1.5",
    "CPU per no-op job above the board's, 8 slots": "<= 100",
    "10 ms jobs, 8 slots": "ratio >= 0.9",
    "pick-up in one process, p50": "<= 5",
    "finding 1 due among 100,000 schedules": "ratio <= 1.5",
    "lateness of a fire, p95": "<= 50",
}
_BURST = "10,000 schedules due at once, until all are posted"

MEMORY = Store(
    "memory", _memory_space, {**_GOALS, "claim_next + consume in batches of 100": ">= 30,000/s", _BURST: "<= 1.5"}
)
SQLITE_FULL = Store(
    "sqlite-full",
    lambda: _sqlite_space("FULL"),
    {
        **_GOALS,
        "claim_next + consume one by one": "ratio >= 0.5",
        "claim_next + consume in batches of 100, same requests": "ratio >= 0.5",
        "pick-up across processes, p50": "<= 2",
        _BURST: "<= 3",
    },
)
SQLITE_NORMAL = Store(
    "sqlite-normal",
    lambda: _sqlite_space("NORMAL"),
    {**_GOALS, "pick-up across processes, p50": "<= 2", _BURST: "<= 3"},
)
