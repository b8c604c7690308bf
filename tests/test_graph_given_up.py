"""A client that dies in the midst of posting a graph leaves nothing that runs, and nothing that stays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobboard import BoardUnavailable, JobBoard, JobState
from jobboard.backends.base import RETRY_WINDOW
from jobboard.backends.edge_rows import GRAPH_TTL
from jobboard.backends.rows import NewJob, Posted, Verdict
from jobboard.board import client_of
from jobboard.client.graph import Graph, UnfinishedGraph
from jobboard.client.graph_staging import GraphStaging
from jobboard.client.graphs import GraphPoster
from jobboard.payload import EMPTY_PAYLOAD
from jobboard.testing import clock_of, memory_board
from jobboard.testing.faults import LossyBackend
from jobboard.validation import new_uuid


def _staged(board: JobBoard) -> Graph:
    """Post all of a graph but its end, as a client does that dies before it seals it."""
    parents = [NewJob(new_uuid(), "part", 3, EMPTY_PAYLOAD, key=str(number)) for number in range(3)]
    child = NewJob(new_uuid(), "report", 3, EMPTY_PAYLOAD, parents=tuple(parent.uuid for parent in parents))
    graph = Graph(new_uuid(), [*parents, child])
    GraphPoster(client_of(board).call, client_of(board).backend).stage(graph)
    return graph


def test_a_graph_that_gets_no_further_part_is_gone_after_its_time() -> None:
    with memory_board() as board:
        _staged(board)
        clock_of(board).move(GRAPH_TTL - 1)
        assert (board.stats().blocked, board.claim_next("worker", limit=9)) == (4, [])
        clock_of(board).move(2)
        assert (board.job_count, board.claim_next("worker", limit=9), board.audit()) == (0, [], [])
        for number in range(3):
            board.post("part", key=str(number))


def test_a_graph_is_not_sealed_after_its_time() -> None:
    with memory_board() as board:
        graph = _staged(board)
        clock_of(board).move(GRAPH_TTL + 1)
        assert client_of(board).backend.edges.seal(graph.id) is Verdict.LOST
        assert board.job_count == 0


def test_each_part_gives_a_graph_its_time_anew() -> None:
    with memory_board() as board:
        graph, backend = _staged(board), client_of(board).backend
        for _ in range(3):
            clock_of(board).move(GRAPH_TTL - 1)
            backend.jobs.post([NewJob(new_uuid(), "part", 3, EMPTY_PAYLOAD, graph=graph.id)])
        assert backend.edges.seal(graph.id) is Verdict.DONE
        assert len(board.claim_next("worker", limit=9)) == 6


def test_a_job_that_is_posted_again_within_the_minute_stays_and_one_after_it_is_posted_anew() -> None:
    for moves in ([GRAPH_TTL - 1], [GRAPH_TTL + 1, RETRY_WINDOW + 1]):
        with memory_board() as board:
            report = board.post("report", after=[board.post("first")])
            uuid, graph = new_uuid(), new_uuid()
            client_of(board).backend.jobs.post([NewJob(uuid, "part", 3, EMPTY_PAYLOAD, graph=graph)])
            for seconds in moves:
                clock_of(board).move(seconds)
                client_of(board).backend.maintenance.tidy(100)
            assert board.post("part", uuid=uuid, before=[report]).uuid == uuid
            clock_of(board).move(GRAPH_TTL + 1)
            assert board.get(uuid).state is JobState.UNCLAIMED
            assert client_of(board).backend.edges.counts([report.uuid])[0].open == 2


def test_a_job_that_was_given_up_a_moment_ago_is_not_returned() -> None:
    with memory_board() as board:
        uuid = new_uuid()
        client_of(board).backend.jobs.post([NewJob(uuid, "part", 3, EMPTY_PAYLOAD, graph=new_uuid())])
        clock_of(board).move(GRAPH_TTL + 1)
        with pytest.raises(BoardUnavailable, match="post again"):
            board.post("part", uuid=uuid)


def test_a_client_that_stalls_between_two_parts_does_not_seal_what_is_left() -> None:
    """The later part would have begun the graph anew, without the jobs that were dropped meanwhile."""
    with memory_board() as board:
        lossy = LossyBackend(client_of(board).backend)
        lossy.capabilities = replace(lossy.capabilities, largest_graph=3)  # type: ignore[misc]
        jobs = [NewJob(new_uuid(), "part", 3, EMPTY_PAYLOAD) for _ in range(2)]
        first = GraphStaging(client_of(board).call, lossy, Graph(new_uuid(), jobs))
        first._begun -= GRAPH_TTL
        sent = list[NewJob]()

        def stall(new: list[NewJob]) -> list[Posted]:
            if sent:
                clock_of(board).move(GRAPH_TTL + 1)
            sent.extend(new)
            return lossy.inner.jobs.post(new)

        lossy.jobs.post = stall  # type: ignore[method-assign, assignment]
        with pytest.raises(UnfinishedGraph):
            first.stage()
        assert (board.claim_next("worker"), board.job_count) == ([], 0)
