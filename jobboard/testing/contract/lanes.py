"""Lanes of one slot: of the jobs of one, at most one is claimable or claimed, and the others that are due wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from jobboard.board import JobBoard
from jobboard.errors import NotFound, UnclaimableJob
from jobboard.events import JobEvent
from jobboard.job import Job
from jobboard.states import JobPriority, JobState
from jobboard.testing.contract.case import LONG, SHORT, Case, claim_one, drain, let_a_claim_expire, needs, uuids_of
from jobboard.testing.contract.races import at_once
from jobboard.testing.contract.waiting import Waiting
from jobboard.testing.deadline import DEADLINE, eventually
from jobboard.testing.faults import Fault, LossyBackend
from jobboard.testing.harness import Harness
from jobboard.types import IfExistsName, Priority

_BLOCKED, _UNCLAIMED, _DELAYED = JobState.BLOCKED, JobState.UNCLAIMED, JobState.DELAYED

_LANES, _JOBS, _WORKERS = ("tenant:1", "tenant:2", "tenant:3"), 12, 4


def post_tied(
    board: JobBoard,
    lane: str = "tenant:1",
    *,
    name: str = "resize",
    details: dict[str, Any] | None = None,
    key: str | None = None,
    if_exists: IfExistsName = "raise",
    priority: Priority = JobPriority.NORMAL,
    delay: float | None = None,
    most: int | None = None,
) -> Job:
    """Post a job that is tied to a lane."""
    return board.get(
        board.post(
            name, details, lane=lane, key=key, if_exists=if_exists, priority=priority, delay=delay, max_attempts=most
        ).uuid
    )


def states_of(board: JobBoard, *jobs: Job) -> list[JobState]:
    return [board.get(job.uuid).record.state for job in jobs]


def _abandon_for_later(board: JobBoard, job: Job) -> None:
    board.abandon(job, "alice", delay=LONG)


def _trash_the_last_attempt(board: JobBoard, job: Job) -> None:
    board.abandon(job, "alice", reason="it fails")


def _cancel_and_abandon(board: JobBoard, job: Job) -> None:
    board.cancel(job)
    board.abandon(job, "alice")


def _cancel_and_release(board: JobBoard, job: Job) -> None:
    board.cancel(job)
    board.release(job, reason="its host is gone")


_FREEING: dict[str, Callable[[JobBoard, Job], object]] = {
    "consume": lambda board, job: board.consume(job, "alice"),
    "trash": lambda board, job: board.trash(job, "alice"),
    "abandon for later": _abandon_for_later,
    "abandon the last attempt": _trash_the_last_attempt,
    "an operator's trash": lambda board, job: board.trash(job, by="an operator"),
    "cancel and abandon": _cancel_and_abandon,
    "cancel and release": _cancel_and_release,
}
_KEEPING: dict[str, Callable[[JobBoard, Job], object]] = {
    "abandon": lambda board, job: board.abandon(job, "alice"),
    "release": lambda board, job: board.release(job, reason="its host is gone"),
}


def of_lanes(case: Callable[..., None]) -> Callable[..., None]:
    """Run the case on stores that keep ties, and audit its board."""
    sound: Callable[..., None] = pytest.mark.usefixtures("sound_lanes")(case)
    return needs(ties=True)(sound)


class LaneCases(Case):
    """Each case ends with an audit that finds nothing."""

    @pytest.fixture
    def sound_lanes(self, board: JobBoard) -> Iterator[None]:
        board.limits.set(lane="tenant:*", running=1)
        yield
        assert board.audit() == []

    @of_lanes
    def test_one_job_of_a_lane_can_be_claimed(self, board: JobBoard, other: JobBoard) -> None:
        jobs = [post_tied(board, name=name) for name in ("resize", "rotate", "resize")]
        strangers = [post_tied(board, "tenant:2"), board.post("resize")]
        assert states_of(other, *jobs, *strangers) == [_UNCLAIMED, _BLOCKED, _BLOCKED, _UNCLAIMED, _UNCLAIMED]
        with pytest.raises(UnclaimableJob):
            board.claim(jobs[1], "alice")
        assert set(uuids_of(other.iterjobs())) == set(uuids_of([*jobs, *strangers]))
        assert set(uuids_of(other.iterjobs(states=[_BLOCKED]))) == set(uuids_of(jobs[1:]))
        stats = other.stats()
        assert (stats.unclaimed, stats.blocked, other.job_count) == (3, 2, 5)
        assert {name: numbers.blocked for name, numbers in stats.names.items()} == {"resize": 1, "rotate": 1}
        assert set(uuids_of(board.claim_next("alice", limit=10))) == set(uuids_of([jobs[0], *strangers]))
        assert states_of(other, *jobs[1:]) == [_BLOCKED, _BLOCKED]

    @of_lanes
    @pytest.mark.parametrize("end", _FREEING.values(), ids=_FREEING.keys())
    def test_an_end_admits_the_next_job(self, board: JobBoard, end: Callable[[JobBoard, Job], object]) -> None:
        first, second, third = (post_tied(board, most=1) for _ in range(3))
        claimed = claim_one(board)
        end(board, claimed)
        assert claimed == first
        assert states_of(board, second, third) == [_UNCLAIMED, _BLOCKED]
        assert claim_one(board) == second
        assert board.claim_next("alice") == []

    @of_lanes
    def test_a_cancel_admits_the_next_job(self, board: JobBoard) -> None:
        first, second, third = (post_tied(board) for _ in range(3))
        board.cancel(third)
        board.cancel(first)
        assert uuids_of(board.iterjobs()) == [second.uuid]
        assert claim_one(board) == second

    @of_lanes
    @pytest.mark.parametrize("end", _KEEPING.values(), ids=_KEEPING.keys())
    def test_a_job_that_comes_back_at_once_keeps_the_slot(
        self, board: JobBoard, end: Callable[[JobBoard, Job], object]
    ) -> None:
        first, second = post_tied(board), post_tied(board)
        end(board, claim_one(board))
        assert states_of(board, first, second) == [_UNCLAIMED, _BLOCKED]
        assert uuids_of(drain(board)) == uuids_of([first, second])

    @of_lanes
    def test_an_expired_job_keeps_the_slot(self, board: JobBoard, other: JobBoard) -> None:
        first, second = post_tied(board), post_tied(board)
        board.claim(first, "alice", SHORT)
        let_a_claim_expire(other)
        assert states_of(other, first, second) == [_UNCLAIMED, _BLOCKED]
        assert uuids_of(drain(other)) == uuids_of([first, second])

    @of_lanes
    def test_the_last_attempt_of_a_dead_owner_admits_the_next_job(self, board: JobBoard, other: JobBoard) -> None:
        first, second = post_tied(board, most=1), post_tied(board)
        board.claim(first, "alice", SHORT)
        let_a_claim_expire(other)
        assert states_of(other, first, second) == [JobState.TRASHED, _UNCLAIMED]

    @of_lanes
    def test_jobs_are_admitted_by_priority_and_then_as_they_became_due(self, board: JobBoard) -> None:
        post_tied(board)
        holder = claim_one(board)
        low, late = post_tied(board, priority="low"), post_tied(board, delay=SHORT)
        eventually(lambda: states_of(board, late) == [_BLOCKED])
        last, high = post_tied(board), post_tied(board, priority="high")
        board.consume(holder, "alice")
        assert uuids_of(drain(board)) == uuids_of([high, late, last, low])

    @of_lanes
    def test_another_priority_is_another_turn(self, board: JobBoard) -> None:
        holder, second, third = (post_tied(board) for _ in range(3))
        claimed = claim_one(board)
        board.reprioritize(third, "high")
        assert states_of(board, holder, second, third) == [JobState.CLAIMED, _BLOCKED, _BLOCKED]
        board.consume(claimed, "alice")
        assert uuids_of(drain(board)) == uuids_of([third, second])

    @of_lanes
    def test_an_admitted_job_stands_behind_what_can_be_claimed(self, board: JobBoard) -> None:
        tied = [post_tied(board) for _ in range(3)]
        plain = [board.post("resize") for _ in range(2)]
        assert uuids_of(drain(board, limit=1)) == uuids_of([tied[0], *plain, *tied[1:]])

    @of_lanes
    def test_a_delayed_job_holds_no_slot(self, board: JobBoard) -> None:
        delayed, second = post_tied(board, delay=LONG), post_tied(board)
        assert states_of(board, delayed, second) == [_DELAYED, _UNCLAIMED]
        assert board.run_now(delayed)
        assert states_of(board, delayed, second) == [_BLOCKED, _UNCLAIMED]
        assert uuids_of(drain(board)) == uuids_of([second, delayed])

    @of_lanes
    def test_a_job_that_comes_back_after_a_delay_does_not_pass_those_that_waited(self, board: JobBoard) -> None:
        """Nothing reads or changes the board between the end of its claim and that of its delay."""
        first, second = post_tied(board), post_tied(board)
        board.abandon(claim_one(board), "alice", delay=SHORT)
        until = board._backend.now() + SHORT
        eventually(lambda: board._backend.now() > until)
        eventually(lambda: states_of(board, first) != [_DELAYED])
        assert states_of(board, first, second) == [_BLOCKED, _UNCLAIMED]

    @of_lanes
    def test_a_delayed_job_takes_a_free_slot_when_it_is_due(self, board: JobBoard) -> None:
        job = post_tied(board, delay=SHORT)
        eventually(lambda: states_of(board, job) == [_UNCLAIMED])
        assert claim_one(board) == job

    @of_lanes
    def test_a_blocked_job_can_be_trashed_and_waits_again_once_it_is_restored(self, board: JobBoard) -> None:
        holder, second, third = (post_tied(board) for _ in range(3))
        board.trash(second, by="an operator")
        board.trash(third, by="an operator")
        board.purge(third.uuid)
        assert board.stats().trashed == 1
        board.restore(second.uuid)
        assert states_of(board, holder, second) == [_UNCLAIMED, _BLOCKED]
        with pytest.raises(NotFound):
            board.get(third.uuid)
        assert uuids_of(drain(board)) == uuids_of([holder, second])

    @of_lanes
    def test_a_restored_job_takes_a_free_slot(self, board: JobBoard) -> None:
        job = post_tied(board)
        board.trash(job, by="an operator")
        board.restore(job.uuid)
        assert claim_one(board) == job

    @of_lanes
    def test_a_blocked_job_keeps_its_key(self, board: JobBoard) -> None:
        holder, second = post_tied(board), post_tied(board, key="cat.png")
        assert board.find("resize", "cat.png") == second
        assert post_tied(board, key="cat.png", if_exists="keep") == second
        assert post_tied(board, key="cat.png", if_exists="replace", details={"a": 1}) == second
        assert states_of(board, holder, second) == [_UNCLAIMED, _BLOCKED]

    @of_lanes
    def test_a_replaced_job_gives_its_turn_away(self, board: JobBoard) -> None:
        holder, second = post_tied(board, key="cat.png"), post_tied(board)
        assert post_tied(board, key="cat.png", if_exists="replace") == holder
        assert states_of(board, holder, second) == [_BLOCKED, _UNCLAIMED]

    @of_lanes
    @pytest.mark.parametrize("fault", ["reply", "request"])
    def test_an_end_whose_reply_is_lost_admits_one_job(
        self, board: JobBoard, lossy: LossyBackend, fault: Fault
    ) -> None:
        jobs = [post_tied(board) for _ in range(3)]
        lossy.lose("consume", fault)
        board.consume(claim_one(board), "alice")
        assert states_of(board, *jobs[1:]) == [_UNCLAIMED, _BLOCKED]

    @of_lanes
    def test_a_batch_of_ends_admits_one_job_of_each_lane(self, board: JobBoard) -> None:
        jobs = [post_tied(board, lane) for _ in range(3) for lane in _LANES]
        claimed = board.claim_next("alice", limit=10, expiry=LONG)
        assert set(uuids_of(claimed)) == set(uuids_of(jobs[:3]))
        assert board.consume_many(claimed, "alice") == [None] * 3
        assert states_of(board, *jobs[3:]) == [_UNCLAIMED] * 3 + [_BLOCKED] * 3

    @of_lanes
    def test_a_wait_wakes_on_an_admission(self, harness: Harness, board: JobBoard) -> None:
        waiting = Waiting(harness, board.name)
        try:
            _, second = post_tied(board), post_tied(board)
            claimed = claim_one(board)
            found = waiting.begin()
            board.consume(claimed, "alice")
            assert found.result(DEADLINE) == second
        finally:
            waiting.end()

    @of_lanes
    def test_an_admission_is_an_event_and_a_line_of_history(self, board: JobBoard) -> None:
        events: list[JobEvent] = []
        board.subscribe(events.append)
        post_tied(board)
        second = post_tied(board)
        assert [str(line.kind) for line in second.history] == ["POSTED", "BLOCKED"]
        board.consume(claim_one(board), "alice")
        assert [str(line.kind) for line in board.get(second.uuid).history] == ["POSTED", "BLOCKED", "ADMITTED"]
        eventually(lambda: [str(e.kind) for e in events if e.uuid == second.uuid] == ["POSTED", "BLOCKED", "ADMITTED"])

    @of_lanes
    def test_no_two_workers_have_jobs_of_one_lane(self, harness: Harness, board: JobBoard) -> None:
        workers = [_Worker(harness.board(board.name), number) for number in range(_WORKERS)]
        running: set[str] = set()
        posted: list[str] = []

        def post() -> None:
            for number in range(_JOBS):
                lane = _LANES[number % len(_LANES)]
                posted.append(post_tied(board, lane, name=lane).uuid)

        def work(worker: _Worker) -> None:
            def is_over() -> bool:
                worker.step(running)
                return len(posted) == _JOBS and board.job_count == 0

            eventually(is_over, every=0.001)

        outcomes = at_once(post, *(partial(work, worker) for worker in workers))
        assert outcomes == [None] * len(outcomes)
        assert sorted(uuid for worker in workers for uuid in worker.consumed) == sorted(posted)


class _Worker:
    """Somebody who claims one job after the other; it abandons each at its first attempt, and consumes it then."""

    def __init__(self, board: JobBoard, number: int) -> None:
        self._board, self._who = board, f"worker {number}"
        self.consumed: list[str] = []

    def step(self, running: set[str]) -> None:
        """Run the next job. Its name is its lane; ``running`` has the lanes of which a job runs."""
        for job in self._board.claim_next(self._who, expiry=LONG):
            assert job.name not in running, "two jobs of one lane run"
            running.add(job.name)
            is_first = self._board.get(job.uuid).record.attempts == 1
            running.remove(job.name)
            if is_first:
                self._board.abandon(job, self._who)
            else:
                self._board.consume(job, self._who)
                self.consumed.append(job.uuid)
