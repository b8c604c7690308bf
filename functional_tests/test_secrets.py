"""No log line of any level, no error and no ``repr`` shows what jobs carry or how a board logs in, on any store."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from servers.durable_stores import STORES, server_of

from jobboard import (
    BoardUnavailable,
    Conductor,
    Entity,
    Every,
    Handlers,
    InvalidPosting,
    JobBoard,
    JobBoardError,
    JobEvent,
    LogBook,
    Posting,
    Schedule,
    fetch,
)
from jobboard.testing import eventually

SECRET, PASSWORD = "planted-details-4711", "planted-pass-0815"
PLANTED = {"text": SECRET, "raw": SECRET.encode(), "list": [{SECRET: 1}]}


def _redis(server: Any) -> str:
    server.client().execute_command("ACL", "SETUSER", "bob", "on", f">{PASSWORD}", "~*", "&*", "+@all")
    return f"redis://bob:{PASSWORD}@"


def _etcd(server: Any) -> str:
    for path, payload in (
        ("/auth/role/add", {"name": "root"}),
        ("/auth/user/add", {"name": "root", "password": PASSWORD}),
        ("/auth/user/grant", {"user": "root", "role": "root"}),
        ("/auth/enable", {}),
    ):
        with contextlib.suppress(Exception):
            server.ask(path, payload)
    return f"etcd://root:{PASSWORD}@"


def _postgresql(server: Any) -> str:
    with server.client() as client:
        client.execute(f"CREATE ROLE bob SUPERUSER LOGIN PASSWORD '{PASSWORD}'")
    return f"postgresql://bob:{PASSWORD}@"


def _mariadb(server: Any) -> str:
    with server.client() as client, client.cursor() as cursor:
        cursor.execute(f"CREATE USER 'bob'@'%' IDENTIFIED BY '{PASSWORD}'")
        cursor.execute("GRANT ALL ON *.* TO 'bob'@'%'")
    return f"mysql://bob:{PASSWORD}@"


#: What makes a user with the planted password, and how a URI of that user begins.
USERS: dict[str, Callable[[Any], str]] = {
    "redis": _redis, "etcd": _etcd, "postgresql": _postgresql, "mariadb": _mariadb,
    "zookeeper": lambda server: f"zookeeper://bob:{PASSWORD}@",
}  # fmt: skip


@pytest.fixture(scope="module", params=["memory", *STORES])
def uri(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "memory":
        yield "memory://"
    elif request.param == "sqlite":
        yield f"sqlite:///{tmp_path_factory.mktemp('sqlite')}/jobs.db"
    else:
        with server_of(request.param) as server:
            yield USERS[request.param](server) + server.uri.rpartition("://")[2].rpartition("@")[2]


@pytest.fixture
def shown(caplog: pytest.LogCaptureFixture) -> Iterator[list[object]]:
    """What is put into the list must not show what was planted, and neither may any line of a log."""
    seen: list[object] = []
    with caplog.at_level(1):
        yield seen
    lines = [repr(one) for one in seen] + [str(one) for one in seen if isinstance(one, Exception)]
    logged = caplog.get_records("call")
    assert logged or not seen
    lines += [f"{record.name} {record.levelname}: {record.getMessage()} {record.exc_text}" for record in logged]
    assert [line for line in lines if SECRET in line or PASSWORD in line] == []


def _live_a_life(board: JobBoard, shown: list[object]) -> None:
    """Let the planted values go wherever users can put them."""
    book = LogBook("a book")
    book.meta, book.entries = dict(PLANTED), [dict(PLANTED)]
    job = board.post("work", PLANTED, book=book, key="k")
    shown += [*board.post_many([Posting("work", details=PLANTED)]), Posting("work", details=PLANTED), book, job]
    claimed = board.claim_next("alice", limit=2)
    board.checkpoint(claimed[0], "alice", PLANTED)
    board.extend_many(claimed, "alice", progress=[PLANTED, PLANTED])
    board.abandon(claimed[0], "alice")
    board.consume(claimed[1], "alice", PLANTED)
    with pytest.raises(InvalidPosting) as refused:
        board.post("work", details={**PLANTED, "bad": object()})
    board.schedules.add(Schedule("nightly", Every(hours=1), "work", PLANTED))
    fired = board.schedules.fire_now("nightly")
    board.register_entity(Entity("worker", "w", PLANTED))
    handlers, done = Handlers(), []

    @handlers.handler("work")
    def work(job: Any) -> dict[str, Any]:
        job.progress(1, 2, SECRET)
        job.checkpoint_state(PLANTED)
        done.append(job)
        shown.extend([job, job.details and None])
        return PLANTED

    conductor = Conductor("mill", board, handlers)
    conductor.start()
    try:
        eventually(lambda: board.job_count == 0)
    finally:
        conductor.stop()
    again = board.get(fired.uuid)
    rows = board._backend.jobs.read([job.uuid, fired.uuid])
    shown += [refused.value, again, again.record, again.history, again.book, board.load_book(book.uuid), rows]
    shown += [board.schedules.get("nightly"), board._backend.schedules.read(["nightly"]), board.entities()]
    shown += [
        board._backend.entities.all(),
        list(board.iterjobs(states=["COMPLETE"])),
        board,
        board._backend,
        conductor,
    ]
    shown += [board._backend.address, board.audit(), board.stats(), done]


def test_a_whole_run_shows_nothing_that_was_planted(uri: str, shown: list[object]) -> None:
    events: list[JobEvent] = []
    with fetch("secrets", uri) as board:
        board.subscribe(events.append)
        _live_a_life(board, shown)
    shown.append(events)


def test_a_refused_or_a_failed_connection_shows_no_password(uri: str, shown: list[object]) -> None:
    head, at, place = uri.rpartition("@")
    if not at:
        pytest.skip("this store has no users")
    nobody = f"{head.partition('://')[0]}://nobody:{PASSWORD}@{place}"
    host, _, rest = place.partition(":")
    closed = f"{head}@{host}:1/{rest.partition('/')[2]}"
    for wrong in (nobody, closed):
        board = fetch("secrets", wrong)
        with contextlib.closing(board):
            try:
                board.connect(2)
                shown.append(board.stats())
            except JobBoardError as error:
                shown += [error, error.__cause__, error.__context__]
        shown.append(board)
    assert any(isinstance(one, BoardUnavailable) for one in shown)
