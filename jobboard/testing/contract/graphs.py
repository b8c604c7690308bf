"""Graphs: jobs that are posted together, of which nothing runs before all are there; and large and deep ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from jobboard.backends.edge_rows import EdgeCounts, LinkOutcome
from jobboard.backends.rows import IfFailed, Ties, Verdict
from jobboard.board import JobBoard, client_of
from jobboard.errors import AlreadyPosted, BoardUnavailable, InvalidPosting, NotFound
from jobboard.job import Job, Posting
from jobboard.states import JobState
from jobboard.testing.contract.case import LONG, SHORT, claim_one, drain, needs, uuids_of
from jobboard.testing.contract.edge_case import (
    BLOCKED,
    DELAYED,
    TRASHED,
    UNCLAIMED,
    EdgeCase,
    counts_of,
    each_way,
    end,
    is_gone,
    lines_of,
    link,
    new_job,
    of_edges,
    parents_of,
    post_after,
    post_rows,
)
from jobboard.testing.contract.lane_case import LANE, limit, slots_of, states_of
from jobboard.testing.deadline import eventually
from jobboard.testing.faults import LossyBackend
from jobboard.types import IfFailedName
from jobboard.validation import new_uuid

#: Into how large parts graphs are cut here, and how many jobs go side by side.
_PART, _WIDE = 10, 25
_DEEP = 100


def seal(board: JobBoard, graph: str) -> Verdict:
    return client_of(board).call(client_of(board).backend.edges.seal, graph)


def drop(board: JobBoard, graph: str) -> None:
    client_of(board).call(client_of(board).backend.edges.drop, graph)


def stage(board: JobBoard, graph: str, *parents: Job, count: int = 3, **fields: Any) -> list[Job]:
    """Post some jobs of a graph that is not complete yet."""
    posted = post_rows(board, *(new_job(*parents, graph=graph, **fields) for _ in range(count)))
    return [board.get(each.row.uuid) for each in posted]


def report_of(parts: list[Posting]) -> Posting:
    return Posting("report", after=parts)


class GraphCases(EdgeCase):
    @pytest.fixture
    def small_parts(self, lossy: LossyBackend) -> None:
        """Let the client cut graphs into small parts, as a store wants that takes few jobs a step."""
        lossy.capabilities = replace(lossy.capabilities, largest_graph=_PART)  # type: ignore[misc]

    @of_edges
    @pytest.mark.usefixtures("small_parts")
    def test_nothing_of_a_graph_runs_before_all_is_there(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend
    ) -> None:
        parts = [Posting("resize") for _ in range(_WIDE)]
        seen: list[int] = []

        def look() -> None:
            seen.append(len(other.claim_next("bob", limit=9)))
            assert set(states_of(other, *other.iterjobs())) == {BLOCKED}
            assert other.job_count == _WIDE + 1

        lossy.lose("edges.seal", "request", meanwhile=look)
        jobs = board.post_many([*parts, report_of(parts)])
        assert seen == [0]
        assert states_of(other, *jobs) == [UNCLAIMED] * _WIDE + [BLOCKED]
        assert counts_of(other, jobs[-1]) == EdgeCounts(open=_WIDE)
        assert len(parents_of(other, jobs[-1])) == _WIDE
        assert parents_of(other, jobs[0]) == {}
        assert uuids_of(drain(board, limit=9)) == uuids_of(jobs)

    @of_edges
    @pytest.mark.usefixtures("small_parts")
    def test_nothing_stays_of_a_graph_that_is_refused(self, board: JobBoard, other: JobBoard) -> None:
        taken = board.post("resize", key="k", delay=LONG)
        for bad, error in (
            (Posting("resize", after=[new_uuid()]), NotFound), (Posting("resize", key="k"), AlreadyPosted),
            (Posting("resize", before=[taken]), InvalidPosting),
        ):  # fmt: skip
            parts = [Posting("resize") for _ in range(_WIDE)]
            with pytest.raises(error):
                board.post_many([*parts, bad, report_of(parts)])
            eventually(lambda: other.claim_next("bob") == [] and other.job_count == 1)

    @of_edges
    @pytest.mark.usefixtures("small_parts")
    def test_nothing_runs_of_a_graph_whose_client_gives_up(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend
    ) -> None:
        parts = [Posting("resize") for _ in range(_WIDE)]
        lossy.lose("edges.seal", "refused")
        with pytest.raises(BoardUnavailable):
            board.post_many([*parts, report_of(parts)])
        assert other.claim_next("bob", limit=9) == []
        assert set(states_of(other, *other.iterjobs())) == {BLOCKED}

    @of_edges
    @pytest.mark.usefixtures("small_parts")
    def test_a_graph_that_is_posted_again_is_one(self, board: JobBoard, other: JobBoard) -> None:
        def postings() -> list[Posting]:
            parts = [Posting("resize", uuid=uuid) for uuid in uuids]
            return [*parts, Posting("report", uuid=last, after=parts)]

        uuids, last = [new_uuid() for _ in range(_WIDE)], new_uuid()
        jobs = board.post_many(postings())
        end(other, jobs[0])
        assert board.post_many(postings()) == jobs
        assert (board.job_count, counts_of(board, jobs[-1])) == (_WIDE, EdgeCounts(open=_WIDE - 1, done=1))
        assert [lines_of(board, job, "POSTED") for job in jobs] == [1] * len(jobs)

    @of_edges
    @pytest.mark.usefixtures("small_parts")
    def test_one_job_may_have_more_parents_than_a_step_takes(self, board: JobBoard) -> None:
        parents = board.post_many([Posting("resize") for _ in range(130)])
        report = post_after(board, *parents, name="report")
        assert counts_of(board, report) == EdgeCounts(open=130)
        assert uuids_of(drain(board, limit=50))[-1] == report.uuid

    @of_edges
    @needs(sharded=False)
    def test_jobs_of_a_graph_wait_for_parents_delays_and_lanes_too(self, board: JobBoard) -> None:
        limit(board, 1)
        parent, graph = board.post("resize"), new_uuid()
        child, *_ = stage(board, graph, parent, count=1)
        (delayed,) = stage(board, graph, count=1, delay=LONG)
        (tied,) = stage(board, graph, count=1, ties=Ties(LANE))
        free = stage(board, graph)
        assert states_of(board, child, delayed, tied, *free) == [BLOCKED, DELAYED, *[BLOCKED] * 4]
        assert slots_of(board) == (0, 0, 0)
        assert seal(board, graph) is Verdict.DONE
        assert states_of(board, child, delayed, tied, *free) == [BLOCKED, DELAYED, *[UNCLAIMED] * 4]
        assert slots_of(board) == (0, 1, 0)
        assert counts_of(board, child) == EdgeCounts(open=1)
        end(board, parent)
        assert states_of(board, child) == [UNCLAIMED]

    @of_edges
    @needs(sharded=False)
    def test_parents_may_end_before_their_graph_is_complete(self, board: JobBoard) -> None:
        parent, lost, graph = board.post("resize"), board.post("resize"), new_uuid()
        children = stage(board, graph, parent)
        (failed,) = stage(board, graph, lost, count=1)
        end(board, parent)
        board.cancel(lost)
        assert states_of(board, *children, failed) == [BLOCKED] * 4
        assert seal(board, graph) is Verdict.DONE
        assert states_of(board, *children, failed) == [UNCLAIMED] * 3 + [TRASHED]
        assert uuids_of(drain(board)) == uuids_of(children)

    @of_edges
    def test_a_graph_is_sealed_once(self, board: JobBoard) -> None:
        graph, others = new_uuid(), new_uuid()
        jobs, theirs = stage(board, graph), stage(board, others)
        assert seal(board, graph) is Verdict.DONE
        assert seal(board, graph) is Verdict.REPEATED
        drop(board, graph)
        assert states_of(board, *jobs, *theirs) == [UNCLAIMED] * 3 + [BLOCKED] * 3
        assert [lines_of(board, job, "RESOLVED") for job in jobs] == [1] * 3
        assert seal(board, new_uuid()) is Verdict.LOST
        drop(board, others)

    @of_edges
    @needs(sharded=False)
    def test_a_graph_that_is_given_up_leaves_nothing(self, board: JobBoard) -> None:
        graph, parent = new_uuid(), board.post("resize", delay=LONG)
        jobs = [*stage(board, graph), *stage(board, graph, parent), *stage(board, graph, count=2, delay=LONG)]
        jobs += stage(board, graph, jobs[0], jobs[1])
        outside = post_after(board, jobs[0], if_failed="run")
        drop(board, graph)
        assert all(is_gone(board, job) for job in jobs)
        assert seal(board, graph) is Verdict.LOST
        assert states_of(board, parent, outside) == [DELAYED, UNCLAIMED]
        drop(board, graph)
        assert claim_one(board) == outside

    @of_edges
    @pytest.mark.parametrize("if_failed", ["wait", "run", "cancel"])
    @needs(sharded=False)
    def test_a_graph_that_is_given_up_harms_no_job_outside_it(self, board: JobBoard, if_failed: str) -> None:
        """Jobs on the board wait for its jobs, if a client dies between their links and the seal."""
        parent, graph = board.post("resize"), new_uuid()
        alone, *others = [post_after(board, parent, if_failed=if_failed) for _ in range(3)]
        first, second, _ = stage(board, graph)
        (last,) = stage(board, graph, first, count=1)
        for child, parents in ((alone, [first]), (others[0], [first, second, last]), (others[1], [last])):
            assert link(board, child, *parents) is LinkOutcome.DONE
        end(board, parent)
        assert states_of(board, alone, *others) == [BLOCKED] * 3
        drop(board, graph)
        eventually(lambda: states_of(board, alone, *others) == [UNCLAIMED] * 3)
        assert [counts_of(board, child).gone for child in (alone, *others)] == [0, 0, 0]
        assert uuids_of(drain(board)) == uuids_of([alone, *others])

    @of_edges
    @each_way
    @needs(sharded=False)
    def test_nothing_becomes_of_a_job_before_its_graph_is_complete(
        self, board: JobBoard, other: JobBoard, if_failed: str
    ) -> None:
        """Also if a parent of it can't come back: the graph may be given up yet, and then it has never been there."""
        lost, late, parent, graph = board.post("resize"), board.post("resize"), board.post("resize"), new_uuid()
        board.cancel(lost)
        ways = Ties(if_failed=IfFailed(if_failed))
        jobs = [*stage(board, graph, lost, count=1, ties=ways), *stage(board, graph, late, count=1, ties=ways)]
        child, grandchild = post_after(board, parent), post_after(board, jobs[0], if_failed="cancel")
        assert link(board, child, *jobs) is LinkOutcome.DONE
        board.cancel(late)
        assert states_of(other, *jobs, child, grandchild) == [BLOCKED] * 4
        assert seal(board, graph) is Verdict.DONE
        if if_failed == "cancel":
            assert all(is_gone(other, job) for job in jobs)
        else:
            assert states_of(other, *jobs) == [TRASHED if if_failed == "wait" else UNCLAIMED] * 2
        assert is_gone(other, grandchild) is (if_failed != "run")

    @of_edges
    @each_way
    def test_a_refused_posting_with_a_lost_parent_leaves_nothing(
        self, board: JobBoard, if_failed: IfFailedName
    ) -> None:
        lost, parent, never = (board.post("resize") for _ in range(3))
        board.cancel(lost)
        child = post_after(board, parent)
        with pytest.raises(InvalidPosting):
            board.post("rotate", after=[lost.uuid], before=[child, never], if_failed=if_failed)
        assert not list(board.iterjobs(names=["rotate"], states=list(JobState)))
        assert states_of(board, child) == [BLOCKED]
        end(board, parent)
        assert states_of(board, child) == [UNCLAIMED]

    @of_edges
    def test_a_large_graph_is_given_up_in_parts(self, board: JobBoard) -> None:
        graph = new_uuid()
        for _ in range(6):
            stage(board, graph, count=20)
        drop(board, graph)
        eventually(lambda: board.claim_next("alice") == [] and board.job_count == 0)

    @of_edges
    def test_a_graph_of_one_job(self, board: JobBoard) -> None:
        (job,) = board.post_many([Posting("resize", after=[])])
        alone = board.post("resize", after=[], before=[])
        assert uuids_of(drain(board)) == uuids_of([job, alone])

    @of_edges
    def test_a_graph_in_a_graph(self, board: JobBoard) -> None:
        """A job of a graph posts another graph with its end, whose last job goes before the last one of the first."""
        first = Posting("first")
        _, last = board.post_many([first, Posting("last", after=[first])])
        (job,) = board.claim_next("alice", ["first"], expiry=LONG)
        parts = [Posting("inner") for _ in range(5)]
        board.consume(job, "alice", post=[*parts, Posting("join", after=parts, before=[last])])
        order = [job.name for job in drain(board, limit=1)]
        assert order == ["inner"] * 5 + ["join", "last"]

    @of_edges
    @needs(sharded=False)
    def test_a_deep_graph(self, board: JobBoard) -> None:
        postings = [Posting("resize", key="0")]
        for number in range(1, _DEEP):
            postings.append(Posting("resize", key=str(number), after=[postings[-1]]))
        jobs = board.post_many(postings)
        assert states_of(board, *jobs[:3]) == [UNCLAIMED, BLOCKED, BLOCKED]
        assert uuids_of(drain(board, limit=9)) == uuids_of(jobs)

    @of_edges
    def test_a_fan_out_and_a_fan_in(self, board: JobBoard) -> None:
        top = Posting("top")
        parts = [Posting("part", after=[top]) for _ in range(60)]
        jobs = board.post_many([top, *parts, report_of(parts)])
        board.trash(jobs[30], by="an operator")
        order = uuids_of(drain(board, limit=7))
        assert (order[0], set(order[1:])) == (jobs[0].uuid, set(uuids_of([*jobs[1:30], *jobs[31:61]])))
        assert counts_of(board, jobs[-1]) == EdgeCounts(done=59, failed=1)
        board.restore(jobs[30].uuid)
        assert uuids_of(drain(board)) == uuids_of([jobs[30], jobs[-1]])

    @of_edges
    def test_what_no_graph_can_be_is_refused_before_anything_is_sent(
        self, board: JobBoard, lossy: LossyBackend
    ) -> None:
        one, stranger = Posting("resize"), Posting("resize")
        two = Posting("resize", after=[one])
        three = Posting("resize", after=[two], before=[one])
        many = [new_uuid() for _ in range(10_001)]
        before = lossy.calls["post"]
        for batch, path in (
            ([one, two, three], "after"), ([two], "after"), ([one, Posting("resize", before=[stranger])], "before"),
            ([Posting("resize", after=many)], "after"),
        ):  # fmt: skip
            with pytest.raises(InvalidPosting) as caught:
                board.post_many(batch)
            assert caught.value.path == path
        with pytest.raises(InvalidPosting):
            board.post("resize", after=many)
        for wrong in (one, new_uuid(), board):
            with pytest.raises(TypeError):
                board.post("resize", after=wrong)  # type: ignore[arg-type]
        with pytest.raises(ValueError):
            board.post("resize", after=["no uuid"])
        with pytest.raises(ValueError):
            board.post("resize", after=[], if_failed="never")  # type: ignore[arg-type]
        assert (lossy.calls["post"], board.job_count) == (before, 0)

    @of_edges
    def test_a_short_delay_in_a_graph(self, board: JobBoard) -> None:
        soon = Posting("resize", delay=SHORT)
        jobs = board.post_many([soon, Posting("resize", after=[soon])])
        assert states_of(board, jobs[1]) == [BLOCKED]
        eventually(lambda: states_of(board, *jobs) == [UNCLAIMED, BLOCKED])
        assert uuids_of(drain(board)) == uuids_of(jobs)
