"""Keys that stay taken for a while after the end of their job, on ZooKeeper."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from harnesses.fixtures import a_board, a_harness, a_server
from harnesses.zookeeper_harness import ZooKeeperHarness, a_plain_client, path_of
from kazoo.client import KazooClient
from servers.zookeeper_servers import ZooKeeperServer

from jobboard import AlreadyPosted, Job, JobBoard
from jobboard.testing import Harness, eventually
from jobboard.testing.contract.case import LONG
from jobboard.testing.contract.edge_case import end

server = a_server(ZooKeeperServer)
harness = a_harness(ZooKeeperHarness)
board = a_board()
operator = a_plain_client()


def test_a_key_that_lasts_goes_to_one_of_many_once_its_time_is_over(harness: Harness, board: JobBoard) -> None:
    boards = [board, harness.board(board.name), harness.board(board.name)]
    first = board.post("resize", key="k", key_for=1.0)
    end(board, first)
    assert [other.post("resize", key="k", if_exists="keep") for other in boards] == [first] * 3
    taken: list[Job] = []

    def try_to_post(other: JobBoard) -> None:
        try:
            taken.append(other.post("resize", key="k"))
        except AlreadyPosted:
            pass

    with ThreadPoolExecutor(3) as pool:
        eventually(lambda: list(pool.map(try_to_post, boards)) and taken)
    assert len(taken) == 1
    assert board.find("resize", "k") == taken[0]
    assert board.audit() == []


def test_a_key_that_lasts_beside_the_trash(board: JobBoard) -> None:
    """Restored, the job has its key still; once another one has taken it, it can't be restored."""
    job = board.post("resize", key="k", key_for=0.5)
    board.trash(job, by="ada")
    with pytest.raises(AlreadyPosted):
        board.post("resize", key="k", if_exists="replace")
    board.restore(job.uuid)
    assert board.find("resize", "k") == job
    board.trash(job, by="ada")

    def posted() -> Job | None:
        kept = board.post("resize", key="k", if_exists="keep")
        return None if kept == job else kept

    other = eventually(posted)
    with pytest.raises(AlreadyPosted):
        board.restore(job.uuid)
    board.cancel(other)
    board.restore(job.uuid)
    assert board.find("resize", "k") == job
    assert board.audit() == []


@pytest.mark.parametrize("is_purged", [False, True])
def test_a_cancelled_or_purged_job_frees_a_key_that_lasts(board: JobBoard, is_purged: bool) -> None:
    job = board.post("resize", key="k", key_for=LONG)
    if is_purged:
        board.trash(job, by="ada")
        board.purge(job.uuid)
    else:
        board.cancel(job)
    assert board.post("resize", key="k") != job
    assert board.audit() == []


def test_a_key_that_lasts_and_leads_to_no_job_is_found(board: JobBoard, operator: KazooClient) -> None:
    job = board.post("resize", key="k", key_for=LONG)
    end(board, job)
    operator.delete(path_of(board, job.uuid))
    [finding] = board.audit(repair=True)
    assert job.uuid in finding.problem
    assert finding.repaired
    assert board.audit() == []
    board.post("resize", key="k")
