"""What breaks between a board and its ZooKeeper server: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import os
import signal
import socket
import threading
import uuid as uuids
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from harnesses.fixtures import a_harness, a_harness_behind, a_proxy, a_server
from harnesses.mutations import MUTATIONS, photo_of
from harnesses.zookeeper_harness import ZooKeeperHarness, is_mutation
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss
from servers.base import HOST
from servers.proxy import Proxy
from servers.zookeeper_servers import ZooKeeperServer

from jobboard import BoardUnavailable, ClaimLost, JobBoard, JobState, Posting, fetch
from jobboard.backends.zookeeper.handler import ResultCondition
from jobboard.board import client_of
from jobboard.testing import eventually

LONG = 600.0


server = a_server(ZooKeeperServer)
harness = a_harness(ZooKeeperHarness)
proxy = a_proxy()
behind = a_harness_behind(ZooKeeperHarness)


# -- a lost reply, for every mutation ----------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["reply", "request"])
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_mutation_whose_reply_was_lost_has_the_effect_of_once(
    harness: ZooKeeperHarness, behind: ZooKeeperHarness, proxy: Proxy, mutation: str, what: Any
) -> None:
    prepare, act = MUTATIONS[mutation]
    expected = harness.board()
    act(expected, prepare(expected))
    board = behind.board()
    prepared = prepare(board)
    proxy.matters = is_mutation
    proxy.cut(what)
    act(board, prepared)
    # Keeping what is there writes nothing, so that there is nothing to lose.
    assert (proxy.armed, proxy.cuts) == ((True, 0) if mutation == "post keeping" else (False, 1))
    assert photo_of(board) == photo_of(expected)
    assert board.audit() == []


@pytest.mark.parametrize("what", ["reply", "request"])
def test_what_is_too_long_for_a_znode_is_written_once(behind: ZooKeeperHarness, proxy: Proxy, what: Any) -> None:
    board = behind.board()
    long = {"text": "x" * 100_000}
    for mutation in range(3):
        proxy.matters = lambda request: b"/blobs/" in request
        proxy.cut(what)
        if mutation == 0:
            job = board.post("resize", details=long)
        elif mutation == 1:
            board.checkpoint(job, "alice", long, token=board.claim(job, "alice", LONG))
        else:
            board.consume(job, "alice", long)
    assert proxy.cuts == 3
    assert (board.get(job.uuid).details, job.checkpoint, job.result) == (long, long, long)
    assert board.audit() == []


def test_claims_found_again_after_a_lost_reply_can_be_ended(behind: ZooKeeperHarness, proxy: Proxy) -> None:
    board = behind.board()
    posted = board.post_many([Posting("resize", priority=priority) for priority in ("low", "high", "normal")])
    proxy.matters = is_mutation
    proxy.cut("reply")
    jobs = board.claim_next("alice", limit=3, expiry=LONG)
    assert jobs == [posted[1], posted[2], posted[0]]
    assert board.consume_many(jobs, "alice") == [None] * 3


# -- a line that breaks, a server that stops answering -----------------------------------------------------------------


def test_a_wait_survives_the_break_of_its_line(
    behind: ZooKeeperHarness, proxy: Proxy, harness: ZooKeeperHarness
) -> None:
    board, backend = behind.lossy_board()
    with waiting(board, 30.0) as found:
        assert backend.blocked.wait(10)
        proxy.break_all()
        job = harness.board(board.name).post("resize")
        eventually(lambda: found == [job.uuid])


def test_subscriptions_go_on_after_a_break(behind: ZooKeeperHarness, proxy: Proxy, harness: ZooKeeperHarness) -> None:
    board, other = behind.board(), None
    received: list[Any] = []
    board.subscribe(received.append)
    other = harness.board(board.name)
    first = other.post("resize")
    eventually(lambda: [event.uuid for event in received] == [first.uuid])
    proxy.break_all()
    second = other.post("resize")
    eventually(lambda: [event.uuid for event in received] == [first.uuid, second.uuid])


def test_a_board_connects_anew_after_a_fault_that_kazoo_does_not_expect(
    behind: ZooKeeperHarness, proxy: Proxy, harness: ZooKeeperHarness, caplog: pytest.LogCaptureFixture
) -> None:
    board, received = behind.board(), list[str | None]()
    board.subscribe(lambda event: received.append(event.uuid))
    with client_of(board).waiter() as waiter:
        assert waiter.ready_in() is None
        # One request is lost and the line is not, so the next reply is not that to the oldest request.
        proxy.cut("both")
        connection = board._backend._connection  # type: ignore[attr-defined]
        lost = connection.client.exists_async("/")
        eventually(lambda: proxy.cuts)
        eventually(lambda: _unless_unavailable(board.stats), within=60)
        # kazoo gives its fault to the oldest request, and to the others that the connection is lost.
        with pytest.raises((RuntimeError, ConnectionLoss)):
            lost.get(timeout=30)
        assert "xids do not match" in caplog.text
        job = harness.board(board.name).post("resize")
        eventually(lambda: job.uuid in received, within=60)
        waiter.wait(60)
    [claimed] = eventually(lambda: _unless_unavailable(lambda: board.claim_next("alice")), within=60)
    board.consume(claimed, "alice")


def _unless_unavailable(request: Callable[[], Any]) -> Any:
    try:
        return request()
    except BoardUnavailable:
        return None


def test_a_frozen_server_is_unavailable_and_fine_once_it_goes_on() -> None:
    with ZooKeeperServer("maxSessionTimeout=60000") as server:
        board = impatient(server.uri, patience=60.0, session_timeout=60.0)
        job = board.post("resize")
        board.claim(job, "alice", LONG)
        board._client.patience = 0.3
        server.freeze()
        with pytest.raises(BoardUnavailable, match="unknown"):
            board.consume(job, "alice", "done")
        with pytest.raises(BoardUnavailable):
            list(board.iterjobs())
        server.thaw()
        # What was sent to the frozen server takes effect now, and a consume after that is one too many.
        eventually(lambda: answer_of(lambda: job.state) is JobState.COMPLETE)
        with pytest.raises(ClaimLost):
            board.consume(job, "alice", "again")
        assert job.result == "done"
        assert [str(line.kind) for line in job.history] == ["POSTED", "CLAIMED", "CONSUMED"]
        board.close()


def test_a_server_that_is_gone_is_unavailable_within_the_patience_and_never_an_empty_list() -> None:
    with ZooKeeperServer() as server:
        board = impatient(server.uri, patience=0.2)
        uuid = str(uuids.uuid4())
        eventually_answers(lambda: board.post("resize", uuid=uuid))
        server.kill()
        eventually(lambda: not board.connected)
        calls: list[Callable[[], Any]] = [
            board.stats,
            lambda: list(board.iterjobs()),
            lambda: board.claim_next("alice"),
            lambda: board.post("resize"),
            lambda: list(board.wait(5)),
            board.trashed().__next__,
            board.paused,
            board.entities,
        ]
        for call in calls:
            with pytest.raises(BoardUnavailable):
                call()
        server.start()
        eventually(lambda: board.connected)
        assert eventually_answers(lambda: board.job_count) == 1
        board.close()


def test_a_restart_keeps_jobs_claims_and_clients() -> None:
    # A busy machine may take longer to start a server than its own longest session is, by default.
    with ZooKeeperServer("maxSessionTimeout=60000") as server:
        board = impatient(server.uri, patience=60.0, session_timeout=60.0)
        posted = board.post_many([Posting("resize", details={"n": n}) for n in range(20)])
        [job] = board.claim_next("alice", expiry=LONG)
        board.checkpoint(job, "alice", {"page": 7})
        server.kill()
        server.start()
        assert [other.uuid for other in eventually_answers(lambda: list(board.iterjobs()))] == [
            other.uuid for other in posted
        ]
        assert (job.checkpoint, job.owner) == ({"page": 7}, "alice")
        board.consume(job, "alice", "done")
        assert (job.state, board.job_count, board.audit()) == (JobState.COMPLETE, 19, [])
        board.close()


# -- words of this module ----------------------------------------------------------------------------------------------


def impatient(uri: str, *, patience: float, session_timeout: float = 2.0) -> JobBoard:
    """Return a board that waits for no reply longer than a moment."""

    class Impatient(ZooKeeperHarness):
        backend_options = {"request_timeout": 0.3, "session_timeout": session_timeout}

    return Impatient(uri).board(patience=patience)


def answer_of(request: Callable[[], Any]) -> Any:
    """Return the answer, or None while there is no server to give one."""
    try:
        return request()
    except BoardUnavailable:
        return None


def eventually_answers(request: Callable[[], Any]) -> Any:
    return eventually(lambda: answer_of(request))


class waiting:
    """Somebody who waits on a board in a thread of its own; what is found is in the list."""

    def __init__(self, board: JobBoard, timeout: float) -> None:
        import threading

        self.found: list[str] = []
        self._thread = threading.Thread(
            target=lambda: self.found.extend(job.uuid for job in board.wait(timeout)), daemon=True
        )

    def __enter__(self) -> list[str]:
        self._thread.start()
        return self.found

    def __exit__(self, *_: object) -> None:
        self._thread.join(20)


# -- interrupts --------------------------------------------------------------------------------------------------------


def test_a_request_interrupted_before_it_is_sent_delays_no_other(
    harness: ZooKeeperHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal's handler may raise when kazoo has queued a request, and not yet woken its thread for it."""

    def queue_and_interrupt(client: KazooClient, request: Any, pending: Any) -> None:
        client._queue.append((request, pending))
        raise KeyboardInterrupt

    board = harness.board(patience=0.0)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(KazooClient, "_call", queue_and_interrupt)
        board.post("resize")
    board.post("resize")
    assert len(board.claim_next("alice", limit=3)) == board.job_count > 0


@pytest.fixture
def signalled() -> Iterator[None]:
    """A program that raises from the handler of a signal."""

    def raise_error(_number: int, _frame: object) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGUSR1, raise_error)
    yield
    signal.signal(signal.SIGUSR1, before)


class OutOfTime(Exception):
    """What it raises."""


@pytest.mark.usefixtures("signalled")
def test_what_a_signals_handler_raises_is_not_taken_for_an_answer(
    harness: ZooKeeperHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = harness.board()
    with monkeypatch.context() as patch, pytest.raises(OutOfTime):
        patch.setattr(ResultCondition, "wait", lambda *_: signal.raise_signal(signal.SIGUSR1))
        # An answer that has come already is not waited for.
        for _ in range(100):
            board.post("resize")
    board.post("resize")
    assert len(board.claim_next("alice", limit=200)) == board.job_count > 0


@pytest.mark.usefixtures("signalled")
@pytest.mark.parametrize("error", [OutOfTime, KeyboardInterrupt])
def test_a_connect_that_is_interrupted_leaves_no_client(error: type[BaseException]) -> None:
    number = signal.SIGUSR1 if error is OutOfTime else signal.SIGINT
    before = set(threading.enumerate())

    def interrupt_who_connects(listener: socket.socket) -> None:
        with listener.accept()[0]:
            os.kill(os.getpid(), number)

    with socket.create_server((HOST, 0)) as listener:
        threading.Thread(target=interrupt_who_connects, args=[listener], daemon=True).start()
        board = fetch("interrupted", f"zookeeper://{HOST}:{listener.getsockname()[1]}")
        with pytest.raises(error):
            board.connect(60.0)
    eventually(lambda: set(threading.enumerate()) <= before)


# -- no more threads ---------------------------------------------------------------------------------------------------


def test_a_look_interrupted_while_it_learns_of_a_change_harms_no_other(
    harness: ZooKeeperHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = harness.board()
    job = board.post("resize")
    assert list(board.iterjobs()) == [job]
    harness.board(board.name).claim(job.uuid, "alice", LONG)
    backend: Any = board._backend

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(backend._change_log._listing, "_link", interrupted)
        with pytest.raises(KeyboardInterrupt):
            list(board.iterjobs())
    assert list(board.iterjobs()) == [job]
    assert (board.stats().claimed, board.job_count, board.audit()) == (1, 1, [])


def test_a_waiter_that_got_no_thread_is_forgotten(harness: ZooKeeperHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    board = harness.board()
    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="can't start new thread"):
        refuse_threads(patch, f"jobboard-zookeeper-{board.name}")
        next(board.wait(1.0), None)
    backend: Any = board._backend
    assert (backend._notifier._waiters, backend._notifier._listing.waiters) == (set(), set())


def test_a_waiter_that_comes_while_another_one_goes_is_followed_for(harness: ZooKeeperHarness) -> None:
    board: Any = harness.board()
    notifier, came = board._backend._notifier, list[Any]()
    coming = threading.Thread(target=lambda: came.append(notifier.waiter(None)))

    class Counted(set[Any]):
        def __len__(self) -> int:
            count = super().__len__()
            if not count and coming.ident is None:
                coming.start()
                coming.join(0.3)
            return count

    first = notifier.waiter(None)
    notifier._waiters = Counted(notifier._waiters)
    first.close()
    coming.join()
    assert notifier.watch_thread._followers == 1
    came[0].close()
    assert notifier.watch_thread._followers == 0


def test_a_board_closes_without_a_thread_for_it(
    server: ZooKeeperServer, harness: ZooKeeperHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = connections(server)
    board = harness.board()
    board.claim(board.post("resize"), "alice", LONG)
    assert connections(server) > before
    with monkeypatch.context() as patch:
        refuse_threads(patch, "jobboard-zookeeper-close")
        board.close()
    eventually(lambda: connections(server) <= before)
    board.connect()
    assert board.job_count == 1


def refuse_threads(patch: pytest.MonkeyPatch, name: str) -> None:
    start = threading.Thread.start

    def start_or_refuse(thread: threading.Thread) -> None:
        if thread.name == name:
            raise RuntimeError("can't start new thread")
        start(thread)

    patch.setattr(threading.Thread, "start", start_or_refuse)


def connections(server: ZooKeeperServer) -> int:
    return int(server.figures()["num_alive_connections"])
