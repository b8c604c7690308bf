"""How few requests a claim takes: what clients show each other beside the jobs, and that nobody relies on it."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from harnesses.fixtures import a_harness, a_server
from harnesses.zookeeper_harness import ZooKeeperHarness, a_plain_client, path_of, root_of
from kazoo.client import KazooClient
from servers.zookeeper_servers import ZooKeeperServer

from jobboard import JobBoard, JobState, NotFound, Posting, UnclaimableJob
from jobboard.backends.zookeeper import transactions
from jobboard.backends.zookeeper.requests import Multi, MultiRead
from jobboard.board import client_of

LONG = 600.0

server = a_server(ZooKeeperServer)
harness = a_harness(ZooKeeperHarness)
operator = a_plain_client()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that are read from now on, by any client."""
    paths: list[str] = []
    serialize = MultiRead.serialize

    def recorded(request: MultiRead) -> bytes:
        paths.extend(path for _, path in request.operations)
        return serialize(request)

    monkeypatch.setattr(MultiRead, "serialize", recorded)
    return paths


def claim_once_posted(board: JobBoard, poster: JobBoard, **posting: Any) -> tuple[Any, list[Any]]:
    """Let one client wait for what another posts; return the job, and what the first then claims."""
    with client_of(board).waiter(None) as waiter:
        assert waiter.ready_in() != 0
        job = poster.post("resize", **posting)
        waiter.wait(10)
        return job, board.claim_next("alice", expiry=LONG)


def test_who_is_told_of_a_posting_claims_it_without_reading_it(harness: ZooKeeperHarness, reads: list[str]) -> None:
    board, poster = harness.board(), None
    poster = harness.board(board.name)
    job, claimed = claim_once_posted(board, poster, details={"width": 7}, priority="HIGH", key="k", max_attempts=3)
    assert claimed == [job]
    assert path_of(board, job.uuid) not in reads
    (mine,), read = claimed, poster.get(job.uuid)
    assert (mine.details, mine.priority, mine.key) == (job.details, job.priority, job.key)
    assert (mine.sequence, mine.created_on, mine.record.token) == (read.sequence, read.created_on, read.record.token)
    board.consume(mine, "alice")
    assert (poster.get(job.uuid).state, board.audit()) == (JobState.COMPLETE, [])


def test_a_posting_with_long_details_is_claimed_with_them(harness: ZooKeeperHarness) -> None:
    board = harness.board()
    details = {"text": "x" * 5000}
    job, (mine,) = claim_once_posted(board, harness.board(board.name), details=details)
    assert (mine, mine.details) == (job, details)


def test_clients_of_an_earlier_version_show_nothing(
    harness: ZooKeeperHarness, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    board = harness.board()
    earlier = harness.board(board.name)
    with monkeypatch.context() as patch:
        patch.setattr(transactions, "_only_posting", lambda transaction: b"")
        job, claimed = claim_once_posted(board, earlier)
    assert claimed == [job]
    assert path_of(board, job.uuid) in reads
    # One after the other, each kind of client picks up what the other kind has posted.
    job, claimed = claim_once_posted(earlier, board)
    assert claimed == [job]


@pytest.mark.parametrize(
    "shown",
    [
        b"\xc1",
        msgpack.packb(7),
        msgpack.packb(["uuid"]),
        msgpack.packb([7, b""]),
        msgpack.packb(["uuid", b"", "more"]),
        msgpack.packb({"uuid": b""}),
    ],
)
def test_whatever_a_later_version_shows_is_passed_over(
    harness: ZooKeeperHarness, monkeypatch: pytest.MonkeyPatch, shown: bytes
) -> None:
    board = harness.board()
    monkeypatch.setattr(transactions, "_only_posting", lambda transaction: shown)
    job, claimed = claim_once_posted(board, harness.board(board.name), details={"width": 7})
    assert claimed == [job]
    assert claimed[0].details == {"width": 7}


def test_what_somebody_else_wrote_over_is_not_believed(harness: ZooKeeperHarness, operator: KazooClient) -> None:
    """Another record under the same uuid, of another transaction than the line of the log."""
    board = harness.board()
    poster = harness.board(board.name)
    job, other = poster.post("resize", details={"width": 7}), poster.post("resize")
    record, _ = operator.get(path_of(board, other.uuid))
    operator.set(f"{root_of(board)}/ready", msgpack.packb([job.uuid, record]))
    (claimed,) = board.claim_next("alice", expiry=LONG)
    assert (claimed, claimed.details) == (job, {"width": 7})


@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_job_that_was_changed_by_hand_is_found_out(
    harness: ZooKeeperHarness, operator: KazooClient, is_deleted: bool
) -> None:
    """The line of the log and what ``ready`` shows say that it can be claimed, and nobody tells of the change."""
    board = harness.board()
    poster = harness.board(board.name)
    assert board.job_count == 0
    job = poster.post("resize")
    if is_deleted:
        operator.delete(path_of(board, job.uuid))
    else:
        operator.set(path_of(board, job.uuid), b"\xc1 garbage")
    assert board.claim_next("alice", expiry=LONG) == []
    assert board._backend._selection.lost_claims <= 1  # type: ignore[attr-defined]
    assert [found.uuid for found in board.trashed()] == ([] if is_deleted else [job.uuid])


# -- claims of what a page has shown -----------------------------------------------------------------------------------


def test_a_claim_of_what_was_found_is_one_request(harness: ZooKeeperHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    board = harness.board()
    jobs = board.post_many([Posting("resize", details={"text": "x" * 3000}) for _ in range(3)])
    found = list(board.wait(5))
    client: Any = board._backend._connection.client  # type: ignore[attr-defined]
    sent: list[Any] = []
    call = client._call
    monkeypatch.setattr(client, "_call", lambda request, pending: (sent.append(request), call(request, pending))[1])
    for job in found:
        board.claim(job, "alice", LONG)
    assert [type(request) for request in sent] == [Multi] * 3
    assert [job.details for job in found] == [job.details for job in jobs]
    assert (found[0].owner, found[0].record.attempts) == ("alice", 1)


def test_what_others_did_to_a_found_job_counts(harness: ZooKeeperHarness) -> None:
    board = harness.board()
    other = harness.board(board.name)
    board.post_many([Posting("resize") for _ in range(5)])
    taken, done, paused, changed, gone = board.wait(5)
    other.claim(taken, "bob", LONG)
    with pytest.raises(UnclaimableJob) as refusal:
        board.claim(taken.uuid, "alice")
    assert refusal.value.owner == "bob"
    other.claim(done, "bob", LONG)
    other.consume(done, "bob")
    with pytest.raises(UnclaimableJob):
        board.claim(done.uuid, "alice")
    other.pause("resize")
    with pytest.raises(UnclaimableJob):
        board.claim(paused.uuid, "alice")
    other.resume("resize")
    board.claim(paused.uuid, "alice", LONG)
    other.abandon(other.claim_next("bob", expiry=LONG)[0], "bob", reason="later")
    board.claim(changed.uuid, "alice", LONG)
    assert board.get(changed.uuid).record.attempts == 2
    other.claim(gone, "bob", LONG)
    other.trash(gone, "bob", reason="never")
    other.purge(gone.uuid)
    with pytest.raises(NotFound):
        board.claim(gone.uuid, "alice")
    assert board.audit() == []
