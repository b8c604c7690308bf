"""Races about parents, graphs and signals: who comes at the last moment is counted or refused, and nobody is lost."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from jobboard.backends.edge_rows import LinkOutcome, Outcome, SignalOutcome
from jobboard.backends.rows import Verdict
from jobboard.board import JobBoard, client_of
from jobboard.errors import ClaimLost, JobBoardError
from jobboard.job import Job, Posting
from jobboard.states import LIVE
from jobboard.testing.contract.case import LONG, SHORT, drain, state_of, uuids_of
from jobboard.testing.contract.edge_case import (
    BLOCKED,
    CLAIMED,
    COMPLETE,
    TRASHED,
    UNCLAIMED,
    EdgeCase,
    end,
    is_gone,
    lines_of,
    link,
    of_edges,
    parents_of,
    post_after,
)
from jobboard.testing.contract.graphs import drop, seal, stage
from jobboard.testing.contract.lane_case import states_of
from jobboard.testing.contract.races import at_once
from jobboard.testing.contract.signals import wait_for
from jobboard.testing.deadline import eventually
from jobboard.testing.harness import Harness
from jobboard.validation import new_uuid

ROUNDS = 10
#: How many parents a job has whose owners die now and then, and how many owners there are.
_PARENTS, _OWNERS = 60, 4

Work = Callable[[], object]


def both(first: Work, second: Work, number: int) -> None:
    """Do two things at once; which thread is begun first alternates."""
    works = [first, second] if number % 2 else [second, first]
    for outcome in at_once(*works):
        assert not isinstance(outcome, JobBoardError), outcome


class EdgeRaceCases(EdgeCase):
    @of_edges
    @pytest.mark.parametrize("verb", ["consume", "cancel", "trash"])
    def test_a_child_that_is_posted_as_its_parent_ends_is_not_forgotten(
        self, board: JobBoard, other: JobBoard, verb: str
    ) -> None:
        for number in range(ROUNDS):
            parent = board.post("parent")
            if verb == "consume":
                board.claim(parent, "alice", LONG)
            ends: dict[str, Work] = {
                "consume": partial(board.consume, parent, "alice"),
                "cancel": partial(board.cancel, parent),
                "trash": partial(board.trash, parent, by="an operator"),
            }
            posted: list[Job] = []
            both(
                lambda parent=parent, posted=posted: posted.append(post_after(other, parent.uuid, if_failed="run")),  # type: ignore[misc]
                ends[verb],
                number,
            )
            assert uuids_of(drain(board)) == uuids_of(posted)

    @of_edges
    def test_a_child_is_claimed_as_its_parent_is_restored(self, board: JobBoard, other: JobBoard) -> None:
        """It runs at once, and then no longer waits; or it waits, and runs after its parent."""
        for number in range(ROUNDS):
            parent = board.post("parent")
            children = [post_after(board, parent, name="child", if_failed="run") for _ in range(3)]
            board.trash(parent, by="an operator")
            claimed: list[Job] = []
            both(
                partial(board.restore, parent.uuid),
                lambda claimed=claimed: claimed.extend(other.claim_next("alice", names=["child"], limit=2)),  # type: ignore[misc]
                number,
            )
            for child in children:
                expected = (CLAIMED, 0) if child in claimed else (BLOCKED, 1)
                assert (state_of(board, child), lines_of(board, child, "BLOCKED")) == expected
            end(board, parent, who="bob")
            for job in claimed:
                other.consume(job, "alice")
            assert len(list(drain(board))) == 3 - len(claimed)

    @of_edges
    def test_the_last_two_parents_end_at_once(self, board: JobBoard, other: JobBoard) -> None:
        for number in range(ROUNDS):
            parents = [board.post("parent") for _ in range(3)]
            children = [post_after(board, *parents) for _ in range(2)]
            end(board, parents[0])
            for parent in parents[1:]:
                board.claim(parent, "alice", LONG)
            theirs = other.get(parents[2].uuid)
            both(
                partial(board.consume, parents[1], "alice"),
                partial(other.consume, theirs, "alice", token=parents[2].token),
                number,
            )
            assert states_of(board, *children) == [UNCLAIMED, UNCLAIMED]
            assert [lines_of(board, child, "RESOLVED") for child in children] == [1, 1]
            assert len(list(drain(board))) == 2

    @of_edges
    def test_a_link_as_the_last_parent_ends_is_counted_or_refused(self, board: JobBoard, other: JobBoard) -> None:
        outcomes: Counter[LinkOutcome] = Counter()
        for number in range(ROUNDS):
            first, second = board.post("parent"), board.post("parent")
            child = post_after(board, first)
            board.claim(first, "alice", LONG)
            found: list[LinkOutcome] = []
            both(
                lambda child=child, second=second, found=found: found.append(link(other, child, second)),  # type: ignore[misc]
                partial(board.consume, first, "alice"),
                number,
            )
            outcomes[found[0]] += 1
            expected = {LinkOutcome.DONE: BLOCKED, LinkOutcome.STARTED: UNCLAIMED}
            assert state_of(board, child) is expected[found[0]]
            assert set(uuids_of(drain(board, limit=1))) == {second.uuid, child.uuid}
        assert outcomes.keys() <= {LinkOutcome.DONE, LinkOutcome.STARTED}

    @of_edges
    def test_a_parent_is_restored_as_its_child_is_cancelled(self, board: JobBoard, other: JobBoard) -> None:
        for number in range(ROUNDS):
            parent = board.post("parent")
            child, witness = post_after(board, parent), post_after(board, parent)
            board.trash(parent, by="an operator")
            both(partial(board.restore, parent.uuid), partial(other.cancel, child.uuid), number)
            assert is_gone(board, child)
            assert uuids_of(drain(board)) == uuids_of([parent, witness])

    @of_edges
    def test_two_parents_of_which_one_fails_as_the_other_ends(self, board: JobBoard, other: JobBoard) -> None:
        for number in range(ROUNDS):
            fine, failing = board.post("parent"), board.post("parent")
            ways = ("wait", "cancel", "run")
            waiting, cancelled, running = (post_after(board, fine, failing, if_failed=way) for way in ways)
            board.claim(fine, "alice", LONG)
            both(partial(board.consume, fine, "alice"), partial(other.cancel, failing.uuid), number)
            assert is_gone(board, cancelled)
            assert states_of(board, waiting, running) == [TRASHED, UNCLAIMED]
            assert uuids_of(drain(board)) == [running.uuid]

    @of_edges
    def test_a_signal_as_its_wait_begins_is_not_lost(self, board: JobBoard, other: JobBoard) -> None:
        for number in range(ROUNDS):
            job = board.post("resize")
            board.claim(job, "alice", LONG)
            both(partial(wait_for, board, job), partial(other.signal, job.uuid, "approved", number), number)
            assert uuids_of(drain(board)) == [job.uuid]

    @of_edges
    def test_a_signal_as_its_job_ends_is_kept_or_refused(self, board: JobBoard, other: JobBoard) -> None:
        for _ in range(ROUNDS):
            job = board.post("resize")
            board.claim(job, "alice", LONG)
            send = partial(client_of(other).call, client_of(other).backend.steps.signal, job.uuid, "approved", b"\xc0")
            sent, _ = at_once(send, partial(board.consume, job, "alice"))
            assert sent in (SignalOutcome.DONE, SignalOutcome.MISSING)
            assert state_of(board, job) is COMPLETE
            assert len(board.get(job.uuid).signals()) == (sent is SignalOutcome.DONE)

    @of_edges
    def test_of_several_signals_of_one_name_one_is_kept(self, harness: Harness, board: JobBoard) -> None:
        boards = [board, *(harness.board(board.name) for _ in range(3))]
        for _ in range(ROUNDS):
            job = board.post("resize")
            sent = at_once(*(partial(each.signal, job.uuid, "approved", n) for n, each in enumerate(boards)))
            assert sorted(map(str, sent)) == ["False", "False", "False", "True"]
            assert [signal.value for signal in board.get(job.uuid).signals()] == [sent.index(True)]

    @of_edges
    def test_two_ends_of_one_claim_post_what_follows_once(self, board: JobBoard, other: JobBoard) -> None:
        for number in range(ROUNDS):
            job = board.post("resize", on_complete=Posting("last"))
            board.claim(job, "alice", LONG)
            post = [Posting("next") for _ in range(3)]

            def consume(one: JobBoard, job: Job = job, post: list[Posting] = post) -> None:
                one.consume(job.uuid, "alice", post=post, token=job.token)

            works = [partial(consume, board), partial(consume, other)]
            outcomes = at_once(*works[:: 1 if number % 2 else -1])
            assert all(outcome is None or isinstance(outcome, ClaimLost) for outcome in outcomes)
            assert sorted(job.name for job in drain(board)) == ["last", "next", "next", "next"]

    @of_edges
    @pytest.mark.parametrize("seed", range(3))
    def test_a_child_of_many_parents_whose_owners_die_runs_once(
        self, harness: Harness, board: JobBoard, seed: int
    ) -> None:
        parents = board.post_many([Posting("part") for _ in range(_PARENTS)])
        report = board.post("report", after=parents)
        owners = [_Owner(harness.board(board.name), number, seed) for number in range(_OWNERS)]

        def work(owner: _Owner) -> None:
            def is_over() -> bool:
                owner.step()
                return board.job_count == 0

            eventually(is_over, within=60.0, every=0.001)

        outcomes = at_once(*(partial(work, owner) for owner in owners))
        assert outcomes == [None] * _OWNERS
        assert [uuid for owner in owners for uuid in owner.reports] == [report.uuid]
        assert {state_of(board, parent) for parent in parents} == {COMPLETE}
        assert lines_of(board, report, "RESOLVED") == 1
        assert {edge.outcome for edge in parents_of(board, report).values()} == {Outcome.DONE}

    @of_edges
    def test_a_graph_is_sealed_as_it_is_given_up(self, board: JobBoard, other: JobBoard) -> None:
        for _ in range(ROUNDS):
            graph = new_uuid()
            jobs = stage(board, graph)
            sealed, _ = at_once(partial(seal, board, graph), partial(drop, other, graph))
            assert sealed in (Verdict.DONE, Verdict.LOST)
            if sealed is Verdict.DONE:
                assert uuids_of(drain(board)) == uuids_of(jobs)
            else:
                eventually(lambda: board.claim_next("alice") == [] and board.job_count == 0)


class _Owner:
    """Somebody who claims one job after the other, and dies at every fifth of them: its claim expires."""

    def __init__(self, board: JobBoard, number: int, seed: int) -> None:
        self._board, self._who, self._dice = board, f"owner {number}", random.Random(10 * seed + number)
        self.reports: list[str] = []

    def step(self) -> None:
        if self._dice.random() < 0.2:
            self._board.claim_next(self._who, ["part"], 2, SHORT)
        for job in self._board.claim_next(self._who, limit=2, expiry=LONG):
            if job.name == "report":
                assert all(parent.state not in LIVE for parent in job.parents()), "a parent had not ended"
                self.reports.append(job.uuid)
            self._board.consume(job, self._who)
