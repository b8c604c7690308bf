"""Keys that stay taken, delays that replacements can't draw out, and jobs that must begin by a moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobboard.board import JobBoard
from jobboard.errors import AlreadyPosted, NotFound
from jobboard.job import Job, Posting
from jobboard.testing.contract.case import LONG, SHORT, claim_one, drain, needs, numbers_of, uuids_of
from jobboard.testing.contract.edge_case import (
    BLOCKED,
    CLAIMED,
    COMPLETE,
    DELAYED,
    TRASHED,
    UNCLAIMED,
    EdgeCase,
    end,
    is_gone,
    of_edges,
    post_after,
)
from jobboard.testing.contract.lane_case import limit, post_in, slots_of, states_of
from jobboard.testing.contract.waiting import Waiting
from jobboard.testing.deadline import DEADLINE, eventually
from jobboard.testing.harness import Harness


def in_seconds(board: JobBoard, seconds: float) -> datetime:
    """Return the moment that is so many seconds from the store's now."""
    return datetime.fromtimestamp(board._backend.now() + seconds, UTC)


class KeyWindowCases(EdgeCase):
    @of_edges
    @pytest.mark.parametrize("retention", [0.0, 3600.0])
    def test_a_key_stays_taken_after_the_end_of_its_job(
        self, harness: Harness, board: JobBoard, retention: float
    ) -> None:
        short = harness.board(board.name, retention=retention)
        jobs = [short.post("resize", key=str(number), key_for=LONG) for number in range(3)]
        for job in jobs:
            end(short, job, "done")
        for number, job in enumerate(jobs):
            kept = short.post("resize", key=str(number), if_exists="keep")
            assert (kept.uuid, kept.record.state) == (job.uuid, COMPLETE)
            with pytest.raises(AlreadyPosted) as caught:
                short.post("resize", key=str(number))
            assert caught.value.uuid == job.uuid
            with pytest.raises(AlreadyPosted):
                short.post("resize", key=str(number), if_exists="replace", priority="high")
        assert short.job_count == 0
        with pytest.raises(NotFound):
            short.find("resize", "0")
        assert {board.post(name, key=key).record.state for name, key in (("rotate", "0"), ("resize", "9"))} == {
            UNCLAIMED
        }

    @of_edges
    def test_a_key_is_free_once_its_time_is_over(self, board: JobBoard) -> None:
        jobs = [board.post("resize", key=str(number), key_for=SHORT) for number in range(3)]
        until = board._backend.now() + SHORT
        end(board, jobs[0])
        eventually(lambda: board._backend.now() > until)
        with pytest.raises(AlreadyPosted):
            board.post("resize", key="1")
        eventually(lambda: board.post("resize", key="0", if_exists="keep") != jobs[0])
        for job in jobs[1:]:
            end(board, job)
            assert board.post("resize", key=job.key) != job

    @of_edges
    def test_a_cancelled_or_purged_job_keeps_no_key(self, board: JobBoard) -> None:
        cancelled, purged, trashed = (board.post("resize", key=str(number), key_for=LONG) for number in range(3))
        board.cancel(cancelled)
        for job in (purged, trashed):
            board.trash(job, by="an operator")
        board.purge(purged.uuid)
        for job in (cancelled, purged):
            assert board.post("resize", key=job.key).record.state is UNCLAIMED
        assert board.post("resize", key="2", if_exists="keep") == trashed
        with pytest.raises(AlreadyPosted):
            board.post("resize", key="2")
        board.restore(trashed.uuid)
        assert states_of(board, trashed) == [UNCLAIMED]

    @of_edges
    @needs(sharded=False)
    def test_a_job_that_is_cancelled_as_it_is_posted_keeps_no_key(self, board: JobBoard) -> None:
        cancelled, trashed, other = (board.post("resize") for _ in range(3))
        board.cancel(cancelled)
        board.trash(trashed)
        for number, parents in enumerate(([cancelled], [trashed], [other, cancelled])):
            options: dict[str, Any] = {"key": str(number), "if_exists": "keep"}
            job = board.post("resize", after=parents, if_failed="cancel", key_for=LONG, **options)
            # On some stores what follows from parents that have ended is done by whoever comes next.
            eventually(lambda job=job, options=options: board.post("resize", **options) != job)  # type: ignore[misc]

    @of_edges
    def test_a_claimed_job_that_gives_way_to_a_cancel_keeps_no_key(self, board: JobBoard) -> None:
        job = board.post("resize", key="k", key_for=LONG)
        board.claim(job, "alice", LONG)
        board.cancel(job.uuid)
        board.abandon(job, "alice")
        assert board.post("resize", key="k") != job

    @of_edges
    def test_what_meets_a_kept_key_does_not_keep_it_longer(self, board: JobBoard) -> None:
        job = board.post("resize", key="k", key_for=SHORT)
        end(board, job)
        eventually(lambda: board.post("resize", key="k", if_exists="keep", key_for=LONG) != job)

    @of_edges
    @needs(sharded=False)
    def test_a_batch_with_a_kept_key_posts_nothing(self, board: JobBoard) -> None:
        end(board, board.post("resize", key="k", key_for=LONG))
        with pytest.raises(AlreadyPosted):
            board.post_many([Posting("resize"), Posting("resize", key="k"), Posting("resize")])
        assert board.job_count == 0
        jobs = board.post_many([Posting("rotate", key="k", key_for=LONG), Posting("rotate", key="k", if_exists="keep")])
        assert jobs[0] == jobs[1]

    @of_edges
    def test_a_window_without_a_key_is_refused(self, board: JobBoard) -> None:
        for options in ({"key_for": 5.0}, {"max_delay": 5.0}):
            with pytest.raises(ValueError, match="key"):
                board.post("resize", **options)  # type: ignore[arg-type]
        for seconds in (-1.0, float("nan")):
            with pytest.raises(ValueError):
                board.post("resize", key="k", key_for=seconds)
        assert board.job_count == 0


class MaxDelayCases(EdgeCase):
    @of_edges
    def test_replacements_move_a_job_on_until_its_latest_moment(self, board: JobBoard) -> None:
        windows = [("late", LONG / 2), ("soon", SHORT)]
        jobs = [board.post("resize", {"n": 0}, key=key, delay=LONG, max_delay=most) for key, most in windows]
        moment = jobs[0].record.run_at
        for number in range(1, 4):
            for job, (key, _) in zip(jobs, windows, strict=True):
                same = board.post("resize", {"n": number}, key=key, delay=LONG, max_delay=LONG, if_exists="replace")
                assert same == job
            assert board.get(jobs[0].uuid).record.run_at == moment
        eventually(lambda: states_of(board, *jobs) == [DELAYED, UNCLAIMED])
        assert numbers_of([claim_one(board)]) == [3]

    @of_edges
    def test_a_shorter_delay_stays_as_it_is(self, board: JobBoard) -> None:
        soon = board.post("resize", key="1", delay=SHORT, max_delay=LONG)
        late = board.post("resize", key="2", delay=LONG, max_delay=2 * LONG)
        at_once = board.post("resize", key="3", max_delay=LONG)
        eventually(lambda: states_of(board, soon) == [UNCLAIMED])
        assert states_of(board, late, at_once) == [DELAYED, UNCLAIMED]

    @of_edges
    def test_a_job_without_a_latest_moment_moves_on_for_ever(self, board: JobBoard) -> None:
        job = board.post("resize", key="k", delay=SHORT)
        assert board.post("resize", key="k", delay=LONG, max_delay=SHORT, if_exists="replace") == job
        until = board._backend.now() + 2 * SHORT
        eventually(lambda: board._backend.now() > until)
        assert states_of(board, job) == [DELAYED]

    @of_edges
    def test_a_retry_waits_for_its_own_delay(self, board: JobBoard) -> None:
        job = board.post("resize", key="k", delay=SHORT, max_delay=SHORT)
        eventually(lambda: states_of(board, job) == [UNCLAIMED])
        board.claim(job, "alice", LONG)
        board.abandon(job, "alice", delay=LONG)
        assert states_of(board, job) == [DELAYED]


class StartByCases(EdgeCase):
    @of_edges
    def test_a_job_that_nobody_began_in_time_goes_to_the_trash(self, board: JobBoard, other: JobBoard) -> None:
        parent = board.post("rotate", delay=LONG)
        limit(board, 0)
        moment = in_seconds(board, SHORT)
        late = [
            board.post("resize", start_by=moment),
            board.post("resize", start_by=moment, delay=LONG),
            post_after(board, parent, start_by=moment),
            post_in(board, start_by=moment),
        ]
        fine = board.post("resize", start_by=in_seconds(board, LONG))
        eventually(lambda: states_of(other, *late) == [TRASHED] * 4)
        assert states_of(other, fine, parent) == [UNCLAIMED, DELAYED]
        assert all("start_by" in (other.get(job.uuid).record.reason or "") for job in late)
        assert uuids_of(drain(board)) == [fine.uuid]
        assert slots_of(board) == (0, 0, 0)

    @of_edges
    def test_a_moment_that_is_over_at_the_post(self, board: JobBoard) -> None:
        jobs = [board.post("resize", start_by=in_seconds(board, -LONG)) for _ in range(3)]
        assert board.claim_next("alice", limit=9) == []
        assert states_of(board, *jobs) == [TRASHED] * 3

    @of_edges
    def test_a_job_that_was_claimed_has_begun(self, board: JobBoard) -> None:
        moment = in_seconds(board, 1.0)
        board.post_many([Posting("resize", start_by=moment) for _ in range(3)])
        jobs = board.claim_next("alice", limit=3, expiry=LONG)
        board.abandon(jobs[1], "alice")
        board.abandon(jobs[2], "alice", delay=LONG)
        eventually(lambda: board._backend.now() > moment.timestamp())
        assert states_of(board, *jobs) == [CLAIMED, UNCLAIMED, DELAYED]
        board.consume(jobs[0], "alice")

    @of_edges
    def test_a_restored_job_may_begin_late(self, board: JobBoard) -> None:
        jobs = [board.post("resize", start_by=in_seconds(board, -LONG)) for _ in range(3)]
        assert states_of(board, *jobs) == [TRASHED] * 3
        for job in jobs[:2]:
            board.restore(job.uuid)
        assert uuids_of(drain(board)) == uuids_of(jobs[:2])

    @of_edges
    def test_a_child_of_a_job_that_did_not_begin_in_time(self, board: JobBoard) -> None:
        parent = board.post("resize", start_by=in_seconds(board, -LONG))
        children = [post_after(board, parent, if_failed=way) for way in ("wait", "run", "cancel")]
        assert board.claim_next("alice") == [children[1]]
        assert states_of(board, parent, children[0]) == [TRASHED, BLOCKED]
        assert is_gone(board, children[2])

    @of_edges
    def test_a_lane_hands_on_the_slot_of_a_job_that_did_not_begin(self, board: JobBoard) -> None:
        limit(board, 1)
        first: Job = post_in(board, start_by=in_seconds(board, SHORT))
        second = post_in(board)
        eventually(lambda: states_of(board, first, second) == [TRASHED, UNCLAIMED])

    @of_edges
    def test_who_waits_for_a_lane_wakes_when_its_holder_did_not_begin(self, harness: Harness, board: JobBoard) -> None:
        limit(board, 1)
        board.pause("rotate")
        waiting = Waiting(harness, board.name)
        try:
            post_in(board, name="rotate", start_by=in_seconds(board, SHORT))
            job = post_in(board)
            found = waiting.begin()
            assert found.result(DEADLINE) == job
        finally:
            waiting.end()

    @of_edges
    def test_a_replacement_has_a_moment_of_its_own(self, board: JobBoard) -> None:
        job = board.post("resize", key="k", start_by=in_seconds(board, LONG))
        assert board.post("resize", key="k", if_exists="replace") == job
        assert board.post("resize", key="k", if_exists="replace", start_by=in_seconds(board, -1.0)) == job
        assert states_of(board, job) == [TRASHED]
        with pytest.raises(ValueError):
            board.post("resize", start_by=datetime(2026, 1, 1) + timedelta(1))
