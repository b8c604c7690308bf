"""A handler's effect and the end of its job in one transaction: once, also if a conductor is killed or late."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from harnesses.effects import effects, metadata, refusals
from harnesses.stopping import stop_between_writes
from sqlalchemy import Engine, create_engine, func, select
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.pool import NullPool

from jobboard import (
    AsyncRunningJob,
    Backoff,
    Conductor,
    EventKind,
    Handlers,
    Job,
    JobBoard,
    JobState,
    RunningJob,
    fetch,
)
from jobboard.conductor.execution import Execution
from jobboard.testing import eventually

pytest_plugins = ("harnesses.sql_fixtures",)
pytestmark = pytest.mark.in_turn(1)

Start = Callable[..., subprocess.Popen[str]]
PATIENCE = 60.0
QUICK = Backoff(first=0.01, factor=1, jitter=0)
DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "mariadb": "mysql+pymysql"}


@pytest.fixture
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of the store that is the parameter."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    return str(request.getfixturevalue(request.param).uri)


@pytest.fixture
def database(
    request: pytest.FixtureRequest, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Engine]:
    address = DRIVERS[request.node.callspec.params["uri"]] + uri.removeprefix(uri.partition(":")[0])
    monkeypatch.setenv("EFFECTS_DATABASE", address)
    monkeypatch.setenv("EFFECTS_BOARD", uri)
    monkeypatch.setenv("EFFECTS_MARKS", str(tmp_path))
    engine = create_engine(address, poolclass=NullPool)
    metadata.drop_all(engine)
    metadata.create_all(engine)
    yield engine
    metadata.drop_all(engine)


@pytest.fixture
def board(uri: str, database: Engine) -> Iterator[JobBoard]:
    with fetch("crew", uri) as board:
        yield board


def conductor(start: Start, uri: str, executor: str) -> subprocess.Popen[str]:
    return start(
        "--board", uri, "--name", "crew", "conductor", "harnesses.effects:handlers", "--expiry", "1",
        "--executor", executor,
    )  # fmt: skip


@contextmanager
def conducting(board: JobBoard, handlers: Handlers, **options: Any) -> Iterator[None]:
    conductor = Conductor("test", board, handlers, **options)
    conductor.start()
    try:
        yield
    finally:
        conductor.stop(drain=False)


def count(database: Engine, table: Any, job: Job) -> int:
    with database.connect() as connection:
        return int(connection.execute(select(func.count()).where(table.c.uuid == job.uuid)).scalar_one())


def state_of(board: JobBoard, job: Job) -> JobState:
    return board.get(job.uuid).record.state


@pytest.mark.parametrize(
    ("uri", "executor"),
    [("sqlite", "thread"), ("sqlite", "process"), ("postgresql", "thread"), ("mariadb", "thread")],
    indirect=["uri"],
)
def test_the_effect_happens_once(
    uri: str, board: JobBoard, database: Engine, start: Start, tmp_path: Path, executor: str
) -> None:
    """The first owner is killed at each step; one that is only stopped comes late, and is refused."""
    crew = [conductor(start, uri, executor)]
    # On SQLite a process that is stopped in its transaction keeps all others from writing.
    stops = ["before the transaction"] if board.store == "sqlite" else ["before the transaction", "after the effect"]
    kills = ["after the effect", "before the commit", "after the commit"]
    jobs = []
    for where in stops if executor == "thread" else []:
        late = board.post("effect", details={"where": where, "signal": "SIGSTOP"})
        mark = tmp_path / late.uuid
        eventually(mark.exists, PATIENCE)
        stop_between_writes(int(mark.read_text()), uri)
        if len(crew) == 1:
            crew.append(conductor(start, uri, executor))
        eventually(lambda late=late: state_of(board, late) is JobState.COMPLETE, PATIENCE)
        os.kill(int(mark.read_text()), signal.SIGCONT)
        eventually(lambda late=late: count(database, refusals, late) > 0, PATIENCE)
        jobs.append(late)
    for where in kills:
        killed = board.post("effect", details={"where": where, "signal": "SIGKILL"})
        if executor == "thread":
            eventually(lambda crew=crew: any(process.poll() is not None for process in crew), PATIENCE)
            crew = [process for process in crew if process.poll() is None] + [conductor(start, uri, executor)]
        eventually(lambda killed=killed: state_of(board, killed) is JobState.COMPLETE, PATIENCE)
        jobs.append(killed)
    for job in jobs:
        consumed = [line.kind for line in job.history].count(EventKind.CONSUMED)
        assert (job.details, count(database, effects, job), consumed) == (job.details, 1, 1)
    assert board.audit() == []


ASYNC_DRIVERS = [
    ("sqlite", "sqlite+aiosqlite"),
    ("postgresql", "postgresql+asyncpg"),
    ("postgresql", "postgresql+psycopg"),
    ("mariadb", "mysql+asyncmy"),
]


@pytest.mark.parametrize(("uri", "driver"), ASYNC_DRIVERS, indirect=["uri"])
def test_an_async_handler_has_its_effect_once(board: JobBoard, database: Engine, driver: str) -> None:
    handlers = Handlers(backoff=QUICK)

    @handlers.handler("effect")
    async def effect(job: AsyncRunningJob) -> None:
        engine = create_async_engine(database.url.set(drivername=driver), poolclass=NullPool)
        try:
            if job.attempts == 1:
                # Its owner was too slow, and somebody took its claim.
                await job.board.release(job.uuid, reason="the test")
            async with AsyncSession(engine) as session, session.begin():
                await session.execute(effects.insert().values(uuid=job.uuid, pid=0))
                await job.complete("done", connection=session)
                if job.attempts == 2:
                    raise ValueError("before the commit")
        finally:
            await engine.dispose()

    with conducting(board, handlers, executor="asyncio"):
        job = board.post("effect")
        assert job.wait(PATIENCE)
    assert (count(database, effects, job), job.result, job.attempts) == (1, "done", 3)


@pytest.mark.parametrize("uri", ["postgresql", "mariadb"], indirect=True)
def test_a_transaction_that_stays_open_holds_up_no_other_job(board: JobBoard, database: Engine) -> None:
    handlers = Handlers()
    gave_up, may_commit = threading.Event(), threading.Event()

    @handlers.handler("overrun", timeout=3600)
    def overrun(job: RunningJob) -> None:
        with database.begin() as connection:
            connection.execute(effects.insert().values(uuid=job.uuid, pid=0))
            job.complete("late", connection=connection)
            execution = Execution.current()
            assert execution is not None
            execution.deadline = time.monotonic()
            eventually(lambda: job.lost, PATIENCE)
            gave_up.set()
            assert may_commit.wait(PATIENCE)

    handlers.add("other", lambda job: None)
    with conducting(board, handlers, concurrency=2, grace=0.1):
        late = board.post("overrun")
        assert gave_up.wait(PATIENCE)
        assert all(board.post("other").wait(PATIENCE) for _ in range(5))
        may_commit.set()
        assert late.wait(PATIENCE)
    assert (count(database, effects, late), late.result, late.attempts) == (1, "late", 1)


@pytest.mark.parametrize("uri", DRIVERS, indirect=True)
def test_the_example_of_the_page_runs(uri: str, database: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    address = database.url.render_as_string(hide_password=False)
    monkeypatch.setenv("JOBBOARD_URI", uri)
    monkeypatch.setenv("DATABASE_URL", address)
    path = Path(__file__).parent.parent / "doc/examples/exactly_once.py"
    for _ in range(2):
        names: dict[str, Any] = {"__name__": "example"}
        exec(compile(path.read_text(), str(path), "exec", dont_inherit=True), names)
        names["engine"].dispose()
    with database.begin() as connection:
        found = connection.exec_driver_sql("SELECT number, amount FROM accounts ORDER BY number").fetchall()
        connection.exec_driver_sql("DROP TABLE accounts")
    assert [tuple(row) for row in found] == [(1, 3), (2, 7), (3, 3), (4, 7)]
