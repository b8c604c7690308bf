"""What a newer jobboard has stored on etcd: an older one leaves it alone, says so once, and goes on with the rest."""

from __future__ import annotations

import threading

import msgpack
import pytest
from harnesses.etcd_harness import EtcdHarness
from harnesses.fixtures import a_board, a_harness, a_server
from servers.etcd_servers import EtcdServer

from jobboard import BoardUnavailable, ClaimLost, Job, JobBoard, JobState, UnclaimableJob
from jobboard.backends.etcd import EtcdBackend
from jobboard.backends.etcd.keys import Keys
from jobboard.backends.etcd.stored import _FORMAT
from jobboard.backends.etcd.txn import KeyValue, Txn, put, scan_prefix
from jobboard.testing import eventually
from jobboard.testing.contract.lanes import post_tied

LONG = 600.0


server = a_server(EtcdServer)
harness = a_harness(EtcdHarness)
board = a_board()


def backend_of(board: JobBoard) -> EtcdBackend:
    backend = board._backend
    assert isinstance(backend, EtcdBackend)
    return backend


def keys_of(board: JobBoard) -> Keys:
    return backend_of(board).keys


def stored(board: JobBoard, prefix: bytes) -> list[KeyValue]:
    return backend_of(board).connection.read([scan_prefix(prefix)])[0].kvs


def renew(board: JobBoard, prefix: bytes) -> dict[bytes, bytes]:
    """Write all values below a prefix in a format that is yet to come, and return them."""
    new = {kv.key: msgpack.packb([_FORMAT + 1, {"all": "new"}, kv.value]) for kv in stored(board, prefix)}
    assert new
    backend_of(board).connection.send(Txn(then=[put(key, value) for key, value in new.items()]))
    return new


def content(board: JobBoard, prefix: bytes) -> dict[bytes, bytes]:
    return {kv.key: kv.value for kv in stored(board, prefix)}


def test_a_newer_record_is_left_alone_and_said_once(
    harness: EtcdHarness, board: JobBoard, caplog: pytest.LogCaptureFixture
) -> None:
    newer = [board.post("resize", priority="high") for _ in range(3)]
    records = renew(board, keys_of(board).live)
    root = content(board, keys_of(board).root)
    older = harness.board(board.name)
    jobs = [older.post("resize", details={"n": n}) for n in range(3)]
    assert list(older.iterjobs()) == jobs
    assert list(older.wait(5)) == jobs
    claimed: list[Job] = []

    def claim() -> bool:
        claimed.extend(older.claim_next("alice", limit=2, expiry=LONG))
        return len(claimed) == 3

    eventually(claim)
    assert claimed == jobs
    assert list(older.wait(0.1)) == []
    for job in jobs:
        older.consume(job, "alice")
    assert older.audit(repair=True) == []
    assert content(board, keys_of(board).live) == records
    assert {key: root[key] for key in root if b"/watch/" not in key and not key.endswith(b"/sequence")}.items() <= (
        content(board, keys_of(board).root).items()
    )
    assert len([record for record in caplog.records if "newer" in record.getMessage()]) == 1
    assert older.stats().unclaimed == 3
    assert older.get(newer[0].uuid).uuid == newer[0].uuid


def test_nothing_else_happens_to_a_newer_record(harness: EtcdHarness, board: JobBoard) -> None:
    job = board.post("resize", key="k")
    records = renew(board, keys_of(board).live)
    older = harness.board(board.name)
    for change in (
        lambda: older.cancel(job.uuid),
        lambda: older.trash(job.uuid, by="an operator"),
    ):
        with pytest.raises(BoardUnavailable, match="newer format"):
            change()
    with pytest.raises(UnclaimableJob, match="newer"):
        older.claim(job.uuid, "bob")
    assert older.post("resize", key="k", if_exists="keep") == job
    assert content(board, keys_of(board).live) == records


@pytest.mark.parametrize("what", ["a claim", "a delay"])
def test_newer_jobs_whose_time_has_come_are_left_to_newer_clients(
    harness: EtcdHarness, board: JobBoard, what: str
) -> None:
    for _ in range(60):
        board.post("resize", delay=0.3 if what == "a delay" else None)
    if what == "a claim":
        board.claim_next("alice", limit=60, expiry=0.3)
    records = renew(board, keys_of(board).live)
    older = harness.board(board.name)
    eventually(lambda: _are_due(older))
    assert older.claim_next("bob", expiry=LONG) == []
    threading.Thread(target=lambda: older.post("resize", priority="low")).start()
    [job] = older.wait(5)
    assert older.claim_next("bob", expiry=LONG) == [job]
    assert older.audit(repair=True) == []
    assert records.items() <= content(board, keys_of(board).live).items()
    assert len(stored(board, keys_of(board).timers)) == 61


def _are_due(board: JobBoard) -> bool:
    keys, now = keys_of(board), backend_of(board).now()
    return all(kv.key < keys.until(now) for kv in stored(board, keys.timers))


def test_a_claim_to_which_a_later_version_has_added_something_holds_and_keeps_it(
    harness: EtcdHarness, board: JobBoard
) -> None:
    job = board.post("resize")
    token = board.claim(job, "alice", LONG)
    [claim] = stored(board, keys_of(board).claims)
    more = [*msgpack.unpackb(claim.value), False, {"of a later": "version"}]
    backend_of(board).connection.send(Txn(then=[put(claim.key, msgpack.packb(more))]))
    older = harness.board(board.name)
    assert (older.find_owner(job), older.claim_next("bob")) == ("alice", [])
    older.cancel(job)
    [claim] = stored(board, keys_of(board).claims)
    assert msgpack.unpackb(claim.value)[-1] == more[-1]
    older.consume(job, "alice", token=token)
    assert older.get(job.uuid).record.state is JobState.COMPLETE
    with pytest.raises(ClaimLost):
        board.consume(job, "alice")


@pytest.mark.parametrize("state", [JobState.BLOCKED, JobState.CLAIMED])
def test_a_newer_job_with_ties_holds_up_nobody_and_is_left_alone(board: JobBoard, state: JobState) -> None:
    board.limits.set(lane="a", running=1)
    jobs = [post_tied(board, lane="a") for _ in range(2)]
    board.claim(jobs[0], "alice", LONG)
    uuid = jobs[state is JobState.BLOCKED].uuid.encode()
    (live,) = [kv.key for kv in stored(board, keys_of(board).live) if uuid in kv.value]
    renew(board, live)
    if state is JobState.BLOCKED:
        board.consume(jobs[0], "alice")
        assert post_tied(board, lane="a").record.state is JobState.UNCLAIMED
    everything = content(board, keys_of(board).root)
    assert board.audit(repair=True) == []
    assert content(board, keys_of(board).root) == everything
