"""A migration that is killed at any step goes on where it ended; meanwhile no client uses the tables."""

from __future__ import annotations

import itertools
import os
import signal
import sqlite3
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from jobboard import BoardUnavailable, backend, fetch
from jobboard.backends.sql.mysql.driver import MysqlDriver
from jobboard.backends.sql.postgresql.driver import PostgresqlDriver
from jobboard.backends.sql.schema import VERSION
from jobboard.backends.sql.sqlite import backend as sqlite_backend
from jobboard.backends.sql.sqlite.database import existing
from jobboard.testing import eventually
from layouts.dumps import NAME, Postgresql, Store, file_of, running
from layouts.test_layouts import STATES, states_on

pytestmark = pytest.mark.in_turn(1)

#: The layouts before ours; their databases have schemas 4, 5 and 6.
LAYOUTS = (1, 2, 3)
MIGRATE = "import sys; from jobboard import fetch; fetch('orders', sys.argv[1]).migrate(60)"


def is_killed(store: Store) -> bool:
    """Whether a process of its own was killed in the course of a migration."""
    child = os.fork()
    if child == 0:
        try:
            fetch(NAME, store.uri).migrate()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL)
    return status != 0


def kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_after_step(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = itertools.count(1)
    for driver in (MysqlDriver, PostgresqlDriver):

        def take(*arguments: Any, take: Callable[..., None] = driver.take) -> None:
            take(*arguments)
            if next(counted) == number:
                kill_this_process()

        monkeypatch.setattr(driver, "take", take)


def kill_before_statement(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = itertools.count(1)

    @contextmanager
    def watched(path: Path, timeout: float) -> Iterator[sqlite3.Connection]:
        with existing(path, timeout) as file:
            file.set_trace_callback(lambda _: kill_this_process() if next(counted) == number else None)
            yield file

    monkeypatch.setattr(sqlite_backend, "existing", watched)


def check_migrated(store: Store) -> None:
    assert fetch(NAME, store.uri).statements_of_migration() == []
    with backend(NAME, store.uri) as board:
        assert states_on(board) == STATES
        assert board.audit() == []
        assert [job.name for job in board.claim_next("carol", limit=10)] == ["first", "keyed", "returned", "low"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["postgresql", "mariadb"])
def test_a_migration_that_is_killed_after_any_step_ends_with_the_same_tables(
    name: str, layout: int, tmp_path: Path
) -> None:
    with running(name, tmp_path) as store:
        for number in itertools.count(1):
            store.load(file_of(name, layout).read_text())
            statements = fetch(NAME, store.uri).statements_of_migration()
            with pytest.MonkeyPatch.context() as monkeypatch:
                kill_after_step(number, monkeypatch)
                if not is_killed(store):
                    break
            left = fetch(NAME, store.uri).statements_of_migration()
            if left:
                with pytest.raises(
                    BoardUnavailable, match=rf"has the tables of schema \d-{VERSION}, .* run `jobboard migrate`"
                ):
                    fetch(NAME, store.uri).connect()
                fetch(NAME, store.uri).migrate()
            check_migrated(store)
        # A step of several statements has them in one transaction: new tables are one step.
        assert len([text for text in statements if not text.startswith("CREATE")]) <= number - 1 <= len(statements)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_killed_migration_of_a_file_has_changed_nothing(layout: int, tmp_path: Path) -> None:
    with running("sqlite", tmp_path) as store:
        store.load(file_of("sqlite", layout).read_text())
        before, statements, number = store.dump(), fetch(NAME, store.uri).statements_of_migration(), 1
        with pytest.MonkeyPatch.context() as monkeypatch:
            kill_before_statement(number, monkeypatch)
            while is_killed(store):
                assert store.dump() == before
                number += 1
                kill_before_statement(number, monkeypatch)
        assert number > len(statements)
        check_migrated(store)


@pytest.mark.parametrize("name", ["postgresql", "mariadb"])
def test_a_migration_goes_on_that_an_earlier_jobboard_has_begun(name: str, tmp_path: Path) -> None:
    with running(name, tmp_path) as store:
        store.load(
            file_of(name, 1)
            .read_text()
            .replace("'version','4'", "'version','4-5'")
            .replace("'version', '4'", "'version', '4-5'")
        )
        with pytest.raises(BoardUnavailable, match="has the tables of schema 4-5, .* run `jobboard migrate`"):
            fetch(NAME, store.uri).connect()
        assert fetch(NAME, store.uri).migrate().found == "4-5"
        check_migrated(store)


def test_an_index_whose_making_was_killed_is_made_anew(tmp_path: Path) -> None:
    with running("postgresql", tmp_path) as store:
        assert isinstance(store, Postgresql)
        store.load(file_of("postgresql", 1).read_text())
        if not any("CONCURRENTLY" in statement for statement in fetch(NAME, store.uri).statements_of_migration()):
            pytest.skip("no index has changed since the first layout")
        with psycopg.connect(store.uri) as other, psycopg.connect(store.uri, autocommit=True) as looker:
            # The making waits for the end of this transaction, which has a snapshot.
            other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            other.execute("SELECT 1")
            migrating = subprocess.Popen([sys.executable, "-c", MIGRATE, store.uri])
            half_made = "SELECT indexrelid FROM pg_index WHERE NOT indisvalid"
            eventually(lambda: looker.execute(half_made).fetchall() != [], within=30)
            migrating.kill()
            migrating.wait()
            ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX CONC%'"
            looker.execute(ended)
            other.rollback()
            eventually(lambda: looker.execute(ended).fetchall() == [])
            assert len(looker.execute(half_made).fetchall()) == 1
        fetch(NAME, store.uri).migrate()
        check_migrated(store)
