"""Words for tests of those who wait on SQLite with a claim request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jobboard.backends.rows import JobRow
from jobboard.backends.sql import SqliteBackend
from jobboard.backends.sql.sqlite.claim_requests import ClaimRequests, StandingRequest
from jobboard.backends.sql.sqlite.waiting import SqliteWaiter

LONG = 600.0


@contextmanager
def armed(backend: SqliteBackend, *names: str) -> Iterator[SqliteWaiter]:
    """One who waits with a claim request."""
    with backend.waiter(frozenset(names or ["resize"])) as waiter:
        assert isinstance(waiter, SqliteWaiter)
        waiter.claim_ahead("idle", LONG)
        assert waiter.ready_in() is None
        yield waiter


def put_another(waiter: SqliteWaiter) -> None:
    """Wait again; what was claimed may expire."""
    assert (waiter.ready_in() or LONG) > 10


def requests(backend: SqliteBackend) -> list[StandingRequest]:
    """Return the requests that stand."""
    found = []
    with backend.database.write():
        for taken in ClaimRequests(backend.database.path).take():
            found.append(taken.request)
            taken.put_back()
    return found


def read(backend: SqliteBackend, row: JobRow) -> JobRow:
    [found] = backend.jobs.read([row.uuid])
    assert found is not None
    return found


def kinds_of(backend: SqliteBackend, row: JobRow) -> list[str]:
    return [line.kind.value for line in backend.jobs.history(row.uuid)]


def uuids_of(waiter: SqliteWaiter) -> list[str]:
    return [row.uuid for row in waiter.claimed()[0]]
