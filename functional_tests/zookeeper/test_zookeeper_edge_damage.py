"""Edges, marks, steps and signals on ZooKeeper that can't be read: their own jobs go on as they should, and all others.

An audit names what is damaged, and a repair mends it.
"""

from __future__ import annotations

import pytest
from harnesses.families import (
    a_family,
    end,
    have_results,
    is_put_aside,
    loses_its_signal,
    mended,
    with_signals,
    with_steps,
)
from harnesses.fixtures import a_board, a_harness, a_harness_behind, a_proxy, a_server
from harnesses.zookeeper_harness import ZooKeeperHarness, a_plain_client
from harnesses.zookeeper_requests import round_trips
from kazoo.client import KazooClient
from servers.proxy import Proxy
from servers.zookeeper_servers import ZooKeeperServer

from jobboard import BoardUnavailable, Job, JobBoard, JobState
from jobboard.backends.edge_rows import EdgeCounts, parent_of_graph
from jobboard.backends.kv.codec import pack
from jobboard.backends.rows import NewJob
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.transactions import Transaction, Transactions
from jobboard.board import client_of
from jobboard.payload import EMPTY_PAYLOAD
from jobboard.testing import Harness, eventually
from jobboard.testing.contract.lane_case import states_of
from jobboard.validation import new_uuid

server = a_server(ZooKeeperServer)
harness = a_harness(ZooKeeperHarness)
proxy = a_proxy()
behind = a_harness_behind(ZooKeeperHarness)
board = a_board()
operator = a_plain_client()

BLOCKED, UNCLAIMED = JobState.BLOCKED, JobState.UNCLAIMED
#: What nobody can read, and what a later version may write.
BAD = [b"", b"garbage", pack(["postponed", "resize", None, False, 1.0, ""])]


def layout_of(board: JobBoard) -> Layout:
    return Layout("/jobboard", board.name)


def counts_of(board: JobBoard, *jobs: Job) -> list[EdgeCounts]:
    return client_of(board).backend.edges.counts([job.uuid for job in jobs])


def leaving_children(board: JobBoard, patch: pytest.MonkeyPatch) -> None:
    """Let a client do no more than the step that ends a parent, as one does that is killed behind it."""
    resolver = client_of(board).backend._in_roles["edges"]._resolver  # type: ignore[attr-defined]
    patch.setattr(resolver, "work_off_own", lambda parents: None)


def named_and_mended(board: JobBoard, *uuids: str | None) -> None:
    """Let an audit name these jobs, and mend them."""
    assert {finding.uuid for finding in board.audit()} == set(uuids)
    mended(board)


# -- tallies and edges -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", BAD)
def test_a_job_whose_parents_are_not_counted_waits_for_all_of_them(
    board: JobBoard, operator: KazooClient, data: bytes
) -> None:
    parents = [board.post("resize") for _ in range(3)]
    child, other = board.post("report", after=parents), board.post("report", after=parents)
    operator.set(layout_of(board).edges_of(child.uuid), data)
    for number, parent in enumerate(parents, 1):
        end(board, parent)
        assert counts_of(board, child, other) == [EdgeCounts(open=3 - number, done=number)] * 2
        assert states_of(board, child, other) == [BLOCKED if number < 3 else UNCLAIMED] * 2
    assert board.audit() == []


@pytest.mark.parametrize("data", BAD)
def test_an_edge_that_cannot_be_read_is_told_how_its_parent_ends(
    board: JobBoard, operator: KazooClient, data: bytes
) -> None:
    parents, children = a_family(board)
    for child in children:
        operator.set(layout_of(board).edge(child.uuid, parents[0].uuid), data)
    end(board, *parents)
    assert states_of(board, *children) == [UNCLAIMED] * 3
    assert have_results(children, parents)
    assert board.audit() == []


@pytest.mark.parametrize("data", BAD)
@pytest.mark.parametrize("is_over", [False, True])
def test_an_edge_that_cannot_be_read_is_named_and_mended(
    board: JobBoard, operator: KazooClient, data: bytes, is_over: bool
) -> None:
    parents, children = a_family(board)
    end(board, *parents[:is_over])
    for child in children:
        operator.set(layout_of(board).edge(child.uuid, parents[0].uuid), data)
    assert board.post("other") in list(board.wait(0))
    named_and_mended(board, *(child.uuid for child in children))
    assert states_of(board, *children) == [BLOCKED] * 3
    end(board, *parents[is_over:])
    assert states_of(board, *children) == [UNCLAIMED] * 3
    assert have_results(children[:1], parents)


def test_a_repair_that_meets_another_change_mends_nothing(
    board: JobBoard, operator: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    parents, children = a_family(board)
    for child in children:
        operator.set(layout_of(board).edge(child.uuid, parents[0].uuid), b"garbage")
    commit = Transactions.commit

    def commit_too_late(transactions: Transactions, transaction: Transaction) -> None:
        folder = layout_of(board).children_of(parents[0].uuid)
        if operator.exists(folder):
            operator.delete(folder, recursive=True)
        commit(transactions, transaction)

    with monkeypatch.context() as patch:
        patch.setattr(Transactions, "commit", commit_too_late)
        assert False in {finding.repaired for finding in board.audit(repair=True)}
    mended(board)


# -- marks -------------------------------------------------------------------------------------------------------------


def ask(proxy: Proxy, board: JobBoard) -> int:
    """Return how many round trips a claim takes that finds nothing."""

    def claim() -> None:
        assert board.claim_next("bob", names=["nothing"]) == []

    return round_trips(proxy, claim)


@pytest.mark.parametrize("data", [*BAD, None], ids=["empty", "garbage", "newer", "deleted"])
@pytest.mark.parametrize("is_graph", [False, True])
def test_a_mark_that_cannot_be_read_is_no_work_for_others(
    proxy: Proxy,
    behind: Harness,
    operator: KazooClient,
    monkeypatch: pytest.MonkeyPatch,
    data: bytes | None,
    is_graph: bool,
) -> None:
    board = behind.board()
    # The first look lists the board.
    usual = [ask(proxy, board) for _ in range(4)][1:]
    layout, graph, child = layout_of(board), new_uuid(), new_uuid()
    monkeypatch.setattr("jobboard.backends.zookeeper.new_edges.GRAPH_TTL", 0.3)
    if is_graph:
        path = layout.children_of(parent_of_graph(graph))
        client_of(board).backend.jobs.post([NewJob(child, "resize", 3, EMPTY_PAYLOAD, graph=graph)])
    else:
        parent = board.post("resize")
        path = layout.children_of(parent.uuid)
        child = board.post("resize", after=[parent]).uuid
        leaving_children(board, monkeypatch)
        end(board, parent)
    if data is None:
        operator.delete(path, recursive=True)
    else:
        operator.set(path, data)
    with client_of(board).waiter(None) as waiter:
        # Once it was due, and was looked at, nothing is due any more.
        eventually(lambda: board.claim_next("bob") == [] and waiter.ready_in() is None)
    assert [ask(proxy, board) for _ in range(3)] == usual
    assert board.get(child).state is BLOCKED


@pytest.mark.parametrize("data", BAD)
def test_a_mark_that_cannot_be_read_is_named_and_mended(
    board: JobBoard, operator: KazooClient, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    parents, children = a_family(board)
    with monkeypatch.context() as patch:
        leaving_children(board, patch)
        end(board, *parents)
        for parent in parents:
            operator.set(layout_of(board).children_of(parent.uuid), data)
    found = {finding.uuid for finding in board.audit()}
    assert found
    for _ in parents:
        assert all(finding.repaired for finding in board.audit(repair=True))
    assert board.audit() == []
    assert states_of(board, *children) == [UNCLAIMED] * 3


def test_a_parent_that_came_back_without_a_word_is_named_and_waited_for(
    board: JobBoard, operator: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    parents = [board.post("resize") for _ in range(3)]
    child = board.post("report", after=parents)
    for parent in parents:
        board.trash(parent, by="ada")
    assert counts_of(board, child) == [EdgeCounts(failed=3)]
    with monkeypatch.context() as patch:
        leaving_children(board, patch)
        for parent in parents:
            board.restore(parent.uuid)
            operator.set(layout_of(board).children_of(parent.uuid), b"")
    assert board.audit()
    for _ in parents:
        board.audit(repair=True)
    assert board.audit() == []
    assert counts_of(board, child) == [EdgeCounts(open=3)]
    end(board, *parents)
    assert states_of(board, child) == [UNCLAIMED]


# -- steps and signals -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", BAD)
def test_a_step_that_cannot_be_read_does_not_run_again(board: JobBoard, operator: KazooClient, data: bytes) -> None:
    steps, jobs = client_of(board).backend.steps, with_steps(board, 3)
    operator.set(layout_of(board).step(jobs[0].uuid, 1), data)
    with pytest.raises(BoardUnavailable, match=jobs[0].uuid):
        steps.load(jobs[0].uuid, 0, 9)
    assert [len(steps.load(job.uuid, 0, 9)) for job in jobs[1:]] == [3, 3]
    is_put_aside(board, jobs, jobs[0], "its step 2 can't be read")


def test_a_step_without_a_number_cannot_be_read(board: JobBoard, operator: KazooClient) -> None:
    jobs = with_steps(board, 3)
    operator.create(f"{layout_of(board).steps_of(jobs[0].uuid)}/x", b"")
    is_put_aside(board, jobs, jobs[0], "its step 'x' can't be read")


@pytest.mark.parametrize("data", BAD)
def test_a_signal_that_cannot_be_read_is_named_and_deleted(board: JobBoard, operator: KazooClient, data: bytes) -> None:
    jobs = with_signals(board)
    operator.set(layout_of(board).signal(jobs[0].uuid, "go"), data)
    loses_its_signal(board, jobs, jobs[0])
