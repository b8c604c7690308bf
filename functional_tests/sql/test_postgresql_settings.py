"""What a database, a user or the environment is set to changes no value; what can't keep one is refused."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from psycopg.errors import InvalidSqlStatementName
from servers.postgresql_servers import PostgresqlServer

from jobboard import BoardUnavailable, JobBoard, LogBook, Posting, backend, fetch
from jobboard.backends.sql.postgresql.errors import PostgresqlErrors

pytest_plugins = ("harnesses.sql_fixtures",)

MODES = ("session", "distributed")
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
    board.post(TEXT, book=LogBook(TEXT), key=TEXT)
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


@pytest.mark.parametrize(
    "setting",
    ["extra_float_digits=0", "standard_conforming_strings=off", "bytea_output=escape", "TimeZone=America/New_York"],
)
@pytest.mark.parametrize("mode", MODES)
def test_a_setting_of_the_user_changes_no_value_or_is_refused(
    postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch, setting: str, mode: str
) -> None:
    monkeypatch.setenv("PGOPTIONS", f"-c {setting}")
    if (mode, setting) == ("distributed", "standard_conforming_strings=off"):
        with pytest.raises(BoardUnavailable, match="standard_conforming_strings = off: ALTER ROLE"):
            fetch("refused", f"{postgresql.uri}?mode={mode}").connect()
        return
    at, blob = datetime(2031, 3, 4, 5, 6, 7, 123457, tzinfo=UTC), bytes(range(256))
    with backend(f"{mode}-{setting.partition('=')[0]}", f"{postgresql.uri}?mode={mode}") as board:
        assert board.get(board.post("later", run_at=at).uuid).run_at == at
        board.post("resize", details={"blob": blob, "text": "\\x41"}, key="\\")
        (job,) = board.claim_next("w\\'", names=["resize"])
        assert job.details == {"blob": blob, "text": "\\x41"}
        board.checkpoint(job, "w\\'", blob)
        assert job.checkpoint == blob
        board.consume(job, "w\\'", result=blob)
        assert (job.result, board.audit()) == (blob, [])


@pytest.mark.parametrize("mode", MODES)
def test_every_transaction_is_read_committed_whatever_the_default_is(
    postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c default_transaction_isolation=serializable")
    with (
        postgresql.client() as other,
        backend(f"levels-{mode}", f"{postgresql.uri}?mode={mode}") as board,
        other.transaction(),
    ):
        # As long as this one goes on, the server remembers what other serializable transactions have read.
        other.execute("SELECT count(*) FROM jobboard_jobs")
        board.post_many([Posting("resize"), Posting("resize", key="one")])
        board.consume_many(board.claim_next("alice", limit=2), "alice")
        mine = "mode = 'SIReadLock' AND pid <> pg_backend_pid()"
        assert other.execute(f"SELECT count(*) FROM pg_locks WHERE {mine}").fetchone() == (0,)


def test_a_user_without_a_schema_for_tables_is_told_how_to_name_one(
    postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c search_path=")
    with pytest.raises(BoardUnavailable, match="name the one for the tables by schema="):
        fetch("board", f"{postgresql.uri}?prefix=nowhere_").connect()
    with backend("board", f"{postgresql.uri}?schema=somewhere") as board:
        _keeps_every_text(board)


def test_a_pooler_that_loses_prepared_statements_is_named() -> None:
    lost = InvalidSqlStatementName('prepared statement "jobboard_1" does not exist')
    assert "Say mode=distributed" in str(PostgresqlErrors("here").explain(lost))


def test_what_is_set_to_be_read_only_is_changed_by_no_call(
    postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with backend("frozen", postgresql.uri) as board:
        job = board.post("resize")
        monkeypatch.setenv("PGOPTIONS", "-c default_transaction_read_only=on")
        with backend("frozen", postgresql.uri) as reader:
            for change in (
                lambda: reader.post("resize"),
                lambda: reader.post("resize", key="one", if_exists="replace"),
                lambda: reader.claim_next("alice"),
                lambda: reader.claim(job, "alice"),
                lambda: reader.pause("resize"),
                lambda: reader.save_book(LogBook("pages")),
            ):
                with pytest.raises(BoardUnavailable, match="is read-only; is it a replica"):
                    change()
            assert list(reader.iterjobs()) == [job]
            assert (reader.stats().unclaimed, reader.paused(), reader.get(job.uuid).history[-1].kind) == (
                1,
                set(),
                "POSTED",
            )
