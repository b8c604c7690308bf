"""What a board asks of its Redis server: one round trip and one script for each operation, whatever its backlog."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import redis
from harnesses.fixtures import a_harness, a_server
from harnesses.redis_harness import RedisHarness
from servers.redis_servers import RedisServer

from jobboard import At, Conductor, Entity, EventKind, Handlers, JobBoard, JobState, LogBook, Posting, Schedule, fetch
from jobboard.backends.redis import connection, waiting
from jobboard.board import client_of, register
from jobboard.quiet import QUIET_BOOK, quiet_ones, set_quiet
from jobboard.testing import eventually
from jobboard.testing.faults import LossyBackend

LONG = 600.0


server = a_server(RedisServer)
harness = a_harness(RedisHarness)


@pytest.fixture
def board(harness: RedisHarness) -> JobBoard:
    """A board on which everything was done once, so that it is connected and has tidied."""
    board = harness.board()
    board.post("resize")
    board.consume(board.claim_next("alice", expiry=LONG)[0], "alice")
    return board


class Requests:
    """Counts what clients send: all commands but those that scripts call, and those of the counting itself."""

    def __init__(self, server: RedisServer) -> None:
        self._client = server.client()

    def of(self, work: Callable[[], object]) -> dict[str, int]:
        before = self._count()
        work()
        after = self._count()
        self._client.close()
        return {
            command: count - before.get(command, 0) for command, count in after.items() if count != before.get(command)
        }

    def _count(self) -> dict[str, int]:
        """Scripts call other commands, so only those that a client may send by itself tell about requests."""
        stats: dict[str, Any] = self._client.info("commandstats")
        kept = ("evalsha", "eval", "script", "hello", "auth", "ssubscribe", "ping", "multi", "exec", "wait", "client")
        return {
            name.removeprefix("cmdstat_"): values["calls"]
            for name, values in stats.items()
            if name.removeprefix("cmdstat_").split("|")[0] in kept
        }


ONE = {"evalsha": 1}


def test_post_claim_next_and_consume_are_one_script_each(server: RedisServer, board: JobBoard) -> None:
    assert Requests(server).of(lambda: board.post("resize", details={"n": 1}, key="k")) == ONE
    jobs: list[Any] = []
    assert Requests(server).of(lambda: jobs.extend(board.claim_next("alice", expiry=LONG))) == ONE
    assert Requests(server).of(lambda: board.extend(jobs[0], "alice", LONG)) == ONE
    assert Requests(server).of(lambda: board.checkpoint(jobs[0], "alice", 7)) == ONE
    book = LogBook("journal", owned=True)
    assert Requests(server).of(lambda: board.save_book(book, hold=jobs[0])) == ONE
    assert Requests(server).of(lambda: board.load_book(book.uuid)) == {"evalsha": 2}
    assert Requests(server).of(lambda: list(board.books())) == {"evalsha": 2}
    assert Requests(server).of(lambda: board.destroy_book(book.uuid)) == ONE
    assert Requests(server).of(lambda: board.consume(jobs[0], "alice", "done")) == ONE


def test_a_batch_is_one_script(server: RedisServer, board: JobBoard) -> None:
    size = board.capabilities.largest_batch
    postings = [Posting("resize", details={"n": n}) for n in range(size)]
    assert Requests(server).of(lambda: board.post_many(postings)) == ONE
    jobs: list[Any] = []
    assert Requests(server).of(lambda: jobs.extend(board.claim_next("alice", limit=size, expiry=LONG))) == ONE
    assert len(jobs) == size
    assert Requests(server).of(lambda: board.extend_many(jobs, "alice", LONG)) == ONE
    assert Requests(server).of(lambda: board.consume_many(jobs, "alice")) == ONE


def test_no_script_keeps_others_waiting_for_long(server: RedisServer, board: JobBoard) -> None:
    """By the server's processor time, the best of several tries; 5 ms here, and more where processors are slower."""
    times: dict[str, list[float]] = {}
    with server.client() as client:
        for _ in range(3):
            _time_scripts(client, board, times)
    assert {what: min(found) for what, found in times.items() if min(found) >= 0.03} == {}


def _time_scripts(client: redis.Redis, board: JobBoard, times: dict[str, list[float]]) -> None:
    count, jobs, late = 500, [], []
    postings = [Posting("resize", details={"n": n}, key=str(n)) for n in range(count)]
    _time(client, "post", times, lambda: board.post_many(postings))
    _time(client, "page", times, lambda: list(board.iterjobs()))
    _time(client, "claim", times, lambda: jobs.extend(board.claim_next("a", limit=count, expiry=LONG)))
    _time(client, "extend", times, lambda: board.extend_many(jobs, "a", LONG, progress=[1] * count))
    _time(client, "consume", times, lambda: board.consume_many(jobs, "a", results=[1] * count))
    board.post_many(postings)
    board.claim_next("a", limit=count, expiry=0.001)
    _time(client, "take back", times, lambda: late.extend(board.claim_next("a", limit=count, expiry=LONG)))
    board.consume_many(late, "a")


def _time(client: redis.Redis, what: str, times: dict[str, list[float]], work: Callable[[], object]) -> None:
    """Add the mean of the scripts that some work takes, in seconds."""
    client.config_resetstat()
    before = _processor_time(client)
    work()
    spent = _processor_time(client) - before
    times.setdefault(what, []).append(spent / client.info("commandstats")["cmdstat_evalsha"]["calls"])


def _processor_time(client: redis.Redis) -> float:
    info = client.info("cpu")
    return float(info["used_cpu_user_main_thread"] + info["used_cpu_sys_main_thread"])


def test_iterating_takes_a_request_for_500_jobs(server: RedisServer, board: JobBoard) -> None:
    board.post_many([Posting("resize") for _ in range(5_000)])
    jobs: list[Any] = []
    requests = Requests(server).of(lambda: jobs.extend(board.iterjobs()))
    assert len(jobs) == 5_000
    # The first pages are small: 10, 50 and 250 jobs.
    assert requests["evalsha"] <= 13


def test_the_loop_of_a_worker_takes_two_requests_for_a_job_and_one_for_a_page(
    server: RedisServer, board: JobBoard
) -> None:
    board.post_many([Posting("resize") for _ in range(20)])
    done: list[Any] = []

    def work() -> None:
        for job in board.wait(LONG):
            board.claim(job, "alice", LONG)
            board.consume(job, "alice")
            done.append(job)

    # The pages have 10 and 50 jobs.
    assert Requests(server).of(work) == {"evalsha": 2 + 2 * 20}
    assert len(done) == 20


def test_large_jobs_make_pages_shorter(harness: RedisHarness) -> None:
    board, backend = harness.board("large"), harness.backend("large")
    jobs = board.post_many([Posting("resize", details={"n": n, "text": "x" * 200_000}) for n in range(90)])
    backend.open(5.0)
    page = backend.jobs.page({JobState.UNCLAIMED}, None, None, 500)
    backend.close()
    assert 1 <= len(page.rows) <= 30
    assert page.cursor is not None
    assert [(job.uuid, (job.details or {})["n"]) for job in board.iterjobs()] == [
        (job.uuid, n) for n, job in enumerate(jobs)
    ]


def test_one_post_wakes_one_of_those_who_wait(server: RedisServer, harness: RedisHarness) -> None:
    sleepers = [harness.lossy_board("crowded") for _ in range(6)]
    found: list[str] = []
    threads = [threading.Thread(target=_wait_once, args=(board, found)) for board, _ in sleepers]
    for thread in threads:
        thread.start()
    with server.client() as client:
        eventually(lambda: client.hlen("{jobboard:crowded}:waiters") == 6)
        looks = _looks(sleepers)
        producer = harness.board("crowded")
        for count in range(1, 7):
            producer.post("resize")
            eventually(lambda count=count: len(found) == count)  # type: ignore[misc]
            # Each who finds something has looked twice: for when, and for what.
            assert client.hlen("{jobboard:crowded}:waiters") == 6 - count
    for thread in threads:
        thread.join(10)
    assert _looks(sleepers) - looks <= 6 * 4


def test_a_new_subscription_wakes_nobody_who_waits(
    server: RedisServer, harness: RedisHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "MAX_SLEEP", 60.0)
    board, backend = harness.lossy_board("listened to")
    found: list[str] = []
    threads = [threading.Thread(target=_wait_once, args=(board, found)) for _ in range(5)]
    for thread in threads:
        thread.start()
    with server.client() as client:
        eventually(lambda: client.hlen("{jobboard:listened to}:waiters") == 5)
        producer, heard = harness.board("listened to"), threading.Event()
        for kind in (EventKind.TRASHED, EventKind.PAUSED):
            board.subscribe(lambda event: heard.set(), {kind})
        # What a message brings about has happened before the next one is handed on.
        producer.pause("rotate")
        assert heard.wait(10)
        producer.post_many([Posting("resize") for _ in range(5)])
        for thread in threads:
            thread.join(10)
    assert len(found) == 5
    # Each has looked before it slept, and after it was woken.
    assert backend.calls["ready_in"] == 10


def _wait_once(board: JobBoard, found: list[str]) -> None:
    with client_of(board).waiter() as waiter:
        while waiter.ready_in() != 0:
            waiter.wait(60)
        found.extend(job.uuid for job in board.claim_next("alice", expiry=LONG))


def _looks(sleepers: list[tuple[JobBoard, LossyBackend]]) -> int:
    return sum(backend.calls["ready_in"] for _, backend in sleepers)


def test_the_dead_are_passed_over_for_the_next_who_waits(
    server: RedisServer, harness: RedisHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A waiter that died asleep is still listed on the server, and must not swallow a wake-up."""
    # A waiter that is not woken would look by itself only after the end of this test.
    monkeypatch.setattr(waiting, "MAX_SLEEP", 60.0)
    dead, alive = harness.board("wake"), harness.board("wake")
    found: list[str] = []
    waiter = client_of(dead).waiter()
    assert waiter.ready_in() is None
    with server.client() as client:
        [ghost] = client.hgetall("{jobboard:wake}:waiters").items()
        ids = client.zrange("{jobboard:wake}:armed", 0, -1, withscores=True)
        dead.close()
        client.hset("{jobboard:wake}:waiters", *ghost)
        client.zadd("{jobboard:wake}:waiting:", {ids[0][0]: ids[0][1]})
        sleeping = threading.Thread(target=_wait_once, args=(alive, found))
        sleeping.start()
        eventually(lambda: client.hlen("{jobboard:wake}:waiters") == 2)
        job = harness.board("wake").post("resize")
        sleeping.join(30)
        assert found == [job.uuid]


def test_tidying_forgets_the_dead_though_claims_were_searched_a_moment_ago(
    server: RedisServer, harness: RedisHarness
) -> None:
    board, backend = harness.board("dead"), harness.backend("dead")
    backend.open(5.0)
    with client_of(board).waiter() as waiter, server.client() as client:
        # Its first look searches the claims.
        assert waiter.ready_in() is None
        [(alive, request)] = client.hgetall("{jobboard:dead}:waiters").items()
        moment = time.time() - 60
        client.hset("{jobboard:dead}:waiters", "killed/1", request)
        client.zadd("{jobboard:dead}:armed", {"killed/1": moment * 1e6})
        client.zadd("{jobboard:dead}:waiting:", {"killed/1": moment * 1e6})
        backend.maintenance.tidy(1000)
        assert list(client.hgetall("{jobboard:dead}:waiters")) == [alive]
        assert (
            client.zrange("{jobboard:dead}:armed", 0, -1) == client.zrange("{jobboard:dead}:waiting:", 0, -1) == [alive]
        )
    backend.close()


def test_an_idle_conductor_claims_only_what_it_has_seen(
    server: RedisServer, harness: RedisHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "MAX_SLEEP", 0.01)
    board, backend = harness.lossy_board()
    ran, handlers = threading.Event(), Handlers()
    handlers.handler("resize")(lambda job: ran.set())
    conductor = Conductor("idle", board, handlers)
    conductor.start()
    try:
        assert backend.blocked.wait(10)
        claims = backend.calls["claim_next"]
        with server.client() as client:
            looks = _scripts(client)
            eventually(lambda: _scripts(client) - looks >= 20)
        assert backend.calls["claim_next"] == claims
        harness.board(board.name).post("resize")
        assert ran.wait(10)
    finally:
        conductor.stop()


def test_a_registration_is_one_script_and_a_second_one_only_while_there_are_orders(
    server: RedisServer, board: JobBoard
) -> None:
    def register_and_obey() -> None:
        if register(board, Entity("conductor", "worker"), QUIET_BOOK):
            told.append(quiet_ones(board))

    told: list[frozenset[str]] = []
    assert Requests(server).of(register_and_obey) == ONE
    set_quiet(board, ["worker"], True)
    assert Requests(server).of(register_and_obey) == {"evalsha": 2}
    assert told == [{"worker"}]


def _scripts(client: redis.Redis) -> int:
    return int(client.info("commandstats")["cmdstat_evalsha"]["calls"])


def test_wake_ups_do_not_pile_up_when_nobody_waits(server: RedisServer, harness: RedisHarness) -> None:
    board = harness.board("quiet")
    board.post_many([Posting("resize") for _ in range(50)])
    with server.client() as client:
        kinds = {key.decode().split("}:")[1].split(":")[0] for key in client.keys("{jobboard:quiet}*")}
    assert kinds == {"listings", "jobs", "ready", "names", "heads", "counters", "layout"}


def test_names_without_jobs_are_forgotten_whatever_comes_before_them(
    server: RedisServer, harness: RedisHarness
) -> None:
    board, backend = harness.board("names"), harness.backend("names")
    board.post_many([Posting(f"name {number:03}") for number in range(250)])
    for number in (60, 160, 249):
        board.cancel(next(iter(board.iterjobs(names=[f"name {number:03}"]))))
    backend.open(5.0)
    for _ in range(3):
        backend.maintenance.tidy(1000)
    backend.close()
    with server.client() as client:
        names = {name.decode() for name in client.zrange("{jobboard:names}:names", 0, -1)}
    assert names == {f"name {number:03}" for number in range(250)} - {"name 060", "name 160", "name 249"}


def test_schedules_are_paged_in_byte_order_in_every_locale(tmp_path: Path) -> None:
    """Where small letters come before capital ones, Lua's own comparison is another one than the sorted set's."""
    made = subprocess.run(
        ["localedef", "-i", "en_US", "-f", "UTF-8", str(tmp_path / "en_US.UTF-8")], capture_output=True, check=False
    )
    if not (tmp_path / "en_US.UTF-8").exists():
        pytest.skip(f"the package locales is missing: {made.stderr!r}")
    server = RedisServer()
    server.command = ["env", f"LOCPATH={tmp_path}", "LC_ALL=en_US.UTF-8", *server.command]
    with server, fetch("paged", server.uri) as board:
        ids = ["a", "B", "c", "D", "e", "F"]
        for id in ids:
            board.schedules.add(Schedule(id, At(datetime(2099, 1, 1, tzinfo=UTC)), "resize"))
        found, cursor = [], None
        backend = RedisHarness(server.uri).backend("paged")
        backend.open(5.0)
        while True:
            page = backend.schedules.page(cursor, 2)
            found += [row.id for row in page.rows]
            if (cursor := page.cursor) is None:
                break
        backend.close()
        assert found == sorted(ids)


def test_what_is_done_leaves_nothing_behind(server: RedisServer, harness: RedisHarness) -> None:
    board = harness.board("gone", retention=0.0)
    board.post_many([Posting("resize", key=str(n)) for n in range(20)])
    for job in board.claim_next("alice", limit=20, expiry=LONG):
        board.checkpoint(job, "alice", 1)
        board.consume(job, "alice", "done")
    entity, book = Entity("conductor", "mill"), LogBook("journal")
    board.register_entity(entity)
    board.remove_entity(entity)
    board.save_book(book)
    board.destroy_book(book.uuid)
    with server.client() as client:
        keys = {key.decode().split("}:")[1] for key in client.keys("{jobboard:gone}*")}
        remembered = {key for key in keys if key.startswith("done:")}
        assert len(remembered) == 20
        assert all(0 < client.ttl(f"{{jobboard:gone}}:{key}") <= 61 for key in remembered)
        assert keys - remembered <= {"names", "counters", "swept", "layout"}


def test_a_request_leaves_before_a_thread_that_waits_for_the_interpreter_runs(
    board: JobBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a conductor's handlers run first, and the server waits for its next request."""
    send, happened = connection._send, list[str]()
    asleep = threading.Lock()
    asleep.acquire()

    def wake_up() -> None:
        with asleep:
            happened.append("another thread ran")

    def send_while_one_waits(line: connection.Connection, data: bytes) -> None:
        asleep.release()
        until = time.monotonic() + 0.05
        while time.monotonic() < until:
            # The interpreter is not let go of, so that the thread comes to wait for it.
            pass
        send(line, data)
        happened.append("the request left")

    thread = threading.Thread(target=wake_up)
    thread.start()
    monkeypatch.setattr(connection, "_send", send_while_one_waits)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(60.0)
    try:
        assert board.job_count == 0
    finally:
        sys.setswitchinterval(interval)
    thread.join()
    assert happened == ["the request left", "another thread ran"]


def test_an_audit_of_many_names_reads_several_in_a_request(server: RedisServer, board: JobBoard) -> None:
    board.post_many([Posting(f"name {number}") for number in range(1000)])
    audit = Requests(server).of(board.audit)
    # 1,000 names have 5 indexes each.
    assert audit["evalsha"] < 100
