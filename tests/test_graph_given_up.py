"""A client that dies in the midst of posting a graph leaves nothing that runs, and nothing that stays."""

from __future__ import annotations

from jobboard import JobBoard
from jobboard.backends.edge_rows import GRAPH_TTL
from jobboard.backends.rows import NewJob, Verdict
from jobboard.board import client_of
from jobboard.client.graph import Graph
from jobboard.client.graphs import GraphPoster
from jobboard.payload import EMPTY_PAYLOAD
from jobboard.testing import clock_of, memory_board
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
