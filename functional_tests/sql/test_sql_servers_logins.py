"""A login that is refused is no server that can't be reached, and its password is nobody's business."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers.mariadb_servers import MariadbServer
from servers.postgresql_servers import PostgresqlServer

from jobboard import BoardUnavailable, fetch

SECRET = "pQ7wrong"


@pytest.fixture(params=[PostgresqlServer, MariadbServer])
def guarded(request: pytest.FixtureRequest) -> Iterator[Any]:
    with request.param() as server:
        if isinstance(server, PostgresqlServer):
            with server.client() as client:
                client.execute("CREATE USER app PASSWORD 'right'")
                (path,) = client.execute("SHOW hba_file").fetchone() or ("",)
            rules = Path(path)
            rules.write_text("host all app 127.0.0.1/32 scram-sha-256\n" + rules.read_text())
            with server.client() as client:
                client.execute("SELECT pg_reload_conf()")
        else:
            with server.client() as client, client.cursor() as cursor:
                cursor.execute("CREATE USER app IDENTIFIED BY 'right'")
        yield server


@pytest.mark.parametrize("user", ["app", "nobody_known"])
def test_a_refused_login_says_so_and_what_to_check(guarded: Any, user: str) -> None:
    scheme = guarded.uri.partition("://")[0]
    board = fetch("board", f"{scheme}://{user}:{SECRET}@127.0.0.1:{guarded.port}/jobs")
    with pytest.raises(BoardUnavailable, match="refuses this user; check the name, the password and") as caught:
        board.connect()
    assert "can't be reached" not in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_database_that_is_missing_is_named(guarded: Any) -> None:
    board = fetch("board", guarded.uri.rpartition("/")[0] + "/absent")
    with pytest.raises(BoardUnavailable, match="has no such database; create it first") as caught:
        board.connect()
    assert "can't be reached" not in str(caught.value)
