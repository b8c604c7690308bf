"""A transaction of the user's by every driver that ``connection=`` takes, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from harnesses.user_connections import WAYS, UserTransactions, Way
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import sessionmaker
from sqlalchemy.pool import NullPool

import jobboard
from jobboard import AlreadyPosted, ClaimLost, JobBoard, JobState, LogBook, Posting, aio

pytest_plugins = ("harnesses.sql_fixtures",)

LONG = 600.0


def _uri(request: pytest.FixtureRequest, tmp_path: Path, store: str) -> str:
    return f"sqlite:///{tmp_path}/jobs.db" if store == "sqlite" else str(request.getfixturevalue(store).uri)


@pytest.fixture
def way(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    pytest.importorskip(found.module)
    return found


@pytest.fixture
def board(request: pytest.FixtureRequest, way: Way, tmp_path: Path) -> Iterator[JobBoard]:
    with jobboard.backend(request.node.name, _uri(request, tmp_path, way.store)) as board:
        yield board


@pytest.fixture
def transactions(request: pytest.FixtureRequest, way: Way, board: JobBoard, tmp_path: Path) -> UserTransactions:
    return way.of(_uri(request, tmp_path, way.store))


every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys(), indirect=True)
DETAILS = {"text": "größer 😀 100%", "bytes": bytes(range(256)), "number": -(2**63), "part": 0.1, "none": None}


@every_way
def test_jobs_are_posted_if_the_transaction_commits(board: JobBoard, transactions: UserTransactions) -> None:
    def post(connection: Any) -> list[str]:
        first = board.post("größe", DETAILS, book=LogBook("journal"), key="%s", connection=connection)
        more = board.post_many(
            [Posting("resize", details={"n": n}, delay=n * LONG) for n in range(3)], connection=connection
        )
        with pytest.raises(AlreadyPosted):
            board.post_many([Posting("resize"), Posting("größe", key="%s")], connection=connection)
        board.post("größe", details=DETAILS, key="%s", if_exists="replace", priority="high", connection=connection)
        return [first.uuid, *(job.uuid for job in more)]

    transactions(post, commit=False)
    assert board.job_count == 0
    posted = transactions(post, commit=True)
    jobs = list(board.iterjobs())
    assert [job.uuid for job in jobs] == posted
    assert (jobs[0].details, jobs[0].key, board.audit()) == (DETAILS, "%s", [])


@every_way
def test_a_job_is_consumed_if_the_transaction_commits(board: JobBoard, transactions: UserTransactions) -> None:
    board.post("resize")
    [job] = board.claim_next("Jürgen", expiry=LONG)
    for commit, state in ((False, JobState.CLAIMED), (True, JobState.COMPLETE)):
        transactions(lambda connection: board.consume(job, "Jürgen", DETAILS, connection=connection), commit=commit)
        assert job.state is state
    assert job.result == DETAILS


@every_way
def test_a_claim_that_was_lost_is_refused(board: JobBoard, transactions: UserTransactions) -> None:
    board.post("resize")
    [job] = board.claim_next("alice", expiry=LONG)
    board.release(job.uuid, reason="its host is gone")

    def consume(connection: Any) -> None:
        with pytest.raises(ClaimLost):
            board.consume(job, "alice", connection=connection)
        board.post("next", connection=connection)

    transactions(consume, commit=True)
    assert [found.name for found in board.iterjobs()] == ["resize", "next"]


@pytest.mark.parametrize(
    ("store", "scheme"),
    [
        ("sqlite", "sqlite+aiosqlite"),
        ("postgresql", "postgresql+asyncpg"),
        ("postgresql", "postgresql+psycopg"),
        ("mariadb", "mysql+asyncmy"),
    ],
)
def test_the_asynchronous_board_takes_asynchronous_sessions(
    request: pytest.FixtureRequest, tmp_path: Path, store: str, scheme: str
) -> None:
    pytest.importorskip(make_url(f"{scheme}://").get_driver_name().replace("psycopg_async", "psycopg"))
    uri = _uri(request, tmp_path, store)

    async def use(board: aio.AsyncJobBoard, engine: AsyncEngine) -> None:
        async with AsyncSession(engine) as session:
            posted = await board.post("undone", connection=session)
            await session.rollback()
            assert await board.job_count == 0
            posted = await board.post("resize", details=DETAILS, key="k", connection=session)
            more = await board.post_many([Posting("resize")], connection=session)
            with pytest.raises(AlreadyPosted):
                await board.post("resize", key="k", connection=session)
            await session.commit()
        [job, _] = await board.claim_next("alice", limit=2, expiry=LONG)
        assert (job.uuid, job.details, len(more)) == (posted.uuid, DETAILS, 1)
        async with engine.begin() as connection:
            await board.consume(job, "alice", DETAILS, connection=connection)
            await connection.rollback()
        async with engine.begin() as connection:
            assert (await job.state) is JobState.CLAIMED
            await board.consume(job, "alice", DETAILS, connection=connection)
        assert await job.result == DETAILS
        with pytest.raises(TypeError, match="not builtins.object; a plain JobBoard"):
            await board.post("resize", connection=object())

    async def main() -> None:
        engine = create_async_engine(make_url(uri).set(drivername=scheme), poolclass=NullPool)
        async with aio.backend(request.node.name, uri) as board:
            await use(board, engine)
        await engine.dispose()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("store", "kind"),
    [
        ("sqlite", "sqlite3"),
        ("postgresql", "psycopg"),
        ("mariadb", "mysqlclient"),
        ("mariadb", "PyMySQL"),
    ],
)
def test_it_takes_the_transactions_of_django(
    request: pytest.FixtureRequest, tmp_path: Path, store: str, kind: str
) -> None:
    pytest.importorskip("django")
    if kind == "mysqlclient":
        pytest.importorskip("MySQLdb")
    # Its settings are those of a whole process.
    script = Path(__file__).parent.parent / "harnesses/django_transactions.py"
    command = [sys.executable, str(script), _uri(request, tmp_path, store), kind]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {
        "refused": "the connection commits every statement by itself; begin a transaction first: "
        "with transaction.atomic()",
        "jobs": ["by connection", "by alias"],
        "rows": ["by connection", "by alias"],
        "state": "COMPLETE",
    }


def test_a_deferred_transaction_waits_for_the_writer_before_it(tmp_path: Path) -> None:
    """SQLite would refuse it at once if it had read anything before."""
    path = tmp_path / "jobs.db"
    with (
        jobboard.backend("board", f"sqlite:///{path}") as board,
        closing(sqlite3.connect(path, isolation_level=None, timeout=60)) as mine,
        closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        other.execute("CREATE TABLE other (n INTEGER)")
        mine.execute("BEGIN")
        end = threading.Timer(0.1, lambda: other.execute("COMMIT"))
        end.start()
        board.post("resize", connection=mine)
        mine.execute("COMMIT")
        end.join()
        assert board.job_count == 1


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda: create_engine("sqlite://"), r"sqlalchemy\.engine\.base\.Engine; .* engine\.begin\(\)"),
        (sessionmaker, r"sessionmaker; begin a transaction"),
        (lambda: sqlite3.connect(":memory:").cursor(), "sqlite3.Cursor; hand over its connection"),
        (AsyncSession, r"AsyncSession; .*run_sync"),
        (lambda: psycopg.AsyncConnection.__new__(psycopg.AsyncConnection), "by SQLAlchemy's AsyncSession"),
        (object, "connection must be of sqlite3, of SQLAlchemy .*, not builtins.object$"),
    ],
    ids=["engine", "sessionmaker", "cursor", "async-session", "async-driver", "object"],
)
def test_what_it_refuses_it_names(tmp_path: Path, make: Callable[[], Any], advice: str) -> None:
    with (
        jobboard.backend("board", f"sqlite:///{tmp_path}/jobs.db") as board,
        pytest.raises(TypeError, match=advice),
    ):
        board.post("resize", connection=make())


def test_a_connection_that_commits_by_itself_is_refused(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    cases = [("postgresql", "postgresql+psycopg2"), ("mariadb", "mysql+mysqldb")]
    for store, scheme in cases:
        uri = _uri(request, tmp_path, store)
        engine = create_engine(make_url(uri).set(drivername=scheme), isolation_level="AUTOCOMMIT", poolclass=NullPool)
        with jobboard.backend("autocommit", uri) as board, engine.connect() as connection:
            with pytest.raises(ValueError, match="begin a transaction first"):
                board.post("resize", connection=connection)
            connection.exec_driver_sql("START TRANSACTION")
            board.post("begun by hand", connection=connection)
            connection.exec_driver_sql("ROLLBACK")
            assert board.job_count == 0


@pytest.mark.parametrize(
    ("store", "scheme", "other"),
    [
        ("postgresql", "postgresql+psycopg", {"client_encoding": "LATIN1"}),
        ("postgresql", "postgresql+psycopg2", {"client_encoding": "LATIN1"}),
        ("mariadb", "mysql+mysqldb", {"charset": "latin1"}),
        ("mariadb", "mysql+pymysql", {"charset": "latin1"}),
        # Of four bytes, as an emoji has, it would write "????", and find no claim.
        ("mariadb", "mysql+mysqldb", {"charset": "utf8"}),
        ("mariadb", "mysql+pymysql", {"charset": "utf8"}),
    ],
)
def test_a_connection_that_can_not_write_every_text_is_refused(
    request: pytest.FixtureRequest, tmp_path: Path, store: str, scheme: str, other: dict[str, str]
) -> None:
    uri = _uri(request, tmp_path, store)
    engine = create_engine(make_url(uri).set(drivername=scheme), connect_args=other, poolclass=NullPool)
    with jobboard.backend("encodings", uri) as board, engine.connect() as connection:
        with pytest.raises(ValueError, match=r"can't write every text: connect with c\w+='(UTF8|utf8mb4)', not"):
            board.post("größer", connection=connection)
        assert board.job_count == 0


@pytest.mark.parametrize("scheme", ["postgresql+psycopg", "mysql+asyncmy"])
def test_an_asynchronous_connection_that_can_not_write_every_text_is_refused(
    request: pytest.FixtureRequest, tmp_path: Path, scheme: str
) -> None:
    is_postgresql = scheme.startswith("postgresql")
    uri = _uri(request, tmp_path, "postgresql" if is_postgresql else "mariadb")
    other = {"client_encoding": "LATIN1"} if is_postgresql else {"charset": "latin1"}

    async def post(board: JobBoard) -> None:
        engine = create_async_engine(make_url(uri).set(drivername=scheme), connect_args=other, poolclass=NullPool)
        async with engine.connect() as connection:
            await connection.run_sync(lambda lent: board.post("größer", connection=lent))

    with jobboard.backend("encodings", uri) as board:
        with pytest.raises(ValueError, match="can't write every text"):
            asyncio.run(post(board))
        assert board.job_count == 0
