"""What a large board costs: its first listing, a claim, a change of another client, and who is idle beside it."""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from harnesses.fixtures import a_harness, a_server
from harnesses.zookeeper_harness import ZooKeeperHarness
from servers.base import HOST
from servers.proxy import Proxy
from servers.zookeeper_servers import ZooKeeperServer

from jobboard import Conductor, Handlers, JobBoard, Posting
from jobboard.backends.zookeeper.stored_job import PLACE_BITS
from jobboard.board import client_of
from jobboard.testing import eventually

pytestmark = pytest.mark.turn_of("scale of ZooKeeper")

LONG = 600.0


server = a_server(lambda: ZooKeeperServer(heap=512))


class Patient(ZooKeeperHarness):
    """Two cores that others use as well may leave a client without a turn for seconds."""

    backend_options = {"session_timeout": 6.0, "request_timeout": 20.0}


harness = a_harness(Patient)


def fill(board: JobBoard, count: int, **options: Any) -> None:
    for _ in range(0, count, 10_000):
        board.post_many([Posting("resize", **options) for _ in range(min(count, 10_000))])


def cost_of_claims(board: JobBoard, count: int) -> float:
    """Return the median time of a claim, in seconds."""
    times = []
    for _ in range(count):
        began = time.perf_counter()
        [job] = board.claim_next("alice", expiry=LONG)
        times.append(time.perf_counter() - began)
        board.consume(job, "alice")
    return statistics.median(times)


@pytest.mark.timeout(240)
def test_forty_thousand_jobs_work_and_a_claim_costs_no_more(harness: ZooKeeperHarness) -> None:
    few, many = harness.board(), harness.board()
    fill(few, 1_000)
    fill(many, 40_000)
    late = harness.board(many.name)
    began = time.perf_counter()
    assert late.job_count == 40_000
    assert time.perf_counter() - began < 60
    assert late.stats().names["resize"].unclaimed == 40_000
    assert next(iter(late.iterjobs())) == late.claim_next("bob", expiry=LONG)[0]
    ratios = [cost_of_claims(late, 150) / cost_of_claims(few, 150) for _ in range(3)]
    assert min(ratios) <= 2, ratios


def test_four_processes_that_drain_a_board_lose_few_claims(server: ZooKeeperServer, harness: ZooKeeperHarness) -> None:
    board = harness.board()
    posted = [job.uuid for job in board.post_many([Posting("resize") for _ in range(800)])]
    script = Path(__file__).parent.parent / "harnesses" / "zookeeper_drain.py"
    drains = [
        subprocess.Popen(
            [sys.executable, str(script), server.uri, board.name, f"drain {number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    try:
        for drain in drains:
            assert drain.stdout is not None
            assert drain.stdout.readline() == "ready\n"
        for drain in drains:
            assert drain.stdin is not None
            drain.stdin.write("\n")
            drain.stdin.flush()
        said = [json.loads(drain.communicate(timeout=60)[0]) for drain in drains]
    finally:
        for drain in drains:
            drain.kill()
            drain.communicate()
    assert Counter(uuid for one in said for uuid in one["consumed"]) == Counter(posted)
    assert sum(one["lost"] for one in said) / len(posted) < 0.3, [one["lost"] for one in said]
    assert (board.job_count, board.audit()) == (0, [])


def test_who_is_idle_beside_a_thousand_jobs_of_others_sends_only_pings(
    server: ZooKeeperServer, harness: ZooKeeperHarness
) -> None:
    holder, idle = harness.board(), None
    fill(holder, 1_000)
    assert len(holder.claim_next("alice", limit=1_000, expiry=LONG)) == 1_000
    idle = harness.board(holder.name)
    backend: Any = idle._backend
    handlers = Handlers()
    handlers.handler("resize")(lambda job: None)
    # It tells operators that it is alive after a third of the expiry, which is not within this test.
    conductor = Conductor("crew", idle, handlers, expiry=LONG)
    conductor.start()
    try:
        eventually(lambda: backend._notifier.watch_thread.is_current and len(holder.entities()) == 1)
        eventually(lambda: requests_of(server, backend)["lop"] == "PING")
        before = requests_of(server, backend)
        with client_of(holder).waiter(frozenset(["nothing of this name"])) as waiter:
            assert waiter.ready_in() is None
            waiter.wait(4.0)
        after = requests_of(server, backend)
    finally:
        assert conductor.stop(timeout=10)
    # A line that is idle says so every now and then: the last thing that the server received is a ping.
    assert after["lop"] == "PING"
    assert int(after["recved"]) - int(before["recved"]) <= 4.0 / (6.0 / 3 / 2) + 2


def test_the_posts_of_a_new_producer_are_one_transaction_each(harness: ZooKeeperHarness) -> None:
    board = harness.board()
    zxids = [board.post("resize").sequence >> PLACE_BITS for _ in range(20)]
    # The server counts its transactions; sessions of earlier tests may end meanwhile.
    assert zxids[-1] - zxids[0] <= 19 + 9, zxids


def test_buckets_that_are_missing_are_made_again(harness: ZooKeeperHarness) -> None:
    """As on a board of an earlier version."""
    board = harness.board()
    backend: Any = board._backend
    for bucket in backend._layout.buckets:
        backend._connection.call("delete", bucket)
    jobs = [board.post("resize") for _ in range(5)] + board.post_many([Posting("resize") for _ in range(100)])
    assert {job.uuid for job in board.iterjobs()} == {job.uuid for job in jobs}


def requests_of(server: ZooKeeperServer, backend: Any) -> dict[str, str]:
    """Return what the server knows of a client's connection."""
    session = f"sid=0x{backend._connection.session_id:x}"
    line = next(line for line in server.ask("cons").splitlines() if session in line)
    return dict(re.findall(r"(\w+)=([^,)]*)", line))


def test_a_change_costs_who_waits_the_same_whatever_the_backlog(server: ZooKeeperServer) -> None:
    """The bytes that reach a client while another claims and consumes."""
    few, many = bytes_of_a_change(server, 100), bytes_of_a_change(server, 5_000)
    assert many <= 1.5 * few, (few, many)
    assert many < 2_000, (few, many)


def test_the_loop_of_a_worker_takes_two_requests_for_a_job(server: ZooKeeperServer, harness: ZooKeeperHarness) -> None:
    board = harness.board()
    board.post_many([Posting("resize") for _ in range(60)])
    done: list[Any] = []
    before = int(server.figures()["packets_received"])
    for job in board.wait(LONG):
        board.claim(job, "alice", LONG)
        board.consume(job, "alice")
        done.append(job)
    assert len(done) == 60
    # One for a claim, one for its end; the rest are pages and pings.
    assert int(server.figures()["packets_received"]) - before < 2 * 60 + 40


def test_a_look_for_each_job_is_one_request_more(server: ZooKeeperServer, harness: ZooKeeperHarness) -> None:
    board = harness.board()
    board.post_many([Posting("resize") for _ in range(60)])
    before = int(server.figures()["packets_received"])
    for _ in range(60):
        job = next(board.wait(LONG))
        board.claim(job, "alice", LONG)
        board.consume(job, "alice")
    assert int(server.figures()["packets_received"]) - before < 3 * 60 + 40


def bytes_of_a_change(server: ZooKeeperServer, backlog: int) -> float:
    with (
        Patient(server.uri) as direct,
        Proxy((HOST, server.port)) as proxy,
        Patient(f"zookeeper://{HOST}:{proxy.port}") as behind,
    ):
        busy = direct.board()
        fill(busy, backlog)
        waiting = behind.board(busy.name)
        backend: Any = waiting._backend
        with client_of(waiting).waiter(frozenset(["nothing of this name"])) as waiter:
            assert waiter.ready_in() is None
            eventually(lambda: backend._notifier.watch_thread.is_current)
            before = proxy.replied
            for _ in range(20):
                [job] = busy.claim_next("alice", expiry=LONG)
                busy.consume(job, "alice")
            eventually(lambda: waiting.job_count == backlog - 20)
            return (proxy.replied - before) / 40
