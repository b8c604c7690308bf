"""Edges, steps and signals on etcd: what they cost, who goes on where a client died, and what a sweep finds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from harnesses.etcd_harness import EtcdHarness
from harnesses.etcd_requests import Requests
from harnesses.fixtures import a_harness, a_server
from servers.etcd_servers import EtcdServer

from jobboard import Job, JobBoard, JobState, Posting
from jobboard.backends.edge_rows import EdgeCounts, LinkOutcome, StepRow
from jobboard.backends.etcd import EtcdBackend
from jobboard.backends.etcd.leftovers import Leftovers
from jobboard.backends.etcd.resolving import Resolver
from jobboard.backends.etcd.txn import Txn, delete, delete_range, put, scan_prefix
from jobboard.backends.etcd.txn import after as behind
from jobboard.backends.rows import Abandonment, Fence, Verdict
from jobboard.board import client_of
from jobboard.testing import eventually

LONG, ONE = 600.0, {"Txn": 1}

server = a_server(EtcdServer)
harness = a_harness(EtcdHarness)


@pytest.fixture
def board(harness: EtcdHarness) -> JobBoard:
    """A board on which everything was done once, so that it has its leases."""
    board = harness.board()
    board.post("resize")
    board.consume(board.claim_next("alice", expiry=LONG)[0], "alice")
    return board


def etcd_of(board: JobBoard) -> EtcdBackend:
    backend = board._backend
    assert isinstance(backend, EtcdBackend)
    return backend


def keys_of(board: JobBoard, *parts: str) -> list[bytes]:
    """Return the keys of these kinds that a board has."""
    backend = etcd_of(board)
    found = backend.connection.read([scan_prefix(backend.keys.root + part.encode(), keys_only=True) for part in parts])
    return [kv.key[len(backend.keys.root) :] for each in found for kv in each.kvs]


def claimed(board: JobBoard, count: int = 1) -> list[Any]:
    return board.claim_next("alice", limit=count, expiry=LONG)


def test_an_end_of_a_parent_costs_the_same_with_three_and_with_three_hundred_siblings(
    server: EtcdServer, board: JobBoard
) -> None:
    count, costs = Requests(server).of, list[dict[str, int]]()
    for number in (3, 300):
        parents = [job for _ in range(0, number, 50) for job in board.post_many([Posting("resize")] * min(50, number))]
        board.post("report", after=parents)
        jobs = claimed(board, 2)
        costs.append(count(lambda: board.consume(jobs[0], "alice")))  # noqa: B023
        # Its mark, how the others stand, and what its edge says.
        assert costs[-1] == {"Txn": 4}
    assert costs[0] == costs[1]


def test_a_step_is_one_request(server: EtcdServer, board: JobBoard) -> None:
    count, steps = Requests(server).of, client_of(board).backend.steps
    board.post("order")
    (job,) = claimed(board)
    fence = Fence(job.uuid, "alice", job.token)
    for number in range(3):
        assert count(lambda: steps.save(fence, StepRow(number, "charge", b"x" * 1000))) == ONE  # noqa: B023
    # A claim that is renewed by another thread is the same claim.
    board.extend(job, "alice", LONG)
    assert count(lambda: steps.save(fence, StepRow(3, "charge", b"x" * 1000))) == ONE
    assert [step.number for step in steps.load(job.uuid, 1, 2)] == [1, 2]


def test_an_end_with_a_posting_is_one_request(server: EtcdServer, board: JobBoard) -> None:
    count = Requests(server).of
    board.post("resize")
    (job,) = claimed(board)
    assert count(lambda: board.consume(job, "alice", post=[Posting("report"), Posting("report", key="k")])) == ONE
    assert board.job_count == 2
    # A plain end on the same board costs no more than ever.
    (plain, _) = claimed(board, 2)
    assert count(lambda: board.consume(plain, "alice")) == ONE


def test_who_ends_at_once_leaves_no_child_waiting(harness: EtcdHarness, board: JobBoard) -> None:
    """The last two, and the last three, parents of a job end at the same moment."""
    clients = [harness.board(board.name) for _ in range(3)]
    for _ in range(15):
        parents = board.post_many([Posting("resize"), Posting("resize"), Posting("resize")])
        child = board.post("report", after=parents)
        jobs = [client.claim(job.uuid, "alice", LONG) for client, job in zip(clients, parents, strict=True)]
        assert None not in jobs
        barrier = threading.Barrier(3)

        def end(at: int) -> None:
            barrier.wait()  # noqa: B023
            clients[at].consume(parents[at].uuid, "alice")  # noqa: B023

        threads = [threading.Thread(target=end, args=(at,)) for at in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        eventually(lambda: board.get(child.uuid).state is JobState.UNCLAIMED)  # noqa: B023
        assert client_of(board).backend.edges.counts([child.uuid]) == [EdgeCounts(done=3)]
        assert [job.uuid for job in claimed(board)] == [child.uuid]
        board.consume(child, "alice")
    assert board.audit() == []


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clients end jobs, and die before they work off what follows for the children."""
    with monkeypatch.context() as patched:
        patched.setattr(Resolver, "after", lambda *_: None)
        yield


def test_whoever_comes_next_works_off_what_a_dead_client_has_left(board: JobBoard, dying: None) -> None:
    parents = board.post_many([Posting("resize") for _ in range(3)])
    children = [board.post("report", after=[parent]) for parent in parents]
    for job in claimed(board, 3):
        board.consume(job, "alice")
    assert {board.get(child.uuid).state for child in children} == {JobState.BLOCKED}
    assert len(keys_of(board, "mark/")) == 3
    assert board.audit() == []
    seen: list[Any] = []
    eventually(lambda: seen.extend(claimed(board, 3)) or len(seen) == 3)
    assert {job.uuid for job in seen} == {child.uuid for child in children}
    assert keys_of(board, "mark/") == []


def test_who_waits_learns_of_what_a_dead_client_has_left(harness: EtcdHarness, board: JobBoard, dying: None) -> None:
    waiting, woken = harness.board(board.name), threading.Event()
    parent = board.post("resize")
    child = board.post("report", after=[parent])

    def wait() -> None:
        for job in waiting.wait(LONG, names=["report"]):
            if job.uuid == child.uuid:
                woken.set()
                return

    thread = threading.Thread(target=wait)
    thread.start()
    board.consume(claimed(board)[0], "alice")
    # The waiter would look every ten seconds anyway.
    assert woken.wait(6)
    thread.join()


def test_who_waits_asks_nothing_while_jobs_wait_for_parents_and_signals(
    server: EtcdServer, harness: EtcdHarness, board: JobBoard
) -> None:
    waiting = harness.board(board.name)
    parent = board.post("rotate")
    for _ in range(3):
        board.post("resize", after=[parent])
    with client_of(waiting).waiter(frozenset({"resize"})) as waiter:
        assert waiter.ready_in() is None
        assert Requests(server).of(lambda: waiter.wait(2.0)) == {}


def test_a_sweep_deletes_what_forgotten_jobs_have_left(server: EtcdServer, board: JobBoard) -> None:
    tidy = etcd_of(board).maintenance.tidy
    parent = board.post("rotate")
    children = [board.post("resize", after=[parent]) for _ in range(3)]
    board.signal(children[0].uuid, "go", 1)
    assert tidy(100) == 0
    for child in children[:2]:
        board.cancel(child)
    assert len(keys_of(board, "edge/", "child/")) == 6
    forget(board, *children[:2])
    assert board.audit() == []
    assert tidy(100) == 2
    assert keys_of(board, "signal/") == []
    assert len(keys_of(board, "edge/", "child/", "kept/")) == 3
    assert board.audit() == []


def test_a_purged_job_that_has_kept_its_key_leaves_no_edges(board: JobBoard) -> None:
    """It went to the trash with its parent, and waits for nothing any more."""
    parent = board.post("rotate")
    child = board.post("resize", key="a", key_for=LONG, after=[parent])
    board.trash(parent)
    board.purge(parent)
    assert child.state is JobState.TRASHED
    board.purge(child)
    assert keys_of(board, "edge/", "child/", "kept/") == []


def test_a_uuid_that_is_posted_again_has_no_steps_and_signals_of_a_job_that_is_forgotten(
    server: EtcdServer, harness: EtcdHarness
) -> None:
    board = harness.board(retention=0)
    store, job = client_of(board).backend, board.post("resize")
    for name in ("charge", "pay"):
        fence = Fence(job.uuid, "alice", board.claim(job, "alice", LONG))
        for number in range(2):
            store.steps.save(fence, StepRow(number, name, b"1"))
        assert [step.name for step in store.steps.load(job.uuid, 0, 9)] == [name, name]
        assert store.jobs.abandon([Abandonment(fence, signal="go")]) == [Verdict.DONE]
        assert board.get(job.uuid).record.state is JobState.BLOCKED
        assert board.signal(job, "go", name)
        assert [signal.value for signal in job.signals()] == [name]
        board.consume(board.claim_next("alice", expiry=LONG)[0], "alice")
        # As if its time were over, before any sweep.
        server.revoke_all()
        job = board.post("resize", uuid=job.uuid)
        assert (store.steps.load(job.uuid, 0, 9), store.steps.signals(job.uuid)) == ([], [])


def test_a_sweep_leaves_nothing_of_an_edge_that_another_client_writes_meanwhile(
    board: JobBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    parents = [board.post("rotate") for _ in range(3)]
    child = board.post("resize", after=parents)
    board.cancel(child)
    forget(board, child)
    deletions = Leftovers._deletions

    def end_first(*args: Any) -> Any:
        board.consume(claimed(board)[0], "alice")
        return deletions(*args)

    monkeypatch.setattr(Leftovers, "_deletions", end_first)
    assert etcd_of(board).maintenance.tidy(100) == 1
    assert keys_of(board, "edge/", "child/", "kept/") == []
    assert board.audit() == []


def forget(board: JobBoard, *jobs: Job) -> None:
    """Delete the records of jobs that have ended, as their leases do."""
    backend = etcd_of(board)
    keys, pointers = backend.keys, [backend.keys.job(job.uuid) for job in jobs]
    for pointer in pointers:
        (found,) = backend.connection.read([scan_prefix(pointer)])
        assert found.first is not None
        backend.connection.send(Txn(then=[delete(pointer), delete(keys.done + found.first.value)]))


def test_an_audit_finds_and_mends_what_contradicts_the_jobs(board: JobBoard) -> None:
    backend, keys = etcd_of(board), etcd_of(board).keys
    parents = board.post_many([Posting("rotate") for _ in range(3)])
    children = [board.post("resize", after=parents) for _ in range(3)]
    assert board.audit() == []
    first, second = parents[0].uuid, parents[1].uuid
    ops = [
        delete(keys.edge(children[0].uuid, b"o", first)),
        delete(keys.child(second, children[0].uuid)),
        delete_range(keys.edges_of(children[1].uuid), behind(keys.edges_of(children[1].uuid))),
        *(delete(keys.child(parent.uuid, children[1].uuid)) for parent in parents),
        put(keys.step("0a5f4b62-3f9b-4b8e-8c7e-1f0e6c1c8d11", 0), b""),
        put(keys.edge(children[2].uuid, b"o", "graph:left"), b""),
    ]
    backend.connection.send(Txn(then=ops))
    found = board.audit()
    assert {finding.uuid for finding in found} >= {children[0].uuid, children[1].uuid, children[2].uuid}
    assert len(found) >= 5
    assert all(finding.repaired for finding in board.audit(repair=True))
    backend.maintenance.tidy(100)
    assert board.audit() == []
    # The one that no parent held back any more runs; the others wait for theirs.
    assert board.get(children[1].uuid).state is JobState.UNCLAIMED
    assert {board.get(child.uuid).state for child in (children[0], children[2])} == {JobState.BLOCKED}
    for _ in range(4):
        board.consume(claimed(board)[0], "alice")
    assert {board.get(child.uuid).state for child in (children[0], children[2])} == {JobState.UNCLAIMED}


def test_an_audit_finds_a_parent_that_ended_without_a_word(board: JobBoard, dying: None) -> None:
    backend = etcd_of(board)
    parent = board.post("rotate")
    children = [board.post("resize", after=[parent]) for _ in range(3)]
    board.consume(claimed(board)[0], "alice")
    (mark,) = keys_of(board, "mark/")
    timers = [key for key in keys_of(board, "timer/") if b"/=" in key]
    backend.connection.send(Txn(then=[delete(backend.keys.root + key) for key in (mark, *timers)]))
    (finding,) = board.audit(repair=True)
    assert (finding.uuid, finding.repaired) == (parent.uuid, True)
    assert {board.get(child.uuid).state for child in children} == {JobState.UNCLAIMED}
    assert board.audit() == []


def test_a_parent_that_is_linked_while_the_last_one_is_resolved_holds_the_child_back(
    harness: EtcdHarness, board: JobBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = board.post("first"), board.post("second")
    child = board.post("child", after=[first])
    others = client_of(harness.board(board.name)).backend.edges
    resolver = etcd_of(board).edges._resolver  # type: ignore[attr-defined]
    outcomes, read = list[LinkOutcome](), resolver._reader.read

    def link_before_the_record_is_read(uuids: Any) -> Any:
        if not outcomes and list(uuids) == [child.uuid]:
            outcomes.append(others.link(child.uuid, [second.uuid]))
        return read(uuids)

    board.claim(first, "alice", LONG)
    monkeypatch.setattr(resolver._reader, "read", link_before_the_record_is_read)
    board.consume(first, "alice")
    assert outcomes == [LinkOutcome.DONE]
    assert child.state is JobState.BLOCKED
    board.claim(second, "alice", LONG)
    board.consume(second, "alice")
    eventually(lambda: child.state is JobState.UNCLAIMED)
