"""Words for tests that speak to the SQLite backend at the seam."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from jobboard.backends.address import Address
from jobboard.backends.rows import Abandonment, ClaimRequest, Consumption, Extension, Fence, JobRow, NewJob
from jobboard.backends.sql import SqliteBackend
from jobboard.backends.sql.database import ProcessNotifier


def backend_of(path: Path, board: str = "board", **options: Any) -> SqliteBackend:
    return SqliteBackend(board, Address("sqlite", path=f"/{path}"), **{"synchronous": "OFF", **options})


@contextmanager
def opened(path: Path, board: str = "board", **options: Any) -> Iterator[SqliteBackend]:
    backend = backend_of(path, board, **options)
    backend.open(5.0)
    try:
        yield backend
    finally:
        backend.close()


@contextmanager
def elsewhere(path: Path) -> Iterator[SqliteBackend]:
    """A backend of which this process's waiters learn no sooner than of another process's."""
    with opened(path) as backend:
        backend.database.process_notifier = ProcessNotifier()
        yield backend


def posting(name: str = "resize", **options: Any) -> NewJob:
    return NewJob(**{"uuid": str(uuid.uuid4()), "name": name, "priority": 3, "body": b"body", **options})


def post(backend: SqliteBackend, name: str = "resize", **options: Any) -> JobRow:
    return backend.jobs.post([posting(name, **options)])[0].row


def fill(backend: SqliteBackend, count: int, *names: str) -> None:
    names = names or ("resize",)
    for start in range(0, count, 1000):
        backend.jobs.post([posting(names[n % len(names)]) for n in range(start, min(count, start + 1000))])


def claim_next(
    backend: SqliteBackend, names: set[str] | None = None, *, limit: int = 1, expiry: float = 30.0
) -> list[JobRow]:
    wanted = None if names is None else frozenset(names)
    return backend.jobs.claim_next(ClaimRequest("alice", uuid.uuid4().hex, expiry), wanted, limit)


def claimed(backend: SqliteBackend, **options: Any) -> JobRow:
    (row,) = claim_next(backend, **options)
    return row


def fence_of(row: JobRow, who: str = "alice") -> Fence:
    return Fence(row.uuid, who, row.token)


def consumption(row: JobRow, retention: float = 3600.0, who: str = "alice") -> Consumption:
    return Consumption(fence_of(row, who), None, retention)


def renewal(row: JobRow) -> Extension:
    return Extension(fence_of(row), 30.0)


def back(row: JobRow) -> Abandonment:
    return Abandonment(fence_of(row))


def run_sql(path: Path, sql: str, *parameters: Any) -> list[Any]:
    """Do something to the file by SQLite's own client, as somebody else would."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA ignore_check_constraints=1")
        return connection.execute(sql, parameters).fetchall()


@contextmanager
def other_process(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run Python code in another process; its ``input()`` waits for a line of ours."""
    with subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent.parent,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def next_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def say(process: subprocess.Popen[str], line: str = "") -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
