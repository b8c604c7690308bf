"""Replies of etcd that get lost: every mutation has the effect of once."""

from __future__ import annotations

from typing import Any

import pytest
from harnesses.etcd_harness import EtcdHarness
from harnesses.fixtures import a_harness, a_harness_behind, a_proxy, a_server
from harnesses.mutations import LONG, MUTATIONS, Act, Prepare, photo_of
from servers.etcd_servers import EtcdServer
from servers.proxy import Proxy

from jobboard import Cron, JobBoard, Posting, Schedule
from jobboard.backends.etcd import EtcdBackend
from jobboard.backends.etcd.txn import Txn, TxnResult

server = a_server(EtcdServer)
harness = a_harness(EtcdHarness)
proxy = a_proxy()
behind = a_harness_behind(EtcdHarness)


def _claimed(board: JobBoard) -> Any:
    board.post_many([Posting("resize") for _ in range(9)])
    return board.claim_next("alice", limit=9, expiry=LONG)


def _scheduled(board: JobBoard) -> str:
    return board.schedules.add(Schedule("nightly", Cron("0 3 * * *"), "rotate")).id


#: What takes a way of its own on etcd, besides what every store is asked.
BATCHES: dict[str, tuple[Prepare, Act]] = {
    "claim next of one": (
        lambda board: board.post_many([Posting("resize") for _ in range(9)]),
        lambda board, _: board.claim_next("alice", expiry=LONG),
    ),
    "consume nine": (_claimed, lambda board, jobs: board.consume_many(jobs, "alice")),
    "extend nine": (_claimed, lambda board, jobs: board.extend_many(jobs, "alice", LONG)),
    "add a schedule": (lambda board: None, lambda board, _: _scheduled(board)),
    "pause a schedule": (_scheduled, lambda board, id: board.schedules.pause(id)),
    "fire a schedule": (_scheduled, lambda board, id: board.schedules.fire_now(id)),
    "remove a schedule": (_scheduled, lambda board, id: board.schedules.remove(id)),
}
EVERY = {**MUTATIONS, **BATCHES}


def cut_the_next_change(board: JobBoard, proxy: Proxy, what: Any) -> None:
    """Break the line of the next transaction that changes something; those that only read come before it."""
    backend = board._backend
    assert isinstance(backend, EtcdBackend)
    send = backend.connection.send

    def cut_and_send(txn: Txn) -> TxnResult:
        backend.connection.send = send  # type: ignore[method-assign]
        proxy.cut(what)
        return send(txn)

    backend.connection.send = cut_and_send  # type: ignore[method-assign]


@pytest.mark.parametrize("what", ["reply", "request"])
@pytest.mark.parametrize("mutation", EVERY)
def test_a_mutation_whose_reply_was_lost_has_the_effect_of_once(
    harness: EtcdHarness, behind: EtcdHarness, proxy: Proxy, mutation: str, what: Any
) -> None:
    prepare, act = EVERY[mutation]
    expected = harness.board()
    act(expected, prepare(expected))
    board = behind.board()
    prepared = prepare(board)
    cut_the_next_change(board, proxy, what)
    act(board, prepared)
    assert not proxy.armed
    assert proxy.cuts == 1
    assert _comparable(photo_of(board)) == _comparable(photo_of(expected))
    assert _schedules(board) == _schedules(expected)
    assert board.audit() == []


def _comparable(photo: Any) -> Any:
    """Leave out the moment in the key of a job that was fired by hand."""
    jobs, *rest = photo
    return [(name, key and key.split("@")[0], *others) for name, key, *others in jobs], rest


def _schedules(board: JobBoard) -> list[Any]:
    return [(kept.id, kept.state, kept.progress and kept.progress.runs) for kept in board.schedules]


def test_claims_found_again_after_a_lost_reply_can_be_ended(behind: EtcdHarness, proxy: Proxy) -> None:
    board = behind.board()
    posted = board.post_many([Posting("resize", priority=priority) for priority in ("low", "high", "normal")])
    cut_the_next_change(board, proxy, "reply")
    jobs = board.claim_next("alice", limit=3, expiry=LONG)
    assert jobs == [posted[1], posted[2], posted[0]]
    assert proxy.cuts == 1
    assert board.consume_many(jobs, "alice") == [None] * 3


def test_a_lease_whose_reply_was_lost_is_granted_once(server: EtcdServer, behind: EtcdHarness, proxy: Proxy) -> None:
    board = behind.board()
    job = board.post("resize")
    server.revoke_all()
    proxy.matters = lambda request: b"lease/grant" in request
    proxy.cut("reply")
    board.claim(job, "alice", LONG)
    assert proxy.cuts == 1
    assert len(server.leases()) == 1
    board.consume(job, "alice")


def test_a_look_whose_reply_was_lost_is_answered_all_the_same(behind: EtcdHarness, proxy: Proxy) -> None:
    board = behind.board()
    job = board.post("resize")
    proxy.cut("reply")
    assert [other.uuid for other in board.iterjobs()] == [job.uuid]
    assert proxy.cuts == 1
