"""The steps of durable handlers: written down under the claim, in their order, for as long as the job is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jobboard.backends.edge_rows import StepRow
from jobboard.backends.rows import ClaimAnswer, Fence, Verdict, verdict_of
from jobboard.board import JobBoard, client_of
from jobboard.job import Job, Posting
from jobboard.testing.contract.case import LONG, SHORT, claim_one, snapshot, state_of, until_expired
from jobboard.testing.contract.edge_case import CLAIMED, COMPLETE, TRASHED, EdgeCase, of_edges
from jobboard.testing.faults import LossyBackend
from jobboard.validation import new_uuid

#: More than one page of steps, as readers ask for them.
_MANY = 505


def save(board: JobBoard, job: Job, number: int, result: Any = None, *, name: str = "charge", **who: Any) -> Any:
    """Write a step down under the claim that this handle has, or another one."""
    fence = Fence(job.uuid, who.get("who", "alice"), who.get("token", job.token or 0))
    return save_under(board, fence, StepRow(number, name, client_of(board).encode("result", result)))


def save_under(board: JobBoard, fence: Fence, step: StepRow) -> ClaimAnswer:
    return client_of(board).call(client_of(board).backend.steps.save, fence, step)


def steps_of(board: JobBoard, job: Job) -> list[tuple[int, str, Any]]:
    return [(step.number, step.name, step.result) for step in board.get(job.uuid).steps()]


class StepCases(EdgeCase):
    @of_edges
    def test_steps_are_kept_in_their_order(self, board: JobBoard, other: JobBoard) -> None:
        board.post_many([Posting("resize") for _ in range(3)])
        jobs = board.claim_next("alice", limit=3, expiry=LONG)
        for number in range(12):
            for job in jobs[:2]:
                assert save(board, job, number, {"n": number}, name=f"step {number} of größe") is Verdict.DONE
        expected = [(number, f"step {number} of größe", {"n": number}) for number in range(12)]
        assert [steps_of(other, job) for job in jobs] == [expected, expected, []]
        moments = [step.at for step in other.get(jobs[0].uuid).steps()]
        assert moments == sorted(moments)

    @of_edges
    def test_a_part_of_the_steps_can_be_read(self, board: JobBoard) -> None:
        board.post("resize")
        job = claim_one(board)
        for number in range(5):
            save(board, job, number, number)
        load = client_of(board).backend.steps.load
        parts = [
            [row.number for row in load(job.uuid, first, size)] for first, size in ((0, 2), (2, 2), (4, 2), (5, 2))
        ]
        assert parts == [[0, 1], [2, 3], [4], []]
        assert load(new_uuid(), 0, 2) == []

    @of_edges
    def test_many_steps(self, board: JobBoard, lossy: LossyBackend) -> None:
        board.post("resize")
        job = claim_one(board)
        before = snapshot(board, job)
        for number in range(_MANY):
            assert save(board, job, number, "x" * 100) is Verdict.DONE
        assert lossy.calls["steps.save"] == _MANY
        assert [number for number, _, _ in steps_of(board, job)] == list(range(_MANY))
        assert snapshot(board, job).history == before.history, "steps drive nothing out of the history"
        board.consume(job, "alice")

    @of_edges
    @pytest.mark.parametrize("size", [0, 1, 1000, 300_000])
    def test_a_result_comes_back_as_it_was(self, board: JobBoard, size: int) -> None:
        board.post("resize")
        job = claim_one(board)
        data = bytes(number % 256 for number in range(size))
        fence = Fence(job.uuid, "alice", job.token or 0)
        assert save_under(board, fence, StepRow(0, "effect", data)) is Verdict.DONE
        [row] = client_of(board).backend.steps.load(job.uuid, 0, 10)
        assert (row.number, row.name, row.result) == (0, "effect", data)

    @of_edges
    def test_a_repeat_that_comes_late_drops_no_later_step(self, board: JobBoard, other: JobBoard) -> None:
        board.post("resize")
        job = claim_one(board)
        for number in (0, 1, 2, 0, 1):
            assert save(board, job, number, number) is Verdict.DONE
        assert steps_of(other, job) == [(number, "charge", number) for number in range(3)]

    @of_edges
    def test_a_late_owner_writes_no_step(self, board: JobBoard, other: JobBoard) -> None:
        late = board.post("resize")
        board.claim(late, "alice", LONG)
        assert save(board, late, 0, "alice's") is Verdict.DONE
        board.extend(late, "alice", SHORT)
        until_expired(other, late)
        now = other.get(late.uuid)
        assert verdict_of(save(board, late, 1, "too late")) is Verdict.LOST
        other.claim(now, "bob", LONG)
        assert save(other, now, 1, "bob's", who="bob") is Verdict.DONE
        for number in (0, 1, 2):
            assert verdict_of(save(board, late, number, "too late")) is Verdict.LOST
        assert steps_of(other, now) == [(0, "charge", "alice's"), (1, "charge", "bob's")]

    @of_edges
    def test_only_the_claim_writes_steps(self, board: JobBoard) -> None:
        waiting, job, ended = (board.post("resize") for _ in range(3))
        for each in (job, ended):
            board.claim(each, "alice", LONG)
        board.consume(ended, "alice")
        token = job.token or 0
        fences = [
            Fence(waiting.uuid, "alice", token), Fence(job.uuid, "bob", token), Fence(job.uuid, "alice", token + 1),
            Fence(job.uuid, "alice", token - 1), Fence(ended.uuid, "alice", ended.token or 0),
            Fence(new_uuid(), "alice", token),
        ]  # fmt: skip
        for fence in fences:
            assert verdict_of(save_under(board, fence, StepRow(0, "charge", b"\xc0"))) is Verdict.LOST
        assert [steps_of(board, each) for each in (waiting, job, ended)] == [[], [], []]

    @of_edges
    def test_a_step_that_is_saved_again_is_one(self, board: JobBoard) -> None:
        board.post("resize")
        job = claim_one(board)
        for number in (0, 0, 1, 1, 1):
            assert save(board, job, number, number) is Verdict.DONE
        assert steps_of(board, job) == [(0, "charge", 0), (1, "charge", 1)]

    @of_edges
    def test_who_saves_a_step_learns_of_a_cancel(self, board: JobBoard, other: JobBoard) -> None:
        board.post("resize")
        job = claim_one(board)
        other.cancel(other.get(job.uuid))
        assert save(board, job, 0, "done") is Verdict.CANCEL_ASKED
        assert steps_of(board, job) == [(0, "charge", "done")]

    @of_edges
    def test_steps_outlive_every_end_but_that_of_the_job(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize", max_attempts=9)
        ends: list[Callable[[], object]] = [
            lambda: board.abandon(job, "alice"),
            lambda: board.abandon(job, "alice", counted=False),
            lambda: other.release(other.get(job.uuid), reason="its host is gone"),
            lambda: (board.abandon(job, "alice", delay=LONG), board.run_now(job)),
            lambda: (board.trash(job, "alice"), board.restore(job.uuid)),
            lambda: until_expired(other, job),
        ]
        for number, ends_claim in enumerate(ends):
            board.claim(job, "alice", SHORT if number == len(ends) - 1 else LONG)
            assert save(board, job, number, number) is Verdict.DONE
            ends_claim()
            assert steps_of(other, job) == [(each, "charge", each) for each in range(number + 1)]
        board.claim(job, "alice", LONG)
        board.consume(job, "alice")
        assert (state_of(other, job), len(steps_of(other, job))) == (COMPLETE, len(ends))

    @of_edges
    def test_a_replaced_job_keeps_its_steps(self, board: JobBoard) -> None:
        job = board.post("resize", key="k")
        board.claim(job, "alice", LONG)
        save(board, job, 0, 0)
        board.abandon(job, "alice")
        assert board.post("resize", key="k", if_exists="replace", priority="high") == job
        assert steps_of(board, job) == [(0, "charge", 0)]

    @of_edges
    def test_a_purge_forgets_the_steps(self, board: JobBoard) -> None:
        jobs = [board.post("resize") for _ in range(3)]
        for job in jobs:
            board.claim(job, "alice", LONG)
            save(board, job, 0, 0)
            board.signal(job, "go", 1)
        for job in jobs[1:]:
            board.trash(job, "alice")
        board.purge(jobs[1].uuid)
        backend = client_of(board).backend
        assert (backend.steps.load(jobs[1].uuid, 0, 10), backend.steps.signals(jobs[1].uuid)) == ([], [])
        assert [len(steps_of(board, job)) for job in (jobs[0], jobs[2])] == [1, 1]
        assert [state_of(board, job) for job in (jobs[0], jobs[2])] == [CLAIMED, TRASHED]
        board.post("rotate", uuid=jobs[1].uuid)
        assert steps_of(board, jobs[1]) == []
