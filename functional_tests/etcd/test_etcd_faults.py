"""What breaks between a board and its etcd, and in etcd: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from harnesses.busy_board import goes_on
from harnesses.etcd_harness import EtcdHarness, overwrite
from harnesses.fixtures import a_harness, a_server
from harnesses.working import insist
from servers.base import HOST
from servers.etcd_servers import EtcdCluster, EtcdServer
from servers.proxy import Proxy

from jobboard import BoardUnavailable, ClaimLost, JobBoard, JobState, NotFound, Posting
from jobboard.backends.etcd import EtcdBackend
from jobboard.backends.etcd.expiry import Expiry
from jobboard.events import EventKind, JobEvent
from jobboard.testing import eventually

LONG = 600.0


server = a_server(EtcdServer)
harness = a_harness(EtcdHarness)


class Patient(EtcdHarness):
    """Clients that wait for a reply no longer than a test does."""

    backend_options = {"timeout": 2.0}


class Waiting:
    """Somebody who waits on a board, in a thread of its own."""

    def __init__(self, board: JobBoard) -> None:
        self.found: list[str] = []
        self._thread = threading.Thread(target=lambda: self.found.extend(job.uuid for job in board.wait(30)))
        self._thread.start()
        eventually(lambda: is_subscribed(board) and _are_asleep(board))

    def end(self) -> list[str]:
        self._thread.join(30)
        return self.found


def backend_of(board: JobBoard) -> EtcdBackend:
    backend = board._backend
    assert isinstance(backend, EtcdBackend)
    return backend


def _are_asleep(board: JobBoard) -> bool:
    """Whether all who wait at this client have looked, found nothing, and sleep."""
    waiters = list(backend_of(board)._subscriptions._waiters)
    return bool(waiters) and all(waiter._changed._waiters for waiter in waiters)  # type: ignore[attr-defined]


def is_subscribed(board: JobBoard) -> bool:
    subscriber = backend_of(board)._subscriptions._subscriber
    return subscriber is not None and subscriber._is_subscribed


# -- leases ------------------------------------------------------------------------------------------------------------


def test_a_lease_that_is_revoked_by_hand_ends_its_claims_at_once(server: EtcdServer, harness: EtcdHarness) -> None:
    board = harness.board()
    other = harness.board(board.name)
    received: list[JobEvent] = []
    board.subscribe(received.append, [EventKind.EXPIRED])
    job = board.post("resize")
    board.claim(job, "alice", LONG)
    waiting = Waiting(other)
    began = time.monotonic()
    server.revoke_all()
    assert waiting.end() == [job.uuid]
    assert time.monotonic() - began < 20
    eventually(lambda: received)
    with pytest.raises(ClaimLost):
        board.consume(job, "alice")
    [again] = other.claim_next("bob", expiry=LONG)
    assert (again, again.record.attempts) == (job, 2)
    # The client whose lease it was gets a new one.
    second = board.post("resize")
    board.claim(second, "alice", LONG)
    board.consume(second, "alice")
    assert board.audit() == []


def test_a_claim_whose_lease_is_gone_is_taken_back_by_whoever_reads_it(
    server: EtcdServer, harness: EtcdHarness
) -> None:
    board = harness.board()
    job = board.post("resize")
    board.claim(job, "alice", LONG)
    other = harness.board(board.name)
    server.revoke_all()
    assert other.get(job.uuid).record.state is JobState.UNCLAIMED


def test_the_keep_alive_of_a_lost_lease_tells_at_once(server: EtcdServer, harness: EtcdHarness) -> None:
    """Without a watch: the owner learns it from the answer to its keep-alive, and puts the job back."""
    board = harness.board()
    job = board.post("resize")
    # Its lease of 40 seconds is renewed every ten; this is brought forward.
    board.claim(job, "alice", 30.0)
    server.revoke_all()
    leases = backend_of(board)._leases
    for lease in leases._claims.values():
        lease.renewed = -LONG
    backend_of(board)._worker.soon(leases._keep_alive)
    other = harness.board(board.name)
    eventually(lambda: other.claim_next("bob", expiry=LONG) == [job])
    with pytest.raises(ClaimLost):
        board.extend(job, "alice", 30.0)


def test_one_lease_serves_all_claims_of_one_expiry(server: EtcdServer, harness: EtcdHarness) -> None:
    server.revoke_all()
    board = harness.board()
    jobs = board.post_many([Posting("resize") for _ in range(40)])
    board.claim_next("alice", limit=20, expiry=LONG)
    for job in jobs[20:]:
        board.claim(job, "alice", LONG)
    assert len(server.leases()) == 1
    board.extend(jobs[0], "alice", 30)
    assert len(server.leases()) == 2
    assert 0 < (jobs[0].expires_in() or 0) <= 31
    assert all((job.expires_in() or 0) > 500 for job in jobs[1:])


def test_opening_and_closing_often_leaves_no_thread_no_socket_and_no_lease(
    server: EtcdServer, harness: EtcdHarness
) -> None:
    server.revoke_all()
    keeper = harness.board()
    keeper.post("resize")

    def use() -> None:
        board = JobBoard(keeper.name, harness.backend(keeper.name))
        with board:
            board.subscribe(lambda event: None)
            [job] = board.claim_next("alice", expiry=LONG)
            board.abandon(job, "alice", counted=False)

    harness.check_that_nothing_stays(use)
    assert server.leases() == []
    assert keeper.job_count == 1


def test_three_hundred_cycles_leave_no_key_and_no_lease(server: EtcdServer, harness: EtcdHarness) -> None:
    server.revoke_all()
    board = harness.board(retention=0)
    root = backend_of(board).keys.root

    def keys() -> set[bytes]:
        reply = backend_of(board).http.call("/kv/range", _range_of(root), changes=False)
        return {kv["key"].encode() for kv in reply.get("kvs", ())}

    board.post("resize")
    board.consume(board.claim_next("alice")[0], "alice")
    server.revoke_all()
    before = keys()
    began = time.monotonic()
    for _ in range(300):
        board.post("resize")
        board.consume(board.claim_next("alice")[0], "alice")
    # What is remembered for repeats goes with its leases; revoking them is what time does.
    # One of claims, and one of records every three seconds.
    assert len(server.leases()) <= 3 + (time.monotonic() - began) / 3
    server.revoke_all()
    assert keys() == before
    assert board.job_count == 0
    board.close()
    assert server.leases() == []


def _range_of(root: bytes) -> dict[str, Any]:
    from jobboard.backends.etcd.txn import scan_prefix

    request: dict[str, Any] = scan_prefix(root, keys_only=True)["request_range"]
    return request


# -- watches -----------------------------------------------------------------------------------------------------------


def test_a_wait_and_its_listeners_survive_a_restart_of_the_server() -> None:
    with EtcdServer() as server, Patient(server.uri) as harness:
        board = harness.board(patience=60.0)
        impatient = harness.board(board.name, patience=0.2)
        received: list[JobEvent] = []
        board.subscribe(received.append, [EventKind.POSTED])
        waiting = Waiting(board)
        server.kill()
        eventually(lambda: not board.connected)
        with pytest.raises(BoardUnavailable):
            impatient.stats()
        server.start()
        eventually(lambda: is_subscribed(board))
        assert board.connected
        job = harness.board(board.name).post("resize")
        assert waiting.end() == [job.uuid]
        eventually(lambda: [event.uuid for event in received] == [job.uuid])


def test_jobs_and_claims_survive_a_restart_of_the_server() -> None:
    with EtcdServer() as server, Patient(server.uri) as harness:
        board = harness.board()
        posted = board.post_many([Posting("resize", details={"n": n}) for n in range(20)])
        [job] = board.claim_next("alice", expiry=LONG)
        board.checkpoint(job, "alice", {"page": 7})
        server.kill()
        server.start()
        assert [other.uuid for other in board.iterjobs()] == [other.uuid for other in posted]
        assert (job.checkpoint, job.owner) == ({"page": 7}, "alice")
        board.consume(job, "alice", "done")
        assert (job.state, board.job_count, board.audit()) == (JobState.COMPLETE, 19, [])


def test_a_watch_that_missed_compacted_revisions_lists_again(server: EtcdServer, harness: EtcdHarness) -> None:
    with Proxy((HOST, server.port)) as proxy, EtcdHarness(f"etcd://{HOST}:{proxy.port}/tests") as behind:
        board = behind.board()
        other = harness.board(board.name)
        received: list[JobEvent] = []
        board.subscribe(received.append, [EventKind.TRASHED])
        waiting = Waiting(board)
        proxy.shut()
        proxy.break_all()
        eventually(lambda: not is_subscribed(board))
        job = other.post("resize")
        other.post("resize")
        server.compact()
        proxy.open_again()
        assert waiting.end()[0] == job.uuid
        eventually(lambda: is_subscribed(board))
        other.trash(job, by="an operator")
        eventually(lambda: [event.uuid for event in received] == [job.uuid])


def test_a_compaction_beside_a_watch_disturbs_nobody(server: EtcdServer, harness: EtcdHarness) -> None:
    board = harness.board()
    other = harness.board(board.name)
    waiting = Waiting(board)
    for _ in range(3):
        other.cancel(other.post("rotate", delay=LONG))
        server.compact()
    job = other.post("resize")
    assert waiting.end() == [job.uuid]


def test_connected_tells_the_truth() -> None:
    with EtcdServer() as server, Patient(server.uri) as harness:
        board, idle = harness.board(patience=0.2), harness.board()
        idle.subscribe(lambda event: None)
        assert board.connected
        server.kill()
        eventually(lambda: not idle.connected)
        with pytest.raises(BoardUnavailable):
            board.post("resize")
        assert not board.connected
        server.start()
        eventually(lambda: idle.connected)
        board.post("resize")
        assert board.connected


def test_a_frozen_server_is_unavailable_and_fine_once_it_goes_on() -> None:
    class Impatient(EtcdHarness):
        backend_options = {"timeout": 0.3}

    with EtcdServer() as server, Impatient(server.uri) as harness:
        board = harness.board(patience=60.0)
        job = board.post("resize")
        board.consume(board.claim_next("alice", expiry=LONG)[0], "alice")
        job = board.post("resize")
        token = board.claim(job, "alice", LONG)
        board._client.patience = 0.3
        server.freeze()
        with pytest.raises(BoardUnavailable, match="unknown"):
            board.consume(job, "alice", "done")
        with pytest.raises(BoardUnavailable):
            list(board.iterjobs())
        server.thaw()
        # Whether it went through is the server's affair; both leave the job consumed once.
        again = harness.board(board.name)
        with contextlib.suppress(ClaimLost):
            again.consume(job, "alice", "done", token=token)
        assert (again.get(job.uuid).record.state, again.get(job.uuid).result) == (JobState.COMPLETE, "done")
        with pytest.raises(ClaimLost):
            again.consume(job, "alice", "again", token=token)


# -- a cluster that loses its leader -----------------------------------------------------------------------------------


def test_work_goes_on_when_the_leader_is_killed(tmp_path: Path) -> None:
    with EtcdCluster() as cluster:
        leader = cluster.leader()
        cluster.members.sort(key=lambda member: member is not leader)
        goes_on(leader.kill, cluster.uri, tmp_path, timeout=2.0)


def test_a_wait_and_a_claim_survive_the_leader() -> None:
    with EtcdCluster() as cluster, Patient(cluster.uri) as harness:
        board, other = harness.board(patience=30.0), None
        held = board.post("rotate")
        board.claim(held, "alice", LONG)
        waiting = Waiting(board)
        cluster.leader().kill()
        cluster.leader()
        other = harness.board(board.name, patience=30.0)
        job = insist(lambda: other.post("resize"))
        assert waiting.end() == [job.uuid]
        insist(lambda: board.consume(held, "alice"))
        assert other.job_count == 1


def test_a_watch_at_a_member_that_lost_the_others_does_not_stay_silent() -> None:
    with EtcdCluster() as cluster, Patient(cluster.uri) as harness:
        board = harness.board(patience=0.2)
        board.subscribe(lambda event: None)
        assert is_subscribed(board)
        # The client is at the first of them.
        for member in cluster.members[1:]:
            member.kill()
        eventually(lambda: not is_subscribed(board))
        for member in cluster.members[1:]:
            member.start()
        eventually(lambda: is_subscribed(board), within=30)


# -- entries that can't be read ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", ["iterate", "claim", "claim by name"])
def test_a_record_of_garbage_harms_nobody(harness: EtcdHarness, read: str) -> None:
    board = harness.board()
    one, bad, three = (board.post("resize", details={"n": n}) for n in range(3))
    overwrite(backend_of(board), bad.uuid, whole=True)
    reader = harness.board(board.name)
    if read == "iterate":
        seen = [job.uuid for job in reader.iterjobs()]
    else:
        names = ["resize"] if read == "claim by name" else None
        seen = [job.uuid for job in reader.claim_next("alice", names, limit=9, expiry=LONG)]
    assert seen == [one.uuid, three.uuid]
    [trashed] = reader.trashed()
    assert (trashed.uuid, trashed.record.state) == (bad.uuid, JobState.TRASHED)
    assert (reader.job_count, reader.audit()) == (2, [])


def test_numbers_are_those_of_the_names_that_were_counted(
    harness: EtcdHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread may learn of a name while this one waits for its answer."""
    board = harness.board()
    board.post("resize", delay=LONG)
    board.stats()
    read, is_first = Expiry.read_board, iter([True])

    def read_beside_another_thread(expiry: Expiry, ops: Sequence[Any]) -> Any:
        found = read(expiry, ops)
        if next(is_first, False):
            board.post("count", delay=LONG)
            board.stats()
        return found

    monkeypatch.setattr(Expiry, "read_board", read_beside_another_thread)
    assert {name: numbers.delayed for name, numbers in board.stats().names.items()} == {"resize": 1}


def test_the_claims_of_a_killed_process_are_taken_over_by_who_waits(harness: EtcdHarness) -> None:
    board = harness.board()
    job = board.post("resize")
    script = (
        "import sys, jobboard\nboard = jobboard.fetch(sys.argv[2], sys.argv[1])\nboard.connect()\n"
        "board.claim_next('dead', expiry=2.0)\nprint('claimed', flush=True)\nsys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script, harness.uri(), board.name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "claimed\n"
        process.kill()
    assert next(iter(board.wait(10))).uuid == job.uuid


def test_a_store_that_was_wiped_is_told_once_since_its_tokens_come_again(caplog: pytest.LogCaptureFixture) -> None:
    with EtcdServer() as server, EtcdHarness(server.uri) as harness:
        claimed = []
        for board in [harness.board() for _ in range(3)]:
            board.post_many([Posting("resize") for _ in range(3)])
            claimed += board.claim_next("alice", expiry=LONG)
        server.kill()
        shutil.rmtree(server.folder / "data")
        server.start()
        assert [job.board.job_count for job in claimed] == [0, 0, 0]
        *_, old = claimed
        assert old.board.claim(old.board.post("resize"), "alice", LONG) < old.token
        for job in claimed:
            with pytest.raises((ClaimLost, NotFound)):
                job.board.consume(job, "alice")
    told = [record.message for record in caplog.records if "has gone back from revision" in record.message]
    assert len(told) == 3, "one for each client"
