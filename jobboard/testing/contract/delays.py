"""Delays: a job is claimable from its time on, not before, and without anybody's help (promise 9)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from functools import partial

import pytest

from jobboard.board import JobBoard
from jobboard.errors import NotFound
from jobboard.events import EventKind
from jobboard.job import Posting
from jobboard.states import JobState
from jobboard.testing.contract.case import (
    LONG,
    SHORT,
    Case,
    claim_one,
    drain,
    let_a_claim_expire,
    needs,
    snapshot,
    state_of,
    uuids_of,
)
from jobboard.testing.deadline import DEADLINE, ends_within, eventually
from jobboard.testing.harness import Harness


def _in(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


class DelayCases(Case):
    def test_a_delayed_job_is_on_the_board_but_not_claimable(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize", delay=LONG)
        assert job.record.state is state_of(other, job) is JobState.DELAYED
        assert other.claim_next("alice", limit=9) == []
        assert (other.job_count, other.stats().delayed, other.stats().unclaimed) == (1, 1, 0)
        assert uuids_of(other.iterjobs()) == [job.uuid]
        assert list(other.iterjobs(only_unclaimed=True)) == []

    def test_a_delay_ends_by_itself(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize", delay=SHORT)
        assert job.record.state is JobState.DELAYED
        [claimed] = eventually(lambda: other.claim_next("alice"))
        assert (claimed, claimed.record.attempts) == (job, 1)

    def test_run_at_is_the_moment_that_was_given(self, board: JobBoard) -> None:
        moment = datetime(2040, 2, 29, 12, 30, 15, 250_000, tzinfo=timezone(timedelta(hours=-7)))
        job = board.post("resize", run_at=moment)
        assert job.run_at == board.get(job.uuid).run_at == board.get(job.uuid).record.run_at == moment
        assert state_of(board, job) is JobState.DELAYED

    def test_run_at_ends_by_itself(self, board: JobBoard) -> None:
        job = board.post("resize", run_at=_in(SHORT))
        assert eventually(lambda: board.claim_next("alice")) == [job]

    @pytest.mark.parametrize("seconds", [-1, -86_400 * 10_000])
    def test_a_run_at_that_has_passed_is_no_delay(self, board: JobBoard, seconds: float) -> None:
        job = board.post("resize", run_at=_in(seconds))
        assert state_of(board, job) is JobState.UNCLAIMED
        assert board.claim_next("alice") == [job]

    def test_a_delay_of_nothing_is_none(self, board: JobBoard) -> None:
        job = board.post("resize", delay=0)
        assert state_of(board, job) is JobState.UNCLAIMED
        assert board.claim_next("alice") == [job]

    def test_each_look_counts_a_due_job_as_unclaimed(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize", delay=SHORT, key="cat.png")
        eventually(lambda: other.stats().delayed == 0)
        assert other.stats().unclaimed == other.stats().names["resize"].unclaimed == 1
        assert uuids_of(other.iterjobs(only_unclaimed=True)) == [job.uuid]
        assert other.find("resize", "cat.png").record.state is JobState.UNCLAIMED
        assert list(other.iterjobs(states=[JobState.DELAYED])) == []

    def test_a_due_job_can_be_claimed_by_its_handle(self, board: JobBoard) -> None:
        job = board.post("resize", delay=SHORT)
        eventually(lambda: board.stats().delayed == 0)
        assert board.claim(job, "alice") > 0

    def test_hundreds_of_due_jobs_are_claimable_in_order(self, board: JobBoard) -> None:
        jobs = board.post_many([Posting("resize", delay=SHORT) for _ in range(250)])
        eventually(lambda: board.stats().delayed == 0)
        assert board.claim_next("alice", limit=250, expiry=LONG) == jobs

    def test_more_due_jobs_than_are_promoted_at_once_stop_nobody(self, board: JobBoard) -> None:
        moment = _in(1.5)
        board.post_many([Posting("resize", run_at=moment) for _ in range(1500)])
        ends_within(3 * DEADLINE, lambda: eventually(lambda: board.stats().unclaimed == 1500, 2 * DEADLINE))
        assert len(ends_within(3 * DEADLINE, lambda: board.claim_next("alice", limit=3, expiry=LONG))) == 3

    def test_jobs_that_become_due_beside_claims_and_ends_stop_nobody(self, harness: Harness, board: JobBoard) -> None:
        def work(client: JobBoard, who: str) -> None:
            for _ in range(25):
                client.post("resize", delay=0.02)
                for job in client.claim_next(who, limit=3, expiry=LONG):
                    client.consume(job, who)

        clients = [board] + [harness.board(board.name) for _ in range(3)]
        works = [partial(work, client, f"worker {n}") for n, client in enumerate(clients)]
        ends_within(3 * DEADLINE, *works)
        ends_within(3 * DEADLINE, lambda: eventually(lambda: [*drain(board)] == [] and board.job_count == 0))

    @needs(expiry="time")
    def test_a_longer_delay_is_not_cut_short(self, board: JobBoard) -> None:
        later, sooner = board.post("resize", delay=LONG), board.post("resize", delay=SHORT)
        eventually(lambda: state_of(board, sooner) is JobState.UNCLAIMED)
        let_a_claim_expire(board)
        assert uuids_of(board.claim_next("alice", limit=9)) == [sooner.uuid]
        assert state_of(board, later) is JobState.DELAYED

    def test_a_delayed_job_can_be_cancelled(self, board: JobBoard) -> None:
        board.cancel(board.post("resize", delay=LONG))
        assert (board.job_count, board.stats().delayed) == (0, 0)

    def test_a_delayed_job_can_be_claimed_ahead_of_its_time(self, board: JobBoard, other: JobBoard) -> None:
        job, later = board.post("resize", delay=LONG), board.post("resize", delay=LONG)
        assert board.claim_next("alice") == []
        assert other.run_now(job)
        record = board.get(job.uuid).record
        assert (record.state, record.run_at, record.attempts) == (JobState.UNCLAIMED, None, 0)
        assert (record.history[-1].kind, record.history[-1].reason) == (EventKind.DUE, "ahead of its time")
        assert (board.stats().delayed, board.stats().unclaimed) == (1, 1)
        assert claim_one(board) == job
        assert board.get(later.uuid).record.state is JobState.DELAYED

    def test_the_delay_of_an_attempt_that_failed_does_not_come_back(self, board: JobBoard) -> None:
        job = board.post("resize")
        board.abandon(claim_one(board), "alice", delay=LONG, error="no disk")
        assert board.run_now(job.uuid)
        claimed = claim_one(board)
        assert (claimed.record.attempts, claimed.record.last_error) == (2, "no disk")
        board.abandon(claimed, "alice")
        assert claim_one(board) == job

    def test_what_is_not_delayed_stays_as_it_is(self, board: JobBoard) -> None:
        claimed, waiting = board.post("resize"), board.post("resize")
        board.claim(claimed, "alice", LONG)
        for job in (claimed, waiting):
            before = snapshot(board, job)
            assert not board.run_now(job)
            assert snapshot(board, job) == before

    def test_what_is_not_on_the_board_cannot_run(self, board: JobBoard) -> None:
        trashed, gone = board.post("resize", delay=LONG), board.post("resize", delay=LONG)
        board.trash(trashed, by="alice")
        board.cancel(gone)
        before = snapshot(board, trashed)
        for job in (trashed, gone):
            with pytest.raises(NotFound):
                board.run_now(job)
        assert snapshot(board, trashed) == before
