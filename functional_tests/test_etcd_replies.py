"""Replies of etcd that get lost: every mutation has the effect of once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from etcd_harness import EtcdHarness
from etcd_servers import EtcdServer
from proxy import Proxy
from servers import HOST

from jobboard import Entity, JobBoard, JobState, LogBook, Posting
from jobboard.backends.etcd import EtcdBackend
from jobboard.backends.etcd.txn import Done, Txn

LONG = 600.0


@pytest.fixture(scope="module")
def server() -> Iterator[EtcdServer]:
    with EtcdServer() as server:
        yield server


@pytest.fixture
def harness(server: EtcdServer) -> Iterator[EtcdHarness]:
    with EtcdHarness(server.uri) as harness:
        yield harness


@pytest.fixture
def proxy(server: EtcdServer) -> Iterator[Proxy]:
    with Proxy((HOST, server.port)) as proxy:
        yield proxy


@pytest.fixture
def behind(proxy: Proxy) -> Iterator[EtcdHarness]:
    """Clients whose line goes through the proxy."""
    with EtcdHarness(f"etcd://{HOST}:{proxy.port}/tests") as harness:
        yield harness


def _claimed(board: JobBoard) -> Any:
    board.post("resize", details={"n": 1}, max_attempts=5)
    return board.claim_next("alice", expiry=LONG)[0]


def _trashed(board: JobBoard) -> str:
    job = board.post("resize", key="k")
    board.trash(job, "an operator", force=True)
    return job.uuid


def _released(board: JobBoard, job: Any) -> None:
    board.release(job, reason="its host is gone")


def _saved_again(board: JobBoard, book: LogBook) -> None:
    book.meta["n"] = 2
    board.save_book(book)


def _book(board: JobBoard) -> LogBook:
    book = LogBook("journal")
    board.save_book(book)
    return book


def _nothing(board: JobBoard) -> None:
    pass


Prepare, Act = Callable[[JobBoard], Any], Callable[[JobBoard, Any], object]

MUTATIONS: dict[str, tuple[Prepare, Act]] = {
    "post": (_nothing, lambda board, _: board.post("resize", details={"n": 1}, key="k")),
    "post delayed": (_nothing, lambda board, _: board.post("resize", delay=LONG)),
    "post many": (_nothing, lambda board, _: board.post_many([Posting("resize", key=str(n)) for n in range(50)])),
    "post replacing": (
        lambda board: board.post("resize", key="k"),
        lambda board, _: board.post("resize", details={"n": 2}, key="k", if_exists="replace", priority="high"),
    ),
    "cancel": (lambda board: board.post("resize"), lambda board, job: board.cancel(job)),
    "cancel claimed": (_claimed, lambda board, job: board.cancel(job)),
    "claim": (lambda board: board.post("resize"), lambda board, job: board.claim(job, "alice", LONG)),
    "claim next": (
        lambda board: board.post_many([Posting("resize") for _ in range(9)]),
        lambda board, _: board.claim_next("alice", limit=4, expiry=LONG),
    ),
    "claim next one": (
        lambda board: board.post_many([Posting("resize") for _ in range(9)]),
        lambda board, _: board.claim_next("alice", expiry=LONG),
    ),
    "extend": (_claimed, lambda board, job: board.extend(job, "alice", LONG)),
    "extend many": (_claimed, lambda board, job: board.extend_many([job], "alice", LONG, progress=["half"])),
    "checkpoint": (_claimed, lambda board, job: board.checkpoint(job, "alice", {"page": 7})),
    "consume": (_claimed, lambda board, job: board.consume(job, "alice", "done")),
    "consume many": (_claimed, lambda board, job: board.consume_many([job], "alice")),
    "abandon": (_claimed, lambda board, job: board.abandon(job, "alice", reason="no disk here")),
    "abandon for later": (_claimed, lambda board, job: board.abandon(job, "alice", delay=LONG, counted=False)),
    "trash": (_claimed, lambda board, job: board.trash(job, "alice", reason="broken")),
    "trash by force": (_claimed, lambda board, job: board.trash(job, "an operator", reason="runaway", force=True)),
    "release": (_claimed, _released),
    "restore": (_trashed, lambda board, uuid: board.restore(uuid)),
    "purge": (_trashed, lambda board, uuid: board.purge(uuid)),
    "pause": (_nothing, lambda board, _: board.pause("resize")),
    "resume": (lambda board: board.pause("resize"), lambda board, _: board.resume("resize")),
    "register": (_nothing, lambda board, _: board.register_entity(Entity("conductor", "a"))),
    "remove": (
        lambda board: board.register_entity(Entity("conductor", "a")),
        lambda board, _: board.remove_entity(Entity("conductor", "a")),
    ),
    "save book": (_nothing, lambda board, _: board.save_book(LogBook("journal"))),
    "save book again": (_book, _saved_again),
    "destroy book": (_book, lambda board, book: board.destroy_book(book.uuid)),
}  # fmt: skip


def _photo(board: JobBoard) -> Any:
    """All of a board that does not differ between two boards to which the same was done."""
    jobs = [
        (
            job.name, job.key, job.details, job.priority, job.record.state, job.record.attempts, job.record.owner,
            job.record.reason, job.record.last_error, job.record.cancel_asked, job.checkpoint, job.result,
            [(line.kind, line.who) for line in job.history],
        )
        for job in board.iterjobs(states=list(JobState))
    ]  # fmt: skip
    return jobs, board.paused(), [entity.name for entity in board.entities()], board.job_count


def cut_the_next_change(board: JobBoard, proxy: Proxy, what: Any) -> None:
    """Break the line of the next transaction that changes something; those that only read come before it."""
    backend = board._backend
    assert isinstance(backend, EtcdBackend)
    send = backend._send

    def cut_and_send(txn: Txn) -> Done:
        backend._send = send  # type: ignore[method-assign]
        proxy.cut(what)
        return send(txn)

    backend._send = cut_and_send  # type: ignore[method-assign]


@pytest.mark.parametrize("what", ["reply", "request"])
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_mutation_whose_reply_was_lost_has_the_effect_of_once(
    harness: EtcdHarness, behind: EtcdHarness, proxy: Proxy, mutation: str, what: Any
) -> None:
    prepare, act = MUTATIONS[mutation]
    expected = harness.board()
    act(expected, prepare(expected))
    board = behind.board()
    prepared = prepare(board)
    cut_the_next_change(board, proxy, what)
    act(board, prepared)
    assert not proxy.armed
    assert proxy.cuts == 1
    assert _photo(board) == _photo(expected)
    assert board.audit() == []


def test_claims_found_again_after_a_lost_reply_can_be_ended(behind: EtcdHarness, proxy: Proxy) -> None:
    board = behind.board()
    posted = board.post_many([Posting("resize", priority=priority) for priority in ("low", "high", "normal")])
    cut_the_next_change(board, proxy, "reply")
    jobs = board.claim_next("alice", limit=3, expiry=LONG)
    assert jobs == [posted[1], posted[2], posted[0]]
    assert proxy.cuts == 1
    assert board.consume_many(jobs, "alice") == [None] * 3


def test_a_look_whose_reply_was_lost_is_answered_all_the_same(behind: EtcdHarness, proxy: Proxy) -> None:
    board = behind.board()
    job = board.post("resize")
    proxy.cut("reply")
    assert [other.uuid for other in board.iterjobs()] == [job.uuid]
    assert proxy.cuts == 1
