"""Lanes and limits on ZooKeeper: clients that are at work beside each other, and znodes that somebody has changed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from harnesses.fixtures import a_board, a_harness, a_server
from harnesses.zookeeper_harness import ZooKeeperHarness, a_plain_client, path_of, root_of
from kazoo.client import KazooClient
from servers.zookeeper_servers import ZooKeeperServer

from jobboard import BoardUnavailable, Job, JobBoard, JobState, Posting, Rate
from jobboard.backends.sweep import sweep
from jobboard.backends.zookeeper import lanes, limits
from jobboard.backends.zookeeper.lane_looks import LaneLooks
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.read_modify_write import ReadModifyWrite
from jobboard.board import client_of
from jobboard.testing import Harness, eventually
from jobboard.testing.contract.case import LONG
from jobboard.testing.contract.lane_case import states_of

server = a_server(ZooKeeperServer)
harness = a_harness(ZooKeeperHarness)
board = a_board()
operator = a_plain_client()

BLOCKED, CLAIMED, COMPLETE, UNCLAIMED = (JobState[name] for name in ("BLOCKED", "CLAIMED", "COMPLETE", "UNCLAIMED"))
#: Somebody else's change between a step's reads and its write.
Between = Callable[[Callable[[], object]], list[object]]


def guard_of(board: JobBoard, lane: str = "a") -> str:
    """Return where the guard of a lane is."""
    return Layout("/jobboard", board.name).lane(lane)


def post(board: JobBoard, count: int, lane: str = "a", **options: Any) -> list[Job]:
    return [board.post("resize", lane=lane, **options) for _ in range(count)]


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


# -- guards ------------------------------------------------------------------------------------------------------------


def test_a_lane_without_a_limit_has_no_guard(board: JobBoard, operator: KazooClient) -> None:
    post(board, 3)
    for job in board.claim_next("alice", limit=3, expiry=LONG):
        board.consume(job, "alice")
    assert operator.exists(f"{root_of(board)}/lanes") is None


def test_tidying_deletes_the_guards_of_lanes_without_jobs(
    board: JobBoard, harness: Harness, operator: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    board.limits.set(lane="order:*", running=1)
    monkeypatch.setattr(limits, "MIN_GUARD_AGE", -1.0)
    for number in range(3):
        post(board, 1, f"order:{number}")
    for job in board.claim_next("alice", limit=2, expiry=LONG):
        board.consume(job, "alice")
    tidy(board)
    assert [bool(operator.exists(guard_of(board, f"order:{number}"))) for number in range(3)] == [False, False, True]
    other = harness.board(board.name)
    for client in (board, other):
        assert states_of(client, *post(client, 2, "order:0"))[1] == BLOCKED
    assert board.audit() == []


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

#: What somebody does to the znodes of a lane of two slots with five jobs, of which the first one is CLAIMED.
DAMAGES: dict[str, Callable[[KazooClient, str, list[Job]], object]] = {
    "its guard is lost": lambda operator, guard, jobs: operator.delete(guard),
    "its guard is damaged": lambda operator, guard, jobs: operator.set(guard, b"\xff"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_guard_holds_up_nobody(limited: JobBoard, operator: KazooClient, damage: str) -> None:
    jobs = post(limited, 5)
    (claimed,) = limited.claim_next("alice", expiry=LONG)
    DAMAGES[damage](operator, guard_of(limited), jobs)
    limited.consume(claimed, "alice")
    assert states_of(limited, *jobs) == [COMPLETE, UNCLAIMED, UNCLAIMED, BLOCKED, BLOCKED]


def test_an_audit_mends_a_damaged_guard(limited: JobBoard, operator: KazooClient) -> None:
    post(limited, 3)
    operator.set(guard_of(limited), b"\xff")
    assert [finding.repaired for finding in limited.audit(repair=True)] == [True]


def test_an_audit_deletes_a_damaged_guard_of_no_lane(limited: JobBoard, operator: KazooClient) -> None:
    (job,) = post(limited, 1)
    limited.cancel(job)
    operator.set(guard_of(limited), b"\xff")
    assert [finding.repaired for finding in limited.audit(repair=True)] == [True]
    assert operator.exists(guard_of(limited)) is None


def test_the_slots_of_jobs_that_are_deleted_by_hand_are_given_to_others(
    limited: JobBoard, harness: Harness, operator: KazooClient
) -> None:
    other = harness.board(limited.name)
    jobs = post(limited, 4)
    assert other.job_count == 4
    for job in jobs[:2]:
        operator.delete(path_of(limited, job.uuid))
    assert limited.audit(repair=True)
    assert limited.audit() == []
    for client in (limited, other):
        assert set(client.iterjobs(only_unclaimed=True)) == set(jobs[2:])


def test_a_damaged_limit_is_named_until_it_is_set_anew(
    limited: JobBoard, harness: Harness, operator: KazooClient
) -> None:
    path = Layout("/jobboard", limited.name).limit("lane", "a")
    post(limited, 3)
    operator.set(path, b"\xff")
    fresh = harness.board(limited.name, patience=0.0)
    with pytest.raises(BoardUnavailable, match="limit of the lane 'a' is damaged"):
        post(fresh, 1)
    assert list(fresh.limits) == []
    limited.limits.set(lane="a", running=2)


def test_limits_that_another_thread_doubts_while_they_are_read_are_told(
    board: JobBoard, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    other: Any = harness.board(board.name)
    known = other._backend._limits
    board.limits.set(lane="a", running=3)
    put, doubts = known._known.put, itertools.count()

    def put_amid_doubt(*arguments: Any) -> None:
        if not next(doubts):
            known.doubt()
        put(*arguments)

    monkeypatch.setattr(known._known, "put", put_amid_doubt)
    assert known.of(["a", "b"]).by_lane["a"].running == 3
    assert next(doubts)


# -- looks at the board ------------------------------------------------------------------------------------------------


def test_jobs_that_are_admitted_while_they_are_listed_stand_where_they_are_claimed(
    limited: JobBoard, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = harness.board(limited.name)
    post(limited, 4)
    held = other.claim_next("other", limit=2, expiry=LONG)
    later = [limited.post("resize").uuid for _ in range(2)]
    current, pending = ReadModifyWrite.current, [lambda: other.consume_many(held, "other")]

    def after_another(jobs: ReadModifyWrite, uuids: Any) -> Any:
        if pending:
            pending.pop()()
        return current(jobs, uuids)

    monkeypatch.setattr(ReadModifyWrite, "current", after_another)
    listed = [job.uuid for job in limited.iterjobs(states={BLOCKED, UNCLAIMED})]
    assert listed[:2] == later
    assert len(listed) == 4
    assert [job.uuid for job in limited.claim_next("owner", limit=4)] == listed


# -- claims ------------------------------------------------------------------------------------------------------------


def test_a_job_whose_claim_expires_before_its_call_ends_is_returned_once(
    limited: JobBoard, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, job = harness.board(limited.name), limited.post("resize")

    def exchange(*_: Any) -> bool:
        """Take longer than the claim lasts."""
        return eventually(lambda: other.stats().unclaimed == 1)

    monkeypatch.setattr(LaneLooks, "exchange", exchange)
    claimed = limited.claim_next("owner", limit=2, expiry=0.1)
    assert [each.token for each in claimed] == [other.get(job.uuid).record.token]
