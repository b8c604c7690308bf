"""One more parent of a job that still waits: for children that running jobs find (``before=``)."""

from __future__ import annotations

import pytest

from jobboard.backends.edge_rows import EdgeCounts, LinkOutcome, Outcome
from jobboard.board import JobBoard
from jobboard.errors import InvalidPosting
from jobboard.job import Job, Posting
from jobboard.states import JobState
from jobboard.testing.contract.case import LONG, drain, needs, uuids_of
from jobboard.testing.contract.edge_case import (
    BLOCKED,
    DELAYED,
    TRASHED,
    UNCLAIMED,
    EdgeCase,
    children_of,
    counts_of,
    each_way,
    end,
    is_gone,
    link,
    of_edges,
    outcomes_of,
    parents_of,
    post_after,
    results_of,
)
from jobboard.testing.contract.lane_case import LANE, limit, post_in, states_of
from jobboard.testing.deadline import eventually
from jobboard.testing.faults import LossyBackend
from jobboard.types import IfExistsName, IfFailedName
from jobboard.validation import new_uuid


class LinkCases(EdgeCase):
    @of_edges
    def test_a_running_job_finds_more_to_do_before_its_child(self, board: JobBoard, other: JobBoard) -> None:
        finder = board.post("resize")
        report = post_after(board, finder)
        board.claim(finder, "alice", LONG)
        pages = [board.post("resize", before=[report]) for _ in range(3)]
        assert states_of(other, report, *pages) == [BLOCKED, *[UNCLAIMED] * 3]
        assert counts_of(other, report) == EdgeCounts(open=4)
        board.consume(finder, "alice", 0)
        for number, page in enumerate(pages):
            assert states_of(other, report) == [BLOCKED]
            end(board, page, number + 1)
        assert states_of(other, report) == [UNCLAIMED]
        assert sorted(results_of(other, report).values()) == [0, 1, 2, 3]

    @of_edges
    def test_a_page_finds_another_page(self, board: JobBoard) -> None:
        first = board.post("resize")
        report = post_after(board, first)
        seen = [first]
        for _ in range(10):
            board.claim(seen[-1], "alice", LONG)
            page = board.post("resize", before=[report])
            board.consume(seen[-1], "alice")
            assert states_of(board, page, report) == [UNCLAIMED, BLOCKED]
            seen.append(page)
        assert uuids_of(drain(board)) == uuids_of([seen[-1], report])

    @of_edges
    def test_one_posting_before_several_jobs_and_after_others(self, board: JobBoard) -> None:
        first = board.post("resize")
        children = [post_after(board, first) for _ in range(3)]
        between = board.post("resize", after=[first], before=children)
        assert states_of(board, between, *children) == [BLOCKED] * 4
        end(board, first)
        assert states_of(board, between, *children) == [UNCLAIMED, *[BLOCKED] * 3]
        end(board, between)
        assert states_of(board, *children) == [UNCLAIMED] * 3

    @of_edges
    def test_postings_of_one_batch_before_each_other(self, board: JobBoard) -> None:
        last = Posting("resize")
        middle = Posting("resize", before=[last])
        jobs = board.post_many([last, middle, Posting("resize", before=[middle, last])])
        assert states_of(board, *jobs) == [BLOCKED, BLOCKED, UNCLAIMED]
        assert uuids_of(drain(board)) == uuids_of(jobs[::-1])

    @of_edges
    def test_a_link_is_idempotent(self, board: JobBoard) -> None:
        first, *more = (board.post("resize") for _ in range(4))
        child = post_after(board, first)
        assert link(board, child, *more) is LinkOutcome.DONE
        assert link(board, child, *more) is LinkOutcome.REPEATED
        assert link(board, child, first) is LinkOutcome.REPEATED
        assert counts_of(board, child) == EdgeCounts(open=4)
        for each in (first, *more):
            end(board, each)
        assert link(board, child, *more) is LinkOutcome.REPEATED
        assert states_of(board, child) == [UNCLAIMED]

    @of_edges
    @needs(sharded=False)
    def test_a_job_that_waits_for_no_parents_takes_no_more_of_them(self, board: JobBoard) -> None:
        limit(board, 1)
        parent, late = board.post("resize"), board.post("resize")
        never, delayed = board.post("resize"), board.post("resize", delay=LONG)
        in_lane = [post_in(board) for _ in range(2)][1]
        resolved, trashed, done = (post_after(board, parent) for _ in range(3))
        board.trash(trashed, by="an operator")
        end(board, parent)
        end(board, done)
        for child in (never, delayed, in_lane, resolved, trashed, done):
            before = states_of(board, child)
            assert link(board, child, late) is LinkOutcome.STARTED
            assert states_of(board, child) == before
            with pytest.raises(InvalidPosting) as caught:
                board.post("rotate", before=[child])
            assert caught.value.path == "before"
        assert children_of(board, late) == {}
        assert not list(board.iterjobs(names=["rotate"]))

    @of_edges
    def test_a_job_in_the_trash_takes_more_parents_and_waits_for_them_once_it_is_restored(
        self, board: JobBoard
    ) -> None:
        parent = board.post("crawl")
        child = post_after(board, parent)
        board.trash(child, by="an operator")
        (claimed,) = board.claim_next("alice", {"crawl"})
        parts = [Posting("part", after=[parent], before=[child]) for _ in range(3)]
        board.consume(claimed, "alice", post=parts)
        assert states_of(board, child) == [JobState.TRASHED]
        assert counts_of(board, child) == EdgeCounts(open=3, done=1)
        first, *others = board.claim_next("alice", {"part"}, limit=3)
        board.consume(first, "alice")
        board.restore(child)
        assert states_of(board, child) == [BLOCKED]
        for each in others:
            assert states_of(board, child) == [BLOCKED]
            board.consume(each, "alice")
        assert uuids_of(drain(board)) == [child.uuid]

    @of_edges
    def test_many_postings_before_one_job_can_be_claimed_once_their_parent_has_ended(self, board: JobBoard) -> None:
        root = board.post("root")
        report = post_after(board, root)
        board.claim(root, "alice", LONG)
        board.consume(root, "alice", post=[Posting("part", after=[root], before=[report]) for _ in range(120)])
        assert len(board.claim_next("alice", {"part"}, expiry=LONG)) == 1
        assert counts_of(board, report) == EdgeCounts(open=120, done=1)
        assert len(list(drain(board))) == 119
        assert states_of(board, report) == [BLOCKED]

    @of_edges
    @needs(sharded=False)
    def test_what_the_board_does_not_know_is_linked_to_nothing(self, board: JobBoard) -> None:
        parent = board.post("resize")
        child = post_after(board, parent)
        assert link(board, new_uuid(), parent) is LinkOutcome.MISSING
        assert link(board, child, board.post("resize"), new_uuid()) is LinkOutcome.MISSING
        assert counts_of(board, child) == EdgeCounts(open=1)
        with pytest.raises(InvalidPosting):
            board.post("rotate", before=[new_uuid()])
        assert not list(board.iterjobs(names=["rotate"]))
        assert uuids_of(drain(board))[0] == parent.uuid

    @of_edges
    def test_a_delayed_job_takes_more_parents(self, board: JobBoard) -> None:
        parent, more = board.post("resize"), board.post("resize")
        child = post_after(board, parent, delay=LONG)
        assert link(board, child, more) is LinkOutcome.DONE
        assert states_of(board, child) == [DELAYED]
        assert board.run_now(child)
        end(board, parent)
        assert states_of(board, child) == [BLOCKED]
        end(board, more)
        assert states_of(board, child) == [UNCLAIMED]

    @of_edges
    def test_a_link_to_what_has_ended(self, board: JobBoard) -> None:
        done, failed, gone, parent = (board.post("resize") for _ in range(4))
        end(board, done, "the result")
        board.trash(failed, by="an operator")
        board.cancel(gone)
        waiting, cancelled, trashed = (post_after(board, parent, if_failed=way) for way in ("wait", "cancel", "wait"))
        assert link(board, waiting, done, failed) is LinkOutcome.DONE
        assert states_of(board, waiting) == [BLOCKED]
        assert counts_of(board, waiting) == EdgeCounts(open=1, done=1, failed=1)
        assert link(board, cancelled, failed) is LinkOutcome.DONE
        assert is_gone(board, cancelled)
        assert link(board, trashed, gone) is LinkOutcome.DONE
        assert states_of(board, trashed) == [TRASHED]
        end(board, parent)
        board.restore(failed.uuid)
        assert outcomes_of(board, waiting, failed) == [Outcome.OPEN]
        assert uuids_of(drain(board)) == uuids_of([failed, waiting])

    @of_edges
    def test_fifty_parents_are_linked_at_once(self, board: JobBoard) -> None:
        child = post_after(board, board.post("resize"))
        parents = board.post_many([Posting("resize") for _ in range(50)])
        assert link(board, child, *parents) is LinkOutcome.DONE
        assert counts_of(board, child) == EdgeCounts(open=51)
        assert uuids_of(drain(board, limit=1))[-1] == child.uuid

    @of_edges
    def test_large_results_of_many_parents_that_have_ended_reach_their_child(
        self, board: JobBoard, other: JobBoard
    ) -> None:
        parents = [board.post("resize") for _ in range(30)]
        for number, parent in enumerate(parents):
            end(board, parent, [number, "x" * 60_000])
        child = board.post("report", after=parents)
        first, second, third = board.post_many([Posting("resize"), Posting("report", after=parents), Posting("resize")])
        last = board.post("report", after=[*parents, first, third])
        assert states_of(other, child, second, last) == [UNCLAIMED, UNCLAIMED, BLOCKED]
        assert counts_of(other, last) == EdgeCounts(open=2, done=30)
        for job in (child, second):
            assert sorted(result[0] for result in results_of(other, job).values()) == list(range(30))

    @of_edges
    @needs(sharded=False)
    def test_a_job_of_a_lane_takes_more_parents(self, board: JobBoard) -> None:
        limit(board, 1)
        parent, holder = board.post("resize"), post_in(board)
        child = post_after(board, parent, lane=LANE)
        more = board.post("resize", before=[child], priority="low")
        assert uuids_of(drain(board, limit=1)) == uuids_of([parent, holder, more, child])

    @of_edges
    @each_way
    def test_of_a_posting_that_is_refused_no_edge_stays(self, board: JobBoard, if_failed: IfFailedName) -> None:
        """Its first children were linked before another one refused it."""
        root, running, over = (board.post("resize") for _ in range(3))
        board.claim(running, "alice", LONG)
        end(board, over)
        child, twin = (post_after(board, root, if_failed=if_failed) for _ in range(2))
        for refusing in (running.uuid, over.uuid, new_uuid()):
            with pytest.raises(InvalidPosting):
                board.post("rotate", before=[child, twin, refusing], if_failed=if_failed)
            first = Posting("rotate", after=[root], before=[child])
            with pytest.raises(InvalidPosting):
                board.post_many([first, Posting("rotate", after=[first], before=[twin, child, refusing])])
            for waiting in (child, twin):
                eventually(lambda waiting=waiting: parents_of(board, waiting).keys() == {root.uuid})  # type: ignore[misc]
                assert counts_of(board, waiting) == EdgeCounts(open=1)
        more = board.post("resize", before=[child])
        order = uuids_of(drain(board, limit=1))
        assert (order[0], set(order[1:3]), order[3:]) == (root.uuid, {more.uuid, twin.uuid}, [child.uuid])
        assert counts_of(board, child) == EdgeCounts(done=2)

    @of_edges
    def test_jobs_that_would_wait_for_each_other_are_refused(self, board: JobBoard) -> None:
        first = board.post("resize")
        child = post_after(board, first)
        grandchild = post_after(board, child)
        for last in (child, grandchild):
            with pytest.raises(InvalidPosting, match="wait for each other"):
                board.post("rotate", after=[last], before=[child])
        one = Posting("rotate")
        two = Posting("rotate", after=[one], before=[one])
        with pytest.raises(InvalidPosting, match="wait for each other"):
            board.post_many([one, two])
        assert not list(board.iterjobs(names=["rotate"]))
        assert uuids_of(drain(board)) == uuids_of([first, child, grandchild])

    @of_edges
    def test_of_two_clients_that_link_jobs_in_opposite_ways_one_is_refused(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend
    ) -> None:
        root = board.post("resize")
        first, second = post_after(board, root), post_after(board, root)

        def link_in_the_other_way() -> None:
            other.post("rotate", after=[first], before=[second])

        lossy.lose("edges.link", "request", meanwhile=link_in_the_other_way)
        with pytest.raises(InvalidPosting, match="wait for each other"):
            board.post("report", after=[second], before=[first])
        assert board.audit() == []
        assert [job.name for job in drain(board, limit=1)] == ["resize", "resize", "rotate", "resize"]

    @of_edges
    def test_jobs_that_wait_for_each_other_are_named(self, board: JobBoard) -> None:
        root = board.post("resize")
        jobs = [post_after(board, root) for _ in range(8)]
        for child, parent in ((0, 1), (1, 2), (2, 0), (3, 0), (4, 3), (2, 7), (5, 6), (6, 5)):
            assert link(board, jobs[child], jobs[parent]) is LinkOutcome.DONE
        end(board, root)
        end(board, jobs[7])
        for repair in (False, True):
            found = board.audit(repair=repair)
            cycles = [{job.uuid for job in jobs if job.uuid in finding.problem} for finding in found]
            assert sorted(cycles, key=len) == [set(uuids_of(jobs[5:7])), set(uuids_of(jobs[:3]))]
            assert not any(finding.repaired for finding in found)
        board.cancel(jobs[5])
        board.cancel(jobs[1])
        assert board.audit() == []
        assert states_of(board, jobs[2], jobs[0]) == [BLOCKED, TRASHED]

    @of_edges
    @needs(sharded=False)
    @pytest.mark.parametrize("is_batch", [False, True])
    def test_a_job_that_is_kept_goes_before_its_child(self, board: JobBoard, is_batch: bool) -> None:
        """As pages do that several running jobs find; so does one whose content is replaced."""
        root = board.post("root")
        report, second = post_after(board, root), post_after(board, root)

        def post(child: Job, key: str, if_exists: IfExistsName = "keep") -> str:
            posting = Posting("resize", key=key, if_exists=if_exists, before=[child])
            if is_batch:
                return board.post_many([posting])[0].uuid
            return board.post("resize", key=key, if_exists=if_exists, before=[child]).uuid

        unclaimed, claimed, late = (board.post("resize", key=key) for key in "abc")
        waiting = board.post("resize", key="d", after=[root])
        complete = board.post("resize", key="e", key_for=LONG)
        board.claim(claimed, "alice", LONG)
        end(board, complete)
        found = [unclaimed, claimed, waiting, complete]
        for _ in range(2):
            for child in (report, second):
                assert [post(child, key) for key in "abde"] == uuids_of(found)
                assert post(child, "c", "replace") == late.uuid
        for child in (report, second):
            assert parents_of(board, child).keys() == {root.uuid, late.uuid, *uuids_of(found)}
            assert counts_of(board, child) == EdgeCounts(open=5, done=1)
        board.consume(claimed, "alice")
        assert set(uuids_of(drain(board, limit=1))[-2:]) == {report.uuid, second.uuid}

    @of_edges
    @needs(sharded=False)
    def test_a_job_that_is_kept_goes_before_a_posting_of_its_batch(self, board: JobBoard) -> None:
        kept, report, others = board.post("resize", key="k"), Posting("report"), [Posting("resize") for _ in range(3)]
        postings = [*others, Posting("resize", key="k", if_exists="keep", before=[report]), report]
        jobs = board.post_many([*postings, Posting("last", after=[report, *others])])
        assert jobs[3] == kept
        assert counts_of(board, jobs[4]) == EdgeCounts(open=1)
        assert [job.name for job in drain(board, limit=1)][-2:] == ["report", "last"]

    @of_edges
    @needs(sharded=False)
    def test_a_job_that_is_kept_and_would_wait_for_itself_is_refused(self, board: JobBoard) -> None:
        root = board.post("root")
        report = board.post("resize", key="report", after=[root])
        post_after(board, post_after(board, report), key="last")
        for key in ("report", "last"):
            with pytest.raises(InvalidPosting, match="wait for each other"):
                board.post("resize", key=key, if_exists="keep", before=[report])
        assert counts_of(board, report) == EdgeCounts(open=1)

    @of_edges
    @needs(sharded=False)
    def test_what_follows_an_end_may_be_a_job_that_is_kept(self, board: JobBoard) -> None:
        root = board.post("root")
        report, kept = post_after(board, root), board.post("resize", key="k")
        (claimed,) = board.claim_next("alice", ["root"], expiry=LONG)
        board.consume(claimed, "alice", post=[Posting("resize", key="k", if_exists="keep", before=[report])])
        assert states_of(board, report) == [BLOCKED]
        assert uuids_of(drain(board)) == uuids_of([kept, report])
