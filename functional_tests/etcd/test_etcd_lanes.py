"""Lanes on etcd whose keys somebody has changed: an audit finds what is wrong, and mends it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from harnesses.etcd_harness import EtcdHarness
from harnesses.fixtures import a_board, a_harness, a_server
from servers.etcd_servers import EtcdServer

from jobboard import Job, JobBoard, JobState
from jobboard.backends.etcd import EtcdBackend
from jobboard.backends.etcd.txn import Op, Txn, delete, get, put
from jobboard.testing.contract.case import LONG
from jobboard.testing.contract.lanes import post_tied, states_of

server = a_server(EtcdServer)
harness = a_harness(EtcdHarness)
board = a_board()


def backend_of(board: JobBoard) -> EtcdBackend:
    backend = board._backend
    assert isinstance(backend, EtcdBackend)
    return backend


def by_hand(board: JobBoard, *ops: Op) -> None:
    backend_of(board).connection.send(Txn(then=list(ops)))


def order_of(board: JobBoard, job: Job) -> bytes:
    backend = backend_of(board)
    (pointer,) = backend.connection.read([get(backend.keys.job(job.uuid))])
    assert pointer.first is not None
    return pointer.first.value


#: What somebody does to the keys of a lane, of which the first job is CLAIMED, and the two others are BLOCKED.
DAMAGES: dict[str, Callable[[JobBoard, list[Job]], Op]] = {
    "its slot is lost": lambda board, jobs: delete(backend_of(board).keys.slot("a")),
    "its slot is that of a BLOCKED job": lambda board, jobs: put(
        backend_of(board).keys.slot("a"), jobs[1].uuid.encode()
    ),
    "its slot is that of no job": lambda board, jobs: put(backend_of(board).keys.slot("a"), b"\xff nobody"),
    "a job does not wait": lambda board, jobs: delete(backend_of(board).keys.lane("a") + order_of(board, jobs[2])),
    "no job waits first": lambda board, jobs: put(backend_of(board).keys.lane("a") + b"0" * 22, b""),
    "what is no place waits first": lambda board, jobs: put(backend_of(board).keys.lane("a") + b"0/\xff", b""),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_lane_is_found_and_mended(board: JobBoard, damage: str) -> None:
    jobs = [post_tied(board, lane="a") for _ in range(3)]
    (claimed,) = board.claim_next("alice", limit=3, expiry=LONG)
    by_hand(board, DAMAGES[damage](board, jobs))
    assert board.audit()
    assert board.audit(repair=True)
    assert board.audit() == []
    assert states_of(board, *jobs) == [JobState.CLAIMED, JobState.BLOCKED, JobState.BLOCKED]
    board.consume(claimed, "alice")
    assert states_of(board, *jobs) == [JobState.COMPLETE, JobState.UNCLAIMED, JobState.BLOCKED]


@pytest.mark.parametrize("damage", ["no job waits first", "what is no place waits first"])
def test_a_place_of_no_job_holds_up_no_end(board: JobBoard, damage: str) -> None:
    jobs = [post_tied(board, lane="a") for _ in range(2)]
    (claimed,) = board.claim_next("alice", limit=3, expiry=LONG)
    by_hand(board, DAMAGES[damage](board, jobs))
    board.consume(claimed, "alice")
    assert states_of(board, *jobs) == [JobState.COMPLETE, JobState.UNCLAIMED]
    assert board.audit() == []


def test_a_slot_that_is_held_twice_stays_with_the_claim(board: JobBoard) -> None:
    first = post_tied(board, lane="a")
    by_hand(board, delete(backend_of(board).keys.slot("a")))
    second = post_tied(board, lane="a")
    assert states_of(board, first, second) == [JobState.UNCLAIMED, JobState.UNCLAIMED]
    assert board.claim(first, "alice", LONG)
    assert board.audit(repair=True)
    assert board.audit() == []
    assert states_of(board, first, second) == [JobState.CLAIMED, JobState.BLOCKED]


def test_a_free_slot_beside_a_blocked_job_is_given_to_it(board: JobBoard) -> None:
    jobs = [post_tied(board, lane="a") for _ in range(2)]
    keys, order = backend_of(board).keys, order_of(board, jobs[0])
    by_hand(board, delete(keys.live + order))
    assert board.audit(repair=True)
    assert board.audit() == []
    assert states_of(board, jobs[1]) == [JobState.UNCLAIMED]
