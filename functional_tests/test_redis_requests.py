"""What a board asks of its Redis server: one round trip and one script for each operation, whatever its backlog."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from redis_harness import RedisHarness
from redis_servers import RedisServer

from jobboard import JobBoard, Posting
from jobboard.testing import eventually
from jobboard.testing.faults import LossyBackend

LONG = 600.0


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def harness(server: RedisServer) -> Iterator[RedisHarness]:
    with RedisHarness(server.uri) as harness:
        yield harness


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


def test_no_batch_keeps_others_waiting_for_long(server: RedisServer, board: JobBoard) -> None:
    """The server's own measure; of several tries, since a busy machine makes some of them slow."""
    times: dict[str, list[int]] = {}
    with server.client() as client:
        client.config_set("slowlog-log-slower-than", 0)
        for _ in range(6):
            _time_batches(client, board, times)
        client.config_set("slowlog-log-slower-than", 10_000)
    assert {what: min(found) for what, found in times.items() if min(found) >= 5_000} == {}


def _time_batches(client: redis.Redis, board: JobBoard, times: dict[str, list[int]]) -> None:
    size = board.capabilities.largest_batch
    postings = [Posting("resize", details={"n": n}, key=str(n)) for n in range(size)]
    jobs: list[Any] = []
    _slowest(client, "post", times, lambda: board.post_many(postings))
    _slowest(client, "claim", times, lambda: jobs.extend(board.claim_next("a", limit=2 * size, expiry=LONG)))
    _slowest(client, "extend", times, lambda: board.extend_many(jobs, "a", LONG, progress=[1] * size))
    _slowest(client, "page", times, lambda: list(board.iterjobs()))
    _slowest(client, "consume", times, lambda: board.consume_many(jobs, "a", results=[1] * size))
    board.post_many(postings)
    board.claim_next("a", limit=size, expiry=0.001)
    _slowest(client, "take back", times, lambda: jobs.extend(board.claim_next("a", limit=size, expiry=LONG)))
    board.consume_many(jobs[size:], "a")


def _slowest(client: redis.Redis, what: str, times: dict[str, list[int]], work: Callable[[], object]) -> None:
    client.slowlog_reset()
    work()
    scripts = [entry for entry in client.slowlog_get(50) if entry["command"].startswith(b"EVALSHA")]
    times.setdefault(what, []).append(max(entry["duration"] for entry in scripts))


def test_iterating_takes_a_request_for_500_jobs(server: RedisServer, board: JobBoard) -> None:
    board.post_many([Posting("resize") for _ in range(5_000)])
    jobs: list[Any] = []
    requests = Requests(server).of(lambda: jobs.extend(board.iterjobs()))
    assert len(jobs) == 5_000
    assert requests["evalsha"] <= 11


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


def _wait_once(board: JobBoard, found: list[str]) -> None:
    with board.waiter() as waiter:
        while waiter.ready_in() != 0:
            waiter.wait(60)
        found.extend(job.uuid for job in board.claim_next("alice", expiry=LONG))


def _looks(sleepers: list[tuple[JobBoard, LossyBackend]]) -> int:
    return sum(backend.calls["ready_in"] for _, backend in sleepers)


def test_the_dead_are_passed_over_for_the_next_who_waits(server: RedisServer, harness: RedisHarness) -> None:
    """Whoever died asleep was not taken off the server, and must not swallow a wake-up."""
    dead, alive = harness.board("wake"), harness.board("wake")
    found: list[str] = []
    waiter = dead.waiter()
    assert waiter.ready_in() is None
    with server.client() as client:
        [ghost] = client.hgetall("{jobboard:wake}:waiters").items()
        ids = client.zrange("{jobboard:wake}:armed", 0, -1, withscores=True)
        dead.close()
        client.hset("{jobboard:wake}:waiters", *ghost)
        client.zadd("{jobboard:wake}:waiting:", {ids[0][0]: ids[0][1]})
        waiting = threading.Thread(target=_wait_once, args=(alive, found))
        waiting.start()
        eventually(lambda: client.hlen("{jobboard:wake}:waiters") == 2)
        job = harness.board("wake").post("resize")
        waiting.join(3)
        assert found == [job.uuid]


def test_wake_ups_do_not_pile_up_when_nobody_waits(server: RedisServer, harness: RedisHarness) -> None:
    board = harness.board("quiet")
    board.post_many([Posting("resize") for _ in range(50)])
    with server.client() as client:
        kinds = {key.decode().split("}:")[1].split(":")[0] for key in client.keys("{jobboard:quiet}*")}
    assert kinds == {"listings", "records", "ready", "names", "heads", "counters"}


def test_what_is_done_leaves_nothing_behind(server: RedisServer, harness: RedisHarness) -> None:
    board = harness.board("gone", retention=0.0)
    board.post_many([Posting("resize", key=str(n)) for n in range(20)])
    for job in board.claim_next("alice", limit=20, expiry=LONG):
        board.checkpoint(job, "alice", 1)
        board.consume(job, "alice", "done")
    with server.client() as client:
        keys = {key.decode().split("}:")[1] for key in client.keys("{jobboard:gone}*")}
        remembered = {key for key in keys if key.startswith("done:")}
        assert len(remembered) == 20
        assert all(0 < client.ttl(f"{{jobboard:gone}}:{key}") <= 61 for key in remembered)
        assert keys - remembered <= {"names", "counters", "swept"}
