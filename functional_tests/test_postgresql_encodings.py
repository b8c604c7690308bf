"""Every text is kept, or the board is refused when it is opened: whatever encoding a database or a client is set to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from servers.postgresql_servers import PostgresqlServer

from jobboard import BoardUnavailable, JobBoard, LogBook, backend, fetch

pytest_plugins = ("harnesses.sql_fixtures",)

TEXT = "größer 漢字 😀"


@pytest.fixture
def uri(postgresql: PostgresqlServer, request: pytest.FixtureRequest) -> Iterator[str]:
    """A database of the encoding that a case names."""
    with postgresql.client("postgres") as client:
        client.execute(f"CREATE DATABASE encoded ENCODING '{request.param}' LOCALE 'C' TEMPLATE template0")
    yield postgresql.uri.replace("/jobs", "/encoded")
    with postgresql.client("postgres") as client:
        client.execute("DROP DATABASE encoded WITH (FORCE)")


def _keeps_every_text(board: JobBoard) -> None:
    board.post(TEXT, LogBook(TEXT), key=TEXT)
    (job,) = board.claim_next(TEXT, names=[TEXT])
    board.trash(job, TEXT, reason=TEXT)
    (found,) = board.trashed()
    assert (found.name, found.key, found.book_name, found.record.reason) == (TEXT, TEXT, TEXT, TEXT)
    assert found.history[-1].who == TEXT


@pytest.mark.parametrize("uri", ["SQL_ASCII"], indirect=True)
def test_a_database_without_an_encoding_keeps_every_text(uri: str) -> None:
    with backend("board", uri) as board:
        board.pause(TEXT)
    with backend("board", uri) as again:
        assert again.paused() == {TEXT}
        again.resume(TEXT)
        _keeps_every_text(again)


@pytest.mark.parametrize("uri", ["LATIN1", "EUC_JP"], indirect=True)
def test_a_database_that_has_no_form_for_some_texts_is_refused(uri: str) -> None:
    with pytest.raises(BoardUnavailable, match=r"keeps text as \w+, .* make its database with ENCODING 'UTF8'"):
        fetch("board", uri).connect()


def test_the_encoding_of_the_environment_makes_no_difference(
    postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    with backend("environment", postgresql.uri) as board:
        _keeps_every_text(board)
