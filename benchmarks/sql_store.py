"""What measuring PostgreSQL and MariaDB has in common: servers that wait for their disks, and the table beside them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from benchmarks.space import Bare, Space
from jobboard import fetch

TABLE = (
    "CREATE TABLE {name} (sequence {serial} PRIMARY KEY, uuid VARCHAR(36) UNIQUE, name VARCHAR(255), rank_ INT,"
    " body {blob}, state INT, owner VARCHAR(255), token INT, due {double})"
)
INDEX = "CREATE INDEX {name}_ready ON {name} (state, rank_, sequence)"
GOALS = {
    "claim_next with 200,000 waiting": "ratio <= 1.5",
    "claim_next + consume one by one": "ratio >= 0.6",
}


def space_of(start: Callable[[], Any], make_bare: Callable[[Any], Any]) -> Callable[[], AbstractContextManager[Space]]:
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


def version_of(server: Any) -> str:
    """Return what a server's program says of itself; it is not started."""
    [program] = [word for word in server.command if word.endswith(("/postgres", "/mariadbd"))]
    server.stop()
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
