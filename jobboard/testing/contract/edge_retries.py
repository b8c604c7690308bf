"""Retries of what has to do with parents, steps and signals: a request whose reply was lost takes effect once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from jobboard.backends.edge_rows import EdgeCounts, LinkOutcome, parent_of_graph
from jobboard.backends.rows import Verdict
from jobboard.board import JobBoard, client_of
from jobboard.errors import NotFound
from jobboard.job import Posting
from jobboard.testing.contract.case import LONG, claim_one, drain, needs, uuids_of
from jobboard.testing.contract.edge_case import (
    BLOCKED,
    COMPLETE,
    TRASHED,
    UNCLAIMED,
    EdgeCase,
    counts_of,
    end,
    lines_of,
    link,
    new_job,
    of_edges,
    post_after,
    post_rows,
)
from jobboard.testing.contract.follow_ups import named, trash_with
from jobboard.testing.contract.lane_case import states_of
from jobboard.testing.contract.retries import each_fault
from jobboard.testing.contract.signals import values_of, wait_for
from jobboard.testing.contract.steps import save, steps_of
from jobboard.testing.faults import Fault, LossyBackend
from jobboard.validation import new_uuid


class EdgeRetryCases(EdgeCase):
    @of_edges
    @each_fault
    def test_a_post_with_parents_is_posted_once(self, board: JobBoard, lossy: LossyBackend, fault: Fault) -> None:
        parents = [board.post("resize") for _ in range(3)]
        lossy.lose("post", fault, times=2)
        child = post_after(board, *parents)
        assert (board.job_count, counts_of(board, child)) == (4, EdgeCounts(open=3))
        for parent in parents:
            end(board, parent)
        assert uuids_of(drain(board)) == [child.uuid]

    @of_edges
    @each_fault
    def test_a_post_whose_parents_end_before_its_repeat(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault
    ) -> None:
        parents = [board.post("resize") for _ in range(3)]

        def end_all() -> None:
            for parent in parents:
                end(other, parent)

        lossy.lose("post", fault, meanwhile=end_all)
        child = post_after(board, *parents)
        assert states_of(board, child) == [UNCLAIMED]
        assert counts_of(board, child) == EdgeCounts(done=3)
        assert lines_of(board, child, "POSTED") == 1

    @of_edges
    def test_a_post_whose_parents_are_purged_before_its_repeat(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend
    ) -> None:
        parents = [board.post("resize") for _ in range(3)]

        def purge_all() -> None:
            for parent in parents:
                other.trash(parent.uuid, by="an operator")
                other.purge(parent.uuid)

        lossy.lose("post", "reply", meanwhile=purge_all)
        child = post_after(board, *parents, if_failed="run")
        assert states_of(board, child) == [UNCLAIMED]
        assert lines_of(board, child, "POSTED") == 1

    @of_edges
    @each_fault
    @pytest.mark.parametrize("verb", ["consume", "cancel", "trash"])
    def test_the_end_of_a_parent_resolves_its_children_once(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault, verb: str
    ) -> None:
        parent = board.post("resize")
        children = [post_after(board, parent, if_failed="run") for _ in range(3)]
        if verb == "consume":
            board.claim(parent, "alice", LONG)
        lossy.lose(verb, fault)
        ends: dict[str, Callable[[], object]] = {
            "consume": lambda: board.consume(parent, "alice"),
            "cancel": lambda: board.cancel(parent),
            "trash": lambda: board.trash(parent, by="an operator"),
        }
        ends[verb]()
        assert uuids_of(drain(other)) == uuids_of(children)
        assert [lines_of(other, child, "RESOLVED") for child in children] == [1] * 3

    @of_edges
    @each_fault
    def test_a_restore_and_a_purge_of_a_parent_are_made_once(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault
    ) -> None:
        parent = board.post("resize")
        child = post_after(board, parent)
        for verb, expected in (("restore", EdgeCounts(open=1)), ("purge", EdgeCounts(gone=1))):
            board.trash(parent.uuid, by="an operator")
            lossy.lose(verb, fault)
            getattr(board, verb)(parent.uuid)
            assert counts_of(other, child) == expected
        assert states_of(other, child) == [TRASHED]

    @of_edges
    @each_fault
    def test_children_wait_once_for_a_parent_that_is_back(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault
    ) -> None:
        parent = board.post("resize")
        children = [post_after(board, parent, if_failed="run") for _ in range(3)]
        board.trash(parent, by="an operator")
        lossy.lose("restore", fault)
        board.restore(parent.uuid)
        assert states_of(other, *children) == [BLOCKED] * 3
        assert [lines_of(other, child, "BLOCKED") for child in children] == [1] * 3

    @of_edges
    @each_fault
    def test_a_link_is_made_once(self, board: JobBoard, lossy: LossyBackend, fault: Fault) -> None:
        first, second = board.post("resize"), board.post("resize")
        child = post_after(board, first)
        lossy.lose("edges.link", fault)
        assert link(board, child, second) in (LinkOutcome.DONE, LinkOutcome.REPEATED)
        lossy.lose("edges.link", fault)
        third = board.post("resize", before=[child])
        assert counts_of(board, child) == EdgeCounts(open=3)
        for parent in (first, second, third):
            end(board, parent)
        assert states_of(board, child) == [UNCLAIMED]

    @of_edges
    @each_fault
    @pytest.mark.parametrize("primitive", ["post", "edges.seal", "edges.resolve"])
    def test_a_graph_in_parts_is_posted_once(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault, primitive: str
    ) -> None:
        lossy.capabilities = replace(lossy.capabilities, largest_graph=8)  # type: ignore[misc]
        parts = [Posting("resize") for _ in range(9)]
        lossy.lose(primitive, fault)
        jobs = board.post_many([*parts, Posting("last", after=parts)])
        assert states_of(other, *jobs) == [UNCLAIMED] * 9 + [BLOCKED]
        assert uuids_of(drain(board, limit=3)) == uuids_of(jobs)

    @of_edges
    @each_fault
    def test_a_graph_is_given_up_once(self, board: JobBoard, lossy: LossyBackend, fault: Fault) -> None:
        graph = new_uuid()
        post_rows(board, *(new_job(graph=graph) for _ in range(3)))
        lossy.lose("edges.drop", fault)
        client_of(board).call(client_of(board).backend.edges.drop, graph)
        assert (board.claim_next("alice"), board.job_count) == ([], 0)
        assert client_of(board).call(client_of(board).backend.edges.seal, graph) is Verdict.LOST

    @of_edges
    @each_fault
    def test_resolving_again_resolves_nothing(self, board: JobBoard, lossy: LossyBackend, fault: Fault) -> None:
        parent = board.post("resize")
        children = [post_after(board, parent) for _ in range(3)]
        end(board, parent)
        lossy.lose("edges.resolve", fault)
        resolve = client_of(board).backend.edges.resolve
        assert client_of(board).call(resolve, [parent.uuid, new_uuid(), parent_of_graph(new_uuid())]) == []
        assert [lines_of(board, child, "RESOLVED") for child in children] == [1] * 3

    @of_edges
    @each_fault
    def test_a_step_is_written_once(self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault) -> None:
        board.post("resize")
        job = claim_one(board)
        for number in range(3):
            lossy.lose("steps.save", fault)
            assert save(board, job, number, number) is Verdict.DONE
        assert steps_of(other, job) == [(number, "charge", number) for number in range(3)]

    @of_edges
    @each_fault
    def test_a_signal_is_sent_once(self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault) -> None:
        job = board.post("resize")
        lossy.lose("steps.signal", fault)
        assert board.signal(job, "approved", 1) is True
        assert (values_of(other, job), lines_of(other, job, "SIGNALLED")) == ({"approved": 1}, 1)
        assert other.signal(job, "approved", 2) is False

    @of_edges
    def test_a_signal_whose_job_ends_before_its_repeat(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend
    ) -> None:
        job = board.post("resize")
        lossy.lose("steps.signal", "request", meanwhile=lambda: end(other, job))
        with pytest.raises(NotFound):
            board.signal(job, "approved", 1)

    @of_edges
    @each_fault
    def test_a_wait_for_a_signal_begins_once(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault
    ) -> None:
        """Also if the signal arrives in between: the wait is over then, and stays over."""
        first, second = board.post("resize"), board.post("resize")
        for job, meanwhile in ((first, lambda: None), (second, lambda: other.signal(second, "approved"))):
            board.claim(job, "alice", LONG)
            lossy.lose("abandon", fault, meanwhile=meanwhile)
            assert wait_for(board, job) in (Verdict.DONE, Verdict.REPEATED)
            assert lines_of(other, job, "ABANDONED") == 1
        assert states_of(other, first, second) == [BLOCKED, UNCLAIMED]

    @of_edges
    @each_fault
    @needs(sharded=False)
    def test_what_follows_an_end_is_posted_once(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault
    ) -> None:
        job = board.post("resize", on_complete=Posting("last"))
        board.claim(job, "alice", LONG)
        lossy.lose("consume", fault, times=2)
        board.consume(job, "alice", post=[Posting("next", key="k"), Posting("next")])
        assert states_of(other, job) == [COMPLETE]
        assert (len(named(other)), len(named(other, "last"))) == (2, 1)

    @of_edges
    @each_fault
    def test_what_follows_an_end_may_have_run_before_its_repeat(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault
    ) -> None:
        job = board.post("resize")
        board.claim(job, "alice", LONG)
        ran: list[str] = []
        lossy.lose("consume", fault, meanwhile=lambda: ran.extend(uuids_of(drain(other, "bob"))))
        board.consume(job, "alice", post=[Posting("next") for _ in range(3)])
        ran += uuids_of(drain(other, "bob"))
        assert len(ran) == len(set(ran)) == 3

    @of_edges
    @each_fault
    def test_what_follows_a_trashing_is_posted_once(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault
    ) -> None:
        job = board.post("resize", on_trashed=Posting("last"))
        board.claim(job, "alice", LONG)
        lossy.lose("trash", fault)
        assert trash_with(board, job, new_job(name="next")) in (Verdict.DONE, Verdict.REPEATED)
        assert (len(named(other)), len(named(other, "last"))) == (1, 1)

    @of_edges
    @each_fault
    def test_an_end_that_completes_a_graph_is_made_once(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault
    ) -> None:
        lossy.capabilities = replace(lossy.capabilities, largest_graph=8)  # type: ignore[misc]
        job = board.post("resize")
        board.claim(job, "alice", LONG)
        lossy.lose("consume", fault)
        board.consume(job, "alice", post=[Posting("next", after=[job]) for _ in range(9)])
        assert states_of(other, *named(other)) == [UNCLAIMED] * 9

    @of_edges
    @each_fault
    def test_a_kept_key_is_taken_once(self, board: JobBoard, lossy: LossyBackend, fault: Fault) -> None:
        lossy.lose("post", fault)
        job = board.post("resize", key="k", key_for=LONG)
        end(board, job)
        lossy.lose("post", fault)
        assert board.post("resize", key="k", if_exists="keep") == job
        assert board.job_count == 0
