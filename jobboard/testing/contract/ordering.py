"""Order: higher priority first, then what was due first, then what was posted first, by number and not by text."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from jobboard.backends.rows import JobRow
from jobboard.board import JobBoard
from jobboard.errors import NotFound, UnclaimableJob
from jobboard.events import EventKind
from jobboard.job import Job, Posting
from jobboard.states import JobPriority
from jobboard.testing.contract.case import LONG, SHORT, Case, claim_one, drain, needs, numbers_of, snapshot, uuids_of
from jobboard.testing.deadline import eventually
from jobboard.types import Priority

PRIORITIES = list(JobPriority)


def _post_mixed(board: JobBoard, count: int, names: tuple[str, ...] = ("resize",)) -> list[Job]:
    """Post jobs of all priorities and names, and return them in the order in which they are to be claimed."""
    dice = random.Random(7)
    jobs = board.post_many(
        [Posting(dice.choice(names), details={"n": n}, priority=dice.choice(PRIORITIES)) for n in range(count)]
    )
    return sorted(jobs, key=lambda job: (-job.priority, job.sequence))


class OrderingCases(Case):
    per_shard = True

    def test_the_oldest_is_claimed_first_past_9_and_99_and_999_jobs(self, board: JobBoard) -> None:
        board.post_many([Posting("resize", details={"n": n}) for n in range(1_100)])
        assert numbers_of(drain(board)) == list(range(1_100))

    def test_the_oldest_is_claimed_first_one_by_one(self, board: JobBoard) -> None:
        for n in range(120):
            board.post("resize", details={"n": n})
        assert numbers_of(drain(board, limit=1)) == list(range(120))

    def test_the_higher_priority_is_claimed_first(self, board: JobBoard) -> None:
        for priority in PRIORITIES:
            board.post("resize", priority=priority)
        assert [job.priority for job in drain(board, limit=1)] == [
            JobPriority.VERY_HIGH, JobPriority.HIGH, JobPriority.NORMAL, JobPriority.LOW, JobPriority.VERY_LOW,
        ]  # fmt: skip

    @pytest.mark.parametrize("limit", [1, 7, 1_000])
    def test_mixed_priorities_are_claimed_in_order(self, board: JobBoard, limit: int) -> None:
        expected = _post_mixed(board, 150)
        assert uuids_of(drain(board, limit=limit)) == uuids_of(expected)

    def test_iterating_shows_the_order_of_claims(self, board: JobBoard) -> None:
        expected = _post_mixed(board, 1_100)
        assert uuids_of(board.iterjobs()) == uuids_of(expected)

    def test_the_order_holds_across_the_names_of_a_filter(self, board: JobBoard) -> None:
        expected = _post_mixed(board, 120, ("resize", "rotate", "crop"))
        wanted = ["crop", "resize"]
        asked = [job.uuid for job in expected if job.name in wanted]
        assert uuids_of(board.iterjobs(names=wanted)) == asked
        assert uuids_of(board.claim_next("alice", wanted, limit=1_000)) == asked

    def test_a_batch_of_several_requests_is_best_first(
        self, board: JobBoard, other: JobBoard, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        backend, claim_next = board._backend, board._backend.jobs.claim_next
        monkeypatch.setattr(backend, "capabilities", replace(backend.capabilities, largest_batch=5), raising=False)
        late: list[Job] = []

        def claim_then_post(*arguments: Any) -> list[JobRow]:
            rows = claim_next(*arguments)
            late.append(other.post("resize", priority=JobPriority.HIGH))
            return rows

        monkeypatch.setattr(backend.jobs, "claim_next", claim_then_post)
        posted = board.post_many([Posting("resize") for _ in range(12)])
        claimed = board.claim_next("alice", limit=10, expiry=LONG)
        assert uuids_of(claimed) == uuids_of([late[0], *posted[:9]])

    def test_the_head_of_each_name_is_found_behind_many_of_another(self, board: JobBoard) -> None:
        board.post_many([Posting("resize", priority=JobPriority.VERY_HIGH) for _ in range(300)])
        last = board.post("rotate", priority=JobPriority.VERY_LOW)
        assert claim_one(board, names=["rotate"]) == last

    def test_an_abandoned_job_goes_back_to_its_place(self, board: JobBoard) -> None:
        jobs = [board.post("resize") for _ in range(12)]
        claimed = claim_one(board)
        board.abandon(claimed, "alice")
        assert uuids_of(drain(board)) == uuids_of(jobs)

    def test_a_released_job_goes_back_to_its_place(self, board: JobBoard) -> None:
        jobs = [board.post("resize") for _ in range(12)]
        claimed = board.claim_next("alice", limit=3)
        for job in reversed(claimed):
            board.release(job, reason="its host is gone")
        assert uuids_of(drain(board)) == uuids_of(jobs)

    def test_an_expired_job_goes_back_to_its_place(self, board: JobBoard) -> None:
        jobs = [board.post("resize") for _ in range(3)]
        claimed = board.claim_next("alice", limit=2, expiry=SHORT)
        eventually(lambda: board.stats().claimed == 0)
        assert uuids_of(claimed) == uuids_of(jobs[:2])
        assert uuids_of(drain(board)) == uuids_of(jobs)

    def test_a_restored_job_stands_behind_what_was_due_before(self, board: JobBoard) -> None:
        jobs = [board.post("resize") for _ in range(12)]
        claimed = board.claim_next("alice", limit=2)
        for job in claimed:
            board.trash(job, "alice")
        for job in reversed(claimed):
            board.restore(job.uuid)
        assert uuids_of(drain(board)) == uuids_of([*jobs[2:], *reversed(claimed)])

    @pytest.mark.parametrize("limit", [1, 10])
    def test_what_was_due_first_is_claimed_first(self, board: JobBoard, limit: int) -> None:
        # In one request, or the time between two would count.
        third, second, first, now = board.post_many([Posting("resize", delay=n * SHORT) for n in (3, 2, 1, 0)])
        urgent = board.post("resize", priority=JobPriority.HIGH, delay=2 * SHORT)
        eventually(lambda: board.stats().delayed == 0)
        expected = uuids_of([urgent, now, first, second, third])
        assert uuids_of(board.iterjobs()) == expected
        assert uuids_of(drain(board, limit=limit)) == expected

    def test_delayed_jobs_are_listed_in_the_order_in_which_they_become_due(self, board: JobBoard) -> None:
        third, first, second = (board.post("resize", delay=delay) for delay in (3 * LONG, LONG, 2 * LONG))
        now = board.post("resize")
        assert uuids_of(board.iterjobs()) == uuids_of([now, first, second, third])

    def test_a_job_that_is_put_back_for_later_has_the_place_of_that_moment(self, board: JobBoard) -> None:
        later, now, last = (board.post("resize") for _ in range(3))
        board.abandon(claim_one(board), "alice", delay=SHORT)
        eventually(lambda: board.stats().delayed == 0)
        after = board.post("resize")
        assert uuids_of(drain(board)) == uuids_of([now, last, later, after])

    def test_a_delayed_job_that_is_to_run_now_stands_behind_what_was_due_before(self, board: JobBoard) -> None:
        early = board.post("resize", delay=LONG)
        jobs = [board.post("resize") for _ in range(2)]
        assert board.run_now(early)
        last = board.post("resize")
        assert uuids_of(drain(board)) == uuids_of([*jobs, early, last])

    def test_a_replaced_job_stands_where_a_new_one_would(self, board: JobBoard) -> None:
        replaced = board.post("resize", key="cat.png")
        other = board.post("resize")
        assert board.post("resize", key="cat.png", if_exists="replace") == replaced
        assert uuids_of(drain(board)) == uuids_of([other, replaced])

    @needs(sharded=False)
    def test_a_job_that_waits_takes_the_place_of_another_priority(self, board: JobBoard, other: JobBoard) -> None:
        names: list[Priority] = ["normal", "normal", "normal", "high"]
        first, second, third, high = (
            board.post("resize", key=str(n), priority=priority) for n, priority in enumerate(names)
        )
        late, elsewhere = board.post("resize", delay=LONG), board.post("rotate", priority="low")
        assert other.reprioritize(second, JobPriority.HIGH, by="ada", reason="she waits")
        assert other.reprioritize(late.uuid, "very_high")
        assert board.reprioritize(first, "very_low")
        assert board.reprioritize(first, "very_low", by="ada") is False
        assert uuids_of(board.iterjobs()) == uuids_of([late, second, high, third, elsewhere, first])
        assert (board.find("resize", "1").priority, board.stats().delayed) == (JobPriority.HIGH, 1)
        lines = [(line.kind, line.who, line.token, line.reason) for line in board.get(second.uuid).history]
        assert lines[1:] == [(EventKind.REPRIORITIZED, "ada", None, "to HIGH: she waits")]
        assert other.run_now(late)
        assert board.audit() == []
        assert uuids_of(drain(board, limit=2)) == uuids_of([late, second, high, third, elsewhere, first])

    def test_a_job_that_does_not_wait_keeps_its_priority(self, board: JobBoard, other: JobBoard) -> None:
        claimed, trashed, gone = (board.post("resize") for _ in range(3))
        board.claim(claimed, "alice", LONG)
        board.trash(trashed, by="alice")
        board.cancel(gone)
        before = [snapshot(board, job) for job in (claimed, trashed)]
        with pytest.raises(UnclaimableJob) as refused:
            other.reprioritize(claimed, "high")
        assert refused.value.owner == "alice"
        for job in (trashed, gone):
            with pytest.raises(NotFound):
                other.reprioritize(job, "high")
        assert [snapshot(board, job) for job in (claimed, trashed)] == before
        board.abandon(claimed, "alice")
        assert other.reprioritize(claimed, "high")
        assert other.restore(trashed.uuid)
        assert uuids_of(drain(board)) == uuids_of([claimed, trashed])

    def test_sorting_handles_gives_the_order_of_claims(self, board: JobBoard) -> None:
        expected = _post_mixed(board, 40)
        shuffled = list(board.iterjobs())
        random.Random(1).shuffle(shuffled)
        assert sorted(shuffled) == expected
