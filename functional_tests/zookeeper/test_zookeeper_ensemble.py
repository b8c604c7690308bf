"""An ensemble of three that loses a follower, its leader, and for a while its quorum: every job is consumed once."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harnesses import working
from harnesses.busy_board import goes_on
from harnesses.zookeeper_harness import ZooKeeperHarness
from servers.zookeeper_servers import ZooKeeperEnsemble

from jobboard import BoardUnavailable, JobBoard, JobState
from jobboard.testing import eventually

pytestmark = pytest.mark.turn_of("ensemble of ZooKeeper")

LONG = 600.0


class Patient(ZooKeeperHarness):
    """Sessions outlive an election."""

    backend_options = {"session_timeout": 6.0, "request_timeout": 2.0}


@pytest.fixture
def ensemble() -> Iterator[ZooKeeperEnsemble]:
    with ZooKeeperEnsemble() as servers:
        yield servers
        # Is shown beside a test that failed.
        sys.stdout.write(servers.story())


@pytest.fixture
def harness(ensemble: ZooKeeperEnsemble) -> Iterator[ZooKeeperHarness]:
    with Patient(ensemble.uri) as harness:
        yield harness


#: What was not certain is sent again too.
insist: Any = functools.partial(working.insist, unforgiven=())


@pytest.mark.parametrize("role", ["follower", "leader"])
def test_a_server_that_dies_in_the_midst_of_work_costs_nothing(
    ensemble: ZooKeeperEnsemble, tmp_path: Path, role: str
) -> None:
    victim = ensemble.leader() if role == "leader" else ensemble.followers()[0]
    ensemble.nodes.sort(key=lambda node: node is not victim)
    goes_on(victim.kill, ensemble.uri, tmp_path, **Patient.backend_options, randomize_hosts=False)


def test_without_a_quorum_there_is_no_board_and_with_one_all_is_as_it_was(
    ensemble: ZooKeeperEnsemble, harness: ZooKeeperHarness
) -> None:
    board = harness.board(patience=0.5)
    job = board.post("resize", details={"n": 1})
    dead = [ensemble.leader(), ensemble.followers()[0]]
    for node in dead:
        node.kill()
    eventually(lambda: not board.connected)
    with pytest.raises(BoardUnavailable):
        board.claim_next("alice")
    for node in dead:
        node.launch()
    ensemble.until_whole()
    eventually(lambda: board.connected, within=30)
    [claimed] = insist(lambda: board.claim_next("alice", expiry=LONG))
    assert claimed == job
    board.consume(claimed, "alice", "done")
    assert (state_of(board, job.uuid), board.audit()) == (JobState.COMPLETE, [])


def test_what_one_client_did_the_next_one_sees_on_another_server(ensemble: ZooKeeperEnsemble) -> None:
    """A follower may be behind; a board asks it to catch up before it looks."""
    here, there = ensemble.followers()
    with Patient(here.uri) as first, Patient(there.uri) as second:
        writer = first.board()
        reader = second.board(writer.name)
        for number in range(30):
            job = writer.post("resize", details={"n": number})
            assert reader.get(job.uuid).details == {"n": number}
            assert reader.claim_next("alice", expiry=LONG) == [job]
            assert writer.find_owner(job.uuid) == "alice"
            reader.consume(job, "alice", token=reader.get(job.uuid).record.token)
            assert writer.job_count == 0


def test_what_a_client_of_a_follower_did_a_client_of_the_leader_sees_soon(ensemble: ZooKeeperEnsemble) -> None:
    """The leader tells its followers to commit before it does so itself, and ``sync`` is no wait there."""
    with Patient(ensemble.leader().uri) as first, Patient(ensemble.followers()[0].uri) as second:
        reader = first.board()
        writer = second.board(reader.name)
        for _ in range(30):
            job = writer.post("resize")
            eventually(lambda: reader.job_count == 1)
            writer.consume(writer.claim_next("alice", expiry=LONG)[0], "alice")
            eventually(lambda job=job: state_of(reader, job.uuid) is JobState.COMPLETE)  # type: ignore[misc]


def state_of(board: JobBoard, uuid: str) -> JobState:
    return board.get(uuid).record.state
