"""What an audit of a Redis board costs: few commands for a job, and little work in one run of its script."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Iterator

import pytest
import redis
from harnesses.fixtures import a_harness, a_server
from harnesses.redis_harness import RedisHarness
from servers.redis_servers import RedisServer

from jobboard import JobBoard, Posting
from jobboard.backends.redis import RedisBackend
from jobboard.board import client_of

LONG = 600.0
#: What one run of the script looks at.
CHUNK = 200

server = a_server(RedisServer)
harness = a_harness(RedisHarness)


def runs_of(board: JobBoard, client: redis.Redis) -> Iterator[dict[str, int]]:
    """Audit a board; yield for each run of the script which commands it called, and how often."""
    backend = client_of(board).backend
    assert isinstance(backend, RedisBackend)
    cursor = b""
    while True:
        client.config_resetstat()
        _, cursor, findings, _ = backend.client.read("audit", "0", cursor)
        stats = client.info("commandstats")
        assert findings == []
        not_its_own = {"evalsha", "config|resetstat", "info"}
        yield {name[8:]: one["calls"] for name, one in stats.items() if name[8:] not in not_its_own}
        if not cursor:
            return


@pytest.fixture
def board(harness: RedisHarness) -> JobBoard:
    """Jobs in all states: most of one name, and as many names of one job each."""
    board = harness.board()
    board.post_many([Posting("resize", key=str(number)) for number in range(1500)])
    board.post_many([Posting(f"name {number}") for number in range(1500)])
    board.post_many([Posting("later", delay=LONG) for _ in range(600)])
    board.claim_next("alice", ["resize"], limit=600, expiry=LONG)
    for _ in range(4):
        jobs = board.claim_next("alice", limit=100, expiry=LONG)
        assert board.consume_many(jobs, "alice") == [None] * 100
    return board


def test_an_audit_calls_few_commands_for_a_job_and_little_in_one_run(server: RedisServer, board: JobBoard) -> None:
    with server.client() as client:
        runs = list(runs_of(board, client))
    jobs = board.job_count
    assert jobs == 3200
    assert sum(sum(run.values()) for run in runs) <= 12 * jobs
    # A name has five lists, and each is looked at even if it is empty.
    assert max(sum(run.values()) for run in runs) <= 5 * CHUNK + 100
    assert len(runs) <= 2 * jobs / CHUNK + 5 * 1500 / CHUNK + 40


def test_a_run_reads_few_large_completed_jobs(server: RedisServer, harness: RedisHarness) -> None:
    board = harness.board()
    board.post_many([Posting("resize") for _ in range(30)])
    for job in board.claim_next("alice", limit=30, expiry=LONG):
        board.consume(job, "alice", "x" * 100_000)
    with server.client() as client:
        read = [run.get("mget", 0) for run in runs_of(board, client)]
    assert (sum(read), max(read)) == (30, 6)


def test_a_timer_without_a_job_is_found_and_removed(server: RedisServer, board: JobBoard) -> None:
    with server.client() as client:
        for timer in ("leases", "delayed"):
            client.zadd(f"{{jobboard:{board.name}}}:{timer}", {f"stray {number}": 1e17 for number in range(450)})
        found = board.audit()
        assert len(found) == 900
        assert {finding.problem.partition(":")[0] for finding in found} == {
            "a timer is of a job that is not on the board"
        }
        assert len(board.audit(repair=True)) == 900
        assert board.audit() == []
        assert client.zcard(f"{{jobboard:{board.name}}}:delayed") == 600


def test_one_audit_mends_a_lane_and_keys_of_hundreds_that_are_gone(server: RedisServer, harness: RedisHarness) -> None:
    board = harness.board()
    gone = [str(uuids.uuid4()) for _ in range(450)]
    for _ in range(2):
        board.signal(board.post("resize"), "go", 1)
    with server.client() as client:
        for kind in ("held:b", "lanes", "own_keys"):
            score = "+inf" if kind == "own_keys" else 0
            members = ["b"] if kind == "lanes" else [uuid if kind == "own_keys" else "0" * 12 + uuid for uuid in gone]
            client.zadd(f"{{jobboard:{board.name}}}:{kind}", dict.fromkeys(members, score))
    assert len(board.audit(repair=True)) == 900
    assert board.audit() == []
