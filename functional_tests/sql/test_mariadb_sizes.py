"""A server that takes smaller packets than what is sent: it says so, or cuts the connection while it is still sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from harnesses.sql_harness import MysqlHarness
from servers.mariadb_servers import MariadbServer
from sqlalchemy import create_engine

from jobboard import Conductor, Handlers, JobBoard, JobFailed, JobState, LogBook, Posting, fetch
from jobboard.backends.rows import Consumption, Fence, Verdict
from jobboard.board import client_of
from jobboard.codec import encode
from jobboard.errors import TooLarge

#: Of the server, in bytes.
LIMIT = 1 << 20
#: A little more is refused by the server; of several times as much it reads nothing, and so the refusal is lost.
SIZES = (LIMIT, 6 * LIMIT)
MOST = 8 << 20


@pytest.fixture(scope="module")
def server() -> Iterator[MariadbServer]:
    with MariadbServer({"max-allowed-packet": str(LIMIT)}) as server:
        yield server


@pytest.fixture
def harness(server: MariadbServer) -> Iterator[MysqlHarness]:
    with MysqlHarness(server.uri) as harness:
        yield harness


@pytest.fixture
def board(harness: MysqlHarness) -> JobBoard:
    return harness.board(largest_details=MOST)


@pytest.mark.parametrize("size", SIZES)
def test_what_is_too_large_is_told_before_it_is_sent(board: JobBoard, size: int) -> None:
    with pytest.raises(TooLarge, match="max_allowed_packet"):
        board.post("resize", details={"data": "x" * size})
    # Each character of it is two bytes.
    with pytest.raises(TooLarge, match="max_allowed_packet"):
        board.post("resize", details={"data": "é" * (size // 2)})
    assert board.job_count == 0
    job = board.post("resize", details={"data": "x" * (LIMIT // 3)})
    [claimed] = board.claim_next("alice")
    with pytest.raises(TooLarge):
        board.checkpoint(claimed, "alice", {"data": "x" * size})
    assert board.consume_many([claimed], "alice") == [None]
    assert job.state is JobState.COMPLETE


def test_a_batch_is_sent_in_parts_that_the_server_takes(board: JobBoard) -> None:
    """In a statement each byte of details takes two characters."""
    part = LIMIT // 2 - 2_000
    for sizes in ([part] * 3, [LIMIT // 5] * 9, [500] * 1_000):
        posted = board.post_many([Posting("resize", details={"data": "x" * size}) for size in sizes])
        jobs = board.claim_next("alice", limit=len(sizes))
        assert [(job.uuid, len(job.details["data"])) for job in jobs] == [
            (job.uuid, size) for job, size in zip(posted, sizes, strict=True)
        ]
        assert board.consume_many(jobs, "alice") == [None] * len(jobs)
    book = LogBook("pages")
    book.named = {str(number): "x" * part for number in range(3)}
    board.save_book(book)
    book.named["1"] = "y" * part
    board.save_book(book)
    assert board.load_book(book.uuid).named == book.named
    assert board.audit() == []


def test_results_of_a_batch_are_sent_in_parts_that_the_server_takes(board: JobBoard) -> None:
    board.post_many([Posting("resize")] * 4)
    jobs = board.claim_next("alice", limit=4)
    ends = [
        Consumption(Fence(job.uuid, "alice", job.token), encode("result", [number, "x" * (LIMIT // 4)]).data, 60.0)
        for number, job in enumerate(jobs)
        if job.token is not None
    ]
    assert client_of(board).backend.jobs.consume(ends) == [Verdict.DONE] * 4
    assert [job.result[0] for job in jobs] == [0, 1, 2, 3]


@pytest.mark.parametrize("size", SIZES)
def test_a_result_that_is_too_large_fails_its_job(board: JobBoard, size: int) -> None:
    handlers = Handlers()
    handlers.add("resize", lambda job: {"data": "x" * job.details["size"]})
    large, small = board.post_many([Posting("resize", details={"size": each}) for each in (size, 7)])
    conductor = Conductor("worker", board, handlers, concurrency=2)
    conductor.start()
    try:
        assert small.wait(60)
        with pytest.raises(JobFailed, match="max_allowed_packet"):
            large.get_result(timeout=60)
    finally:
        conductor.stop(timeout=10)


@pytest.mark.parametrize("size", SIZES)
def test_connections_of_an_engine_are_asked_too(server: MariadbServer, size: int) -> None:
    engine = create_engine(server.uri.replace("mysql:", "mysql+pymysql:", 1))
    with closing(fetch("sizes", "mysql", engine=engine, largest_details=MOST)) as board:
        board.connect()
        with pytest.raises(TooLarge):
            board.post("resize", details={"data": "x" * size})
    engine.dispose()


@pytest.mark.parametrize("size", SIZES)
def test_a_transaction_of_the_users_stands(server: MariadbServer, board: JobBoard, size: int) -> None:
    with server.client() as connection:
        connection.autocommit(False)
        kept = board.post("resize", connection=connection)
        with pytest.raises(TooLarge):
            board.post("resize", details={"data": "x" * size}, connection=connection)
        connection.commit()
    assert list(board.iterjobs()) == [kept]
