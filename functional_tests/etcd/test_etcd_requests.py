"""What a board asks of its etcd: how many requests each operation is, as the server counts them."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests
from harnesses.etcd_harness import EtcdHarness
from harnesses.etcd_requests import Requests
from harnesses.fixtures import a_harness, a_server
from servers.etcd_servers import EtcdServer

from jobboard import Conductor, EventKind, Every, Handlers, Job, JobBoard, LogBook, Posting, Schedule
from jobboard.backends.etcd import EtcdBackend, ready_queue
from jobboard.backends.etcd.subscriptions import Subscriptions
from jobboard.board import client_of
from jobboard.testing import eventually
from jobboard.testing.contract.clockwork import firing
from jobboard.testing.deadline import DEADLINE

LONG = 600.0
NAMES = frozenset({"resize", "rotate"})


server = a_server(EtcdServer)
harness = a_harness(EtcdHarness)


@pytest.fixture
def board(harness: EtcdHarness) -> JobBoard:
    """A board on which everything was done once, so that it has its leases."""
    board = harness.board()
    board.post("resize")
    board.consume(board.claim_next("alice", expiry=LONG)[0], "alice")
    return board


def sent_by(server: EtcdServer) -> float:
    """Return the bytes that the server has sent."""
    text = requests.get(f"{server.url}/metrics", timeout=5).text
    found = re.search(r"^etcd_network_client_grpc_sent_bytes_total (\S+)$", text, re.MULTILINE)
    assert found is not None
    return float(found[1])


ONE, TWO = {"Txn": 1}, {"Txn": 2}


def test_post_and_every_end_is_one_request_and_a_claim_two(server: EtcdServer, board: JobBoard) -> None:
    count = Requests(server).of
    assert count(lambda: board.post("resize", details={"n": 1}, key="k")) == ONE
    jobs: list[Any] = []
    assert count(lambda: jobs.extend(board.claim_next("alice", expiry=LONG))) == TWO
    assert count(lambda: board.extend(jobs[0], "alice", LONG)) == ONE
    assert count(lambda: board.checkpoint(jobs[0], "alice", 7)) == ONE
    book = LogBook("journal", owned=True)
    assert count(lambda: board.save_book(book, hold=jobs[0])) == TWO
    book.append(n=1)
    assert count(lambda: board.save_book(book, hold=jobs[0])) == ONE
    assert count(lambda: board.load_book(book.uuid)) == TWO
    assert count(lambda: board.destroy_book(book.uuid)) == ONE
    assert count(lambda: board.consume(jobs[0], "alice", "done")) == ONE
    job = board.post("resize")
    assert count(lambda: board.claim(job, "alice", LONG)) == TWO
    assert count(lambda: board.abandon(job, "alice", delay=LONG)) == ONE
    assert count(lambda: board.find_owner(job)) == ONE
    # The first time, the names that there are have to be learnt.
    board.stats()
    assert count(board.stats) == ONE
    assert count(lambda: board.job_count) == ONE
    assert count(lambda: board.claim_next("alice", expiry=LONG)) == ONE


def test_what_others_have_posted_takes_one_request_more(
    server: EtcdServer, harness: EtcdHarness, board: JobBoard
) -> None:
    others = harness.board(board.name)
    count = Requests(server).of
    first, second = others.post("resize"), others.post("resize")
    assert count(lambda: board.find_owner(first.uuid)) == TWO
    assert count(lambda: board.claim(second.uuid, "alice", LONG)) == {"Txn": 3}
    assert count(lambda: board.consume(second.uuid, "alice")) == ONE


def test_a_batch_is_no_more_requests_than_one_job(server: EtcdServer, board: JobBoard) -> None:
    size = board.capabilities.largest_batch
    postings = [Posting("resize", details={"n": n}, key=str(n)) for n in range(size)]
    count = Requests(server).of
    assert count(lambda: board.post_many(postings)) == ONE
    jobs: list[Any] = []
    assert count(lambda: jobs.extend(board.claim_next("alice", limit=size, expiry=LONG))) == TWO
    assert len(jobs) == size
    assert count(lambda: board.extend_many(jobs, "alice", LONG)) == ONE
    assert count(lambda: board.consume_many(jobs, "alice")) == ONE


def test_a_lane_without_a_limit_takes_no_request_more(
    server: EtcdServer, harness: EtcdHarness, board: JobBoard
) -> None:
    count = Requests(server).of
    job = board.post("resize")
    assert count(lambda: board.post("resize", lane="a")) == ONE
    jobs: list[Any] = []
    assert count(lambda: jobs.extend(board.claim_next("alice", limit=2, expiry=LONG))) == TWO
    assert jobs[0] == job
    assert count(lambda: board.extend(jobs[1], "alice", LONG)) == ONE
    assert count(lambda: board.consume(jobs[1], "alice")) == ONE
    assert count(lambda: board.abandon(jobs[0], "alice", delay=LONG)) == ONE
    postings = [Posting("resize", lane=f"tenant:{number}") for number in range(20)]
    assert count(lambda: board.post_many(postings)) == ONE


def test_a_limited_lane_takes_one_request_more_for_itself_and_one_for_the_next_job(
    server: EtcdServer, board: JobBoard
) -> None:
    count = Requests(server).of
    board.limits.set(lane="a", running=1)
    board.post("resize", lane="a")
    for _ in range(2):
        assert count(lambda: board.post("resize", lane="a")) == TWO
    assert count(lambda: board.post_many([Posting("resize", lane="a") for _ in range(15)])) == TWO
    jobs: list[Any] = []
    for _ in range(3):
        assert count(lambda: jobs.extend(board.claim_next("alice", expiry=LONG))) == TWO
        assert count(lambda: board.extend(jobs[-1], "alice", LONG)) == ONE
        assert count(lambda: board.consume(jobs[-1], "alice")) == {"Txn": 3}
    (job,) = board.claim_next("alice", expiry=LONG)
    assert count(lambda: board.abandon(job, "alice")) == TWO
    assert count(lambda: board.post("resize")) == ONE


def test_a_limited_name_takes_no_request_more_and_the_others_none_either(server: EtcdServer, board: JobBoard) -> None:
    count = Requests(server).of
    board.limits.set(name="resize", running=40)
    board.post_many([Posting("resize") for _ in range(30)])
    board.post_many([Posting("rotate") for _ in range(30)])
    # The first time, the limit has to be learnt.
    board.consume(board.claim_next("alice", expiry=LONG)[0], "alice")
    jobs: list[Any] = []
    for names in (["resize"], ["rotate"], None):
        assert count(lambda names=names: jobs.extend(board.claim_next("alice", names, limit=8, expiry=LONG))) == TWO
        assert count(lambda: jobs.extend(board.claim_next("alice", names, expiry=LONG))) == TWO  # noqa: B023
    assert len(jobs) == 27
    assert count(lambda: board.consume_many(jobs, "alice")) == ONE


def test_a_batch_of_several_names_is_no_more_requests(server: EtcdServer, board: JobBoard) -> None:
    board.post_many(
        [Posting(("resize", "rotate")[n % 2], priority=("high", "low", "normal")[n % 3]) for n in range(40)]
    )
    jobs: list[Any] = []
    claim = lambda: jobs.extend(board.claim_next("alice", ["rotate", "resize"], limit=40, expiry=LONG))  # noqa: E731
    assert Requests(server).of(claim) == TWO
    assert len(jobs) == 40
    assert Requests(server).of(lambda: board.consume_many(jobs, "alice")) == ONE


def test_a_batch_falls_back_on_the_rest_when_one_lost_its_race(server: EtcdServer, harness: EtcdHarness) -> None:
    board = harness.board()
    other = harness.board(board.name)
    board.post_many([Posting("resize") for _ in range(20)])
    jobs = board.claim_next("alice", limit=20, expiry=LONG)
    other.release(jobs[7], reason="its host is gone")
    found: list[Any] = []
    counted = Requests(server).of(lambda: found.extend(board.consume_many(jobs, "alice")))
    assert [at for at, error in enumerate(found) if error is not None] == [7]
    # All at once; each by itself; which lease was it; and what has become of the one.
    assert counted["Txn"] <= 5


def test_the_loop_of_a_worker_takes_three_requests_for_a_job_and_two_for_a_page(
    server: EtcdServer, harness: EtcdHarness, board: JobBoard
) -> None:
    board.post_many([Posting("resize") for _ in range(50)])
    held = board.claim_next("bob", limit=30, expiry=LONG)
    done: list[Any] = []

    def work() -> None:
        for job in board.wait(LONG):
            board.claim(job, "alice", LONG)
            board.consume(job, "alice")
            done.append(job)

    # The pages have 10 and 50 jobs.
    assert Requests(server).of(work) == {"Txn": 2 * 2 + 3 * 20}
    assert len(done) == 20
    board.post_many([Posting("resize") for _ in range(20)])
    # What others have claimed stands before the others in the listing.
    assert Requests(server).of(lambda: next(board.iterjobs(only_unclaimed=True))) == TWO
    assert Requests(server).of(lambda: next(board.iterjobs())) == ONE
    assert len(held) == 30


def test_iterating_takes_a_request_for_500_jobs(server: EtcdServer, harness: EtcdHarness) -> None:
    board = harness.board()
    board.post_many([Posting("resize") for _ in range(2_000)])
    seen: list[Any] = []
    counted = Requests(server).of(lambda: seen.extend(harness.board(board.name).iterjobs()))
    assert len(seen) == 2_000
    # Opening a client is one, too; and the first pages are small: 10, 50 and 250 jobs.
    assert counted["Txn"] <= 8


def test_who_is_idle_beside_a_thousand_jobs_of_others_asks_less_than_once_a_second(
    server: EtcdServer, harness: EtcdHarness
) -> None:
    holder = harness.board()
    holder.post_many([Posting("resize") for _ in range(1_000)])
    held: list[Any] = []
    while len(held) < 1_000:
        held += holder.claim_next("holder", limit=50, expiry=60.0)
    handlers = Handlers()
    handlers.handler("resize")(lambda job: None)
    conductor = Conductor("idle", harness.board(holder.name), handlers)
    conductor.start()
    try:
        eventually(holder.entities)
        requests_of, began = Requests(server), time.monotonic()
        counted = requests_of.of(lambda: _heartbeat(holder, held, 4.0))
        # The holder's own renewals are not the idle one's; on a busy machine they take seconds.
        assert sum(counted.values()) - len(held) // 50 < time.monotonic() - began
    finally:
        conductor.stop()


def _heartbeat(holder: JobBoard, held: list[Any], span: float) -> None:
    """Extend all that is held, as its conductor would, within a while."""
    holder.extend_many(held, "holder", 60.0)
    threading.Event().wait(span)


@pytest.mark.parametrize("names", [None, ["resize"], ["rotate", "resize"]])
def test_a_long_line_is_claimed_in_its_order(
    server: EtcdServer, harness: EtcdHarness, names: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ready_queue, "_KNOWN_PART", 60)
    board = harness.board()
    other = harness.board(board.name)
    posted = [job.uuid for job in board.post_many([Posting("resize") for _ in range(459)])]
    board.post("rotate", priority="low")
    claimed: list[str] = []

    def claim(claimer: JobBoard = board) -> None:
        claimed.extend(job.uuid for job in claimer.claim_next("alice", names, limit=10, expiry=LONG))

    claim()
    while len(claimed) < 400:
        if len(claimed) == 140:
            # It stands before all that this client knows of.
            posted.insert(140, other.post("resize", priority="high").uuid)
        assert Requests(server).of(claim) == TWO
    # Others take the rest of what this client knows of, and more.
    for _ in range(5):
        claim(other)
    claim()
    assert claimed == posted


def test_a_claim_reads_no_more_of_a_long_line(server: EtcdServer, harness: EtcdHarness) -> None:
    """The server counts the bytes that it sends."""
    board = harness.board()

    def cost() -> float:
        before = sent_by(server)
        [job] = board.claim_next("alice", expiry=LONG)
        board.consume(job, "alice")
        return sent_by(server) - before

    board.post_many([Posting("resize") for _ in range(20)])
    cost()
    short = cost()
    board.post_many([Posting("resize") for _ in range(2_000)])
    assert cost() <= 1.2 * short


def test_a_claim_of_fifty_names_reads_no_more_if_each_has_many_jobs(server: EtcdServer, harness: EtcdHarness) -> None:
    board = harness.board()
    names = [f"n{number}" for number in range(50)]

    def cost() -> float:
        before = sent_by(server)
        [job] = board.claim_next("alice", names, expiry=LONG)
        board.consume(job, "alice")
        return sent_by(server) - before

    board.post_many([Posting(name) for name in names])
    board.post_many([Posting(names[0]) for _ in range(2)])
    cost()
    few = cost()
    for name in names:
        board.post_many([Posting(name) for _ in range(20)])
    assert cost() <= 1.2 * few


def test_what_is_due_is_found_without_reading_what_is_not(server: EtcdServer, harness: EtcdHarness) -> None:
    board = harness.board()

    def cost() -> float:
        before = sent_by(server)
        assert firing(board).fire_due(100).posted == 0
        return sent_by(server) - before

    board.schedules.add(Schedule("first", Every(hours=1), "rotate"))
    few = cost()
    for number in range(50):
        board.schedules.add(Schedule(f"later-{number}", Every(days=1), "rotate"))
    assert cost() <= 1.2 * few


@pytest.fixture
def waiting(harness: EtcdHarness, board: JobBoard) -> Iterator[JobBoard]:
    """Another client, with a lease for its claims, that waits on the board for its next job as a conductor does."""
    waiting = harness.board(board.name)
    board.post("resize")
    waiting.consume(claim_of(waiting)[0], "alice")
    with client_of(waiting).waiter(NAMES) as waiter:
        assert waiter.ready_in() is None
        yield waiting


def test_who_begins_to_wait_looks_once(board: JobBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    """However late the watch's thread tells its waiters that the watch is open."""
    tell, told = Subscriptions._on_gap, threading.Event()

    def tell_late(self: Subscriptions) -> None:
        time.sleep(0.3)
        tell(self)
        told.set()

    monkeypatch.setattr(Subscriptions, "_on_gap", tell_late)
    with client_of(board).waiter(NAMES) as waiter:
        assert waiter.ready_in() is None
        assert told.wait(DEADLINE)
        began = time.monotonic()
        waiter.wait(0.3)
        assert time.monotonic() - began >= 0.3


def claim_of(board: JobBoard, limit: int = 1) -> list[Any]:
    return board.claim_next("alice", NAMES, limit=limit, expiry=LONG)


def received_after(waiting: JobBoard, post: Callable[[], Job]) -> Job:
    """Post, and return once a client has received the event."""
    received = threading.Event()
    unsubscribe = waiting.subscribe(lambda event: received.set(), {EventKind.POSTED})
    job = post()
    assert received.wait(DEADLINE)
    unsubscribe()
    return job


def hear_of_nothing_more(waiting: JobBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is told from now on comes too late for the next claim."""
    backend = waiting._backend
    assert isinstance(backend, EtcdBackend)
    monkeypatch.setattr(backend._claiming._arrivals, "add", lambda events: None)


def test_who_waits_claims_the_only_new_job_without_a_look(
    server: EtcdServer, board: JobBoard, waiting: JobBoard
) -> None:
    posted = received_after(waiting, lambda: board.post("resize", details={"n": 1}))
    jobs: list[Any] = []
    assert Requests(server).of(lambda: jobs.extend(claim_of(waiting, 5))) == ONE
    token = board.get(posted.uuid).record.token
    assert [(job.uuid, job.details, job.token) for job in jobs] == [(posted.uuid, {"n": 1}, token)]
    waiting.consume(jobs[0], "alice")
    assert (board.job_count, board.audit()) == (0, [])


def test_who_comes_too_late_for_it_learns_so_in_one_request(
    server: EtcdServer, board: JobBoard, waiting: JobBoard
) -> None:
    received_after(waiting, lambda: board.post("resize"))
    assert len(claim_of(board)) == 1
    jobs: list[Any] = []
    assert Requests(server).of(lambda: jobs.extend(claim_of(waiting))) == ONE
    assert jobs == []


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_better_job_of_which_it_has_not_heard_comes_first(
    board: JobBoard, waiting: JobBoard, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    low = received_after(waiting, lambda: board.post("resize", priority="low"))
    hear_of_nothing_more(waiting, monkeypatch)
    high = board.post(name, priority="high")
    assert claim_of(waiting) + claim_of(waiting) == [high, low]


def test_further_jobs_of_which_it_has_not_heard_are_claimed_along(
    board: JobBoard, waiting: JobBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [received_after(waiting, lambda: board.post("resize"))]
    hear_of_nothing_more(waiting, monkeypatch)
    jobs += [board.post("resize"), board.post("rotate")]
    assert claim_of(waiting, 5) == jobs


def test_a_pause_of_which_it_has_not_heard_keeps_the_job(board: JobBoard, waiting: JobBoard) -> None:
    job = received_after(waiting, lambda: board.post("resize"))
    board.pause("resize")
    assert claim_of(waiting) == []
    board.resume("resize")
    assert claim_of(waiting) == [job]


def test_a_better_job_whose_delay_is_over_comes_first(
    board: JobBoard, waiting: JobBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    low = received_after(waiting, lambda: board.post("resize", priority="low"))
    hear_of_nothing_more(waiting, monkeypatch)
    high = board.post("rotate", priority="high", delay=0.01)
    due = board._backend.now() + 2.1
    eventually(lambda: board.job_count and board._backend.now() > due and waiting._backend.now() > due)
    assert claim_of(waiting) + claim_of(waiting) == [high, low]
