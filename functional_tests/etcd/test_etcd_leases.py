"""Claims on an etcd that replies slowly: a lease runs out before it is used, a claim within its own call."""

from __future__ import annotations

import math
from typing import Any

import pytest
from harnesses.etcd_harness import EtcdHarness
from harnesses.fixtures import a_harness, a_server
from servers.etcd_servers import EtcdServer

from jobboard import JobBoard, Posting
from jobboard.testing import eventually

server = a_server(EtcdServer)
harness = a_harness(EtcdHarness)


def test_a_lease_that_ran_out_before_it_was_used_is_asked_for_once_more(
    server: EtcdServer, harness: EtcdHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    board: Any = harness.board()
    job = board.post("resize")
    http, revoked = board._backend.http, []
    call = http.call

    def grant_and_revoke(path: str, payload: dict[str, Any], **options: Any) -> Any:
        reply = call(path, payload, **options)
        if path == "/lease/grant" and not revoked:
            revoked.append(reply["ID"])
            server.ask("/lease/revoke", {"ID": reply["ID"]})
        return reply

    monkeypatch.setattr(http, "call", grant_and_revoke)
    (claimed,) = board.claim_next("alice")
    board.consume(claimed, "alice")
    assert (claimed.uuid, len(revoked)) == (job.uuid, 1)


def test_a_claim_that_ran_out_within_its_own_call_is_handed_out_once(
    harness: EtcdHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    board: Any = harness.board()
    rival: JobBoard = harness.board(board.name)
    jobs = [board.post("resize") for _ in range(3)]
    candidates, looks = board._backend._queue.candidates, []

    def candidates_meanwhile(*arguments: Any) -> Any:
        if looks:
            eventually(lambda: rival.stats().unclaimed == 2)
        found = candidates(*arguments)
        if not looks:
            looks.append(rival.claim(jobs[2].uuid, "bob"))
        return found

    monkeypatch.setattr(board._backend._queue, "candidates", candidates_meanwhile)
    claimed = board.claim_next("alice", limit=3, expiry=0.5)
    assert [job.uuid for job in claimed] == [job.uuid for job in jobs[:2]]
    assert [job.token for job in claimed] == [rival.get(job.uuid).record.token for job in claimed]


def test_an_end_that_posts_gets_a_new_lease_if_that_of_records_is_gone(
    server: EtcdServer, harness: EtcdHarness
) -> None:
    board = harness.board()
    for job in board.post_many([Posting("resize") for _ in range(2)]):
        board.claim(job, "alice", math.inf)
        board.consume(job, "alice", post=[Posting("report")])
        server.revoke_all()
    assert (board.stats().names["report"].unclaimed, board.job_count) == (2, 2)


def test_a_post_that_ends_at_once_gets_a_new_lease_if_that_of_records_is_gone(
    server: EtcdServer, harness: EtcdHarness
) -> None:
    board = harness.board()
    parent = board.post("resize")
    board.trash(parent)
    for _ in range(2):
        board.post("report", after=[parent], if_failed="cancel")
        server.revoke_all()
    assert (board.stats().trashed, board.job_count) == (1, 0)


def test_records_that_are_kept_for_almost_as_long_share_a_lease(server: EtcdServer, harness: EtcdHarness) -> None:
    server.revoke_all()
    board = harness.board()
    for seconds in range(50):
        board.post("resize", key=str(seconds), key_for=86_000 + seconds)
    for job in board.claim_next("alice", limit=50, expiry=math.inf):
        board.consume(job, "alice")
    assert len(server.leases()) <= 2
