"""Keeping claims without a conductor: all are renewed together, and a loss is told once (promise 5)."""

from __future__ import annotations

import time
from typing import Any

import pytest

from jobboard.board import JobBoard
from jobboard.errors import ClaimLost
from jobboard.job import Job, Posting
from jobboard.states import JobState
from jobboard.testing.contract.case import LONG, Case, uuids_of
from jobboard.testing.deadline import eventually
from jobboard.testing.faults import LossyBackend


class KeepingCases(Case):
    def test_claims_are_kept_until_they_end_and_a_loss_is_told_once(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend
    ) -> None:
        lost: list[Job] = []
        jobs = board.post_many([Posting("resize", details={"n": n}) for n in range(6)])
        board.claim(jobs[0], "alice", 60.0)
        board.claim(jobs[5], "bob", 60.0)
        with board.keep("alice", LONG, lost.append) as keeper:
            board.claim(jobs[1], "alice", 60.0)
            assert board.claim_next("alice", limit=3, expiry=60.0) == jobs[2:5]
            lossy.lose("extend", "refused")
            keeper._renewer.renew_within(0.0)
            eventually(lambda: not lossy.armed)
            # The next try comes by itself.
            eventually(lambda: all((other.get(job.uuid).expires_in() or 0.0) > 100 for job in jobs[:5]))
            # The store has them a moment before the keeper knows.
            eventually(lambda: not keeper.unrenewed)
            assert set(keeper.held) == set(jobs[:5])
            board.consume(jobs[0], "alice")
            board.abandon(jobs[1], "alice", delay=LONG)
            board.trash(jobs[2], "alice")
            assert board.consume_many([jobs[3]], "alice") == [None]
            assert keeper.held == [jobs[4]]
            other.release(jobs[4].uuid, reason="for carol")
            other.claim(jobs[4].uuid, "carol", LONG)
            keeper._renewer.renew_within(0.0)
            eventually(lambda: lost)
            assert (uuids_of(lost), lost[0].details, keeper.held) == ([jobs[4].uuid], {"n": 4}, [])
            with pytest.raises(ClaimLost) as caught:
                board.consume(jobs[4], "alice")
            assert (caught.value.owner, caught.value.state) == ("carol", JobState.CLAIMED)
            last = board.post("resize")
            board.claim(last, "alice", 60.0)
            assert keeper.held == [last]
        assert len(lost) == 1
        assert (other.find_owner(jobs[4].uuid), other.find_owner(last.uuid)) == ("carol", "alice")
        assert (other.get(jobs[5].uuid).expires_in() or 0.0) < 61 + 1

    def test_a_claim_that_was_over_before_its_answer_came_is_told_as_lost(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        claim_next = lossy.inner.jobs.claim_next
        lost: list[Job] = []
        taken: list[Job] = []

        def answer_late(*arguments: Any) -> Any:
            rows = claim_next(*arguments)
            while len(taken) < len(rows):
                taken.extend(eventually(lambda: other.claim_next("bob", limit=3, expiry=LONG)))
            return rows

        jobs = board.post_many([Posting("resize") for _ in range(3)])
        with board.keep("alice", LONG, lost.append) as keeper, monkeypatch.context() as patch:
            patch.setattr(lossy.inner.jobs, "claim_next", answer_late)
            assert board.claim_next("alice", limit=3, expiry=1.0) == jobs
            # Another client may judge by its own reading of the store's clock.
            assert [claim for claim in keeper._renewer.held() if claim.held_until > time.monotonic() + 0.5] == []
            eventually(lambda: len(lost) == 3)
            assert set(uuids_of(lost)) == set(uuids_of(jobs))
        assert [other.find_owner(job.uuid) for job in jobs] == ["bob"] * 3
