"""The harness of the SQLite store."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from jobboard.backends.sql import SqliteBackend
from jobboard.board import JobBoard
from jobboard.testing import Harness


class SqliteHarness(Harness):
    """A file in a directory of the tests' own."""

    backend_class = SqliteBackend

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._file = directory / "jobs.db"

    def uri(self) -> str:
        return f"sqlite:///{self._file}"

    def corrupt(self, board: JobBoard, uuid: str) -> None:
        with closing(sqlite3.connect(self._file)) as connection, connection:
            changed = connection.execute(
                "UPDATE jobboard_jobs SET body = ? WHERE uuid = ?", (b"\xc1 no posting", uuid)
            ).rowcount
        assert changed == 1

    def write_layout(self, board: JobBoard, number: str) -> str:
        with closing(sqlite3.connect(self._file)) as connection, connection:
            [[before]] = connection.execute("SELECT value FROM jobboard_meta WHERE name = 'version'").fetchall()
            connection.execute("UPDATE jobboard_meta SET value = ? WHERE name = 'version'", (number,))
        return str(before)
