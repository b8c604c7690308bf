"""Parents and children: a job is BLOCKED until its parents have ended, and then can be claimed once."""

from __future__ import annotations

import pytest

from jobboard.backends.edge_rows import EDGE_OUTCOMES, MAX_EDGE_RESULT, EdgeCounts
from jobboard.backends.rows import IfExists, PostOutcome
from jobboard.board import JobBoard
from jobboard.errors import UnclaimableJob
from jobboard.job import Posting
from jobboard.testing.contract.case import LONG, SHORT, claim_one, drain, needs, uuids_of
from jobboard.testing.contract.edge_case import (
    BLOCKED,
    CLAIMED,
    DELAYED,
    UNCLAIMED,
    EdgeCase,
    children_of,
    counts_of,
    end,
    is_gone,
    lines_of,
    new_job,
    of_edges,
    outcomes_of,
    parents_of,
    post_after,
    post_rows,
    results_of,
)
from jobboard.testing.contract.lane_case import LANE, limit, post_in, slots_of, states_of
from jobboard.testing.contract.waiting import Waiting
from jobboard.testing.deadline import DEADLINE, eventually
from jobboard.testing.harness import Harness
from jobboard.validation import new_uuid

OPEN, DONE, FAILED, GONE = EDGE_OUTCOMES


class EdgeCases(EdgeCase):
    @of_edges
    def test_a_child_waits_for_the_last_of_its_parents(self, board: JobBoard, other: JobBoard) -> None:
        parents = [board.post("resize") for _ in range(3)]
        child = post_after(board, *parents)
        for number, parent in enumerate(parents):
            assert states_of(other, child) == [BLOCKED]
            assert counts_of(other, child) == EdgeCounts(open=3 - number, done=number)
            end(board, parent, number)
        assert states_of(other, child) == [UNCLAIMED]
        assert counts_of(other, child) == EdgeCounts(done=3)
        assert results_of(other, child) == {parent.uuid: number for number, parent in enumerate(parents)}
        assert {edge.name for edge in parents_of(other, child).values()} == {"resize"}
        assert uuids_of(drain(board)) == [child.uuid]
        assert lines_of(other, child, "RESOLVED") == 1

    @of_edges
    @needs(sharded=False)
    def test_a_job_that_waits_for_parents_is_live_and_listed_and_never_claimed(self, board: JobBoard) -> None:
        parent = board.post("resize", delay=LONG)
        children = [post_after(board, parent, key=str(number)) for number in range(3)]
        assert board.claim_next("alice", limit=9) == []
        with pytest.raises(UnclaimableJob):
            board.claim(children[0], "alice")
        assert list(board.wait(0)) == []
        assert uuids_of(board.iterjobs(states=[BLOCKED])) == uuids_of(children)
        assert (board.stats().blocked, board.job_count) == (3, 4)
        assert board.find("resize", "1") == children[1]

    @of_edges
    def test_a_parent_knows_its_children(self, board: JobBoard, other: JobBoard) -> None:
        first, second = board.post("resize"), board.post("resize")
        children = [post_after(board, first) for _ in range(5)]
        both = post_after(board, first, second)
        assert children_of(other, first).keys() == {*uuids_of(children), both.uuid}
        assert children_of(other, second).keys() == {both.uuid}
        assert children_of(other, both) == parents_of(other, first) == {}
        end(board, first)
        assert {edge.outcome for edge in children_of(other, first).values()} == {DONE}

    @of_edges
    def test_the_first_children_of_several_jobs_are_read_at_once(self, board: JobBoard, other: JobBoard) -> None:
        parents = [board.post("resize") for _ in range(4)]
        for number, parent in enumerate(parents):
            for _ in range(2 * number):
                post_after(board, parent)
        end(board, parents[1])
        edges, asked = other._backend.edges, [*uuids_of(parents), new_uuid()]
        pages = edges.first_children(asked, 4)
        assert [len(page.edges) for page in pages] == [0, 2, 4, 4, 0]
        assert {edge.outcome for edge in pages[1].edges} == {DONE}
        for uuid, page in zip(asked, pages, strict=True):
            rest = edges.children(uuid, page.cursor, 4).edges if page.cursor is not None else []
            both = [*page.edges, *rest]
            found = {edge.child: edge for edge in both}
            assert found == {edge.child: edge for edge in edges.children(uuid, None, 9).edges}
            assert len(found) == len(both), "a page goes on where the one before it ended"
        assert edges.first_children([], 4) == []

    @of_edges
    def test_the_first_parents_of_several_jobs_are_read_at_once(self, board: JobBoard, other: JobBoard) -> None:
        parents = [board.post("resize") for _ in range(6)]
        children = [post_after(board, *parents[: 2 * number]) for number in range(1, 4)]
        end(board, parents[0], "x" * 1000)
        board.trash(parents[1], by="op")
        edges, asked = other._backend.edges, [*uuids_of(children), parents[0].uuid, *(new_uuid() for _ in range(96))]
        pages = edges.first_parents(asked, 4)
        assert [len(page.edges) for page in pages] == [2, 4, 4, *[0] * 97]
        assert {(edge.outcome, edge.name, edge.result) for page in pages for edge in page.edges} == {
            (DONE, "resize", None), (FAILED, "resize", None), (OPEN, "resize", None),
        }  # fmt: skip
        for uuid, page in zip(asked, pages, strict=True):
            rest = edges.parents(uuid, page.cursor, 4).edges if page.cursor is not None else []
            found = [(edge.parent, edge.outcome) for edge in (*page.edges, *rest)]
            assert sorted(found) == sorted((edge.parent, edge.outcome) for edge in edges.parents(uuid, None, 9).edges)
        assert edges.first_parents([], 4) == []

    @of_edges
    def test_the_first_parents_of_many_jobs_with_large_results_are_read(self, board: JobBoard) -> None:
        parents = [board.post("resize") for _ in range(3)]
        children = [post_after(board, *parents) for _ in range(15)]
        for parent in parents:
            end(board, parent, "x" * (MAX_EDGE_RESULT - 100))
        edges, uuids = board._backend.edges, uuids_of(children)
        for uuid, page in zip(uuids, edges.first_parents(uuids, 9), strict=True):
            rest = edges.parents(uuid, page.cursor, 9).edges if page.cursor is not None else []
            assert {edge.parent for edge in (*page.edges, *rest)} == set(uuids_of(parents))
            assert page.edges, "each page has an edge, whatever the ones before it have"

    @of_edges
    def test_the_parents_of_several_jobs_are_counted_at_once(self, board: JobBoard) -> None:
        parents = [board.post("resize") for _ in range(3)]
        children = [post_after(board, *parents[: number + 1]) for number in range(3)]
        end(board, parents[0])
        counts = board._backend.edges.counts([*uuids_of(children), new_uuid(), parents[0].uuid])
        assert [(each.open, each.done) for each in counts] == [(0, 1), (1, 1), (2, 1), (0, 0), (0, 0)]

    @of_edges
    def test_what_ended_before_counts_at_once(self, board: JobBoard) -> None:
        done = [board.post("resize") for _ in range(3)]
        for number, parent in enumerate(done):
            end(board, parent, {"n": number})
        open_one = board.post("resize")
        child, waiting = post_after(board, *done), post_after(board, *done, open_one)
        assert states_of(board, child, waiting) == [UNCLAIMED, BLOCKED]
        assert results_of(board, child) == {parent.uuid: {"n": number} for number, parent in enumerate(done)}
        assert counts_of(board, waiting) == EdgeCounts(open=1, done=3)
        assert uuids_of(drain(board)) == uuids_of([open_one, child, waiting])

    @of_edges
    def test_parents_of_one_batch(self, board: JobBoard) -> None:
        """A diamond, the children of which come before their parents' ends in the posting order."""
        top = Posting("resize")
        left, right = (Posting("resize", after=[top]) for _ in range(2))
        jobs = board.post_many([top, left, right, Posting("resize", after=[left, right])])
        assert states_of(board, *jobs) == [UNCLAIMED, BLOCKED, BLOCKED, BLOCKED]
        assert uuids_of(drain(board, limit=9)) == uuids_of(jobs)

    @of_edges
    def test_a_chain_runs_in_its_order(self, board: JobBoard) -> None:
        jobs = [board.post("resize", priority="low")]
        for _ in range(30):
            jobs.append(post_after(board, jobs[-1]))
        others = board.post_many([Posting("resize") for _ in range(3)])
        assert uuids_of(drain(board)) == uuids_of([*others, *jobs])

    @of_edges
    def test_a_parent_that_the_board_does_not_know_refuses_the_batch(self, harness: Harness, board: JobBoard) -> None:
        stranger, known = harness.board().post("resize"), board.post("resize", key="k")
        for unknown in (stranger.uuid, new_uuid()):
            good, bad = new_job(), new_job(known, unknown)
            replacing = new_job(key="k", if_exists=IfExists.REPLACE, priority=5)
            answers = post_rows(board, replacing, good, bad)
            assert (answers[2].outcome, answers[2].parent) == (PostOutcome.NO_PARENT, unknown)
            assert uuids_of(board.iterjobs()) == [known.uuid]
            assert board.get(known.uuid).priority == known.priority
        assert children_of(board, known) == {}
        assert uuids_of(drain(board)) == [known.uuid]

    @of_edges
    def test_a_repeated_post_changes_nothing(self, board: JobBoard) -> None:
        parents = [board.post("resize") for _ in range(2)]
        new = new_job(*parents)
        (posted,) = post_rows(board, new)
        child = board.get(posted.row.uuid)
        assert [each.outcome for each in post_rows(board, new)] == [PostOutcome.SAME]
        end(board, parents[0])
        assert [each.outcome for each in post_rows(board, new)] == [PostOutcome.SAME]
        assert counts_of(board, child) == EdgeCounts(open=1, done=1)
        end(board, parents[1])
        end(board, child)
        assert [each.outcome for each in post_rows(board, new)] == [PostOutcome.SAME]
        assert (board.job_count, lines_of(board, child, "RESOLVED")) == (0, 1)

    @of_edges
    def test_one_parent_named_twice_is_one(self, board: JobBoard) -> None:
        parent = board.post("resize")
        child = post_after(board, parent, parent)
        assert counts_of(board, child) == EdgeCounts(open=1)
        end(board, parent)
        assert states_of(board, child) == [UNCLAIMED]

    @of_edges
    @pytest.mark.parametrize("retention", [0.0, 3600.0])
    def test_results_reach_a_child_whatever_the_retention_of_its_parents(
        self, harness: Harness, board: JobBoard, retention: float
    ) -> None:
        short = harness.board(board.name, retention=retention)
        before, after = board.post("resize"), board.post("resize")
        end(short, before, {"n": 1})
        child = post_after(board, before, after)
        end(short, after, {"n": 2})
        assert is_gone(board, before) is is_gone(board, after) is (retention == 0.0)
        assert states_of(board, child) == [UNCLAIMED]
        assert results_of(board, child) == {before.uuid: {"n": 1}, after.uuid: {"n": 2}}

    @of_edges
    def test_a_large_result_does_not_go_with_its_edge(self, board: JobBoard) -> None:
        sizes = [MAX_EDGE_RESULT - 5, MAX_EDGE_RESULT - 4, 0]
        parents = [board.post("resize") for _ in sizes]
        child = post_after(board, *parents)
        for size, parent in zip(sizes, parents, strict=True):
            # The head of a msgpack text of this length takes three bytes up to 64 KiB, and five from there on.
            end(board, parent, "x" * size if size else None)
        late = post_after(board, *parents)
        for each in (child, late):
            edges = parents_of(board, each)
            cuts = [edges[parent.uuid].is_cut for parent in parents]
            assert cuts == [len(board.get(parent.uuid).result or "") + 3 > MAX_EDGE_RESULT for parent in parents]
            assert states_of(board, each) == [UNCLAIMED]

    @of_edges
    def test_a_large_result_is_known_to_be_cut_though_its_record_is_gone(
        self, harness: Harness, board: JobBoard
    ) -> None:
        short = harness.board(board.name, retention=0.0)
        parents = [board.post("resize") for _ in range(3)]
        for parent, size in zip(parents, (MAX_EDGE_RESULT, 10, 0), strict=True):
            end(short, parent, "x" * size if size else None)
        child = post_after(board, *parents)
        edges = parents_of(board, child)
        assert [edges[parent.uuid].is_cut for parent in parents] == [True, False, False]
        assert [edges[parent.uuid].result is None for parent in parents] == [True, False, True]
        assert states_of(board, child) == [UNCLAIMED]

    @of_edges
    def test_a_uuid_that_is_posted_again_has_none_of_many_parents_of_before(self, board: JobBoard) -> None:
        parents = board.post_many([Posting("resize") for _ in range(60)])
        child, heir = post_after(board, *parents), board.post("resize")
        board.trash(child, by="ada")
        board.purge(child.uuid)
        again = board.post("report", uuid=child.uuid, after=[heir])
        assert counts_of(board, again) == EdgeCounts(open=1)
        end(board, heir)
        assert states_of(board, again) == [UNCLAIMED]

    @of_edges
    def test_a_uuid_that_is_posted_again_has_nothing_of_the_job_that_was_purged(self, board: JobBoard) -> None:
        failed, parent, heir = board.post("resize"), board.post("resize"), board.post("resize")
        before, after = post_after(board, failed, parent), post_after(board, heir)
        board.signal(before, "go", 1)
        child_of_it = post_after(board, before, heir, if_failed="run")
        board.trash(failed, by="ada")
        end(board, parent)
        for job in (before, after):
            board.trash(job, by="ada")
            board.purge(job.uuid)
        assert counts_of(board, child_of_it) == EdgeCounts(open=1, gone=1)
        again = board.post("report", uuid=before.uuid, after=[heir])
        plain = board.post("report", uuid=after.uuid)
        assert counts_of(board, again) == EdgeCounts(open=1)
        assert counts_of(board, plain) == EdgeCounts()
        assert list(again.signals()) == []
        later = post_after(board, plain)
        end(board, heir)
        assert states_of(board, again, plain, later, child_of_it) == [UNCLAIMED, UNCLAIMED, BLOCKED, UNCLAIMED]
        end(board, plain)
        assert states_of(board, later) == [UNCLAIMED]
        assert board.audit() == []

    @of_edges
    def test_an_end_that_is_none_resolves_nothing(self, board: JobBoard, other: JobBoard) -> None:
        parent = board.post("resize")
        child = post_after(board, parent)
        for counted in (True, False):
            board.claim(parent, "alice", LONG)
            board.abandon(parent, "alice", counted=counted)
            assert states_of(other, child) == [BLOCKED]
        board.claim(parent, "alice", LONG)
        other.release(other.get(parent.uuid), reason="its host is gone")
        board.claim(parent, "alice", SHORT)
        eventually(lambda: states_of(other, parent) == [UNCLAIMED])
        board.claim(parent, "alice", LONG)
        board.abandon(parent, "alice", delay=LONG)
        assert states_of(other, parent, child) == [DELAYED, BLOCKED]
        board.run_now(parent)
        end(board, parent)
        assert claim_one(board) == child

    @of_edges
    def test_a_delay_and_parents_hold_a_job_back_together(self, board: JobBoard) -> None:
        parents = [board.post("resize") for _ in range(2)]
        late, soon = post_after(board, *parents, delay=LONG), post_after(board, *parents, delay=SHORT)
        assert states_of(board, late) == [DELAYED]
        eventually(lambda: states_of(board, soon) == [BLOCKED])
        for parent in parents:
            end(board, parent)
        assert states_of(board, late, soon) == [DELAYED, UNCLAIMED]
        assert board.run_now(late)
        assert uuids_of(drain(board)) == uuids_of([soon, late])

    @of_edges
    def test_a_delay_that_is_ended_ahead_of_time_does_not_end_the_wait_for_parents(self, board: JobBoard) -> None:
        parent = board.post("resize", priority="low")
        child = post_after(board, parent, delay=LONG)
        assert board.run_now(child)
        assert states_of(board, child) == [BLOCKED]
        assert board.run_now(child) is False
        assert uuids_of(drain(board)) == uuids_of([parent, child])

    @of_edges
    @needs(sharded=False)
    def test_a_job_joins_its_lane_after_its_parents(self, board: JobBoard) -> None:
        limit(board, 1)
        parents = [board.post("resize", priority="low") for _ in range(2)]
        children = [post_after(board, *parents, lane=LANE, priority="high") for _ in range(2)]
        free = post_in(board)
        assert states_of(board, *children, free) == [BLOCKED, BLOCKED, UNCLAIMED]
        assert slots_of(board) == (0, 1, 0)
        board.claim(free, "alice", LONG)
        for parent in parents:
            end(board, parent)
        assert states_of(board, *children) == [BLOCKED, BLOCKED]
        assert slots_of(board) == (1, 0, 2)
        board.consume(free, "alice")
        assert slots_of(board) == (0, 1, 1)
        assert uuids_of(drain(board)) == uuids_of(children)

    @of_edges
    def test_a_parent_with_a_lane(self, board: JobBoard) -> None:
        limit(board, 1)
        first, second = post_in(board), post_in(board)
        child = post_after(board, first, second, lane=LANE)
        assert uuids_of(drain(board)) == uuids_of([first, second, child])

    @of_edges
    def test_what_waits_keeps_its_place_and_its_priority(self, board: JobBoard) -> None:
        parent = board.post("resize", priority="very_high")
        low, high = post_after(board, parent), post_after(board, parent)
        assert board.reprioritize(low, "low")
        assert board.reprioritize(high, "high")
        between = board.post("resize")
        assert uuids_of(drain(board, limit=1)) == uuids_of([parent, high, between, low])

    @of_edges
    @needs(sharded=False)
    def test_a_replaced_job_keeps_its_parents(self, board: JobBoard) -> None:
        parents = [board.post("resize", priority="low") for _ in range(2)]
        child = post_after(board, *parents, key="k")
        assert board.post("resize", key="k", if_exists="replace", priority="high") == child
        assert states_of(board, child) == [BLOCKED]
        assert counts_of(board, child) == EdgeCounts(open=2)
        assert uuids_of(drain(board)) == uuids_of([*parents, child])

    @of_edges
    def test_a_replaced_parent_keeps_its_children(self, board: JobBoard) -> None:
        parent = board.post("resize", key="k")
        child = post_after(board, parent)
        assert board.post("resize", key="k", if_exists="replace", priority="low") == parent
        assert states_of(board, child) == [BLOCKED]
        assert uuids_of(drain(board)) == uuids_of([parent, child])

    @of_edges
    def test_children_that_are_posted_while_their_parent_runs(self, board: JobBoard) -> None:
        parent = board.post("resize")
        board.claim(parent, "alice", LONG)
        children = [post_after(board, parent) for _ in range(3)]
        assert states_of(board, parent, *children) == [CLAIMED, BLOCKED, BLOCKED, BLOCKED]
        board.extend(parent, "alice", LONG)
        board.checkpoint(parent, "alice", "half")
        board.consume(parent, "alice")
        assert states_of(board, *children) == [UNCLAIMED] * 3

    @of_edges
    def test_a_waiting_job_can_be_cancelled_and_trashed(self, board: JobBoard) -> None:
        parent = board.post("resize")
        cancelled, trashed, restored = (post_after(board, parent) for _ in range(3))
        board.cancel(cancelled)
        for job in (trashed, restored):
            board.trash(job, by="an operator")
        board.restore(restored.uuid)
        assert states_of(board, restored) == [BLOCKED]
        end(board, parent)
        assert is_gone(board, cancelled)
        assert uuids_of(drain(board)) == [restored.uuid]
        board.restore(trashed.uuid)
        assert uuids_of(drain(board)) == [trashed.uuid]

    @of_edges
    def test_a_wait_wakes_when_the_last_parent_ends(self, harness: Harness, board: JobBoard) -> None:
        waiting = Waiting(harness, board.name)
        try:
            parents = [board.post("resize") for _ in range(2)]
            child = post_after(board, *parents)
            for parent in parents:
                board.claim(parent, "alice", LONG)
            found = waiting.begin()
            for parent in parents:
                board.consume(parent, "alice")
            assert found.result(DEADLINE) == child
        finally:
            waiting.end()

    @of_edges
    @pytest.mark.parametrize("count", [49, 50, 51, 120])
    def test_one_job_with_many_children(self, board: JobBoard, count: int) -> None:
        parent = board.post("resize")
        children = board.post_many([Posting("order", after=[parent]) for _ in range(count)])
        end(board, parent, "the result")
        assert uuids_of(drain(board)) == uuids_of(children)
        assert {edge.outcome for edge in children_of(board, parent).values()} == {DONE}
        assert results_of(board, children[-1]) == {parent.uuid: "the result"}
        assert outcomes_of(board, children[0], parent) == [DONE]

    @of_edges
    def test_many_jobs_with_many_children_that_end_at_once(self, board: JobBoard) -> None:
        """More than one step tells all children of each how it ended."""
        parents = board.post_many([Posting("resize") for _ in range(25)])
        children = board.post_many([Posting("order", after=parents) for _ in range(60)])
        ended = board.claim_next("alice", names=["resize"], limit=len(parents), expiry=LONG)
        assert board.consume_many(ended, "alice") == [None] * len(parents)
        # A look for jobs does a bounded part of what is left.
        eventually(lambda: states_of(board, *children) == [UNCLAIMED] * len(children))
        assert set(uuids_of(drain(board))) == set(uuids_of(children))
        assert counts_of(board, children[-1]) == EdgeCounts(done=len(parents))
        assert board.audit() == []
