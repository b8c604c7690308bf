"""The harnesses of the boards on SQL servers."""

from __future__ import annotations

from jobboard.backends.sql.postgresql import PostgresqlBackend
from jobboard.board import JobBoard
from jobboard.testing import Harness

GARBAGE = b"\xc1 no posting"


class PostgresqlHarness(Harness):
    """A harness onto a server that runs already."""

    backend_class = PostgresqlBackend

    def __init__(self, uri: str) -> None:
        super().__init__()
        self._uri = uri

    def uri(self) -> str:
        return self._uri

    def corrupt(self, board: JobBoard, uuid: str) -> None:
        backend = self.backend(board.name)
        assert isinstance(backend, PostgresqlBackend)
        backend.open(5.0)
        with backend.database._lent() as connection:
            changed = connection.execute("UPDATE jobboard_jobs SET body = %s WHERE uuid = %s", [GARBAGE, uuid]).rowcount
        backend.close()
        assert changed == 1
