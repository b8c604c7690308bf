"""Edges, marks, steps and signals on etcd that can't be read: their own jobs go on as they should, and all others.

An audit names what is damaged, and a repair mends it.
"""

from __future__ import annotations

import math

import pytest
from harnesses.etcd_harness import EtcdHarness
from harnesses.etcd_requests import Requests
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
from harnesses.fixtures import a_board, a_harness, a_server
from servers.etcd_servers import EtcdServer

from jobboard import BoardUnavailable, Job, JobBoard, JobState
from jobboard.backends.edge_rows import EdgeCounts, parent_of_graph
from jobboard.backends.etcd import EtcdBackend
from jobboard.backends.etcd.resolving import Resolver
from jobboard.backends.etcd.txn import Op, Txn, after, delete, delete_range, put, scan_prefix
from jobboard.backends.kv.codec import pack
from jobboard.backends.rows import NewJob
from jobboard.board import client_of
from jobboard.payload import EMPTY_PAYLOAD
from jobboard.testing import eventually
from jobboard.testing.contract.lane_case import states_of
from jobboard.validation import new_uuid

server = a_server(EtcdServer)
harness = a_harness(EtcdHarness)
board = a_board()

BLOCKED, CLAIMED, UNCLAIMED = JobState.BLOCKED, JobState.CLAIMED, JobState.UNCLAIMED
#: What nobody can read, and what a later version may write.
BAD = [b"", b"garbage", pack(["postponed", "resize", None, False, 1.0, b""])]


def etcd_of(board: JobBoard) -> EtcdBackend:
    backend = client_of(board).backend
    assert isinstance(backend, EtcdBackend)
    return backend


def write(board: JobBoard, *ops: Op) -> None:
    assert etcd_of(board).connection.send(Txn(then=list(ops))).succeeded


def end_and_die(board: JobBoard, *jobs: Job) -> None:
    """Let a client do no more than the steps that end parents."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Resolver, "after", lambda *_: None)
        end(board, *jobs)


# -- edges -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", BAD)
def test_an_edge_that_cannot_be_read_is_told_how_its_parent_ends(board: JobBoard, data: bytes) -> None:
    keys, (parents, children) = etcd_of(board).keys, a_family(board)
    for child in children:
        first = parents[0].uuid
        write(board, put(keys.edge(child.uuid, b"o", first), data), put(keys.child(first, child.uuid), data))
    end(board, *parents)
    assert states_of(board, *children) == [UNCLAIMED] * 3
    assert have_results(children, parents)
    assert board.audit() == []


@pytest.mark.parametrize("data", BAD)
@pytest.mark.parametrize("is_over", [False, True])
def test_an_edge_that_cannot_be_read_is_named_and_mended(board: JobBoard, data: bytes, is_over: bool) -> None:
    keys, (parents, children) = etcd_of(board).keys, a_family(board)
    end(board, *parents[:is_over])
    first, letter = parents[0].uuid, b"d" if is_over else b"o"
    for child, name in zip(children, ("edge", "child", "both"), strict=True):
        if name != "child":
            write(board, put(keys.edge(child.uuid, letter, first), data))
        if name != "edge":
            write(board, put(keys.child(first, child.uuid), data))
    assert {finding.uuid for finding in board.audit()} == {child.uuid for child in children}
    mended(board)
    assert states_of(board, *children) == [BLOCKED] * 3
    assert (
        client_of(board).backend.edges.counts([child.uuid for child in children])
        == [EdgeCounts(open=3 - is_over, done=int(is_over))] * 3
    )
    end(board, *parents[is_over:])
    assert states_of(board, *children) == [UNCLAIMED] * 3
    assert have_results(children, parents)


# -- marks -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", BAD)
def test_a_mark_that_cannot_be_read_says_how_the_parent_stands(board: JobBoard, data: bytes) -> None:
    keys, (parents, children) = etcd_of(board).keys, a_family(board)
    end_and_die(board, *parents)
    write(board, *(put(keys.mark(parent.uuid), data) for parent in parents))
    mended(board)
    assert board.claim_next("bob", names=["nothing"]) == []
    eventually(lambda: states_of(board, *children) == [UNCLAIMED] * 3)
    assert have_results(children, parents)
    assert board.audit() == []


@pytest.mark.parametrize("data", [*BAD, None], ids=["empty", "garbage", "newer", "deleted"])
@pytest.mark.parametrize("is_graph", [False, True])
def test_a_mark_that_cannot_be_read_is_no_work_for_others(
    server: EtcdServer, board: JobBoard, monkeypatch: pytest.MonkeyPatch, data: bytes | None, is_graph: bool
) -> None:
    count, keys, graph = Requests(server).of, etcd_of(board).keys, new_uuid()
    assert board.claim_next("bob", names=["nothing"]) == []
    usual = count(lambda: board.claim_next("bob", names=["nothing"]))
    monkeypatch.setattr("jobboard.backends.etcd.batches.GRAPH_TTL", 0.3)
    if is_graph:
        place = keys.mark(parent_of_graph(graph))
        client_of(board).backend.jobs.post([NewJob(new_uuid(), "resize", 3, EMPTY_PAYLOAD, graph=graph)])
    else:
        parent = board.post("resize")
        place = keys.mark(parent.uuid)
        board.post("resize", after=[parent])
        end_and_die(board, parent)
    write(board, delete(place) if data is None else put(place, data))

    def timers() -> int:
        [found] = etcd_of(board).connection.read([scan_prefix(keys.timers)])
        return len(found.kvs)

    eventually(lambda: board.claim_next("bob", names=["nothing"]) == [] and timers() == 0)
    assert count(lambda: board.claim_next("bob", names=["nothing"])) == usual
    mended(board)


def test_a_parent_that_came_back_without_a_word_is_named_and_waited_for(board: JobBoard) -> None:
    keys, edges = etcd_of(board).keys, client_of(board).backend.edges
    parents = [board.post("resize") for _ in range(3)]
    child, free, ran = (board.post("report", after=parents, if_failed=way) for way in ("wait", "run", "run"))
    for parent in parents:
        board.trash(parent, by="ada")
    # For ever: a claim that ends has a timer.
    board.claim(ran, "ann", math.inf)
    assert edges.counts([child.uuid]) == [EdgeCounts(failed=3)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Resolver, "after", lambda *_: None)
        for parent in parents:
            board.restore(parent.uuid)
            write(board, delete(keys.mark(parent.uuid)))
    write(board, delete_range(keys.timers, after(keys.timers)))
    assert {finding.uuid for finding in board.audit()} == {parent.uuid for parent in parents}
    mended(board)
    # One that was claimed without its parents waits for none of them.
    counts = [EdgeCounts(open=3), EdgeCounts(open=3), EdgeCounts(failed=3)]
    assert edges.counts([child.uuid, free.uuid, ran.uuid]) == counts
    end(board, *parents)
    assert states_of(board, child, free, ran) == [UNCLAIMED, UNCLAIMED, CLAIMED]
    assert board.audit() == []


# -- steps and signals -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", BAD)
def test_a_step_that_cannot_be_read_does_not_run_again(board: JobBoard, data: bytes) -> None:
    steps, keys, jobs = client_of(board).backend.steps, etcd_of(board).keys, with_steps(board, 3)
    write(board, put(keys.step(jobs[0].uuid, 1), data), delete(keys.step(jobs[1].uuid, 1)))
    with pytest.raises(BoardUnavailable, match=jobs[0].uuid):
        steps.load(jobs[0].uuid, 0, 9)
    # What follows a gap is no result of what comes before it.
    assert [[step.number for step in steps.load(job.uuid, 0, 9)] for job in jobs[1:]] == [[0], [0, 1, 2]]
    is_put_aside(board, jobs, jobs[0], "its step 2 can't be read")


def test_a_step_without_a_number_cannot_be_read(board: JobBoard) -> None:
    jobs = with_steps(board, 3)
    write(board, put(etcd_of(board).keys.steps_of(jobs[0].uuid) + b"x", b""))
    is_put_aside(board, jobs, jobs[0], "its step 'x' can't be read")


@pytest.mark.parametrize("data", BAD)
def test_a_signal_that_cannot_be_read_is_named(board: JobBoard, data: bytes) -> None:
    jobs = with_signals(board)
    write(board, put(etcd_of(board).keys.signal(jobs[0].uuid, "go"), data))
    loses_its_signal(board, jobs, jobs[0])
