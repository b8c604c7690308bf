"""Three servers, one shard each: one is killed or frozen under load, and comes back."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import quote

import pytest
from servers.redis_servers import RedisServer

from jobboard import BoardUnavailable, Conductor, Handlers, JobBoard, fetch
from jobboard.operate.status import status
from jobboard.testing import eventually


@pytest.fixture
def servers() -> Iterator[list[RedisServer]]:
    durable = {"appendonly": "yes", "appendfsync": "always"}
    with ExitStack() as stack:
        yield [stack.enter_context(RedisServer(durable)) for _ in range(3)]


def board_on(servers: list[RedisServer]) -> JobBoard:
    uris = "&".join(f"uri={quote(server.uri + '?socket_timeout=1', safe='')}" for server in servers)
    board = fetch("jobs", f"shards://?{uris}", expiry=3.0, patience=2.0)
    board.connect()
    return board


class Producer(threading.Thread):
    """Posts jobs without a key, and knows which of them are certain, and which may have arrived."""

    def __init__(self, board: JobBoard) -> None:
        super().__init__(daemon=True)
        self._board = board
        self.is_over = threading.Event()
        self.certain, self.failed = set[str](), 0

    def run(self) -> None:
        while not self.is_over.is_set():
            try:
                self.certain.add(self._board.post("resize").uuid)
            except BoardUnavailable:
                self.failed += 1
            time.sleep(0.005)


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_the_others_go_on_and_nothing_is_lost_or_done_twice(servers: list[RedisServer], how: str) -> None:
    board, working = board_on(servers), board_on(servers)
    handlers, done = Handlers(), Counter[str]()
    handlers.add("resize", lambda job: done.update([job.uuid]))
    conductor, producer = Conductor("mill", working, handlers, concurrency=4), Producer(board)
    conductor.start()
    producer.start()
    try:
        eventually(lambda: len(done) > 50)
        servers[1].kill() if how == "killed" else servers[1].freeze()
        time.sleep(1.0)
        posted, ended = len(producer.certain), len(done)
        eventually(lambda: len(producer.certain) > posted + 100, within=30)
        eventually(lambda: len(done) > ended + 100, within=30)
        (finding,) = status(board)["findings"]
        assert "shard 1: " in finding["text"]
        servers[1].start() if how == "killed" else servers[1].thaw()
        eventually(lambda: status(board)["verdict"] != "BAD", within=30)
        time.sleep(0.5)
        producer.is_over.set()
        producer.join(30)
        eventually(lambda: board.job_count == 0, within=60)
    finally:
        producer.is_over.set()
        conductor.stop()
    assert producer.certain <= set(done)
    # A claim whose end was lost with the server may run again; nothing else does.
    assert sum(count > 1 for count in done.values()) <= 8
    assert producer.failed <= 10
    assert board.audit() == []
    board.close()
    working.close()


def test_programs_start_while_a_server_is_down_and_take_it_in_when_it_is_back(servers: list[RedisServer]) -> None:
    with board_on(servers) as first:
        posted = {first.post("resize").uuid for _ in range(60)}
    servers[2].kill()
    handlers, done = Handlers(), set[str]()
    handlers.add("resize", lambda job: done.add(job.uuid))
    with board_on(servers) as board, Conductor("mill", board_on(servers), handlers, concurrency=4):
        eventually(lambda: len(done) > 20, within=30)
        posted |= {board.post("resize").uuid for _ in range(20)}
        servers[2].start()
        eventually(lambda: done == posted, within=60)
        eventually(lambda: board.job_count == 0, within=30)
        assert board.audit() == []
