"""The harness of boards in an SQLite file, for tests of all SQL stores."""

from __future__ import annotations

from pathlib import Path

from jobboard import JobBoard
from jobboard.backends.sql import SqliteBackend
from jobboard.testing import Harness


class SqliteHarness(Harness):
    backend_class = SqliteBackend

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def uri(self) -> str:
        return f"sqlite:///{self._path}"

    def corrupt(self, board: JobBoard, uuid: str) -> None:
        raise NotImplementedError
