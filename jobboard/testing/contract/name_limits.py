"""Limits of a name: no more claims of its jobs hold than it allows; and lanes that several names share."""

from __future__ import annotations

from functools import partial

import pytest

from jobboard.backends.lanes import EXCHANGE_POLL
from jobboard.board import JobBoard, client_of
from jobboard.errors import UnclaimableJob
from jobboard.events import JobEvent
from jobboard.job import Job, Posting
from jobboard.limit import Rate
from jobboard.states import JobState
from jobboard.testing.contract.case import LONG, SHORT, claim_one, let_a_claim_expire, needs, uuids_of
from jobboard.testing.contract.lane_case import (
    BLOCKED,
    CLAIMED,
    LANE,
    UNCLAIMED,
    LaneCase,
    claim_all,
    kinds_told,
    limit,
    of_lanes,
    post_in,
    slots_of,
    states_of,
)
from jobboard.testing.contract.limits import FREEING, KEEPING, End
from jobboard.testing.contract.races import at_once
from jobboard.testing.contract.waiting import Waiting
from jobboard.testing.deadline import DEADLINE, eventually
from jobboard.testing.faults import Fault, LossyBackend
from jobboard.testing.harness import Harness

_ENDS = FREEING | KEEPING

#: Why the jobs of a name can't be claimed.
stuck = pytest.mark.parametrize("why", ["nobody asks for it", "its name is paused", "its name is full"])


def limit_name(board: JobBoard, running: int | None, name: str = "resize") -> None:
    board.limits.set(name=name, running=running)


def names_beside_stuck(board: JobBoard, why: str) -> list[str]:
    """Let nobody claim "resize" for this reason; return the names to ask for."""
    if why == "its name is paused":
        board.pause("resize")
    elif why == "its name is full":
        limit_name(board, 0)
    return ["rotate", "crop"] if why == "nobody asks for it" else ["resize", "rotate", "crop"]


def claimed_in_turn(board: JobBoard, name: str) -> Job:
    """Ask for a job of a name until there is one: each ask looks at some lanes."""
    return eventually(lambda: board.claim_next("bob", [name], 1, LONG))[0]


class NameLimitCases(LaneCase):
    @of_lanes
    def test_no_more_of_a_name_are_claimed_than_its_limit(self, board: JobBoard, other: JobBoard) -> None:
        limit_name(board, 2)
        jobs = [board.post("resize") for _ in range(4)]
        stranger = board.post("rotate")
        assert claim_all(other) == [*jobs[:2], stranger]
        with pytest.raises(UnclaimableJob):
            other.claim(jobs[2], "bob")
        assert other.claim_next("bob", ["resize"]) == []
        assert states_of(board, *jobs) == [CLAIMED, CLAIMED, UNCLAIMED, UNCLAIMED]

    @of_lanes
    @needs(sharded=False)
    def test_of_a_name_that_is_nearly_full_as_many_are_claimed_as_there_is_room(self, board: JobBoard) -> None:
        limit_name(board, 5)
        board.post_many([Posting("resize") for _ in range(12)])
        assert [len(claim_all(board, limit=4)) for _ in range(3)] == [4, 1, 0]

    @of_lanes
    @needs(sharded=False)
    @pytest.mark.parametrize("names", [None, ["resize", "rotate", "crop", "mail"]])
    def test_a_batch_takes_of_each_name_what_its_limit_has_room_for(
        self, board: JobBoard, names: list[str] | None
    ) -> None:
        """Also of names that stand behind a full one."""
        for name, running in (("resize", 1), ("rotate", 2), ("crop", 1)):
            limit_name(board, running, name)
        resize, rotate, crop = ([board.post(name) for _ in range(5)] for name in ("resize", "rotate", "crop"))
        assert claim_all(board, limit=3, names=names) == [resize[0], *rotate[:2]]
        assert claim_all(board, limit=3, names=names) == [crop[0]]
        mail = board.post("mail")
        for job in (rotate[0], crop[0]):
            board.consume(job, "alice")
        assert claim_all(board, limit=3, names=names) == [rotate[2], crop[1], mail]

    @of_lanes
    @pytest.mark.parametrize(("end", "requests"), _ENDS.values(), ids=_ENDS.keys())
    def test_each_end_of_a_claim_makes_room_for_one(
        self, board: JobBoard, lossy: LossyBackend, end: End, requests: list[str]
    ) -> None:
        """Also if its request is sent twice."""
        limit_name(board, 1)
        for _ in range(4):
            board.post("resize", max_attempts=5 if end in [ours for ours, _ in KEEPING.values()] else 1)
        job = claim_one(board)
        for request in requests:
            lossy.lose(request, "reply")
        end(board, job)
        assert len(claim_all(board)) == 1
        assert claim_all(board) == []

    @of_lanes
    def test_a_refused_claim_names_the_owner_although_there_is_no_room_either(
        self, board: JobBoard, other: JobBoard
    ) -> None:
        limit_name(board, 1)
        board.post("resize")
        # As it was before somebody claimed it.
        [handle] = other.iterjobs()
        claim_one(board)
        assert claim_all(other) == []
        with pytest.raises(UnclaimableJob) as caught:
            other.claim(handle, "bob")
        assert caught.value.owner == "alice"

    @of_lanes
    def test_an_expired_claim_makes_room(self, board: JobBoard, other: JobBoard) -> None:
        limit_name(board, 1)
        first, second = board.post("resize", max_attempts=1), board.post("resize")
        board.claim(first, "alice", SHORT)
        let_a_claim_expire(other)
        assert claim_all(other) == [second]

    @of_lanes
    def test_a_job_that_waits_for_a_retry_takes_no_room(self, board: JobBoard) -> None:
        limit_name(board, 1)
        first, second = board.post("resize"), board.post("resize")
        board.abandon(claim_one(board), "alice", delay=LONG)
        assert claim_all(board) == [second]
        assert board.run_now(first)
        assert claim_all(board) == []

    @of_lanes
    def test_a_lowered_limit_of_a_name_stops_nobody(self, board: JobBoard) -> None:
        board.post_many([Posting("resize") for _ in range(6)])
        running = claim_all(board, limit=4)
        limit_name(board, 2)
        for _ in range(2):
            assert claim_all(board) == []
            board.consume(running.pop(), "alice")
        assert claim_all(board) == []
        board.consume(running.pop(), "alice")
        assert len(claim_all(board)) == 1

    @of_lanes
    @pytest.mark.parametrize("change", ["raised", "removed", "freed"])
    def test_room_wakes_who_waits(self, harness: Harness, board: JobBoard, change: str) -> None:
        limit_name(board, 1)
        first, second = board.post("resize"), board.post("resize")
        claimed = claim_one(board)
        waiting = Waiting(harness, board.name)
        try:
            found = waiting.begin()
            if change == "raised":
                limit_name(board, 5)
            elif change == "removed":
                assert board.limits.remove(name="resize")
            else:
                board.consume(claimed, "alice")
            assert found.result(DEADLINE) == second
        finally:
            waiting.end()
        assert claimed == first

    @of_lanes
    def test_a_claim_that_expires_wakes_who_waits_for_room(self, harness: Harness, board: JobBoard) -> None:
        limit_name(board, 1)
        first, second = board.post("resize", max_attempts=1), board.post("resize")
        board.claim(first, "alice", 5 * SHORT)
        waiting = Waiting(harness, board.name)
        try:
            assert waiting.begin().result(DEADLINE) == second
        finally:
            waiting.end()

    @of_lanes
    def test_a_limit_of_zero_of_a_name_is_a_pause(self, board: JobBoard, other: JobBoard) -> None:
        limit_name(board, 0)
        job = board.post("resize")
        assert claim_all(other) == []
        limit_name(board, 1)
        assert claim_all(other) == [job]

    @of_lanes
    @pytest.mark.parametrize("fault", ["reply", "request"])
    def test_a_limit_of_a_name_whose_reply_is_lost_is_set(
        self, board: JobBoard, lossy: LossyBackend, fault: Fault
    ) -> None:
        events: list[JobEvent] = []
        board.subscribe(events.append)
        lossy.lose("limits.put", fault)
        limit_name(board, 1)
        board.post_many([Posting("resize") for _ in range(2)])
        assert len(claim_all(board)) == 1
        eventually(lambda: [str(event.kind) for event in events].count("CLAIMED") == 1)
        assert [(event.name, event.uuid) for event in events if str(event.kind) == "LIMITED"] == [("resize", None)]

    @of_lanes
    def test_claims_at_once_are_never_more_than_the_limit(self, harness: Harness, board: JobBoard) -> None:
        limit_name(board, 3)
        board.post_many([Posting("resize") for _ in range(12)])
        boards = [harness.board(board.name) for _ in range(4)]
        for _ in range(4):
            claims = at_once(*(partial(claim_all, each, f"worker {n}", 2) for n, each in enumerate(boards)))
            claimed = [job for jobs in claims if isinstance(jobs, list) for job in jobs]
            assert len(claimed) <= 3
            claimed += claim_all(board, "worker 0")
            assert len(claimed) == 3
            for job in claimed:
                board.consume(job.uuid, str(job.record.owner), token=job.token)
        assert board.job_count == 0

    # -- lanes, names and concurrency ------------------------------------------------------------------------------

    @of_lanes
    @pytest.mark.parametrize(("of_lane", "of_name", "concurrency"), [(1, 2, 3), (3, 1, 2), (2, 3, 1)])
    def test_the_smallest_limit_holds(self, board: JobBoard, of_lane: int, of_name: int, concurrency: int) -> None:
        limit(board, of_lane)
        limit_name(board, of_name)
        board.post_many([Posting("resize", lane=LANE) for _ in range(9)])
        smallest, left = min(of_lane, of_name, concurrency), 9
        for _ in range(9):
            jobs = claim_all(board, limit=concurrency)
            assert len(jobs) == min(smallest, left)
            left -= len(jobs)
            assert board.consume_many(jobs, "alice") == [None] * len(jobs)
        assert left == 0

    @of_lanes
    def test_a_full_name_gives_its_slots_of_a_lane_to_another_name(self, board: JobBoard) -> None:
        limit(board, 4)
        limit_name(board, 2)
        board.post_many([Posting("resize", lane=LANE) for _ in range(20)])
        running = claim_all(board, limit=2)
        board.post_many([Posting("rotate", lane=LANE) for _ in range(3)])
        assert slots_of(board) == (2, 2, 19)
        rotating = [claimed_in_turn(board, "rotate") for _ in range(2)]
        assert slots_of(board) == (4, 0, 19)
        assert board.claim_next("bob", ["rotate"]) == []
        for job in (*running, *rotating):
            board.consume(job, str(job.record.owner))
        done = 0

        def is_over() -> bool:
            nonlocal done
            jobs = claim_all(board)
            assert sum(slots_of(board)[:2]) <= 4
            assert board.consume_many(jobs, "alice") == [None] * len(jobs)
            done += len(jobs)
            return board.job_count == 0

        eventually(is_over)
        assert done == 19

    @of_lanes
    def test_what_waits_for_its_lane_takes_no_room_of_its_name(self, board: JobBoard) -> None:
        limit(board, 1)
        limit_name(board, 2)
        tied, outside = [post_in(board) for _ in range(3)], board.post("resize")
        assert claim_all(board) == [tied[0], outside]

    @of_lanes
    @stuck
    def test_what_nobody_can_claim_does_not_hold_up_its_lane(self, board: JobBoard, why: str) -> None:
        limit(board, 1)
        holder, waiting = post_in(board), post_in(board, name="rotate")
        names = names_beside_stuck(board, why)
        (job,) = eventually(lambda: board.claim_next("bob", names, 1, LONG))
        assert (job, states_of(board, holder, waiting)) == (waiting, [BLOCKED, CLAIMED])
        board.consume(job, "bob")
        assert states_of(board, holder) == [UNCLAIMED]

    @of_lanes
    @stuck
    def test_who_waits_behind_a_stuck_name_asks_again_soon(self, board: JobBoard, why: str) -> None:
        """Also while the jobs of other names have all slots: as they end, the stuck ones are admitted first."""
        limit(board, 1)
        board.post_many([Posting("resize", lane=LANE, priority="high") for _ in range(3)])
        others = [post_in(board, name=name) for name in ("rotate", "crop", "rotate")]
        names = names_beside_stuck(board, why)
        with client_of(board).waiter(frozenset(names)) as waiter:
            for job in others:
                assert eventually(lambda: board.claim_next("bob", names, 1, LONG)) == [job]
                due = waiter.ready_in()
                is_last = job == others[-1]
                assert is_last or (due is not None and due <= EXCHANGE_POLL)
                board.consume(job, "bob")

    @of_lanes
    def test_an_outlook_tells_what_a_claim_may_find(self, board: JobBoard) -> None:
        client, rotate = client_of(board), frozenset(["rotate"])

        def outlook() -> JobState | None:
            return client.call(client.backend.jobs.outlook, rotate)

        limit(board, 1)
        post_in(board)
        board.post("rotate", delay=LONG)
        assert outlook() is None
        post_in(board, name="rotate")
        assert outlook() is BLOCKED
        board.post("rotate")
        assert outlook() is UNCLAIMED
        board.pause("rotate")
        assert outlook() is None

    @of_lanes
    @stuck
    def test_a_stuck_name_uses_up_no_rate(self, board: JobBoard, why: str) -> None:
        """Who waits for the others of its lane wakes when the rate lets the next job start, whose ever that is."""
        limit(board, None, rate=Rate(2, per=1.0))
        board.post_many([Posting("resize", lane=LANE, priority="high") for _ in range(9)])
        others = [post_in(board, name=name) for name in ("rotate", "crop", "rotate", "crop")]
        names, claimed = names_beside_stuck(board, why), list[Job]()
        with client_of(board).waiter(frozenset(names)) as waiter:

            def are_all_claimed() -> bool:
                claimed.extend(board.claim_next("bob", names, 9, LONG))
                if len(claimed) == len(others):
                    return True
                due = waiter.ready_in()
                assert due is not None
                assert due < EXCHANGE_POLL, "a poll"
                waiter.wait(due)
                return False

            eventually(are_all_claimed)
        assert claimed == others

    @of_lanes
    def test_what_names_exchange_often_does_not_fill_the_history(self, board: JobBoard) -> None:
        limit(board, 1)
        jobs = {name: post_in(board, name=name) for name in ("resize", "rotate")}
        for _ in range(3):
            for name in ("rotate", "resize"):
                board.abandon(claimed_in_turn(board, name), "bob")
        runs = ["CLAIMED", "ABANDONED"] * 3
        assert kinds_told(board, jobs["resize"]) == ["POSTED", "ADMITTED", *runs]
        assert kinds_told(board, jobs["rotate"]) == ["POSTED", "BLOCKED", "ADMITTED", *runs]

    @of_lanes
    def test_each_lane_has_its_turn_of_an_exchange(self, board: JobBoard) -> None:
        """More lanes than one claim looks at."""
        limit(board, 1, "tenant:*")
        lanes = [f"tenant:{number}" for number in range(50)]
        board.post_many([Posting("resize", lane=lane) for lane in lanes])
        waiting = board.post_many([Posting("rotate", lane=lane) for lane in lanes])
        claimed: set[str] = set()

        def are_all_claimed() -> bool:
            claimed.update(uuids_of(board.claim_next("bob", ["rotate"], 10, LONG)))
            return len(claimed) == len(lanes)

        eventually(are_all_claimed)
        assert claimed == set(uuids_of(waiting))
        assert all(slots_of(board, lane) == (1, 0, 1) for lane in lanes)

    @of_lanes
    def test_a_claimed_job_and_a_strict_lane_are_not_exchanged(self, board: JobBoard) -> None:
        limit(board, 1)
        limit(board, 1, "order:1", order="strict")
        held, strict = post_in(board), post_in(board, "order:1")
        board.claim(held, "alice", LONG)
        for lane in (LANE, "order:1"):
            post_in(board, lane, name="rotate")
        for _ in range(3):
            assert board.claim_next("bob", ["rotate"], 5, LONG) == []
        assert states_of(board, held, strict) == [CLAIMED, UNCLAIMED]

    @of_lanes
    def test_an_exchange_admits_no_more_of_a_name_than_its_limit_has_room_for(self, board: JobBoard) -> None:
        """In one lane, and in the next one."""
        limit(board, 6, "tenant:*")
        limit_name(board, 1, "rotate")
        limit_name(board, 2, "crop")
        lanes = ["tenant:1", "tenant:2"]
        board.post_many([Posting("resize", lane=lane) for lane in lanes for _ in range(6)])
        board.post_many([Posting(name, lane=lane) for name in ("rotate", "crop") for lane in lanes for _ in range(3)])
        claimed: list[str] = []

        def are_limits_reached() -> bool:
            claimed.extend(job.name for job in board.claim_next("bob", ["rotate", "crop"], 10, LONG))
            claimable = [job.name for job in board.iterjobs(states={UNCLAIMED})]
            assert claimable == ["resize"] * (12 - len(claimed))
            return len(claimed) == 3

        eventually(are_limits_reached)
        assert sorted(claimed) == ["crop", "crop", "rotate"]

    @of_lanes
    def test_an_exchange_keeps_the_moment_of_the_next_start(self, board: JobBoard) -> None:
        """A store may know it by the very job that the exchange admits."""
        limit(board, 2, rate=Rate(1, per=5 * SHORT))
        jobs = [post_in(board, name=name) for name in ("resize", "rotate")]
        assert [claimed_in_turn(board, name) for name in ("rotate", "resize")] == jobs[::-1]

    @of_lanes
    def test_what_is_claimed_by_an_exchange_stands_in_order_too(self, board: JobBoard) -> None:
        limit(board, 1)
        holder = post_in(board, priority="very_high")
        better = post_in(board, name="rotate", priority="high")
        low = board.post("rotate", priority="low")
        assert board.claim_next("bob", ["rotate"], 5, LONG) == [better, low]
        assert states_of(board, holder) == [BLOCKED]

    @of_lanes
    @needs(sharded=False)
    def test_what_can_be_claimed_without_an_exchange_is_claimed_first(self, board: JobBoard) -> None:
        limit(board, 1)
        holder = post_in(board)
        post_in(board, name="rotate", priority="low")
        free = board.post("rotate")
        assert board.claim_next("bob", ["rotate"], 1, LONG) == [free]
        assert states_of(board, holder) == [UNCLAIMED]
