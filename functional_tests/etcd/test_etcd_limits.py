"""Limits on etcd: of names, exchanges in lanes, strict order and rates."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest
from harnesses.etcd_harness import EtcdHarness
from harnesses.fixtures import a_board, a_harness, a_server
from servers.etcd_servers import EtcdServer

from jobboard import BoardUnavailable, Job, JobBoard, JobState, Posting, Rate, UnclaimableJob
from jobboard.backends.etcd import EtcdBackend
from jobboard.backends.etcd.audit import Audit
from jobboard.backends.etcd.lane_rules import LaneRules
from jobboard.backends.etcd.snapshots import Snapshot
from jobboard.backends.etcd.txn import Found, Op, scan_prefix
from jobboard.board import client_of
from jobboard.testing import Harness, eventually
from jobboard.testing.contract.case import LONG, SHORT, drain, uuids_of
from jobboard.testing.contract.lane_case import states_of

server = a_server(EtcdServer)
harness = a_harness(EtcdHarness)
board = a_board()

BLOCKED, CLAIMED, DELAYED, UNCLAIMED = (JobState[name] for name in ("BLOCKED", "CLAIMED", "DELAYED", "UNCLAIMED"))


def backend_of(board: JobBoard) -> EtcdBackend:
    backend = client_of(board).backend
    assert isinstance(backend, EtcdBackend)
    return backend


def keys_below(board: JobBoard, prefix: bytes) -> list[bytes]:
    (found,) = backend_of(board).connection.read([scan_prefix(prefix, keys_only=True)])
    return [kv.key for kv in found.kvs]


def post(board: JobBoard, count: int, lane: str = "a", name: str = "resize", **options: Any) -> list[Job]:
    return [board.post(name, lane=lane, **options) for _ in range(count)]


# -- names -------------------------------------------------------------------------------------------------------------


def test_no_more_claims_of_a_name_are_made_than_its_limit_says_by_many_clients_at_once(
    board: JobBoard, harness: Harness
) -> None:
    board.limits.set(name="resize", running=3)
    board.post_many([Posting("resize") for _ in range(60)])
    clients = [harness.board(board.name) for _ in range(4)]
    most = list[int]()

    def work(client: JobBoard) -> int:
        count = 0
        while client.job_count:
            for job in client.claim_next("somebody", limit=2, expiry=LONG):
                most.append(client.stats().claimed)
                client.consume(job, "somebody")
                count += 1
        return count

    with ThreadPoolExecutor(len(clients)) as pool:
        assert sum(pool.map(work, clients)) == 60
    assert 1 < max(most) <= 3


def test_what_runs_when_a_name_is_limited_counts(board: JobBoard, harness: Harness) -> None:
    other = harness.board(board.name)
    board.post_many([Posting("resize") for _ in range(8)])
    held = board.claim_next("alice", limit=3, expiry=LONG)
    other.limits.set(name="resize", running=4)
    assert len(board.claim_next("alice", limit=9, expiry=LONG)) == 1
    assert other.claim_next("bob", expiry=LONG) == []
    board.extend_many(held, "alice", LONG)
    assert board.consume_many(held, "alice") == [None] * 3
    assert len(other.claim_next("bob", limit=9, expiry=LONG)) == 3
    other.limits.set(name="resize", running=1)
    assert board.claim_next("alice", expiry=LONG) == []
    other.limits.remove(name="resize")
    assert len(board.claim_next("alice", limit=9, expiry=LONG)) == 1
    assert board.audit() == []
    for job in board.iterjobs(states=[CLAIMED]):
        board.release(job, reason="all is over")
    assert keys_below(board, backend_of(board).keys.running) == []


def test_a_claim_of_one_job_keeps_to_the_limit_of_its_name(board: JobBoard, harness: Harness) -> None:
    other = harness.board(board.name)
    first, second = board.post("resize"), board.post("resize")
    board.limits.set(name="resize", running=1)
    assert other.claim(first, "alice", LONG)
    for client in (board, other):
        with pytest.raises(UnclaimableJob):
            client.claim(second, "bob", LONG)
    other.consume(first, "alice")
    assert board.claim(second, "bob", LONG)


@pytest.mark.parametrize("free", ["consume", "raise", "remove", "expire"])
def test_who_waits_for_a_full_name_is_woken(board: JobBoard, harness: Harness, free: str) -> None:
    other = harness.board(board.name)
    board.post_many([Posting("resize") for _ in range(2)])
    board.limits.set(name="resize", running=1)
    (held,) = board.claim_next("alice", expiry=SHORT if free == "expire" else LONG)
    found, ready = list[Job](), threading.Event()

    def wait() -> None:
        ready.set()
        found.append(next(other.wait(LONG)))

    thread = threading.Thread(target=wait)
    thread.start()
    ready.wait()
    ways: dict[str, Callable[[], object]] = {
        "consume": lambda: board.consume(held, "alice"),
        "raise": lambda: board.limits.set(name="resize", running=2),
        "remove": lambda: board.limits.remove(name="resize"),
        "expire": lambda: None,
    }
    ways[free]()
    thread.join(8.0)
    assert len(found) == 1


# -- exchanges ---------------------------------------------------------------------------------------------------------


def test_jobs_of_a_full_name_make_room_in_a_lane_for_those_of_another(board: JobBoard) -> None:
    board.limits.set(name="import", running=2)
    board.limits.set(lane="a", running=4)
    board.post_many([Posting("import", lane="a") for _ in range(100)])
    wanted = post(board, 3, name="export")
    running = board.claim_next("alice", limit=9, expiry=LONG)
    assert sorted(job.name for job in running) == ["export", "export", "import", "import"]
    assert [job for job in running if job.name == "export"] == wanted[:2]
    assert board.claim_next("alice", limit=9, expiry=LONG) == []
    board.consume(next(job for job in running if job.name == "export"), "alice")
    assert [job.name for job in board.claim_next("alice", limit=9, expiry=LONG)] == ["export"]
    assert board.audit() == []


def test_each_lane_has_its_turn_of_exchanges(board: JobBoard) -> None:
    board.limits.set(lane="tenant:*", running=1)
    for number in range(30):
        post(board, 1, f"tenant:{number}", "import")
        post(board, 1, f"tenant:{number}", "export")
    claimed = list[Job]()
    for _ in range(2):
        claimed += board.claim_next("alice", ["export"], limit=50, expiry=LONG)
    assert len({job.uuid for job in claimed}) == 30
    assert board.claim_next("alice", ["export"], limit=50, expiry=LONG) == []
    assert board.audit() == []


def test_a_strict_lane_exchanges_nothing(board: JobBoard) -> None:
    board.limits.set(lane="a", running=1, order="strict")
    first, second = post(board, 1, name="import")[0], post(board, 1, name="export")[0]
    assert board.claim_next("alice", ["export"], expiry=LONG) == []
    assert states_of(board, first, second) == [UNCLAIMED, BLOCKED]


def test_who_waits_looks_for_exchanges_only_while_jobs_of_its_names_are_blocked(board: JobBoard) -> None:
    board.limits.set(lane="a", running=1)
    post(board, 1, name="import")
    (blocked,) = post(board, 1, name="export")
    store = client_of(board).backend
    with store.waiter(frozenset(["export"])) as waiter:
        ready_in = waiter.ready_in()
        assert ready_in is not None
        assert 0 < ready_in <= 1.0
    with store.waiter(frozenset(["rotate"])) as waiter:
        assert waiter.ready_in() is None
    board.cancel(blocked)
    assert board.claim_next("alice", ["export"], expiry=LONG) == []
    with store.waiter(frozenset(["export"])) as waiter:
        assert waiter.ready_in() is None


# -- strict order and rates --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["free", "strict"])
def test_a_job_that_waits_for_a_retry_keeps_its_slot_of_a_strict_lane(board: JobBoard, order: Any) -> None:
    board.limits.set(lane="a", running=1, order=order)
    jobs = post(board, 3)
    board.abandon(board.claim_next("alice", expiry=LONG)[0], "alice", delay=SHORT)
    assert states_of(board, *jobs) == [DELAYED, BLOCKED if order == "strict" else UNCLAIMED, BLOCKED]
    ended = list[Job]()

    def work() -> bool:
        ended.extend(drain(board))
        return len(ended) == 3

    eventually(work)
    expected = jobs if order == "strict" else [jobs[1], jobs[2], jobs[0]]
    assert set(uuids_of(ended)) == set(uuids_of(jobs))
    if order == "strict":
        assert uuids_of(ended) == uuids_of(expected)
    assert board.audit() == []


def test_a_rate_lets_one_job_start_after_the_other(board: JobBoard, harness: Harness) -> None:
    board.limits.set(lane="a", rate=Rate(10, per=1))
    jobs = post(board, 4)
    assert states_of(board, *jobs) == [UNCLAIMED, BLOCKED, BLOCKED, BLOCKED]
    starts = list[float]()

    def work() -> bool:
        for job in harness.board(board.name).claim_next("alice", limit=9, expiry=LONG):
            record = board.get(job.uuid).record
            starts.append(record.last_modified.timestamp())
            board.consume(job, "alice")
        return len(starts) == 4

    eventually(work, every=0.01)
    assert all(later - earlier > 0.05 for earlier, later in pairwise(starts))
    keys = backend_of(board).keys
    eventually(lambda: (board.job_count, keys_below(board, keys.guards), keys_below(board, keys.timers)) == (0, [], []))


@pytest.mark.parametrize("running", [1, None])
def test_an_audit_sees_jobs_and_limits_of_one_revision(
    board: JobBoard, harness: Harness, monkeypatch: pytest.MonkeyPatch, running: int | None
) -> None:
    board.limits.set(lane="a", running=2)
    post(board, 3)
    other, read = harness.board(board.name), Audit._everything

    def changed_meanwhile(audit: Audit, snapshot: Snapshot) -> Any:
        found = read(audit, snapshot)
        other.limits.remove(lane="a") if running is None else other.limits.set(lane="a", running=running)
        return found

    monkeypatch.setattr(Audit, "_everything", changed_meanwhile)
    assert board.audit() == []


# -- what a client knows of limits -------------------------------------------------------------------------------------


def test_a_doubt_outlasts_a_read_that_fails_and_is_not_another_threads(
    board: JobBoard, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = backend_of(board)
    rules = LaneRules(backend.connection)
    harness.board(board.name).limits.set(lane="a", running=3)
    rules.doubt()
    read, seen = backend.connection.read, list[int | None]()

    def fail(ops: Sequence[Op]) -> list[Found]:
        raise BoardUnavailable("the server can't be reached")

    def look_meanwhile(ops: Sequence[Op]) -> list[Found]:
        # Another thread, whose doubt came before this read.
        monkeypatch.setattr(backend.connection, "read", read)
        seen.append(rules.known().rules.of_lane("a").running)
        return read(ops)

    monkeypatch.setattr(backend.connection, "read", fail)
    with pytest.raises(BoardUnavailable):
        rules.known()
    monkeypatch.setattr(backend.connection, "read", look_meanwhile)
    seen.append(rules.known().rules.of_lane("a").running)
    assert seen == [3, 3]
