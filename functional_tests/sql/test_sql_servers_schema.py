"""The tables on each server: made, upgraded, refused, and shared with others."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from harnesses.sql_site import Site
from sqlalchemy import create_engine, event
from sqlalchemy.engine import Engine

from jobboard import (
    BoardUnavailable,
    EventKind,
    Every,
    JobBoard,
    Posting,
    Schedule,
    backend,
    fetch,
)
from jobboard.backends.sql.schema import VERSION, jobs, journal
from jobboard.cli.app import UNAVAILABLE, run
from jobboard.testing import eventually

pytest_plugins = ("harnesses.sql_fixtures",)

_FIRST = Path(__file__).parent / "first_schema"
_THIRD = Path(__file__).parent / "third_schema"


class Place(NamedTuple):
    """A database of a case's own on a server."""

    site: Site
    database: str

    @property
    def uri(self) -> str:
        return self.site.server.uri.replace("/jobs", f"/{self.database}")

    def run(self, sql: str, *parameters: Any) -> list[Any]:
        with self.site.server.client(self.database) as client, client.cursor() as cursor:
            cursor.execute(sql, parameters or None)
            return list(cursor.fetchall()) if cursor.description else []

    def run_script(self, path: Path) -> None:
        lines = [line for line in path.read_text().splitlines() if not line.startswith("--")]
        for statement in "\n".join(lines).split(";\n"):
            if statement.strip():
                self.run(statement)

    def run_each(self, statements: list[str]) -> None:
        for statement in statements:
            self.run(statement)

    def tables(self) -> list[str]:
        schema = "table_schema NOT IN ('pg_catalog', 'information_schema')"
        if not self.site.is_postgresql:
            schema = f"table_schema = '{self.database}'"
        return sorted(row[0] for row in self.run(f"SELECT table_name FROM information_schema.tables WHERE {schema}"))

    def layout(self) -> Any:
        """All columns and indexes, how posts fill them, and of how many values the server keeps statistics."""
        columns = self.run(
            "SELECT table_name, column_name, data_type, is_nullable, collation_name FROM information_schema.columns"
            " WHERE table_name LIKE 'jobboard%' AND table_schema IN ('public', DATABASE_NAME) ORDER BY 1, 2".replace(
                "DATABASE_NAME", f"'{self.database}'"
            )
        )
        if self.site.is_postgresql:
            indexes = self.run("SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY indexdef")
            options = (
                "SELECT relname, reloptions FROM pg_class WHERE relname LIKE 'jobboard%' AND reloptions IS NOT NULL"
            )
            targets = (
                "SELECT relname, attstattarget, count(*) FROM pg_attribute JOIN pg_class ON attrelid = pg_class.oid"
                " WHERE relname LIKE 'jobboard%' AND relkind = 'r' AND attnum > 0 AND NOT attisdropped"
                " AND attstattarget >= 0 GROUP BY relname, attstattarget"
            )
            return columns, indexes, self.run(f"{options} ORDER BY relname"), self.run(f"{targets} ORDER BY relname")
        return columns, self.run(
            "SELECT table_name, index_name, seq_in_index, column_name, non_unique FROM information_schema.statistics"
            f" WHERE table_schema = '{self.database}' ORDER BY 1, 2, 3"
        )

    def version(self, prefix: str = "jobboard_") -> str:
        return str(self.run(f"SELECT value FROM {prefix}meta WHERE name = 'version'")[0][0])


@pytest.fixture
def place(site: Site, request: pytest.FixtureRequest) -> Iterator[Place]:
    name = f"case_{abs(hash(request.node.name)) % 10**8}"
    site.run(f"CREATE DATABASE {name}")
    yield Place(site, name)
    site.run(f"DROP DATABASE {name} WITH (FORCE)" if site.is_postgresql else f"DROP DATABASE {name}")


# -- upgrading ---------------------------------------------------------------------------------------------------------


def test_the_first_schema_is_upgraded_with_what_is_in_it(place: Place) -> None:
    place.run_script(_FIRST / f"{'postgresql' if place.site.is_postgresql else 'mariadb'}.sql")
    place.run("INSERT INTO jobboard_boards (id, name) VALUES (7, 'jobs')")
    place.run(
        "INSERT INTO jobboard_jobs (id, board, uuid, name, rank, created_on, body, state, attempts, token,"
        " last_modified, cancel_asked) VALUES (1, 7, 'u', 'resize', -3, 1e9, %s, 1, 0, 0, 1e9, 0)".replace(
            "name, rank", "name, rank" if place.site.is_postgresql else "name, `rank`"
        ),
        bytes.fromhex("9501c0c0c0c080"),
    )
    if place.site.is_postgresql:
        place.run("SELECT setval('jobboard_boards_id_seq', 7), setval('jobboard_jobs_id_seq', 1)")
    fetch("jobs", place.uri).migrate()
    with backend("jobs", place.uri) as board:
        [job] = board.claim_next("alice")
        board.consume(job, "alice")
        board.schedules.add(Schedule("nightly", Every(days=1), "resize"))
        assert (job.uuid, job.details, [found.id for found in board.schedules]) == ("u", {}, ["nightly"])
        assert board.audit() == []
    upgraded = place.layout()
    assert place.version() == str(VERSION)
    if place.site.is_postgresql:
        assert upgraded[2] == [
            ("jobboard_history", ["fillfactor=30"]),
            ("jobboard_jobs", ["fillfactor=50", "autovacuum_vacuum_scale_factor=0.01"]),
            ("jobboard_journal", ["autovacuum_vacuum_scale_factor=0.01"]),
            ("jobboard_uuid", ["fillfactor=30"]),
        ]
        assert upgraded[3] == [(table.name, 20, len(table.columns)) for table in (jobs, journal)]
    for table in [table for table in place.tables() if table.startswith("jobboard_")]:
        place.run(f"DROP TABLE {table}")
    with backend("jobs", place.uri):
        assert place.layout() == upgraded


def test_tables_of_the_third_schema_get_what_new_ones_have(place: Place) -> None:
    if not place.site.is_postgresql:
        pytest.skip("the tables are the same")
    place.run_script(_THIRD / "postgresql.sql")
    fetch("jobs", place.uri).migrate()
    migrated = place.layout()
    place.run(f"DROP TABLE {', '.join(place.tables())}")
    with backend("jobs", place.uri):
        assert place.layout() == migrated


def test_pauses_serve_programs_that_keep_no_by_and_reason(place: Place) -> None:
    """An older jobboard goes on beside this one: it has the same tables, and writes and forgets lines of its own."""

    def told(board: JobBoard) -> list[tuple[str | None, str | None, str | None]]:
        assert board.paused() == {pause.name for pause in board.pauses()}
        return [(pause.name, pause.by, pause.reason) for pause in board.pauses()]

    with backend("jobs", place.uri) as board:
        board.pause("resize", by="ada", reason="disk full")
        place.run("INSERT INTO jobboard_pauses (board, name) SELECT id, 'crop' FROM jobboard_boards")
        place.run(
            "INSERT INTO jobboard_journal (board, kind, name, at) SELECT id, 'PAUSED', 'crop', 1e9 FROM jobboard_boards"
        )
        assert told(board) == [("crop", None, None), ("resize", "ada", "disk full")]
        board._backend.maintenance.tidy(100)
        assert [pause.at is not None for pause in board.pauses()] == [True, True]
        place.run("DELETE FROM jobboard_journal WHERE job IS NULL")
        assert told(board) == [("crop", None, None), ("resize", None, None)]
        place.run("DELETE FROM jobboard_pauses WHERE name = 'resize'")
        board.pause("resize", by="bob")
        assert told(board) == [("crop", None, None), ("resize", "bob", None)]
        assert board.audit() == []


@pytest.mark.parametrize("version", [str(VERSION + 1), "999", "alien"])
def test_a_newer_schema_is_refused_and_left_as_it_is(place: Place, version: str) -> None:
    with backend("jobs", place.uri) as board:
        board.post("resize")
    place.run("UPDATE jobboard_meta SET value = %s WHERE name = 'version'", version)
    with closing(fetch("jobs", place.uri)) as board:
        for attempt in (board.connect, board.migrate):
            refused = f"made by a newer jobboard .schema {version}, .*; upgrade jobboard"
            with pytest.raises(BoardUnavailable, match=refused):
                attempt()
    assert (place.version(), place.run("SELECT count(*) FROM jobboard_jobs")[0][0]) == (version, 1)


def test_whoever_queued_for_the_upgrade_finds_the_work_done_or_refuses_what_is_newer(place: Place) -> None:
    """A newer jobboard may be what is upgrading."""
    with backend("jobs", place.uri) as board:
        mark = board._backend.database.driver.dialect.table_names.fingerprint  # type: ignore[attr-defined]
    place.run("UPDATE jobboard_meta SET value = '1' WHERE name = 'version'")
    faults: list[BaseException] = []

    def upgrade() -> None:
        try:
            fetch("jobs", place.uri).migrate()
        except BaseException as fault:
            faults.append(fault)

    with closing(place.site.server.client(place.database)) as client, client.cursor() as cursor:
        if place.site.is_postgresql:
            cursor.execute("SELECT pg_advisory_lock(%s)", (int(mark, 16),))
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_try_advisory%'"
        else:
            cursor.execute("SELECT GET_LOCK(%s, 0)", (f"jobboard_{mark}_{place.database}"[:64],))
            waiting = "SELECT count(*) FROM information_schema.processlist WHERE state = 'User lock'"
        thread = threading.Thread(target=upgrade)
        thread.start()
        eventually(lambda: place.run(waiting)[0][0] == 1)
        cursor.execute("UPDATE jobboard_meta SET value = '999' WHERE name = 'version'")
    thread.join(30)
    assert [str(fault).partition("made by a newer jobboard")[1] for fault in faults] == ["made by a newer jobboard"]
    assert place.version() == "999"


# -- without the right to make tables ----------------------------------------------------------------------------------


def test_the_command_makes_the_tables_for_boards_that_may_not(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    least = f"{place.uri}?migrate=false"
    with pytest.raises(BoardUnavailable, match=r"has no tables, .*; run `jobboard migrate`"):
        fetch("jobs", least).connect()
    assert place.tables() == []
    assert run(["migrate", "--board", place.uri]) == 0
    assert capsys.readouterr().out == f"the layout is {VERSION}; there was none\n"
    assert run(["migrate", "--board", place.uri, "--json"]) == 0
    store = "postgresql" if place.site.is_postgresql else "mysql"
    assert json.loads(capsys.readouterr().out) == {
        "store": store,
        "found": str(VERSION),
        "now": str(VERSION),
        "mended": [],
    }
    with backend("jobs", least) as board:
        board.post("resize")
    place.run("UPDATE jobboard_meta SET value = '1' WHERE name = 'version'")
    with pytest.raises(BoardUnavailable, match=r"has the tables of schema 1, .* run `jobboard migrate`"):
        fetch("jobs", least).connect()
    place.run(f"UPDATE jobboard_meta SET value = '{VERSION + 1}' WHERE name = 'version'")
    assert run(["migrate", "--board", place.uri]) == UNAVAILABLE
    refused = f"made by a newer jobboard (schema {VERSION + 1}, this one reads {VERSION}); upgrade jobboard"
    assert refused in capsys.readouterr().err


# -- several in one database -------------------------------------------------------------------------------------------


def test_installations_of_other_prefixes_share_nothing(place: Place) -> None:
    with backend("jobs", place.uri) as ours, backend("jobs", f"{place.uri}?prefix=queue_") as theirs:
        _work_in_every_way(theirs)
        assert (ours.job_count, theirs.job_count, theirs.audit()) == (0, 1, [])
    assert "queue_jobs" in place.tables()


def test_an_installation_lies_in_a_schema_of_its_own(place: Place) -> None:
    if not place.site.is_postgresql:
        with pytest.raises(ValueError, match="unknown option 'schema'"):
            fetch("jobs", f"{place.uri}?schema=queue")
        return
    with backend("jobs", place.uri) as ours, backend("jobs", f"{place.uri}?schema=queue") as theirs:
        _work_in_every_way(theirs)
        assert (ours.job_count, theirs.job_count, theirs.audit()) == (0, 1, [])
    assert place.run("SELECT count(*) FROM queue.jobboard_jobs") == [(5,)]


def _work_in_every_way(board: JobBoard) -> None:
    board.post_many([Posting("resize", key="k"), Posting("resize")])
    board.post("resize", key="k", if_exists="replace", priority="high")
    [job] = board.claim_next("alice", names=["resize"])
    board.extend(job, "alice")
    board.consume(job, "alice")
    board.post_many([Posting("crop") for _ in range(3)])
    jobs = board.claim_next("alice", names=["crop"], limit=3)
    assert board.consume_many(jobs, "alice") == [None] * 3
    assert [job.history[-1].kind for job in jobs] == [EventKind.CONSUMED] * 3
    assert len(list(board.iterjobs())) == 1
    assert board.stats().names["resize"].unclaimed == 1


# -- an engine of the user's -------------------------------------------------------------------------------------------


def test_an_engine_is_left_as_it_was_found(place: Place) -> None:
    scheme, engine = _engine_of(place)
    made = []
    event.listen(engine, "connect", lambda *_: made.append(1))
    before = _settings(engine, place.site.is_postgresql)
    with backend("jobs", scheme, engine=engine) as board:
        job = board.post("resize")
        assert board.claim_next("alice", names=["resize", "crop"]) == [job]
        with engine.begin() as connection:
            board.consume(job, "alice", connection=connection)
            pid = connection.connection.driver_connection
        assert board.job_count == 0
    assert _settings(engine, place.site.is_postgresql) == before
    with engine.connect() as connection:
        assert connection.connection.driver_connection is pid, "its pool holds what it held"
    assert len(made) >= 2, "the board's own connections are made as the engine makes them"
    engine.dispose()


def test_a_board_needs_no_place_in_the_pool_of_an_engine(place: Place) -> None:
    scheme, engine = _engine_of(place, pool_timeout=0.1)
    with engine.connect(), backend("jobs", scheme, engine=engine) as board:
        board.post("resize")
        assert board.job_count == 1
    engine.dispose()


def _engine_of(place: Place, **options: Any) -> tuple[str, Engine]:
    """Return the scheme of a store, and an engine of it whose pool has one place."""
    scheme, driver = ("postgresql", "psycopg") if place.site.is_postgresql else ("mysql", "pymysql")
    uri = place.uri.replace(f"{scheme}:", f"{scheme}+{driver}:")
    return scheme, create_engine(uri, pool_size=1, max_overflow=0, **options)


def _settings(engine: Engine, is_postgresql: bool) -> Any:
    asked = (
        "SELECT name, setting FROM pg_settings WHERE source = 'session' ORDER BY 1"
        if is_postgresql
        else "SELECT @@autocommit, @@sql_mode, @@time_zone, @@tx_isolation, @@innodb_lock_wait_timeout"
    )
    with engine.connect() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(asked)]
