"""What a server, a user or an engine is set to changes no value, and breaks no call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from servers.mariadb_servers import MariadbServer
from sqlalchemy import create_engine

from jobboard import JobBoard, LogBook, Posting, backend

pytest_plugins = ("harnesses.sql_fixtures",)

TEXT = "größer 漢字 😀 '\\\" %s"


def _works(board: JobBoard) -> None:
    postings = [Posting(TEXT, {"n": n}, book=LogBook(TEXT), key=str(n), if_exists="keep") for n in range(10)]
    posted = board.post_many(postings)
    assert board.post_many(postings) == posted
    posted.append(board.post(TEXT, book=LogBook(TEXT), key=TEXT))
    jobs = board.claim_next(TEXT, names=[TEXT], limit=20)
    assert jobs == posted
    board.abandon(jobs.pop(), TEXT, reason=TEXT)
    assert board.consume_many(jobs, TEXT) == [None] * 10
    [job] = board.iterjobs()
    assert (job.name, job.key, job.book_name, job.record.reason) == (TEXT, TEXT, TEXT, TEXT)
    assert (job.history[-1].who, board.audit()) == (TEXT, [])


@pytest.fixture
def cursor(mariadb: MariadbServer) -> Iterator[Any]:
    with mariadb.client() as client, client.cursor() as cursor:
        yield cursor


@pytest.fixture
def setting(cursor: Any, request: pytest.FixtureRequest) -> Iterator[str]:
    """Set a variable of the server for all later connections, until the test ends."""
    name, value = request.param
    cursor.execute(f"SELECT @@GLOBAL.{name}")
    before = cursor.fetchone()[0]
    cursor.execute(f"SET GLOBAL {name} = %s", [value])
    yield f"as_{value}"
    cursor.execute(f"SET GLOBAL {name} = %s", [before])


@pytest.mark.parametrize(
    "setting",
    [
        ("completion_type", "RELEASE"),
        ("completion_type", "CHAIN"),
        ("sql_select_limit", 3),
        ("max_join_size", 5),
        ("innodb_default_row_format", "compact"),
        ("sql_mode", "ORACLE"),
        ("autocommit", 0),
    ],
    indirect=True,
    ids=lambda given: f"{given[0]}={given[1]}",
)
def test_a_setting_of_the_server_breaks_no_call(mariadb: MariadbServer, cursor: Any, setting: str) -> None:
    # Made anew, so that the setting matters to its tables as well.
    with backend("board", f"{mariadb.uri}?prefix={setting.lower()}_") as board:
        before = _connections(cursor)
        _works(board)
        assert _connections(cursor) == before


def _connections(cursor: Any) -> int:
    """Return how many connections the server has taken."""
    cursor.execute("SHOW GLOBAL STATUS LIKE 'Connections'")
    return int(cursor.fetchone()[1])


@pytest.mark.parametrize("charset", ["latin1", "utf8"])
def test_an_engine_of_another_character_set_writes_every_text(mariadb: MariadbServer, charset: str) -> None:
    engine = create_engine(mariadb.uri.replace("mysql:", "mysql+pymysql:", 1), connect_args={"charset": charset})
    with backend(f"engine {charset}", "mysql", engine=engine) as board:
        _works(board)
    engine.dispose()
