"""Graphs that a client has left unfinished, or has not finished yet, when jobs of them are posted again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from jobboard.backends.edge_rows import EdgeCounts
from jobboard.backends.rows import Verdict
from jobboard.board import JobBoard, client_of
from jobboard.errors import BoardUnavailable, InvalidPosting
from jobboard.job import Job, Posting
from jobboard.testing.contract.case import drain, needs, uuids_of
from jobboard.testing.contract.edge_case import (
    BLOCKED,
    UNCLAIMED,
    EdgeCase,
    counts_of,
    end,
    is_gone,
    lines_of,
    new_job,
    of_edges,
    post_after,
    post_rows,
)
from jobboard.testing.contract.graphs import drop, seal
from jobboard.testing.contract.lane_case import states_of
from jobboard.testing.contract.races import at_once
from jobboard.testing.contract.retries import each_fault
from jobboard.testing.deadline import eventually
from jobboard.testing.faults import Fault, LossyBackend
from jobboard.testing.harness import Harness
from jobboard.types import IfExistsName

ROUNDS = 5


def fresh(board: JobBoard) -> str:
    """Return a new uuid, of a job or a graph; all are beside each other."""
    return client_of(board).backend.new_uuid("resize")


def die_at(lossy: LossyBackend, primitive: str) -> None:
    """Let the client of a post do nothing more from this request on."""
    lossy.lose(primitive, "refused")
    if primitive == "edges.link":
        lossy.lose("edges.drop", "refused")


def stage(board: JobBoard, graph: str, *parents: Job, count: int = 3) -> list[Job]:
    """Post some jobs of a graph that is not complete yet."""
    posted = post_rows(board, *(new_job(*parents, uuid=fresh(board), graph=graph) for _ in range(count)))
    return [board.get(each.row.uuid) for each in posted]


def chain(uuids: Sequence[str]) -> list[Posting]:
    """Return postings each of which waits for the one before it."""
    postings: list[Posting] = []
    for uuid in uuids:
        postings.append(Posting("resize", uuid=uuid, after=postings[-1:]))
    return postings


def stage_chain(board: JobBoard, graph: str, uuids: Sequence[str]) -> None:
    """Post the first parts of a graph of :func:`chain`."""
    for at, uuid in enumerate(uuids):
        post_rows(board, new_job(*uuids[max(0, at - 1) : at], uuid=uuid, graph=graph))


class UnfinishedGraphCases(EdgeCase):
    @pytest.fixture
    def single_parts(self, lossy: LossyBackend) -> None:
        """Let the client post one job of a graph a step."""
        lossy.capabilities = replace(lossy.capabilities, largest_graph=3)  # type: ignore[misc]

    @of_edges
    @pytest.mark.parametrize("primitive", ["edges.link", "edges.seal", "edges.resolve"])
    def test_a_job_before_another_is_posted_again_after_its_client_has_died(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, primitive: str
    ) -> None:
        first, uuid = board.post("resize"), fresh(board)
        report = post_after(board, first)
        die_at(lossy, primitive)
        with pytest.raises(BoardUnavailable):
            board.post("resize", uuid=uuid, before=[report])
        job = other.post("resize", uuid=uuid, before=[report])
        assert states_of(other, job, report) == [UNCLAIMED, BLOCKED]
        assert counts_of(other, report) == EdgeCounts(open=2)
        assert other.post("resize", uuid=uuid, before=[report]) == job
        assert lines_of(other, job, "POSTED") == lines_of(other, job, "RESOLVED") == 1
        assert set(uuids_of(drain(other, limit=1))) == {first.uuid, job.uuid, report.uuid}

    @of_edges
    @each_fault
    @pytest.mark.parametrize("primitive", ["post", "edges.seal", "edges.link"])
    def test_a_job_before_another_is_posted_once(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault, primitive: str
    ) -> None:
        report = post_after(board, board.post("resize"))
        lossy.lose(primitive, fault)
        job = board.post("rotate", before=[report])
        assert states_of(other, job, report) == [UNCLAIMED, BLOCKED]
        assert counts_of(other, report) == EdgeCounts(open=2)
        assert len(list(other.iterjobs(names=["rotate"]))) == 1

    @of_edges
    @pytest.mark.usefixtures("single_parts")
    @pytest.mark.parametrize("count", [1, 2, 3])
    def test_a_graph_is_posted_again_after_its_client_has_died(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, count: int
    ) -> None:
        uuids, seen = [fresh(board) for _ in range(3)], list[Any]()

        def look() -> None:
            seen.append((other.claim_next("bob", limit=9), {job.state for job in other.iterjobs()}))

        stage_chain(other, fresh(board), uuids[:count])
        lossy.lose("edges.seal", "request", meanwhile=look)
        jobs = board.post_many(chain(uuids))
        assert seen == [([], {BLOCKED})]
        assert states_of(other, *jobs) == [UNCLAIMED, BLOCKED, BLOCKED]
        assert [lines_of(other, job, "POSTED") for job in jobs] == [1, 1, 1]
        assert uuids_of(drain(other, limit=9)) == uuids

    @of_edges
    @pytest.mark.usefixtures("single_parts")
    def test_a_graph_that_is_given_up_as_it_is_posted_again_is_not_acknowledged(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend
    ) -> None:
        for primitive in ("post", "edges.graphs", "edges.children"):
            uuids, graph = [fresh(board) for _ in range(3)], fresh(board)
            stage_chain(other, graph, uuids[:2])
            lossy.lose(primitive, "reply", meanwhile=partial(drop, other, graph))
            with pytest.raises(BoardUnavailable, match="post again"):
                board.post_many(chain(uuids))
            eventually(lambda: other.claim_next("bob") == [] and other.job_count == 0)

    @of_edges
    def test_a_client_that_is_only_slow_finds_its_graph_complete(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend
    ) -> None:
        for primitive in ("post", "edges.link", "edges.seal"):
            first, uuid = board.post("resize"), fresh(board)
            report = post_after(board, first)

            def post_and_end(uuid: str = uuid, report: Job = report) -> None:
                end(other, other.post("resize", uuid=uuid, before=[report]))

            lossy.lose(primitive, "reply", meanwhile=post_and_end)
            job = board.post("resize", uuid=uuid, before=[report])
            assert counts_of(other, report) == EdgeCounts(open=1, done=1)
            assert (job.uuid, lines_of(other, job, "POSTED")) == (uuid, 1)
            assert uuids_of(drain(other, limit=1)) == [first.uuid, report.uuid]

    @of_edges
    def test_a_client_that_fails_drops_nothing_of_what_another_has_completed(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend
    ) -> None:
        report, uuid = post_after(board, board.post("resize")), fresh(board)
        post = partial(other.post, "resize", uuid=uuid, before=[report])
        lossy.lose("edges.link", "refused", meanwhile=post)
        with pytest.raises(BoardUnavailable):
            board.post("resize", uuid=uuid, before=[report])
        assert states_of(other, board.get(uuid)) == [UNCLAIMED]
        assert counts_of(other, report) == EdgeCounts(open=2)

    @of_edges
    def test_a_client_that_is_refused_drops_no_graph_of_another(self, board: JobBoard, other: JobBoard) -> None:
        uuid, graph = fresh(board), fresh(board)
        post_rows(other, new_job(uuid=uuid, graph=graph))
        with pytest.raises(InvalidPosting):
            board.post("resize", uuid=uuid, before=[board.post("resize")])
        assert seal(other, graph) is Verdict.DONE
        assert states_of(other, other.get(uuid)) == [UNCLAIMED]

    @of_edges
    @needs(sharded=False)
    @pytest.mark.parametrize("if_exists", ["raise", "keep", "replace"])
    @pytest.mark.parametrize("is_before", [False, True])
    def test_a_job_of_a_graph_that_this_call_does_not_complete_is_not_returned(
        self, harness: Harness, if_exists: IfExistsName, is_before: bool
    ) -> None:
        """It may be dropped yet; the same posting with a uuid finds it by that, others by its key."""
        board = harness.board(patience=0.0)
        graph, uuid = fresh(board), fresh(board)
        stage(board, graph)
        post_rows(board, new_job(uuid=uuid, graph=graph, key="k"))
        report = post_after(board, board.post("first"))
        before = [report] if is_before else None
        own = uuid if if_exists == "raise" else None
        post = partial(board.post, "resize", key="k", uuid=own, if_exists=if_exists, before=before)
        with pytest.raises(BoardUnavailable, match="post again"):
            post()
        with pytest.raises(BoardUnavailable, match="post again"):
            board.post_many([Posting("resize", key="k", uuid=own, if_exists=if_exists, before=before)])
        assert states_of(board, board.get(uuid)) == [BLOCKED]
        assert seal(board, graph) is Verdict.DONE
        eventually(lambda: states_of(board, board.get(uuid)) == [UNCLAIMED])
        assert post().uuid == uuid

    @of_edges
    @needs(sharded=False)
    @pytest.mark.parametrize("is_before", [False, True])
    def test_a_job_that_was_given_up_with_its_graph_is_not_returned(
        self, board: JobBoard, other: JobBoard, is_before: bool
    ) -> None:
        """Its uuid is free a minute later, and its key at once."""
        uuid, graph = fresh(board), fresh(board)
        report = post_after(board, board.post("first"))
        post_rows(other, new_job(uuid=uuid, graph=graph, key="k"))
        drop(other, graph)
        with pytest.raises(BoardUnavailable, match="post again"):
            board.post("resize", uuid=uuid, key="k", before=[report] if is_before else None)
        job = board.post("resize", key="k", if_exists="keep", before=[report] if is_before else None)
        assert (job.uuid != uuid, states_of(other, job)) == (True, [UNCLAIMED])
        assert counts_of(board, report) == EdgeCounts(open=1 + is_before)

    @of_edges
    def test_a_job_that_was_cancelled_before_its_parents_ended_is_found(self, board: JobBoard) -> None:
        parent, uuid = board.post("resize"), fresh(board)
        board.cancel(post_after(board, parent, uuid=uuid))
        assert post_after(board, parent, uuid=uuid).uuid == uuid
        assert board.job_count == 1

    @of_edges
    @needs(sharded=False)
    def test_a_kept_job_that_a_dead_client_has_posted_alone_is_completed(
        self, board: JobBoard, other: JobBoard
    ) -> None:
        report, uuid = post_after(board, board.post("first")), fresh(board)
        post_rows(other, new_job(uuid=uuid, graph=fresh(board), key="k"))
        job = board.post("resize", key="k", if_exists="keep", before=[report])
        assert (job.uuid, states_of(other, job, report)) == (uuid, [UNCLAIMED, BLOCKED])
        assert counts_of(other, report) == EdgeCounts(open=2)

    @of_edges
    def test_who_finds_a_job_of_another_client_waits_until_that_has_completed_its_graph(
        self, board: JobBoard, other: JobBoard
    ) -> None:
        for _ in range(ROUNDS):
            graph = fresh(board)
            jobs = stage(other, graph)
            posted, sealed = at_once(partial(board.post, "resize", uuid=jobs[0].uuid), partial(seal, other, graph))
            assert (posted, sealed) == (jobs[0], Verdict.DONE)
            # Two let them go, in any order.
            assert sorted(uuids_of(drain(other, limit=9))) == sorted(uuids_of(jobs))

    @of_edges
    def test_two_clients_post_one_graph_at_once(self, harness: Harness) -> None:
        board, lossy = harness.lossy_board()
        other, too = harness.lossy_board(board.name)
        lossy.capabilities = too.capabilities = replace(lossy.capabilities, largest_graph=3)  # type: ignore[misc]
        for _ in range(ROUNDS):
            first = board.post("first")
            report, uuids = post_after(board, first), [fresh(board) for _ in range(3)]

            def post(one: JobBoard, report: Job = report, uuids: list[str] = uuids) -> list[Job]:
                *others, last = chain(uuids)
                return one.post_many([*others, replace(last, before=[report])])

            outcomes = at_once(partial(post, board), partial(post, other))
            assert [uuids_of(jobs) for jobs in outcomes if isinstance(jobs, list)] == [uuids, uuids], outcomes
            assert counts_of(board, report) == EdgeCounts(open=2)
            assert [lines_of(board, board.get(uuid), "POSTED") for uuid in uuids] == [1, 1, 1]
            end(board, first)
            assert uuids_of(drain(board, limit=9)) == [*uuids, report.uuid]

    @of_edges
    def test_what_an_end_posts_completes_what_its_dead_owner_has_begun(self, board: JobBoard, other: JobBoard) -> None:
        job, first, uuid = board.post("crawl"), board.post("first"), fresh(board)
        report = post_after(board, first)
        post_rows(other, new_job(uuid=uuid, graph=fresh(board)))
        (claimed,) = board.claim_next("alice", ["crawl"])
        board.consume(claimed, "alice", post=[Posting("resize", uuid=uuid, before=[report])])
        assert counts_of(board, report) == EdgeCounts(open=2)
        assert (is_gone(board, job), states_of(board, board.get(uuid))) == (False, [UNCLAIMED])

    @of_edges
    def test_the_graphs_for_which_jobs_wait_are_read(self, board: JobBoard) -> None:
        graph, sealed, given_up = fresh(board), fresh(board), fresh(board)
        parent = board.post("resize")
        waiting, plain = stage(board, graph, parent, count=2), post_after(board, parent)
        done, lost = stage(board, sealed, parent, count=1), stage(board, given_up, count=1)
        seal(board, sealed)
        drop(board, given_up)
        asked = [*uuids_of(waiting), *uuids_of([parent, plain, *done, *lost]), fresh(board)]
        edges = client_of(board).backend.edges
        assert edges.graphs(asked) == [graph, graph, None, None, None, None, None]
        assert edges.graphs([]) == []
        drop(board, graph)

    @of_edges
    def test_who_was_given_up_with_a_graph_never_was_a_child(self, board: JobBoard) -> None:
        """Such as what a handler began to post that died, or was refused: its job runs again, and its graph is well."""
        graph, parent = fresh(board), board.post("extract")
        child, dropped = post_after(board, parent), stage(board, graph, parent)
        drop(board, graph)
        edges = client_of(board).backend.edges
        asked = [*uuids_of(dropped), child.uuid, fresh(board)]
        eventually(lambda: edges.dropped(asked) == [True] * 3 + [False] * 2)
        assert edges.dropped([]) == []
        assert [each.uuid for each in parent.children()] == [child.uuid]
        seen = board.graph(parent)
        assert (set(seen.nodes), seen.gone, len(seen.edges)) == ({parent.uuid, child.uuid}, [], 1)
        board.cancel(child)
        assert board.graph(parent).gone == [board.graph(parent).nodes[child.uuid]]
