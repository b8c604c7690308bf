"""What a commit waits for is asked of the server, and who looks at a board is told if a crash can damage it."""

from __future__ import annotations

import pytest
from servers.mariadb_servers import MariadbServer
from servers.postgresql_servers import PostgresqlServer

from jobboard import JobBoard, backend, fetch
from jobboard.backends.findings import Persistence
from jobboard.board import client_of
from jobboard.operate.doctor import examine
from jobboard.operate.overview import overview
from jobboard.operate.verdict import findings

pytest_plugins = ("harnesses.sql_fixtures",)


def persistence(board: JobBoard) -> Persistence:
    return client_of(board).backend.persistence()


def told(board: JobBoard) -> list[str]:
    return [finding.text for finding in findings(overview(board)) if finding.kind == "not_durable"]


def test_postgresql_that_does_not_wait_for_its_disk_is_told() -> None:
    with PostgresqlServer({"fsync": "off"}) as server, backend("x", server.uri) as board:
        [text] = told(board)
        assert text.endswith("Set fsync = on in its configuration, and reload it.")
        assert "not_durable" in [each.subject for each in examine(fetch("x", server.uri))]


def test_postgresql_whose_commits_are_late_for_some_users_says_so_to_these() -> None:
    with PostgresqlServer({"fsync": "on"}) as server, server.client() as client:
        client.execute("CREATE ROLE late LOGIN SUPERUSER")
        client.execute("ALTER ROLE late SET synchronous_commit = off")
        with backend("x", server.uri) as board, backend("x", server.uri.replace("postgres@", "late@")) as late:
            assert persistence(board) == Persistence(True)
            assert (persistence(late).kept, "synchronous_commit = off" in persistence(late).text) == (True, True)
            assert told(board) == told(late) == []


@pytest.mark.parametrize(("flush", "said"), [(1, ""), (2, "a crash of its machine"), (0, "a crash of the server")])
def test_mariadb_says_what_a_crash_costs(mariadb: MariadbServer, flush: int, said: str) -> None:
    with backend("x", mariadb.uri) as board, mariadb.client() as client, client.cursor() as cursor:
        cursor.execute("SELECT @@GLOBAL.innodb_flush_log_at_trx_commit")
        before = cursor.fetchone()[0]
        try:
            cursor.execute("SET GLOBAL innodb_flush_log_at_trx_commit = %s", [flush])
            found = persistence(board)
            assert (found.kept, found.text.startswith(said), bool(found.text)) == (True, True, bool(said))
            assert told(board) == []
        finally:
            cursor.execute("SET GLOBAL innodb_flush_log_at_trx_commit = %s", [before])
