"""A server goes back to a copy of its data while clients live that have seen more than the copy has."""

from __future__ import annotations

import functools
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from servers.base import HOST
from servers.durable_stores import server_of

from jobboard import BoardUnavailable, ClaimLost, Job, JobBoard, Posting, backend, fetch
from jobboard.testing import eventually

pytestmark = pytest.mark.in_turn(1)

#: What lets a client notice a server that is away sooner than by default.
QUICK: dict[str, dict[str, Any]] = {
    "redis": {"socket_timeout": 2.0},
    "etcd": {"timeout": 2.0},
    "zookeeper": {"session_timeout": 1.0, "request_timeout": 1.0},
    "postgresql": {"socket_timeout": 2.0},
    "mariadb": {"socket_timeout": 2.0},
}


@pytest.fixture(params=QUICK)
def store(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(store: str) -> Iterator[Any]:
    with server_of(store) as server:
        yield server


@pytest.fixture
def new_board(store: str, server: Any) -> Iterator[Callable[..., JobBoard]]:
    boards: list[JobBoard] = []

    def new_board(name: str = "restored") -> JobBoard:
        boards.append(fetch(name, server.uri, **QUICK[store]))
        answered(boards[-1].connect)
        return boards[-1]

    yield new_board
    for board in boards:
        board.close()


def _copy(folder: Path, to: Path) -> None:
    # With the owners, since PostgreSQL reads no data of root's.
    subprocess.run(["cp", "-a", folder, to], check=True)


def back_up(server: Any, copy: Path) -> None:
    """Copy all that a server has on its disk, while it is down."""
    server.kill()
    _copy(server.folder, copy)
    server.start()


def restore(server: Any, copy: Path) -> None:
    server.kill()
    shutil.rmtree(server.folder)
    _copy(copy, server.folder)
    server.start()


def answered(call: Callable[[], Any]) -> Any:
    """Return what a call answers, once the store can be reached."""

    def answer() -> tuple[Any] | None:
        try:
            return (call(),)
        except BoardUnavailable:
            return None

    return eventually(answer)[0]


def claimed(board: JobBoard) -> Job:
    """Claim the next job for alice, once the store can be reached and there is one."""
    return eventually(lambda: answered(lambda: board.claim_next("alice", expiry=600.0)))[0]


def hears_of_posts(board: JobBoard, received: list[str | None]) -> None:
    """Post until the listener has received one of these posts."""
    posted: set[str | None] = set()

    def is_received() -> bool:
        posted.add(board.post("write").uuid)
        return not posted.isdisjoint(received)

    eventually(is_received)


def test_clients_go_on_with_a_server_that_went_back_to_a_copy(
    server: Any, new_board: Callable[[], JobBoard], tmp_path: Path
) -> None:
    producer, worker = new_board(), new_board()
    kept = producer.post("resize")
    back_up(server, tmp_path / "copy")
    answered(producer.stats)
    answered(worker.stats)
    received: list[str | None] = []
    worker.subscribe(lambda event: received.append(event.uuid), ["POSTED"])
    for _ in range(30):
        worker.consume(answered(lambda: producer.post("resize")) and worker.claim_next("alice")[0], "alice")
    producer.post("resize")
    [late] = worker.claim_next("alice", expiry=600.0)
    eventually(lambda: len(received) == 31)
    found: list[str] = []
    waiting = threading.Thread(target=lambda: found.append(answered(lambda: next(worker.wait(100, ["rotate"])).uuid)))
    waiting.start()
    restore(server, tmp_path / "copy")
    assert [job.uuid for job in answered(lambda: list(producer.iterjobs()))] == [kept.uuid]
    again = answered(lambda: producer.post("rotate"))
    waiting.join(60)
    assert found == [again.uuid]
    # The listener receives the next change, and does not wait until the server has come as far as it was.
    hears_of_posts(producer, received)
    with pytest.raises(ClaimLost):
        worker.consume(late, "alice")
    assert answered(lambda: worker.claim_next("alice", ["resize"])) == [kept]
    worker.consume(kept, "alice")
    assert worker.audit() == []


def test_a_board_that_is_younger_than_the_copy_shares_nothing_with_another(
    server: Any, new_board: Callable[[str], JobBoard], tmp_path: Path
) -> None:
    new_board("first")
    back_up(server, tmp_path / "copy")
    young, quiet = new_board("young"), new_board("quiet")
    young.post("resize")
    quiet.post("resize")
    received: list[str | None] = []
    young.subscribe(lambda event: received.append(event.uuid), ["POSTED"])
    restore(server, tmp_path / "copy")
    other = new_board("other")
    # So the server gets beyond what the others have seen of it, and doesn't refuse them for that.
    strange = [other.post("copy") for _ in range(200)]
    # No thread of this one has looked at the board while it was missing.
    posted = answered(lambda: quiet.post("resize"))
    assert list(quiet.iterjobs()) == [posted]
    posted = answered(lambda: young.post("resize"))
    assert list(other.iterjobs()) == strange
    assert list(young.iterjobs()) == [posted]
    hears_of_posts(young, received)
    assert next(new_board("young").iterjobs()) == posted


#: Whose tokens have the moment of the claim in them.
_WITH_CLOCKS = ["redis", "postgresql", "mariadb"]


@pytest.mark.parametrize("store", [*_WITH_CLOCKS, "zookeeper"], indirect=True)
def test_the_end_of_a_lost_claim_does_not_end_that_of_a_later_process_of_the_same_name(
    server: Any, new_board: Callable[[], JobBoard], tmp_path: Path
) -> None:
    producer, worker = new_board(), new_board()
    producer.post("resize")
    [once] = producer.claim_next("alice")
    producer.abandon(once, "alice")
    producer.post("resize")
    back_up(server, tmp_path / "copy")
    lost = {job.uuid: job for job in (claimed(worker), claimed(worker))}
    restore(server, tmp_path / "copy")
    later = new_board()
    # On ZooKeeper tokens are numbers of changes, and these make them larger than those that were lost.
    for _ in range(20):
        answered(lambda: later.post("fill", priority="very_low"))
    for job in (claimed(later), claimed(later)):
        old = lost.pop(job.uuid)
        assert int(job.token or 0) > int(old.token or 0)
        for end in (worker.consume, worker.abandon, worker.trash, worker.extend):
            with pytest.raises(ClaimLost):
                answered(functools.partial(end, old, "alice"))
        later.consume(job, "alice")
    assert lost == {}


def test_a_restored_file_gives_tokens_that_it_never_gave_before(tmp_path: Path) -> None:
    def token_of_a_claim() -> int:
        with backend("restored", f"sqlite:///{tmp_path}/jobs.db") as board:
            [job] = board.claim_next("alice", expiry=600.0)
            return int(job.token or 0)

    with backend("restored", f"sqlite:///{tmp_path}/jobs.db") as board:
        posted = board.post("resize")
    shutil.copy(tmp_path / "jobs.db", tmp_path / "copy.db")
    lost = token_of_a_claim()
    shutil.copy(tmp_path / "copy.db", tmp_path / "jobs.db")
    assert token_of_a_claim() > lost
    with backend("restored", f"sqlite:///{tmp_path}/jobs.db") as board:
        for end in (board.consume, board.abandon, board.trash, board.extend):
            with pytest.raises(ClaimLost):
                end(posted, "alice", token=lost)


#: What writes a database to its output, and what loads that while clients live.
_DUMP = {
    "postgresql": ("pg_dump --clean {uri}", "psql --quiet --single-transaction {uri}"),
    "mariadb": ("mariadb-dump {options}", "mariadb {options}"),
}


@pytest.mark.parametrize("store", _DUMP, indirect=True)
def test_listeners_go_on_after_a_dump_was_loaded_under_them(
    store: str, server: Any, new_board: Callable[[], JobBoard]
) -> None:
    board = new_board()
    options = f"--no-defaults --ssl=0 --host={HOST} --port={server.port} --user=root jobs"
    dump, load = (command.format(uri=server.uri, options=options).split() for command in _DUMP[store])
    copy = subprocess.run(dump, check=True, stdout=subprocess.PIPE).stdout
    received: list[str | None] = []
    board.subscribe(lambda event: received.append(event.uuid), ["POSTED"])
    # More than the journal can reach again while this test waits.
    board.post_many([Posting("resize")] * 10_000)
    hears_of_posts(board, received)
    subprocess.run(load, input=copy, check=True, stdout=subprocess.DEVNULL)
    assert list(board.iterjobs()) == []
    hears_of_posts(board, received)
