"""Lanes on ZooKeeper whose znodes somebody has changed: an audit finds what is wrong, and mends it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from harnesses.fixtures import a_board, a_harness, a_server
from harnesses.zookeeper_harness import ZooKeeperHarness, a_plain_client, path_of
from kazoo.client import KazooClient
from servers.zookeeper_servers import ZooKeeperServer

from jobboard import Job, JobBoard, JobState
from jobboard.backends.zookeeper.layout import Layout
from jobboard.testing.contract.case import LONG
from jobboard.testing.contract.lanes import post_tied, states_of

server = a_server(ZooKeeperServer)
harness = a_harness(ZooKeeperHarness)
board = a_board()
operator = a_plain_client()


def slot_of(board: JobBoard) -> str:
    """Return where the slot of the lane "a" is."""
    return Layout("/jobboard", board.name).slot("a")


#: What somebody does to the znodes of a lane, of which the first job is CLAIMED, and the two others are BLOCKED.
DAMAGES: dict[str, Callable[[KazooClient, str, list[Job]], object]] = {
    "its slot is lost": lambda operator, slot, jobs: operator.delete(slot, recursive=True),
    "its slot is that of a BLOCKED job": lambda operator, slot, jobs: operator.set(slot, jobs[1].uuid.encode()),
    "its slot is that of no job": lambda operator, slot, jobs: operator.set(slot, b"\xff nobody"),
    "a job does not wait": lambda operator, slot, jobs: operator.delete(f"{slot}/{jobs[1].uuid}"),
    "no job waits": lambda operator, slot, jobs: operator.create(f"{slot}/nobody"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_lane_is_found_and_mended(board: JobBoard, operator: KazooClient, damage: str) -> None:
    jobs = [post_tied(board, lane="a") for _ in range(3)]
    (claimed,) = board.claim_next("alice", limit=3, expiry=LONG)
    DAMAGES[damage](operator, slot_of(board), jobs)
    assert board.audit()
    assert [finding.repaired for finding in board.audit(repair=True)] == [True]
    assert board.audit() == []
    assert states_of(board, *jobs) == [JobState.CLAIMED, JobState.BLOCKED, JobState.BLOCKED]
    board.consume(claimed, "alice")
    assert states_of(board, *jobs) == [JobState.COMPLETE, JobState.UNCLAIMED, JobState.BLOCKED]
    assert board.audit() == []


@pytest.mark.parametrize("damage", ["a job does not wait", "no job waits"])
def test_a_damaged_lane_holds_up_no_end(board: JobBoard, operator: KazooClient, damage: str) -> None:
    jobs = [post_tied(board, lane="a") for _ in range(3)]
    (claimed,) = board.claim_next("alice", limit=3, expiry=LONG)
    DAMAGES[damage](operator, slot_of(board), jobs)
    for _ in jobs:
        board.consume(claimed, "alice")
        for claimed in board.claim_next("alice", limit=3, expiry=LONG):
            assert claimed.uuid in {job.uuid for job in jobs}
    assert states_of(board, *jobs) == [JobState.COMPLETE] * 3
    assert board.audit() == []


def test_a_blocked_job_that_is_deleted_by_hand_holds_up_no_end(board: JobBoard, operator: KazooClient) -> None:
    jobs = [post_tied(board, lane="a") for _ in range(2)]
    (claimed,) = board.claim_next("alice", limit=3, expiry=LONG)
    operator.delete(path_of(board, jobs[1].uuid))
    board.consume(claimed, "alice")
    assert board.audit() == []
    assert post_tied(board, lane="a").record.state is JobState.UNCLAIMED


def test_a_slot_that_is_held_twice_stays_with_the_claim(board: JobBoard, operator: KazooClient) -> None:
    first = post_tied(board, lane="a")
    operator.delete(slot_of(board))
    second = post_tied(board, lane="a")
    assert states_of(board, first, second) == [JobState.UNCLAIMED, JobState.UNCLAIMED]
    assert board.claim(first, "alice", LONG)
    assert board.audit(repair=True)
    assert board.audit() == []
    assert states_of(board, first, second) == [JobState.CLAIMED, JobState.BLOCKED]


def test_a_free_slot_beside_a_blocked_job_is_given_to_it(board: JobBoard, operator: KazooClient) -> None:
    jobs = [post_tied(board, lane="a") for _ in range(2)]
    operator.delete(path_of(board, jobs[0].uuid))
    assert board.audit(repair=True)
    assert board.audit() == []
    assert states_of(board, jobs[1]) == [JobState.UNCLAIMED]


def test_a_slot_of_a_job_that_is_gone_is_removed(board: JobBoard, operator: KazooClient) -> None:
    job = post_tied(board, lane="a")
    operator.delete(path_of(board, job.uuid))
    assert [finding.repaired for finding in board.audit(repair=True)] == [True]
    assert board.audit() == []
    assert operator.exists(slot_of(board)) is None
