"""Lanes and limits on etcd: clients that are at work beside each other, and keys that somebody has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from harnesses.etcd_harness import EtcdHarness
from harnesses.fixtures import a_board, a_harness, a_server
from servers.etcd_servers import EtcdServer

from jobboard import Job, JobBoard, JobState, Posting, Rate
from jobboard.backends.etcd import EtcdBackend, lanes
from jobboard.backends.etcd.keys import LanePart
from jobboard.backends.etcd.lanes import Lanes
from jobboard.backends.etcd.txn import Op, Txn, delete, get, put, scan_prefix
from jobboard.backends.sweep import sweep
from jobboard.board import client_of
from jobboard.testing import Harness, eventually
from jobboard.testing.contract.case import LONG, drain, uuids_of
from jobboard.testing.contract.lane_case import states_of

server = a_server(EtcdServer)
harness = a_harness(EtcdHarness)
board = a_board()

BLOCKED, CLAIMED, COMPLETE, DELAYED, UNCLAIMED = (
    JobState[name] for name in ("BLOCKED", "CLAIMED", "COMPLETE", "DELAYED", "UNCLAIMED")
)
#: Somebody else's change between a step's reads and its write.
Between = Callable[[Callable[[], object]], list[object]]


def backend_of(board: JobBoard) -> EtcdBackend:
    backend = client_of(board).backend
    assert isinstance(backend, EtcdBackend)
    return backend


def by_hand(board: JobBoard, *ops: Op) -> None:
    backend_of(board).connection.send(Txn(then=list(ops)))


def keys_below(board: JobBoard, prefix: bytes) -> list[bytes]:
    (found,) = backend_of(board).connection.read([scan_prefix(prefix, keys_only=True)])
    return [kv.key for kv in found.kvs]


def order_of(board: JobBoard, job: Job) -> bytes:
    backend = backend_of(board)
    (pointer,) = backend.connection.read([get(backend.keys.job(job.uuid))])
    assert pointer.first is not None
    return pointer.first.value


def post(board: JobBoard, count: int, lane: str = "a", name: str = "resize", **options: Any) -> list[Job]:
    return [board.post(name, lane=lane, **options) for _ in range(count)]


def tidy(board: JobBoard) -> None:
    client_of(board).backend.maintenance.tidy(100)


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Between:
    """Return a function that does something once, after the next step has read its lane and before it is written."""
    plan = lanes.plan

    def arrange(change: Callable[[], object]) -> list[object]:
        pending, done = [change], list[object]()

        def after_another(*arguments: Any) -> Any:
            if pending:
                done.append(pending.pop()())
            return plan(*arguments)

        monkeypatch.setattr(lanes, "plan", after_another)
        return done

    return arrange


@pytest.fixture
def limited(board: JobBoard) -> Iterator[JobBoard]:
    """The board, with a lane ``a`` of two slots, and sound lanes at the end."""
    board.limits.set(lane="a", running=2)
    yield board
    assert board.audit() == []


# -- steps beside each other -------------------------------------------------------------------------------------------


def test_a_post_beside_the_end_of_a_holder_is_admitted(limited: JobBoard, harness: Harness, between: Between) -> None:
    other = harness.board(limited.name)
    post(limited, 2)
    claimed, _ = limited.claim_next("alice", limit=2, expiry=LONG)
    posted = between(lambda: post(other, 1))
    limited.consume(claimed, "alice")
    assert states_of(limited, *posted[0]) == [UNCLAIMED]  # type: ignore[misc]


def test_ends_beside_a_post_free_slots_for_it(limited: JobBoard, harness: Harness, between: Between) -> None:
    other = harness.board(limited.name)
    post(limited, 2)
    claimed = other.claim_next("alice", limit=2, expiry=LONG)
    between(lambda: other.consume_many(claimed, "alice"))
    assert states_of(limited, *post(limited, 3)) == [UNCLAIMED, UNCLAIMED, BLOCKED]


def test_of_two_ends_beside_each_other_each_admits_another_job(
    limited: JobBoard, harness: Harness, between: Between
) -> None:
    other = harness.board(limited.name)
    jobs = post(limited, 5)
    (first,) = limited.claim_next("alice", expiry=LONG)
    (second,) = other.claim_next("bob", expiry=LONG)
    between(lambda: other.consume(second, "bob"))
    limited.consume(first, "alice")
    assert sorted(states_of(limited, *jobs)) == sorted([COMPLETE] * 2 + [UNCLAIMED] * 2 + [BLOCKED])


def test_of_posts_beside_each_other_as_many_are_claimable_as_may_run(
    limited: JobBoard, harness: Harness, between: Between
) -> None:
    other = harness.board(limited.name)
    others = between(lambda: post(other, 1))
    jobs = post(limited, 2)
    assert sorted(states_of(limited, *jobs, *others[0])) == sorted([UNCLAIMED] * 2 + [BLOCKED])  # type: ignore[misc]


@pytest.mark.parametrize("running", [1, 3])
def test_a_step_goes_by_a_limit_that_is_set_meanwhile(
    limited: JobBoard, harness: Harness, between: Between, running: int
) -> None:
    other = harness.board(limited.name)
    jobs = post(limited, 1)
    between(lambda: other.limits.set(lane="a", running=running))
    jobs += post(limited, 3)
    assert states_of(limited, *jobs).count(UNCLAIMED) == running


def test_a_post_into_a_lane_that_is_limited_meanwhile_waits(board: JobBoard, harness: Harness) -> None:
    other = harness.board(board.name)
    first = post(board, 1)
    other.limits.set(lane="a", running=1)
    assert states_of(board, *first, *post(board, 2)) == [UNCLAIMED, BLOCKED, BLOCKED]


def test_a_batch_of_ends_of_one_lane_is_carried_out_in_parts(board: JobBoard) -> None:
    board.limits.set(lane="a", running=120)
    jobs = post(board, 150)
    eventually(lambda: states_of(board, *jobs).count(UNCLAIMED) == 120)
    claimed = board.claim_next("alice", limit=200, expiry=LONG)
    assert len(claimed) == 120
    board.consume_many(claimed, "alice")
    eventually(lambda: len(board.claim_next("alice", limit=200, expiry=LONG)) == 30)
    assert board.audit() == []


@pytest.mark.parametrize("change", ["cancel", "trash", "reprioritize"])
def test_the_next_job_changes_beside_an_end(limited: JobBoard, harness: Harness, between: Between, change: str) -> None:
    other = harness.board(limited.name)
    _, _, third, fourth = post(limited, 4)
    first, second = limited.claim_next("alice", limit=2, expiry=LONG)
    changes: dict[str, Callable[[], object]] = {
        "cancel": lambda: other.cancel(third),
        "trash": lambda: other.trash(third, by="an operator"),
        "reprioritize": lambda: other.reprioritize(third, "low"),
    }
    between(changes[change])
    limited.consume(first, "alice")
    assert states_of(limited, fourth) == [UNCLAIMED]
    limited.consume(second, "alice")
    assert uuids_of(drain(limited)) == uuids_of([fourth, third][: 2 if change == "reprioritize" else 1])


def test_a_claim_beside_an_exchange_keeps_its_job(limited: JobBoard, harness: Harness, between: Between) -> None:
    other = harness.board(limited.name)
    jobs = post(limited, 2)
    between(lambda: other.claim(jobs[1], "alice", LONG))
    (better,) = post(limited, 1, priority="high")
    assert states_of(limited, *jobs, better) == [BLOCKED, CLAIMED, UNCLAIMED]


def test_an_exchange_leaves_a_job_its_place_that_is_admitted_meanwhile(
    limited: JobBoard, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exchange knows of it as BLOCKED, since it has read that before it reads the lane."""
    other = harness.board(limited.name)
    jobs = [*post(limited, 2), *post(limited, 1, name="rotate"), *post(limited, 2)]
    (claimed,) = other.claim_next("alice", expiry=LONG)
    pending, exchange = [partial(other.consume, claimed, "alice")], Lanes.exchange

    def after_an_end(*arguments: Any) -> Any:
        if pending:
            pending.pop()()
        return exchange(*arguments)

    monkeypatch.setattr(Lanes, "exchange", after_an_end)
    limited.claim_next("bob", ["rotate"], expiry=LONG)
    assert states_of(limited, *jobs[:2]) == [COMPLETE, UNCLAIMED]
    assert limited.audit() == []
    assert uuids_of(limited.claim_next("bob", ["rotate"], expiry=LONG)) in ([], [jobs[2].uuid])
    assert states_of(limited, *jobs[2:]) == [CLAIMED, BLOCKED, BLOCKED]


def test_a_batch_of_postings_is_one_step(limited: JobBoard) -> None:
    jobs = limited.post_many(
        [*(Posting("resize", lane="a") for _ in range(9)), Posting("resize", lane="a", priority="high")]
    )
    assert states_of(limited, *jobs) == [UNCLAIMED, *[BLOCKED] * 8, UNCLAIMED]
    history = limited.get(jobs[-1].uuid).history
    assert [str(line.kind) for line in history] == ["POSTED"]


def test_a_batch_replaces_one_holder_after_the_other(board: JobBoard) -> None:
    board.limits.set(lane="a", running=1)
    first, second, third = (post(board, 1, key=key)[0] for key in "abc")
    again = [Posting("resize", lane="a", key=key, if_exists="replace") for key in "ab"]
    assert board.post_many([*again, Posting("resize")])[:2] == [first, second]
    assert states_of(board, first, second, third) == [BLOCKED, BLOCKED, UNCLAIMED]
    assert board.audit() == []


def test_a_whole_lane_is_cancelled_in_one_call(limited: JobBoard) -> None:
    jobs = limited.post_many([Posting("resize", lane="a") for _ in range(60)])
    client_of(limited).backend.jobs.cancel([job.uuid for job in jobs])
    assert limited.job_count == 0
    assert states_of(limited, *post(limited, 1)) == [UNCLAIMED]


def test_large_jobs_of_a_lane_are_admitted_all_the_same(board: JobBoard) -> None:
    board.limits.set(lane="a", running=1)
    jobs = post(board, 3, details={"text": "x" * 500_000})
    for job in jobs:
        (claimed,) = board.claim_next("alice", expiry=LONG)
        assert claimed == job
        board.consume(claimed, "alice", "y" * 450_000)
    assert board.audit() == []


def test_a_limit_is_lowered_and_removed_beside_hundreds_of_claimable_jobs(board: JobBoard) -> None:
    board.post_many([Posting("resize", lane=f"tenant:{n % 2}") for n in range(200)])
    board.limits.set(lane="tenant:*", running=3)
    assert (board.stats().unclaimed, board.stats().blocked) == (6, 194)
    assert board.audit() == []
    board.limits.remove(lane="tenant:*")
    assert board.stats().unclaimed == 200
    assert backend_of(board).limits.all() == []
    keys = backend_of(board).keys
    assert keys_below(board, keys.guards) == keys_below(board, keys.timers) == []


# -- guards ------------------------------------------------------------------------------------------------------------


def test_lanes_without_jobs_or_limits_have_no_guard(board: JobBoard) -> None:
    post(board, 3)
    keys = backend_of(board).keys
    assert keys_below(board, keys.guards) == []
    board.limits.set(lane="a", running=1)
    assert len(keys_below(board, keys.guards)) == 1
    assert len(list(drain(board))) == 3
    assert keys_below(board, keys.guards) == keys_below(board, keys.lanes) == []


@pytest.mark.parametrize("pattern", ["a:1", "a:*"])
@pytest.mark.parametrize("end", ["a sweep later", "before the sweep"])
def test_no_guard_outlives_the_limit_of_its_lane(
    board: JobBoard, monkeypatch: pytest.MonkeyPatch, pattern: str, end: str
) -> None:
    lanes, store = ["a:1", "a:1", "a:1"], client_of(board).backend.limits
    if pattern == "a:*":
        lanes = ["a:1", "a:2", "a:3"]
    board.limits.set(lane=pattern, running=2)
    jobs = [board.post("resize", lane=lane) for lane in lanes]
    monkeypatch.setattr("jobboard.board.limits.sweep", lambda store, rows: None)
    board.limits.remove(lane=pattern)
    keys = backend_of(board).keys
    assert len(keys_below(board, keys.guards)) == len(set(lanes))
    if end == "a sweep later":
        sweep(store, store.all())
    for job in jobs:
        board.cancel(job)
    sweep(store, store.all())
    assert keys_below(board, keys.guards) == store.all() == board.audit() == []


def test_a_guard_of_no_lane_is_found_and_deleted(board: JobBoard) -> None:
    keys = backend_of(board).keys
    board.limits.set(lane="b", running=1)
    post(board, 1, "b")
    by_hand(board, put(keys.guard("a"), b"\xff"))
    assert len(board.audit()) == len(board.audit(repair=True)) == 1
    assert board.audit() == []
    assert keys_below(board, keys.guards) == [keys.guard("b")]


def test_what_a_killed_client_has_left_of_a_change_is_carried_out_by_a_tidying(
    board: JobBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = post(board, 3)
    monkeypatch.setattr("jobboard.board.limits.sweep", lambda store, rows: None)
    board.limits.set(lane="a", running=1)
    assert states_of(board, *jobs) == [UNCLAIMED] * 3
    tidy(board)
    assert states_of(board, *jobs) == [UNCLAIMED, BLOCKED, BLOCKED]
    board.limits.remove(lane="a")
    assert states_of(board, *jobs) == [UNCLAIMED, BLOCKED, BLOCKED]
    store = client_of(board).backend.limits
    sweep(store, store.all())
    assert states_of(board, *jobs) == [UNCLAIMED] * 3
    assert store.all() == []


def test_the_moment_of_a_rate_is_known_to_a_client_that_comes_later(board: JobBoard, harness: Harness) -> None:
    board.limits.set(lane="a", rate=Rate(10, per=1))
    post(board, 2)
    (job,) = board.claim_next("alice", limit=9, expiry=LONG)
    board.consume(job, "alice")
    late = harness.board(board.name)
    with client_of(late).backend.waiter(None) as waiter:
        ready_in = waiter.ready_in()
        assert ready_in is not None
        assert 0 <= ready_in <= 0.2
    eventually(lambda: late.claim_next("bob", expiry=LONG) != [])


# -- damages -----------------------------------------------------------------------------------------------------------

#: What somebody does to the keys of a lane of one slot, of which the first job is CLAIMED, and two others are BLOCKED.
DAMAGES: dict[str, Callable[[JobBoard, list[Job]], Op]] = {
    "its slot is lost": lambda board, jobs: delete(
        backend_of(board).keys.in_lane("a", LanePart.CLAIMED, order_of(board, jobs[0]))
    ),
    "a slot is that of no job": lambda board, jobs: put(
        backend_of(board).keys.in_lane("a", LanePart.CLAIMED, b"0" * 22), b""
    ),
    "a claimable job is none": lambda board, jobs: put(
        backend_of(board).keys.in_lane("a", LanePart.CLAIMABLE, b"0" * 22), b"\xff"
    ),
    "a job does not wait": lambda board, jobs: delete(
        backend_of(board).keys.in_lane("a", LanePart.BLOCKED, order_of(board, jobs[2]))
    ),
    "no job waits first": lambda board, jobs: put(
        backend_of(board).keys.in_lane("a", LanePart.BLOCKED, b"0" * 22), b"\xff"
    ),
    "what is no place waits first": lambda board, jobs: put(
        backend_of(board).keys.in_lane("a", LanePart.BLOCKED) + b"0/\xff", b""
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_lane_is_found_and_mended(board: JobBoard, damage: str) -> None:
    board.limits.set(lane="a", running=1)
    jobs = post(board, 3)
    (claimed,) = board.claim_next("alice", limit=3, expiry=LONG)
    by_hand(board, DAMAGES[damage](board, jobs))
    assert board.audit()
    assert board.audit(repair=True)
    assert board.audit() == []
    assert states_of(board, *jobs) == [CLAIMED, BLOCKED, BLOCKED]
    board.consume(claimed, "alice")
    assert states_of(board, *jobs) == [COMPLETE, UNCLAIMED, BLOCKED]


@pytest.mark.parametrize("damage", ["no job waits first", "what is no place waits first"])
def test_a_place_of_no_job_holds_up_no_end(board: JobBoard, damage: str) -> None:
    board.limits.set(lane="a", running=1)
    jobs = post(board, 2)
    (claimed,) = board.claim_next("alice", limit=3, expiry=LONG)
    by_hand(board, DAMAGES[damage](board, jobs))
    board.consume(claimed, "alice")
    assert states_of(board, *jobs) == [COMPLETE, UNCLAIMED]
    assert board.audit() == []


@pytest.mark.parametrize("value", [None, b"\xff"])
def test_a_guard_that_is_lost_or_damaged_holds_up_nobody(board: JobBoard, value: bytes | None) -> None:
    board.limits.set(lane="a", running=1)
    jobs = post(board, 3)
    key = backend_of(board).keys.guard("a")
    by_hand(board, delete(key) if value is None else put(key, value))
    assert uuids_of(drain(board)) == uuids_of(jobs)
    assert board.audit() == []


def test_a_timer_of_no_lane_is_deleted(board: JobBoard) -> None:
    keys = backend_of(board).keys
    by_hand(board, put(keys.look(1.0, "nobody"), b""))
    assert board.claim_next("alice") == []
    assert keys_below(board, keys.timers) == []


def test_a_rate_whose_timer_is_lost_is_found_and_goes_on(board: JobBoard) -> None:
    board.limits.set(lane="a", rate=Rate(5, per=1))
    jobs = post(board, 2)
    (timer,) = keys_below(board, backend_of(board).keys.timers)
    by_hand(board, delete(timer))
    assert board.audit()
    assert board.audit(repair=True)
    assert board.audit() == []
    board.cancel(jobs[0])
    eventually(lambda: board.stats().unclaimed == 1)


def test_a_free_slot_beside_a_blocked_job_is_given_to_it(board: JobBoard) -> None:
    board.limits.set(lane="a", running=1)
    jobs = post(board, 2)
    by_hand(board, delete(backend_of(board).keys.live + order_of(board, jobs[0])))
    assert board.audit(repair=True)
    eventually(lambda: board.audit(repair=True) == [])
    assert states_of(board, jobs[1]) == [UNCLAIMED]


def test_a_limit_that_can_not_be_read_is_found_and_set_aside(board: JobBoard) -> None:
    board.limits.set(lane="a", running=1)
    by_hand(board, put(backend_of(board).keys.limit("lane", "a"), b"\xff"))
    assert list(board.limits) == []
    assert board.audit()
    assert board.audit(repair=True)
    assert board.audit() == []
    board.limits.set(lane="a", running=1)
    assert states_of(board, *post(board, 2)) == [UNCLAIMED, BLOCKED]
