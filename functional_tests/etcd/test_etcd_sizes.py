"""How large things may be on etcd, whose requests may be 1.5 MiB, or behind a proxy that takes less."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
from harnesses.etcd_harness import EtcdHarness
from harnesses.fixtures import a_harness, a_harness_behind, a_proxy, a_server
from servers.etcd_servers import EtcdServer
from servers.proxy import Proxy

from jobboard import BoardUnavailable, Conductor, Handlers, Job, JobBoard, JobState, Posting
from jobboard.backends.etcd import EtcdBackend
from jobboard.backends.etcd.txn import Txn, TxnResult
from jobboard.errors import TooLarge
from jobboard.testing import eventually

LONG = 600.0
LARGE = {"data": "x" * 524_000}


server = a_server(EtcdServer)
harness = a_harness(EtcdHarness)
proxy = a_proxy()
behind = a_harness_behind(EtcdHarness)


def swollen(board: JobBoard, expiry: float = LONG) -> Job:
    """A claimed job of which all is as large as it may be."""
    board.post("resize", details=LARGE)
    [job] = board.claim_next("alice", expiry=expiry)
    board.checkpoint(job, "alice", LARGE)
    board.extend_many([job], "alice", expiry, progress=[LARGE])
    return job


ENDS: dict[str, tuple[Callable[[JobBoard, Job], object], JobState]] = {
    "consume": (lambda board, job: board.consume(job, "alice", LARGE), JobState.COMPLETE),
    "abandon": (lambda board, job: board.abandon(job, "alice", reason="r" * 900_000), JobState.UNCLAIMED),
    "trash": (lambda board, job: board.trash(job, "alice", reason="r" * 900_000), JobState.TRASHED),
    "release": (lambda board, job: board.release(job, reason="r" * 900_000), JobState.UNCLAIMED),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_job_of_which_all_is_large_can_be_ended(harness: EtcdHarness, end: str) -> None:
    board = harness.board()
    job = swollen(board)
    act, state = ENDS[end]
    act(board, job)
    found = harness.board(board.name).get(job.uuid)
    assert (found.record.state, found.details) == (state, LARGE)
    assert found.checkpoint == (None if end == "consume" else LARGE)
    assert found.result == (LARGE if end == "consume" else None)


def test_a_job_of_which_all_is_large_is_taken_back(harness: EtcdHarness) -> None:
    board = harness.board()
    job = swollen(board, 2.0)
    eventually(lambda: board.get(job.uuid).record.state is JobState.UNCLAIMED)
    assert board.claim_next("bob", expiry=LONG) == [job]
    assert job.checkpoint == LARGE


def test_the_ends_of_an_endless_error_are_kept(harness: EtcdHarness) -> None:
    board = harness.board()
    job = board.post("resize")
    board.claim(job, "alice", LONG)
    board.abandon(job, "alice", reason="first " + "x" * 2_000_000 + " last")
    error = board.get(job.uuid).record.last_error or ""
    assert error.startswith("first ")
    assert error.endswith(" last")
    assert len(error) <= 400_000


def test_pages_and_batches_of_large_jobs_go_through(harness: EtcdHarness) -> None:
    board = harness.board()
    posted = board.post_many([Posting("resize", details=LARGE) for _ in range(12)])
    assert list(board.iterjobs()) == posted
    assert list(board.iterjobs(names=["resize"])) == posted
    claimed = board.claim_next("alice", limit=12, expiry=LONG)
    assert claimed == posted
    assert board.consume_many(claimed, "alice") == [None] * 12
    assert board.audit() == []


def fail_at(patch: pytest.MonkeyPatch, board: JobBoard, number: int) -> Iterator[int]:
    """Let one transaction of a client not get to the server; return the numbers of those to come."""
    backend = board._backend
    assert isinstance(backend, EtcdBackend)
    send, numbers = backend.connection.send, itertools.count(1)

    def fail_once(txn: Txn) -> TxnResult:
        if next(numbers) == number:
            raise BoardUnavailable("the server can't be reached")
        return send(txn)

    patch.setattr(backend.connection, "send", fail_once)
    return numbers


def test_a_batch_that_fails_after_its_first_part_is_repeated(
    harness: EtcdHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = harness.board()
    board.post_many([Posting("resize", details=LARGE) for _ in range(6)])
    jobs = board.claim_next("alice", limit=6, expiry=LONG)
    numbers = fail_at(monkeypatch, board, 2)
    assert board.consume_many(jobs, "alice") == [None] * 6
    assert next(numbers) > 3
    assert board.job_count == 0


def test_postings_that_fail_after_their_first_part_are_repeated(
    harness: EtcdHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = harness.board()
    board.post("rotate")
    numbers = fail_at(monkeypatch, board, 2)
    posted = board.post_many([Posting("resize", details=LARGE) for _ in range(6)])
    assert next(numbers) > 3
    assert list(board.iterjobs(names=["resize"])) == posted


def test_ends_that_fail_after_the_first_of_them_are_repeated(
    harness: EtcdHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = harness.board()
    board.post_many([Posting("resize"), Posting("resize", on_complete=Posting("rotate"))])
    jobs = board.claim_next("alice", limit=2, expiry=LONG)
    numbers = fail_at(monkeypatch, board, 2)
    assert board.consume_many(jobs, "alice") == [None, None]
    assert next(numbers) > 3
    assert [job.name for job in board.iterjobs()] == ["rotate"]


def test_ten_thousand_names_are_read_at_one_moment(harness: EtcdHarness) -> None:
    board = harness.board()
    names = [f"resize-{n}" for n in range(10_000)]
    posted = board.post_many([Posting(names[n]) for n in (9_999, 17, 0, 5_000)])
    board.post("rotate", priority="very_high")
    assert board.claim_next("alice", names, limit=9, expiry=LONG) == posted


def test_the_numbers_of_thousands_of_names_are_told(harness: EtcdHarness) -> None:
    board = harness.board()
    board.post_many([Posting(f"resize-{n}") for n in range(1_500)])
    for _ in ("names that this client has not met", "names that it knows"):
        assert (board.stats().unclaimed, len(board.stats().names)) == (1_500, 1_500)


def test_what_is_too_large_for_the_server_is_told(harness: EtcdHarness) -> None:
    board = harness.board(largest_details=5_000_000, patience=0.2)
    for size in (1_700_000, 3_000_000):
        with pytest.raises(BoardUnavailable, match="one request may be 1.5 MiB"):
            board.post("resize", details={"data": "x" * size})
    assert board.job_count == 0


def test_a_result_that_a_proxy_refuses_fails_its_own_job_alone(behind: EtcdHarness, proxy: Proxy) -> None:
    board = behind.board()
    proxy.longest_body = 200_000
    handlers = Handlers()
    handlers.add("resize", lambda job: "x" * job.details["size"])
    sizes = [300_000, *[10] * 8, 300_000, *[10] * 8, 300_000]
    jobs = board.post_many([Posting("resize", details={"size": size}) for size in sizes])
    conductor = Conductor("worker", board, handlers, concurrency=3)
    conductor.start()
    try:
        eventually(lambda: board.job_count == 0, within=60)
    finally:
        conductor.stop(drain=False)
    for job, size in zip(jobs, sizes, strict=True):
        record = board.get(job.uuid).record
        assert record.state is (JobState.TRASHED if size > 10 else JobState.COMPLETE)
        assert record.attempts == 1
        assert ("its result can't be kept" in (record.reason or "")) is (size > 10)


def test_what_a_proxy_refuses_is_too_large_and_changes_nothing(behind: EtcdHarness, proxy: Proxy) -> None:
    board = behind.board()
    proxy.longest_body = 200_000
    board.post_many([Posting("resize") for _ in range(3)])
    jobs = board.claim_next("alice", limit=3, expiry=LONG)
    with pytest.raises(TooLarge, match="413"):
        board.post("resize", details={"data": "x" * 300_000})
    errors = board.consume_many(jobs, "alice", results=[1, "x" * 300_000, 3])
    assert [type(error) for error in errors] == [type(None), TooLarge, type(None)]
    assert board.job_count == 1
