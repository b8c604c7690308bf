"""What the pages of the SQL servers' boards say: the example runs, the rights are enough, the numbers are right."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from harnesses.sql_site import Site
from servers.base import HOST
from servers.proxy import Proxy
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from jobboard import Job, JobBoard, LogBook, Posting, backend, fetch
from jobboard.backends.edge_rows import StepRow
from jobboard.backends.rows import Abandonment, Fence
from jobboard.backends.sql import commit_notifier
from jobboard.backends.sql.change_source import ChangeSource
from jobboard.backends.sql.journal_statements import LAST_EVENT
from jobboard.backends.sql.postgresql import change_source
from jobboard.board import client_of, register
from jobboard.participants import Entity

pytest_plugins = ("harnesses.sql_fixtures",)

_DOC = Path(__file__).parent.parent.parent / "doc"
LONG, PATIENCE = 600.0, 30.0


def _database_url(site: Site) -> str:
    scheme, driver = ("postgresql", "psycopg") if site.is_postgresql else ("mysql", "pymysql")
    return site.server.uri.replace(f"{scheme}:", f"{scheme}+{driver}:")


def _names_of_example(name: str) -> dict[str, Any]:
    path = _DOC / "examples" / name
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(path.read_text(), str(path), "exec", dont_inherit=True), names)
    return names


def _run_example(name: str, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBBOARD_URI", site.server.uri)
    monkeypatch.setenv("DATABASE_URL", _database_url(site))
    _names_of_example(name)["engine"].dispose()


def test_the_example_of_a_transaction_of_ones_own_runs(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.run("DROP TABLE IF EXISTS orders")
    for _ in range(2):
        _run_example("own_transaction.py", site, monkeypatch)
    assert [state for (state,) in site.run("SELECT state FROM orders")] == ["invoiced"] * 2


def _write_table(site: Site, *rows: tuple[int, str]) -> None:
    """Make a table of timed tasks with these states and params."""
    site.run("DROP TABLE IF EXISTS t_task")
    site.run(
        "CREATE TABLE t_task (biz_key VARCHAR(100) UNIQUE, task_code VARCHAR(50), params TEXT, exec_time TIMESTAMP,"
        " status INT, retry_count INT, max_retry INT, version INT)"
    )
    for number, (status, params) in enumerate(rows):
        site.run(
            f"INSERT INTO t_task VALUES ('order/{number}', 'REMIND', '{params}',"
            f" '2030-01-31 09:00:00', {status}, 1, 3, 0)"
        )


def _states(site: Site) -> list[int]:
    return [status for (status,) in site.run("SELECT status FROM t_task ORDER BY biz_key")]


def test_the_rows_of_a_table_of_timed_tasks_are_moved_once(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = [(0, "[1]"), (0, '{"n": 18446744073709551617}'), (0, "order 6")]
    _write_table(site, *((status, f'{{"order": {status}}}') for status in (0, 1, 2, 3)), *bad, (0, '{"order": 7}'))
    for _ in range(2):
        _run_example("move_table.py", site, monkeypatch)
    told = [line.partition(" stays: ")[0] for line in capsys.readouterr().err.splitlines()]
    assert told == [f"order/{number}" for number in (4, 5, 6)] * 2
    with backend("tasks", site.server.uri) as board:
        jobs = sorted(board.iterjobs(), key=lambda job: str(job.key))
        assert [(job.key, job.details) for job in jobs] == [(f"order/{n}", {"order": n}) for n in (0, 1, 7)]
        assert {(job.name, job.max_attempts, job.run_at) for job in jobs} == {
            ("REMIND", 3, datetime(2030, 1, 31, 1, tzinfo=UTC))
        }
        board.cancel_by_key("REMIND", "order/")
    assert _states(site) == [9, 9, 2, 3, 0, 0, 0, 9]


def test_a_program_takes_rows_over_while_the_table_has_some(site: Site) -> None:
    _write_table(site, *((status, "{}") for status in (0, 0, 1, 2)))
    engine, moment = create_engine(_database_url(site)), datetime(2031, 1, 31, tzinfo=UTC)
    names = _names_of_example("take_over.py")
    with backend("taken over", site.server.uri) as board:
        with Session(engine) as session, session.begin():
            names["upsert"](board, session, "REMIND", "order/0", {"order": 0}, moment)
            session.rollback()
        assert (_states(site), board.job_count) == ([0, 0, 1, 2], 0)
        for number in (0, 3):
            with Session(engine) as session, session.begin():
                names["upsert"](board, session, "REMIND", f"order/{number}", {"order": number}, moment)
        for key in ("order/1", "order/2", "order/3"):
            names["cancel"](board, engine, "REMIND", key)
        assert [(job.key, job.run_at) for job in board.iterjobs()] == [("order/0", moment)]
        board.cancel_by_key("REMIND", "order/")
    assert _states(site) == [9, 9, 9, 2]
    engine.dispose()


def _sql_of(page: str) -> str:
    """Return the grants of a page, which come first."""
    blocks = re.findall(r"^\.\. code-block:: sql\n\n((?: .*\n)+)", (_DOC / f"backends/{page}.rst").read_text(), re.M)
    return str(blocks[0])


def test_the_rights_that_the_page_names_are_enough(site: Site) -> None:
    with backend("rights", site.server.uri):
        pass
    site.run("CREATE USER app" if site.is_postgresql else "CREATE OR REPLACE USER app")
    try:
        grants = _sql_of("postgresql" if site.is_postgresql else "mysql").replace("shop.", "jobs.")
        for grant in grants.split(";\n"):
            if grant.strip():
                site.run(grant.replace("%", "%%"))
        user = "postgres@" if site.is_postgresql else "root@"
        with backend("rights", site.server.uri.replace(user, "app@") + "?migrate=false") as board:
            _use_in_every_way(board)
    finally:
        if site.is_postgresql:
            site.run("DROP OWNED BY app")
        site.run("DROP USER app")


def _use_in_every_way(board: JobBoard) -> None:
    board.post_many([Posting("resize", key="k"), Posting("resize"), Posting("later", delay=LONG)])
    board.post("resize", key="k", if_exists="replace", priority="high")
    with client_of(board).waiter() as waiter:
        assert waiter.ready_in() == 0.0
    unsubscribe = board.subscribe(lambda event: None)
    jobs = board.claim_next("alice", limit=2, expiry=LONG)
    board.checkpoint(jobs[0], "alice", {"page": 1})
    board.extend(jobs[0], "alice")
    book = LogBook("journal", owned=True)
    for number in range(2):
        book.named = {str(number): number}
        board.save_book(book, hold=jobs[0])
    assert board.load_book(book.uuid).named == {"1": 1}
    board.destroy_book(book.uuid)
    board.consume(jobs[0], "alice")
    board.trash(jobs[1], "alice")
    board.purge(jobs[1].uuid)
    board.pause("resize")
    board.resume("resize")
    unsubscribe()
    assert (board.job_count, board.audit()) == (1, [])


def _hold(board: JobBoard, count: int) -> list[Any]:
    board.post_many([Posting("resize") for _ in range(count)])
    return board.claim_next("alice", limit=count, expiry=LONG)


def _hold_a_book(board: JobBoard) -> tuple[LogBook, Any]:
    """Return a free book of which two entries have changed since it was saved, and a job that is held."""
    book = LogBook("journal")
    book.named["first"] = 1
    board.save_book(book)
    book.named |= {"first": 2, "second": 3}
    return book, _hold(board, 1)[0]


_STEP = StepRow(0, "charge", b"result")


def _fence_of(job: Job) -> Fence:
    assert job.token is not None
    return Fence(job.uuid, "alice", job.token)


def _hold_one(board: JobBoard) -> Fence:
    return _fence_of(_hold(board, 1)[0])


def _until_signal(fence: Fence) -> Abandonment:
    return Abandonment(fence, counted=False, signal="approved")


def _hold_parents(board: JobBoard) -> list[Any]:
    """Return ten jobs that are held; one waits for all of them."""
    jobs = _hold(board, 10)
    board.post("resize", after=jobs)
    return jobs


def _post_with_keys(board: JobBoard, **options: Any) -> list[Any]:
    return board.post_many([Posting("resize", key=str(n), **options) for n in range(2)])


def _lose(board: JobBoard) -> list[Any]:
    jobs = _hold(board, 1)
    board.release(jobs[0], reason="the case")
    return jobs


def _at_the_end_of_the_journal(board: JobBoard) -> tuple[ChangeSource, int]:
    board.post("resize")
    source = board._backend.database.change_source()
    [(last,)] = source.rows(LAST_EVENT)
    return source, last


def _look(at: tuple[ChangeSource, int]) -> None:
    source, last = at
    assert source.lines(last, lambda: True).rows == []
    source.close()


def _post_beside_a_pause(board: JobBoard) -> None:
    board.pause("crop")
    board.post("resize")


#: How it is asked, and the round trips on PostgreSQL and MariaDB that its page says.
ROUND_TRIPS: dict[str, tuple[Callable[[JobBoard], Any], Callable[[JobBoard, Any], object], int, int]] = {
    "post": (lambda board: None, lambda board, _: board.post("resize"), 1, 1),
    "post with a key": (lambda board: None, lambda board, _: board.post("resize", key="k"), 1, 5),
    "post again": (
        lambda board: board.post("resize"), lambda board, job: board.post("resize", uuid=job.uuid), 4, 3,
    ),
    "post of 100": (
        lambda board: None, lambda board, _: board.post_many([Posting("resize") for _ in range(100)]), 1, 1,
    ),
    "post of 100 with keys": (
        lambda board: None,
        lambda board, _: board.post_many([Posting("resize", key=str(n)) for n in range(100)]), 1, 5,
    ),
    "claim_next": (lambda board: board.post("resize"), lambda board, _: board.claim_next("alice"), 1, 1),
    "claim_next of a name": (
        lambda board: board.post("resize"), lambda board, _: board.claim_next("alice", names=["resize"]), 1, 1,
    ),
    "claim_next of names": (
        lambda board: board.post_many([Posting("resize"), Posting("crop")]),
        lambda board, _: board.claim_next("alice", names=["resize", "crop"], limit=2), 1, 2,
    ),
    "claim_next of 100": (
        lambda board: board.post_many([Posting("resize") for _ in range(100)]),
        lambda board, _: board.claim_next("alice", limit=100), 1, 2,
    ),
    "consume": (lambda board: _hold(board, 1), lambda board, jobs: board.consume(jobs[0], "alice"), 1, 1),
    "consume of 10": (lambda board: _hold(board, 10), lambda board, jobs: board.consume_many(jobs, "alice"), 1, 1),
    "claim": (lambda board: board.post("resize"), lambda board, job: board.claim(job, "alice"), 4, 3),
    "extend": (lambda board: _hold(board, 1), lambda board, jobs: board.extend(jobs[0], "alice"), 5, 3),
    "extend of 10": (lambda board: _hold(board, 10), lambda board, jobs: board.extend_many(jobs, "alice"), 5, 3),
    "abandon": (lambda board: _hold(board, 1), lambda board, jobs: board.abandon(jobs[0], "alice"), 4, 3),
    "trash": (lambda board: _hold(board, 1), lambda board, jobs: board.trash(jobs[0], "alice"), 4, 3),
    "abandon until a signal": (
        _hold_one, lambda board, fence: board._backend.jobs.abandon([_until_signal(fence)]), 5, 4,
    ),
    "a step": (_hold_one, lambda board, fence: board._backend.steps.save(fence, _STEP), 1, 1),
    "a step of a lost claim": (
        lambda board: _fence_of(_lose(board)[0]), lambda board, fence: board._backend.steps.save(fence, _STEP), 4, 5,
    ),
    "a page of steps": (_hold_one, lambda board, fence: board._backend.steps.load(fence.uuid, 0, 100), 3, 3),
    "a signal": (_hold_one, lambda board, fence: board._backend.steps.signal(fence.uuid, "approved", b""), 6, 5),
    "post behind a job": (
        lambda board: board.post("resize"), lambda board, job: board.post("resize", after=[job]), 8, 5,
    ),
    "post behind 10 jobs that have children": (
        _hold_parents, lambda board, jobs: board.post("resize", after=jobs), 8, 5,
    ),
    "consume of a parent": (_hold_parents, lambda board, jobs: board.consume(jobs[0], "alice"), 15, 12),
    "consume of 10 parents": (_hold_parents, lambda board, jobs: board.consume_many(jobs, "alice"), 17, 12),
    "a page of parents": (
        _hold_parents, lambda board, jobs: board._backend.edges.parents(jobs[0].uuid, None, 100), 4, 3,
    ),
    "numbers of parents": (
        _hold_parents, lambda board, jobs: board._backend.edges.counts([job.uuid for job in jobs]), 3, 3,
    ),
    "save_book": (_hold_a_book, lambda board, held: board.save_book(held[0]), 5, 4),
    "save_book under a claim": (
        _hold_a_book, lambda board, held: board.save_book(held[0], hold=held[1]), 6, 5,
    ),
    "load_book": (_hold_a_book, lambda board, held: board.load_book(held[0].uuid), 3, 3),
    "books": (lambda board: None, lambda board, _: list(board.books()), 3, 3),
    "destroy_book": (_hold_a_book, lambda board, held: board.destroy_book(held[0].uuid), 4, 4),
    "job_count": (lambda board: None, lambda board, _: board.job_count, 3, 3),
    "stats": (lambda board: None, lambda board, _: board.stats(), 4, 4),
    "a page of a state": (
        lambda board: board.post("resize"), lambda board, _: next(board.iterjobs(only_unclaimed=True)), 1, 4,
    ),
    "a page of four states": (lambda board: board.post("resize"), lambda board, _: next(board.iterjobs()), 1, 10),
    "a page of four states and three names": (
        lambda board: board.post("resize"),
        lambda board, _: next(board.iterjobs(names=["resize", "crop", "send"])), 1, 26,
    ),
    "post of two that replace": (_post_with_keys, lambda board, _: _post_with_keys(board, if_exists="replace"), 11, 7),
    "consume of a lost claim": (_lose, lambda board, jobs: board.consume_many(jobs, "alice"), 4, 5),
    "claim_next of a name beside a pause": (
        _post_beside_a_pause, lambda board, _: board.claim_next("alice", names=["resize"]), 7, 6,
    ),
    "a heartbeat": (
        lambda board: None,
        lambda board, _: register(board, Entity("conductor", "alice", {}, ttl=60.0), str(uuid4())), 4, 4,
    ),
    "a look at the journal that finds nothing new": (_at_the_end_of_the_journal, lambda board, at: _look(at), 1, 1),
    "claim_next beside a pause": (_post_beside_a_pause, lambda board, _: board.claim_next("alice"), 7, 6),
}  # fmt: skip


#: The ends of connections to PostgreSQL and MariaDB, which may reach the proxy late; nothing answers them.
_GOODBYES = (b"X\0\0\0\4", b"\1\0\0\0\1")


def test_a_request_takes_as_many_round_trips_as_the_page_says(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_notifier, "STOP_TIMEOUT", PATIENCE)
    monkeypatch.setattr(change_source, "READ_DELAY", 0.0)
    taken = {}
    with Proxy((HOST, site.server.port)) as proxy:
        board = fetch("round trips", site.server.uri.replace(str(site.server.port), str(proxy.port)))
        for what, (prepare, act, *said) in ROUND_TRIPS.items():
            board.connect()
            prepared = prepare(board)
            board._client._tidied_at = math.inf
            # Nobody waits for notifications, which have a connection of their own.
            board._backend.database._commit_notifier.close()
            trips: set[int] = set()
            # What is sent in several parts, without an answer between them, is one.
            proxy.matters = lambda request, trips=trips: request not in _GOODBYES and bool(trips.add(proxy.replied))  # type: ignore[misc]
            act(board, prepared)
            proxy.matters = lambda _request: True
            if len(trips) != said[0 if site.is_postgresql else 1]:
                taken[what] = len(trips)
            for job in board.iterjobs():
                board.trash(job, by="the next case")
            # Over a new connection no statement runs for the fifth time, when psycopg prepares it.
            board.close()
    assert taken == {}
