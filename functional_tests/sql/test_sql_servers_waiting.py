"""What waiting on a SQL server costs while nothing happens, counted by the server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from harnesses.sql_site import Site
from servers.postgresql_servers import PostgresqlServer

from jobboard import Conductor, EventKind, Handlers, JobBoard
from jobboard.backends.sql.mysql import change_source as mysql_source
from jobboard.board import client_of
from jobboard.testing import eventually

pytest_plugins = ("harnesses.sql_fixtures",)


@contextmanager
def _idle_board(site: Site) -> Iterator[JobBoard]:
    """A board on which three threads wait, for longer than it takes until nothing is expected any more."""
    board = site.harness.board()
    with client_of(board).waiter(), client_of(board).waiter(), client_of(board).waiter():
        assert list(board.wait(1.5)) == []
        yield board


@pytest.fixture(autouse=True)
def logged(site: Site) -> Iterator[None]:
    """Let PostgreSQL log each request of the boards that are opened from now on."""
    if site.is_postgresql:
        site.run("ALTER DATABASE jobs SET log_statement = 'all'")
    yield
    if site.is_postgresql:
        site.run("ALTER DATABASE jobs RESET log_statement")


def _wait_in_vain(board: JobBoard) -> None:
    assert list(board.wait(2.0)) == []


def _requests(site: Site) -> int:
    if isinstance(site.server, PostgresqlServer):
        # Its statistics would not do: what a connection did last, it may report ten seconds later.
        return (site.server.folder / "log").read_text().count("LOG:  execute ")
    return int(site.run("SHOW GLOBAL STATUS LIKE 'Questions'")[0][1])


def _settles(counted: Callable[[], int], most: float, wait: Callable[[], object]) -> None:
    """Wait again and again, until no more than ``most`` a second were counted during a wait.

    The first looks after a change are frequent, and a busy machine draws them out.
    """

    def is_settled() -> bool:
        before, began = counted(), time.monotonic()
        wait()
        return counted() - before <= most * (time.monotonic() - began)

    eventually(is_settled, within=60)


def test_an_idle_board_asks_ten_times_a_second_at_most(site: Site) -> None:
    with _idle_board(site) as board:
        # On PostgreSQL a wait looks once when it begins and once when it ends, and a line is asked whether it is alive.
        _settles(lambda: _requests(site), 10 if site.is_postgresql else 20, lambda: _wait_in_vain(board))


def test_an_idle_conductor_that_is_listened_to_asks_seldom(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    # On MariaDB looks become rarer within seconds; this is about how rare they are then.
    monkeypatch.setattr(mysql_source, "INTERVAL_GROWTH", 100.0)
    handlers, events = Handlers(), []
    handlers.add("resize", lambda _job: None)
    board = site.harness.board()
    board.subscribe(events.append)
    conductor = Conductor("idle", board, handlers)
    conductor.start()
    try:
        assert board.post("resize").wait(20)
        eventually(lambda: EventKind.CONSUMED in [event.kind for event in events])
        _settles(lambda: _requests(site), 1.5 if site.is_postgresql else 5, lambda: conductor.wait(3.0))
    finally:
        conductor.stop(drain=False)


def test_a_look_of_an_idle_board_reads_the_end_of_the_journal_only(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    if site.is_postgresql:
        pytest.skip("it is looked at once a second there")
    # Looks become rarer within seconds; this is about what each of them reads.
    monkeypatch.setattr(mysql_source, "INTERVAL_GROWTH", 100.0)
    with _idle_board(site) as board:
        for _ in range(300):
            board.pause("resize")
            board.resume("resize")
        # Ten looks a second at a hundred lines each, and what the wait itself looks at.
        _settles(lambda: _rows_read(site), 1500, lambda: _wait_in_vain(board))


def _rows_read(site: Site) -> int:
    """What was read in indexes; the answer to this question itself comes from a table without one."""
    by_index = ("Handler_read_key", "Handler_read_next", "Handler_read_prev", "Handler_read_last")
    return sum(int(row[1]) for row in site.run("SHOW GLOBAL STATUS") if row[0] in by_index)


def test_a_post_of_another_client_ends_the_wait_of_an_idle_board(site: Site) -> None:
    with _idle_board(site) as board:
        other, found = site.harness.board(board.name), []
        waiting = threading.Thread(target=lambda: found.extend(job.uuid for job in board.wait(30)))
        waiting.start()
        job = other.post("resize")
        waiting.join(30)
    assert found == [job.uuid]
