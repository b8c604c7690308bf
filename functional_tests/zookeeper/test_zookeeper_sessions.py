"""Sessions: suspended, lost, ended by the server."""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from harnesses.fixtures import a_harness, a_harness_behind, a_proxy, a_server
from harnesses.zookeeper_harness import ZooKeeperHarness, plain_client
from kazoo.client import KazooClient
from servers.proxy import Proxy
from servers.zookeeper_servers import ZooKeeperServer

from jobboard import (
    BoardUnavailable,
    ClaimLost,
    Conductor,
    Entity,
    EventKind,
    Handlers,
    JobBoard,
    JobEvent,
    JobState,
    UnclaimableJob,
)
from jobboard.backends.rows import Verdict
from jobboard.testing import eventually

LONG = 600.0
SESSION = 1.2


server = a_server(ZooKeeperServer)
proxy = a_proxy()


class ShortSessions(ZooKeeperHarness):
    backend_options = {"session_timeout": SESSION, "request_timeout": 0.5}


class LongSessions(ZooKeeperHarness):
    backend_options = {"session_timeout": 8.0, "request_timeout": 0.5}


behind = a_harness_behind(ShortSessions)
patiently_behind = a_harness_behind(LongSessions)
harness = a_harness(ZooKeeperHarness)


def client_of(board: JobBoard) -> Any:
    backend: Any = board._backend
    return backend._connection.client


def expire(board: JobBoard, server: ZooKeeperServer) -> None:
    """Let the server end a board's session: a second connection of the same session closes it."""
    id = client_of(board).client_id
    twin = KazooClient(hosts=server.place, client_id=id)
    twin.start(10)
    twin.stop()
    twin.close()


# -- suspended ---------------------------------------------------------------------------------------------------------


def test_a_lost_line_suspends_the_board_which_says_so_and_works_again_by_itself(
    behind: ZooKeeperHarness, proxy: Proxy
) -> None:
    board = behind.board(patience=0.2)
    job = board.post("resize")
    proxy.shut()
    eventually(lambda: not board.connected)
    began = time.monotonic()
    for call in (lambda: board.claim_next("alice"), lambda: board.claim(job, "alice"), board.stats):
        with pytest.raises(BoardUnavailable):
            call()  # type: ignore[no-untyped-call,unused-ignore]
    assert time.monotonic() - began < 20
    proxy.open_again()
    eventually(lambda: board.connected)
    assert board.claim_next("alice", expiry=LONG) == [job]


def test_who_waits_is_told_of_a_lost_line_at_once(behind: ZooKeeperHarness, proxy: Proxy) -> None:
    board, backend = behind.lossy_board(patience=0.2)
    told: list[BaseException] = []

    def wait() -> None:
        try:
            list(board.wait(60))
        except BoardUnavailable as error:
            told.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert backend.blocked.wait(10)
    proxy.shut()
    waiting.join(10)
    assert len(told) == 1


def test_a_short_break_leaves_the_claims(
    patiently_behind: ZooKeeperHarness, proxy: Proxy, harness: ZooKeeperHarness
) -> None:
    board = patiently_behind.board()
    job = board.post("resize")
    board.claim(job, "alice", LONG)
    proxy.break_all()
    eventually(lambda: board.connected)
    board.extend(job, "alice", LONG)
    assert harness.board(board.name).find_owner(job.uuid) == "alice"
    board.consume(job, "alice")


def test_a_connect_that_a_starting_server_swallowed_costs_no_claim(
    patiently_behind: ZooKeeperHarness, proxy: Proxy
) -> None:
    board = patiently_behind.board()
    board.post("resize")
    [job] = board.claim_next("alice", expiry=LONG)
    # In place of a request's number a connect has its protocol's version.
    proxy.matters = lambda request: request[4:8] == bytes(4)
    proxy.cut("both", times=2)
    proxy.break_all()
    eventually(lambda: proxy.cuts == 2)
    eventually(lambda: board.connected)
    board.consume(job, "alice")


def test_a_wait_ends_in_time_though_the_clock_of_the_server_is_set_back(harness: ZooKeeperHarness) -> None:
    board = harness.board()
    backend: Any = board._backend
    with board._client.waiter() as waiter:
        assert waiter.ready_in() is None
        setting = threading.Timer(0.1, lambda: backend._clock.learn(0, 0.001, time.monotonic(), time.monotonic()))
        setting.start()
        began = time.monotonic()
        waiter.wait(0.3)
        assert time.monotonic() - began < 20
        setting.join()


# -- lost --------------------------------------------------------------------------------------------------------------


def test_a_session_that_the_server_ended_loses_every_claim_and_the_client_works_on(
    server: ZooKeeperServer, harness: ZooKeeperHarness
) -> None:
    board, other = harness.board(), None
    other = harness.board(board.name)
    received: list[JobEvent] = []
    board.subscribe(received.append, [EventKind.EXPIRED])
    jobs = [board.post("resize") for _ in range(3)]
    claims = board.claim_next("alice", limit=3, expiry=math.inf)
    expire(board, server)
    eventually(lambda: {event.uuid for event in received} == {job.uuid for job in jobs})
    assert board.extend_many(claims, "alice", LONG) == [Verdict.LOST] * 3
    for job in claims:
        with pytest.raises(ClaimLost):
            board.consume(job, "alice")
    assert [job.uuid for job in other.claim_next("bob", limit=3, expiry=LONG)] == [job.uuid for job in jobs]
    again = board.post("resize")
    assert board.claim_next("alice", expiry=LONG) == [again]
    board.consume(again, "alice")
    assert (board.connected, other.audit()) == (True, [])


def test_a_presence_of_the_session_before_is_not_taken_for_ours(
    server: ZooKeeperServer, harness: ZooKeeperHarness
) -> None:
    """The job is claimed under a session of this very process that ended; nobody has taken it back yet."""
    board = harness.board()
    job = board.post("resize")
    token = board.claim(job, "alice", math.inf)
    expire(board, server)
    eventually(lambda: board.connected and board._backend._sessions.present is None)  # type: ignore[attr-defined]
    with pytest.raises(ClaimLost):
        board.checkpoint(job, "alice", "half", token=token)
    assert board.claim(job, "alice", LONG) > token


def test_a_line_that_stays_away_loses_the_claims_before_any_server_says_so(
    behind: ZooKeeperHarness, proxy: Proxy, harness: ZooKeeperHarness
) -> None:
    board, other = behind.board(patience=0.2), None
    other = harness.board(board.name)
    received: list[JobEvent] = []
    board.subscribe(received.append, [EventKind.EXPIRED])
    job = board.post("resize")
    [held] = board.claim_next("alice", expiry=math.inf)
    proxy.shut()
    eventually(lambda: [event.uuid for event in received] == [job.uuid])
    assert board.connected is False
    assert board.extend_many([held], "alice", LONG) == [Verdict.LOST]
    # And the others get the job without being told.
    assert next(iter(other.wait(20))) == job
    assert other.claim_next("bob", expiry=LONG) == [job]
    proxy.open_again()
    eventually(lambda: board.connected)
    with pytest.raises(ClaimLost):
        board.consume(held, "alice")
    assert board.find_owner(job) == "bob"


def test_a_claim_ends_with_its_session_however_long_its_expiry(
    behind: ZooKeeperHarness, proxy: Proxy, harness: ZooKeeperHarness
) -> None:
    board = behind.board()
    waiter = harness.board(board.name)
    job = board.post("resize", max_attempts=3)
    board.claim(job, "alice", math.inf)
    proxy.shut()
    assert next(iter(waiter.wait(20))) == job
    record = waiter.get(job.uuid).record
    assert (record.state, record.attempts) == (JobState.UNCLAIMED, 1)
    assert "session" in (record.reason or "")


def test_a_claim_ends_at_its_expiry_however_long_the_session(harness: ZooKeeperHarness) -> None:
    board = harness.board()
    job = board.post("resize")
    board.claim(job, "alice", 0.2)
    assert next(iter(harness.board(board.name).wait(20))) == job
    with pytest.raises(ClaimLost):
        board.consume(job, "alice")


def test_a_presence_that_somebody_deleted_ends_its_claims(server: ZooKeeperServer, harness: ZooKeeperHarness) -> None:
    board = harness.board()
    job = board.post("resize")
    board.claim(job, "alice", LONG)
    sessions = f"/jobboard/{board.name}/sessions"
    with plain_client(server.uri) as client:
        for name in client.get_children(sessions):
            client.delete(f"{sessions}/{name}")
    other = harness.board(board.name)
    assert other.claim_next("bob", expiry=LONG) == [job]
    # It claims on, under a presence of its own that it makes anew.
    again = board.post("resize")
    assert board.claim_next("alice", expiry=LONG) == [again]


def test_a_presence_that_was_given_up_in_a_living_session_holds_nothing(harness: ZooKeeperHarness) -> None:
    """As after a silence that was longer than the session, which the server did not end all the same."""
    board = harness.board()
    other = harness.board(board.name)
    job = board.post("resize")
    board.claim(job, "alice", math.inf)
    backend: Any = board._backend
    backend._sessions.give_up()
    board.register_entity(Entity("conductor", "a"))
    assert next(iter(other.wait(10))) == job
    assert other.claim_next("bob", expiry=LONG) == [job]
    with pytest.raises(ClaimLost):
        board.consume(job, "alice")


def test_who_waits_hears_of_the_end_of_a_session_after_a_break_at_the_worst_moment(
    behind: ZooKeeperHarness, proxy: Proxy, harness: ZooKeeperHarness, server: ZooKeeperServer
) -> None:
    """The line breaks just when the server is asked to tell of who comes and goes."""
    holder = harness.board()
    job = holder.post("resize")
    holder.claim(job, "alice", math.inf)
    waiter = behind.board(holder.name)
    backend: Any = waiter._backend
    proxy.matters = lambda request: b"/sessions" in request and request[8:12] == b"\0\0\0\x0c"
    proxy.cut("reply")
    with waiter._client.waiter() as waiting:
        assert waiting.ready_in() is None
        eventually(lambda: proxy.cuts == 1 and waiter.connected and backend._notifier.watch_thread.is_current)
        expire(holder, server)
        waiting.wait(20)
        eventually(lambda: waiting.ready_in() == 0)


# -- conductors --------------------------------------------------------------------------------------------------------


@pytest.fixture
def running() -> Iterator[list[Any]]:
    """What is put here is stopped at the end."""
    conductors: list[Any] = []
    yield conductors
    for conductor in conductors:
        conductor.stop(drain=False, timeout=10)


def test_a_handler_learns_at_once_that_the_server_ended_its_session(
    server: ZooKeeperServer, harness: ZooKeeperHarness, running: list[Any]
) -> None:
    board = harness.board()
    handlers = Handlers()
    started: queue.Queue[Any] = queue.Queue()
    done = threading.Event()

    @handlers.handler("resize")
    def resize(job: Any) -> None:
        started.put(job)
        done.wait(30)

    conductor = Conductor("crew", board, handlers, concurrency=2, expiry=LONG)
    running.append(conductor)
    conductor.start()
    job = board.post("resize")
    first = started.get(timeout=10)
    expire(board, server)
    second = started.get(timeout=10)
    assert (first.uuid, second.uuid) == (job.uuid, job.uuid)
    # No renewal could have told, which comes after a third of the expiry.
    eventually(lambda: first.lost)
    assert second.token > first.token
    assert not second.lost
    done.set()
    eventually(lambda: job.state is JobState.COMPLETE)


def test_a_conductor_begins_nothing_while_its_line_is_away_and_goes_on_by_itself(
    behind: ZooKeeperHarness, proxy: Proxy, harness: ZooKeeperHarness, running: list[Any]
) -> None:
    board = behind.board(patience=0.2)
    poster = harness.board(board.name)
    handlers = Handlers()
    ran: queue.Queue[str] = queue.Queue()

    @handlers.handler("resize")
    def resize(job: Any) -> None:
        ran.put(job.uuid)

    conductor = Conductor("crew", board, handlers, expiry=LONG)
    running.append(conductor)
    conductor.start()
    before = poster.post("resize")
    assert ran.get(timeout=10) == before.uuid
    eventually(lambda: before.state is JobState.COMPLETE)
    proxy.shut()
    eventually(lambda: not board.connected)
    meanwhile = poster.post("resize")
    # Longer than its session: it is lost, and not only suspended.
    eventually(lambda: [entity.alive for entity in poster.entities()] == [False])
    assert ran.empty()
    proxy.open_again()
    assert ran.get(timeout=20) == meanwhile.uuid
    eventually(lambda: meanwhile.state is JobState.COMPLETE)


def test_an_entity_is_gone_with_its_session(behind: ZooKeeperHarness, proxy: Proxy, harness: ZooKeeperHarness) -> None:
    board = behind.board()
    other = harness.board(board.name)
    board.register_entity(Entity("conductor", "a", ttl=LONG))
    assert [entity.alive for entity in other.entities()] == [True]
    proxy.shut()
    eventually(lambda: [entity.alive for entity in other.entities()] == [False])


def test_a_job_that_is_claimed_names_its_owner(harness: ZooKeeperHarness) -> None:
    board = harness.board()
    job = board.post("resize")
    board.claim(job, "alice", LONG)
    with pytest.raises(UnclaimableJob, match="alice"):
        harness.board(board.name).claim(job.uuid, "bob")


def test_a_client_that_is_told_to_stop_does_not_warn_that_its_connection_is_lost(
    behind: ZooKeeperHarness, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    board = behind.board()
    proxy.shut()
    assert eventually(lambda: not board.connected)
    assert eventually(lambda: "Connection dropped" in warnings_of(caplog)), "it was not told to stop"
    proxy.open_again()
    assert eventually(lambda: board.connected)
    caplog.clear()
    # As where the server closes the connection before kazoo has read the answer to its close.
    backend: Any = board._backend
    backend._connection.close(keep_session=True)
    assert warnings_of(caplog) == ""


def warnings_of(caplog: pytest.LogCaptureFixture) -> str:
    return "\n".join(record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING)
