"""Lanes under races and deaths: never over a limit, and never under it while jobs wait."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from jobboard.backends.lanes import EXCHANGE_POLL
from jobboard.board import JobBoard, client_of
from jobboard.errors import ClaimLost, JobBoardError
from jobboard.job import Job, Posting
from jobboard.states import JobState
from jobboard.testing.contract.case import LONG, SHORT, claim_one, needs, uuids_of
from jobboard.testing.contract.lane_case import LANE, LaneCase, claim_all, limit, of_lanes, post_in, slots_of
from jobboard.testing.contract.races import at_once
from jobboard.testing.contract.waiting import Waiting
from jobboard.testing.deadline import DEADLINE, eventually
from jobboard.testing.harness import Harness

_LANES, _RUNNING, _JOBS, _WORKERS = ("tenant:1", "tenant:2", "tenant:3"), 2, 24, 4
#: How often the owner of the only slot dies.
_DEATHS = 5
#: How often conductors try to show that they don't poll, and how often each of them asks, at most.
_TRIES, _MOST_ASKS = 10, 1000


class Slots:
    """Which jobs of which lanes run, as their owners know it: from after their claim until before they end it."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, threading.Lock()
        self._running: Counter[str] = Counter()

    def enter(self, lane: str) -> None:
        with self._lock:
            self._running[lane] += 1
            assert self._running[lane] <= self._most, f"{self._running[lane]} jobs of the lane {lane} run"

    def leave(self, lane: str) -> None:
        with self._lock:
            self._running[lane] -= 1


class Worker:
    """Somebody who claims one job after the other; some first attempts are abandoned, released or trashed.

    :param slots: what runs, shared with the other workers.
    """

    def __init__(self, board: JobBoard, number: int, slots: Slots) -> None:
        self._board, self._who, self._slots = board, f"worker {number}", slots
        self._ends: list[Callable[[Job], object]] = [
            lambda job: board.abandon(job, self._who),
            lambda job: board.abandon(job, self._who, delay=0.01),
            lambda job: board.release(job, reason="its host is gone"),
            lambda job: (board.trash(job, self._who), board.restore(job.uuid)),
        ]
        self.consumed: list[str] = []

    def step(self) -> None:
        for number, job in enumerate(self._board.claim_next(self._who, limit=2, expiry=LONG)):
            lane = str(job.lane)
            self._slots.enter(lane)
            is_first, token = self._board.get(job.uuid).record.attempts == 1, job.token or 0
            self._slots.leave(lane)
            if is_first and (token + number) % 3:
                self._ends[(token + number) % len(self._ends)](job)
            else:
                self._board.consume(job, self._who)
                self.consumed.append(job.uuid)


class Idle:
    """Somebody who waits for a job as a conductor does, and claims one."""

    def __init__(self, harness: Harness, name: str, who: str) -> None:
        self.board, self.backend = harness.lossy_board(name)
        self._who = who

    def claim(self) -> tuple[list[str], bool]:
        """Wait, and claim a job; return also whether the wait before it has ended sooner than any poll would."""
        is_woken = False
        names = ["resize"]
        with client_of(self.board).waiter(frozenset(names)) as waiter:
            waiter.claim_ahead(self._who, LONG)
            for _ in range(_MOST_ASKS):
                claimed = uuids_of(self.board.claim_next(self._who, names, 1, LONG))
                if claimed:
                    return claimed, is_woken
                due = waiter.ready_in()
                began = time.monotonic()
                waiter.wait(due)
                is_woken = time.monotonic() - began < min(EXCHANGE_POLL, math.inf if due is None else due)
                claimed = [row.uuid for row in waiter.claimed()[0]]
                if claimed:
                    return claimed, is_woken
        return [], False


class LaneRaceCases(LaneCase):
    @of_lanes
    @pytest.mark.parametrize("running", [1, 2])
    def test_no_more_of_a_lane_run_than_its_limit(self, harness: Harness, board: JobBoard, running: int) -> None:
        limit(board, running, "tenant:*")
        slots = Slots(running)
        workers = [Worker(harness.board(board.name), number, slots) for number in range(_WORKERS)]
        posted: list[str] = []

        def post() -> None:
            for number in range(_JOBS):
                posted.append(post_in(board, _LANES[number % len(_LANES)]).uuid)

        def work(worker: Worker) -> None:
            def is_over() -> bool:
                worker.step()
                return len(posted) == _JOBS and board.job_count == 0

            eventually(is_over, every=0.001)

        def watch() -> None:
            def is_over() -> bool:
                for lane in _LANES:
                    claimed, claimable, _ = slots_of(board, lane)
                    assert claimed + claimable <= running
                return len(posted) == _JOBS and board.job_count == 0

            eventually(is_over)

        outcomes = at_once(post, watch, *(partial(work, worker) for worker in workers))
        assert outcomes == [None] * len(outcomes)
        assert sorted(uuid for worker in workers for uuid in worker.consumed) == sorted(posted)

    @of_lanes
    def test_a_limit_changes_while_jobs_run(self, harness: Harness, board: JobBoard) -> None:
        """Of a limit that goes up and down no more is promised than that of its largest, and that all jobs run."""
        slots = Slots(3)
        limit(board, 3, "tenant:*")
        workers = [Worker(harness.board(board.name), number, slots) for number in range(_WORKERS)]
        operator = harness.board(board.name)
        jobs = board.post_many([Posting("resize", lane=lane) for lane in _LANES for _ in range(8)])

        def work(worker: Worker) -> None:
            def is_over() -> bool:
                worker.step()
                return board.job_count == 0

            eventually(is_over, every=0.001)

        def operate() -> None:
            for running in (1, 3, 2, 1, 3):
                limit(operator, running, "tenant:*")
                limit(operator, running, LANE)
                assert operator.limits.remove(lane=LANE)

        outcomes = at_once(operate, *(partial(work, worker) for worker in workers))
        assert outcomes == [None] * len(outcomes)
        assert sorted(uuid for worker in workers for uuid in worker.consumed) == sorted(uuids_of(jobs))

    @of_lanes
    def test_posts_at_once_are_admitted_as_far_as_the_limit_allows(self, harness: Harness, board: JobBoard) -> None:
        limit(board, _RUNNING)
        boards = [harness.board(board.name) for _ in range(_WORKERS)]

        def post(board: JobBoard) -> None:
            for _ in range(5):
                post_in(board)
                board.post_many([Posting("resize", lane=LANE), Posting("resize")])

        outcomes = at_once(*(partial(post, each) for each in boards))
        assert outcomes == [None] * len(outcomes)
        assert slots_of(board) == (0, _RUNNING, 10 * _WORKERS - _RUNNING)

    @of_lanes
    def test_ends_at_once_admit_one_job_each(self, harness: Harness, board: JobBoard) -> None:
        limit(board, _WORKERS)
        jobs = board.post_many([Posting("resize", lane=LANE) for _ in range(3 * _WORKERS)])
        boards = [harness.board(board.name) for _ in range(_WORKERS)]
        for left in (2 * _WORKERS, _WORKERS, 0):
            claimed = claim_all(board)
            assert len(claimed) == _WORKERS
            works = [
                partial(each.consume, job.uuid, "alice", token=job.token)
                for each, job in zip(boards, claimed, strict=True)
            ]
            assert at_once(*works) == [None] * _WORKERS
            assert slots_of(board) == (0, min(left, _WORKERS), max(0, left - _WORKERS))
        assert len(jobs) == 3 * _WORKERS
        assert board.job_count == 0

    @of_lanes
    def test_the_slot_of_an_owner_that_dies_comes_back(self, harness: Harness, board: JobBoard) -> None:
        """Several times: somebody waits, and gets the next job once the claim has expired."""
        limit(board, 1)
        jobs = board.post_many([Posting("resize", lane=LANE, max_attempts=1) for _ in range(_DEATHS + 1)])
        waiting = Waiting(harness, board.name)
        try:
            for job in jobs[:-1]:
                assert waiting.begin().result(DEADLINE) == job
                assert board.claim_next("somebody who dies", expiry=SHORT) == [job]
                assert slots_of(board)[1] == 0 or board.get(job.uuid).record.state is JobState.TRASHED
            assert waiting.begin().result(DEADLINE) == jobs[-1]
        finally:
            waiting.end()
        assert slots_of(board) == (0, 1, 0)

    @of_lanes
    def test_the_late_end_of_an_owner_that_was_stuck_changes_nothing(self, board: JobBoard, other: JobBoard) -> None:
        limit(board, 1)
        first, second, third = (post_in(board) for _ in range(3))
        stuck = claim_one(board, expiry=SHORT)
        (claimed,) = eventually(lambda: claim_all(other, "bob"))
        assert claimed == first
        other.consume(claimed, "bob")
        (after,) = claim_all(other, "bob")
        assert after == second
        for end in (board.consume, board.abandon, board.trash):
            with pytest.raises(ClaimLost):
                end(stuck, "alice")
        assert slots_of(board) == (1, 0, 1)
        other.consume(after, "bob")
        assert claim_all(other, "bob") == [third]

    @of_lanes
    def test_of_two_ends_of_one_claim_one_frees_the_slot(self, harness: Harness, board: JobBoard) -> None:
        limit(board, 2)
        board.post_many([Posting("resize", lane=LANE) for _ in range(30)])
        boards = [board, *(harness.board(board.name) for _ in range(2))]
        for left in range(29, 19, -1):
            job = claim_one(board)
            outcomes = at_once(
                partial(boards[0].consume, job.uuid, "alice", token=job.token),
                partial(boards[1].trash, job.uuid, "alice", token=job.token),
                partial(boards[2].abandon, job.uuid, "alice", token=job.token, delay=LONG),
            )
            assert sum(isinstance(outcome, JobBoardError) for outcome in outcomes) == 2
            assert slots_of(board) == (0, 2, left - 2)

    @of_lanes
    def test_who_sleeps_finds_what_is_posted_behind_a_stuck_name(self, harness: Harness, board: JobBoard) -> None:
        limit(board, 1)
        post_in(board, name="rotate")
        idle = Idle(harness, board.name, "bob")
        with ThreadPoolExecutor(1) as threads:
            found = threads.submit(idle.claim)
            eventually(idle.backend.blocked.is_set, every=0.002)
            job = post_in(board)
            try:
                assert found.result(DEADLINE)[0] == [job.uuid]
            finally:
                idle.board.close()

    @of_lanes
    @needs(sharded=False)
    def test_idle_conductors_start_what_a_raised_limit_admits_before_they_would_poll(
        self, harness: Harness, board: JobBoard
    ) -> None:
        """On a slow machine not each time; those who only polled would not do it once."""
        idle = [Idle(harness, board.name, f"conductor {number}") for number in range(4)]
        with ThreadPoolExecutor(len(idle)) as threads:

            def are_all_woken() -> bool:
                limit(board, 1)
                jobs = [post_in(board) for _ in range(7)]
                assert claim_all(board) == jobs[:1]
                for each in idle:
                    each.backend.blocked.clear()
                found = [threads.submit(each.claim) for each in idle]
                eventually(lambda: all(each.backend.blocked.is_set() for each in idle), every=0.002)
                limit(board, 5)
                claims = [each.result(DEADLINE) for each in found]
                assert sorted(uuid for claimed, _ in claims for uuid in claimed) == sorted(uuids_of(jobs[1:5]))
                assert claim_all(board) == []
                for job in board.iterjobs():
                    board.trash(job, by="an operator")
                return all(is_woken for _, is_woken in claims)

            assert any(are_all_woken() for _ in range(_TRIES))
