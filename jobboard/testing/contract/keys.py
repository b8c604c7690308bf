"""Keys: unique among the live jobs of one name; raise, keep or replace."""

from __future__ import annotations

import threading
import uuid as uuids
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobboard.board import JobBoard
from jobboard.errors import AlreadyPosted, NotFound
from jobboard.events import EventKind
from jobboard.job import Job, Posting
from jobboard.states import JobPriority, JobState
from jobboard.testing.contract.case import LONG, Case, drain, needs, numbers_of, snapshot, state_of, uuids_of
from jobboard.testing.faults import Fault
from jobboard.testing.harness import Harness


def _consume(board: JobBoard, job: Job) -> None:
    board.claim(job, "alice")
    board.consume(job, "alice")


def _trash(board: JobBoard, job: Job) -> None:
    board.claim(job, "alice")
    board.trash(job, "alice", reason="broken")


def _cancel(board: JobBoard, job: Job) -> None:
    board.cancel(job)


class KeyCases(Case):
    def test_a_key_finds_its_job(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize", key="cat.png", details={"n": 1})
        found = other.find("resize", "cat.png")
        assert (found.uuid, found.key, found.details) == (job.uuid, "cat.png", {"n": 1})

    def test_a_key_that_nobody_posted_finds_nothing(self, board: JobBoard) -> None:
        board.post("resize", key="cat.png")
        for name, key in [("resize", "dog.png"), ("rotate", "cat.png"), ("resize", "cat"), ("cat.png", "resize")]:
            with pytest.raises(NotFound):
                board.find(name, key)

    def test_a_key_taken_by_a_live_job_is_refused(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize", key="cat.png", details={"n": 1})
        before = snapshot(board, job)
        with pytest.raises(AlreadyPosted) as caught:
            other.post("resize", key="cat.png", details={"n": 2})
        assert caught.value.uuid == job.uuid
        assert '"keep" or "replace"' in str(caught.value)
        assert snapshot(board, job) == before
        assert board.job_count == 1

    def test_a_key_taken_by_a_claimed_job_is_refused(self, board: JobBoard) -> None:
        board.claim(board.post("resize", key="cat.png"), "alice")
        with pytest.raises(AlreadyPosted, match='can be "keep"$'):
            board.post("resize", key="cat.png")

    def test_a_key_taken_by_a_delayed_job_is_refused(self, board: JobBoard) -> None:
        board.post("resize", key="cat.png", delay=LONG)
        with pytest.raises(AlreadyPosted):
            board.post("resize", key="cat.png")

    def test_one_key_under_two_names_is_two_jobs(self, board: JobBoard) -> None:
        one, two = board.post("resize", key="cat.png"), board.post("rotate", key="cat.png")
        assert (board.find("resize", "cat.png"), board.find("rotate", "cat.png")) == (one, two)

    def test_names_and_keys_are_not_run_together(self, board: JobBoard) -> None:
        jobs = {
            (name, key): board.post(name, key=key)
            for name, key in [("a", "b:c"), ("a:b", "c"), ("a/b", "c"), ("a", "b/c")]
        }
        assert {pair: board.find(*pair).uuid for pair in jobs} == {pair: job.uuid for pair, job in jobs.items()}

    def test_any_number_of_jobs_has_no_key(self, board: JobBoard) -> None:
        assert len({board.post("resize").uuid for _ in range(3)}) == board.job_count == 3

    @pytest.mark.parametrize("end", [_consume, _trash, _cancel])
    def test_a_key_is_free_once_its_job_has_ended(self, board: JobBoard, end: Callable[[JobBoard, Job], None]) -> None:
        job = board.post("resize", key="cat.png")
        end(board, job)
        with pytest.raises(NotFound):
            board.find("resize", "cat.png")
        again = board.post("resize", key="cat.png")
        assert again.uuid != job.uuid
        assert board.find("resize", "cat.png").uuid == again.uuid

    def test_a_key_stays_taken_when_its_job_is_abandoned(self, board: JobBoard) -> None:
        job = board.post("resize", key="cat.png")
        board.claim(job, "alice")
        board.abandon(job, "alice")
        with pytest.raises(AlreadyPosted):
            board.post("resize", key="cat.png")
        assert board.find("resize", "cat.png").uuid == job.uuid

    @pytest.mark.parametrize("state", [JobState.UNCLAIMED, JobState.DELAYED, JobState.CLAIMED])
    def test_keep_returns_the_live_job_unchanged(self, board: JobBoard, state: JobState) -> None:
        job = board.post("resize", key="cat.png", details={"n": 1}, delay=LONG if state is JobState.DELAYED else None)
        if state is JobState.CLAIMED:
            board.claim(job, "alice")
        before = snapshot(board, job)
        kept = board.post("resize", key="cat.png", details={"n": 2}, priority=JobPriority.HIGH, if_exists="keep")
        assert (kept.uuid, kept.details, kept.priority) == (job.uuid, {"n": 1}, JobPriority.NORMAL)
        assert snapshot(board, job) == before
        assert before.state is state
        assert board.job_count == 1

    def test_of_a_job_whose_cancel_was_asked_keep_says_so(self, harness: Harness, board: JobBoard) -> None:
        """Its handler may give up any moment, so whoever posts can't rely on it."""
        jobs = board.post_many([Posting("resize", key=f"{n}.png") for n in range(3)])
        for job in board.claim_next("alice", limit=3):
            if job.key != "2.png":
                board.cancel(job)
        other, backend = harness.lossy_board(board.name)
        kept = other.post_many([Posting("resize", key=f"{n}.png", if_exists="keep") for n in range(3)])
        kept.append(other.post("resize", key="1.png", if_exists="keep"))
        requests = backend.calls.total()
        assert uuids_of(kept) == uuids_of([*jobs, jobs[1]])
        assert [job.record.cancel_asked for job in kept] == [True, True, False, True]
        assert {job.record.state for job in kept} == {JobState.CLAIMED}
        assert backend.calls.total() == requests
        with pytest.raises(AlreadyPosted, match=r"CLAIMED; it was asked to stop"):
            board.post("resize", key="0.png", if_exists="replace")

    @pytest.mark.parametrize("choice", ["keep", "replace"])
    def test_keep_and_replace_post_where_nothing_is(self, board: JobBoard, choice: str) -> None:
        job = board.post("resize", key="cat.png", details={"n": 1}, if_exists=choice)  # type: ignore[arg-type,unused-ignore]
        assert board.find("resize", "cat.png").uuid == job.uuid
        assert board.get(job.uuid).details == {"n": 1}

    def test_replace_gives_the_unclaimed_job_new_details_and_priority(self, board: JobBoard, other: JobBoard) -> None:
        old = board.post("resize", key="cat.png", details={"n": 1}, priority=JobPriority.LOW)
        board.post("resize", details={"n": "between"})
        replaced = other.post("resize", key="cat.png", details={"n": 2}, priority=JobPriority.HIGH, if_exists="replace")
        assert (replaced.details, replaced.priority) == ({"n": 2}, JobPriority.HIGH)
        now = board.find("resize", "cat.png")
        assert (now.uuid, now.details, now.priority) == (replaced.uuid, {"n": 2}, JobPriority.HIGH)
        assert board.job_count == 2
        assert EventKind.REPLACED in [line.kind for line in board.get(replaced.uuid).history]
        assert numbers_of(drain(board)) == [2, "between"]
        assert replaced.uuid == old.uuid

    def test_replace_delays_what_was_claimable(self, board: JobBoard) -> None:
        board.post("resize", key="cat.png")
        run_at = datetime.now(UTC) + timedelta(hours=1)
        job = board.post("resize", key="cat.png", run_at=run_at, if_exists="replace")
        assert (state_of(board, job), board.get(job.uuid).run_at) == (JobState.DELAYED, run_at)
        assert board.claim_next("alice") == []

    def test_replace_makes_claimable_what_was_delayed(self, board: JobBoard) -> None:
        board.post("resize", key="cat.png", delay=LONG)
        job = board.post("resize", key="cat.png", if_exists="replace")
        assert (state_of(board, job), board.get(job.uuid).run_at) == (JobState.UNCLAIMED, None)
        assert uuids_of(board.claim_next("alice")) == [job.uuid]

    def test_replace_of_a_claimed_job_is_refused(self, board: JobBoard) -> None:
        job = board.post("resize", key="cat.png", details={"n": 1})
        board.claim(job, "alice")
        before = snapshot(board, job)
        with pytest.raises(AlreadyPosted):
            board.post("resize", key="cat.png", details={"n": 2}, if_exists="replace")
        assert snapshot(board, job) == before
        board.consume(job, "alice")

    @needs(sharded=False)
    def test_a_key_twice_in_one_batch_is_refused_and_nothing_is_posted(self, board: JobBoard) -> None:
        with pytest.raises(AlreadyPosted):
            board.post_many([Posting("resize", key="a"), Posting("resize", key="b"), Posting("resize", key="a")])
        assert (board.job_count, list(board.iterjobs())) == (0, [])

    def test_a_key_twice_in_one_batch_is_kept_once(self, board: JobBoard) -> None:
        first, second = board.post_many(
            [Posting("resize", details={"n": n}, key="a", if_exists="keep") for n in (1, 2)]
        )
        assert first.uuid == second.uuid
        assert numbers_of(board.iterjobs()) == [1]

    def test_of_a_key_twice_in_one_batch_the_later_replaces(self, board: JobBoard) -> None:
        board.post_many([Posting("resize", details={"n": n}, key="a", if_exists="replace") for n in (1, 2)])
        assert numbers_of(board.iterjobs()) == [2]

    def test_a_replacement_twice_in_one_batch_replaces_once(self, board: JobBoard) -> None:
        job = board.post("resize", key="cat.png")
        posting = Posting("resize", key="cat.png", if_exists="replace", uuid=str(uuids.uuid4()))
        assert uuids_of(board.post_many([posting, posting])) == [job.uuid] * 2
        assert [entry.kind for entry in job.history] == [EventKind.POSTED, EventKind.REPLACED]

    @needs(sharded=False)
    def test_one_taken_key_keeps_the_whole_batch_off_the_board(self, board: JobBoard) -> None:
        taken = board.post("resize", key="b", details={"n": 1})
        before = snapshot(board, taken)
        with pytest.raises(AlreadyPosted) as caught:
            board.post_many([Posting("resize", key="a"), Posting("resize", key="b"), Posting("resize", key="c")])
        assert caught.value.uuid == taken.uuid
        assert uuids_of(board.iterjobs()) == [taken.uuid]
        assert snapshot(board, taken) == before

    @needs(sharded=False)
    def test_one_taken_key_undoes_the_replacements_of_its_batch(self, board: JobBoard) -> None:
        board.post("resize", key="a", details={"n": 1})
        board.claim(board.post("resize", key="b", details={"n": 2}), "alice")
        with pytest.raises(AlreadyPosted):
            board.post_many(
                [Posting("resize", key=key, details={"n": "new"}, if_exists="replace") for key in ("a", "b")]
            )
        assert sorted(numbers_of(board.iterjobs())) == [1, 2]

    @pytest.mark.parametrize("clients", [1, 4])
    def test_of_threads_that_post_one_key_exactly_one_succeeds(self, harness: Harness, clients: int) -> None:
        boards = [harness.board("shared-" + harness.fresh_name())]
        boards += [harness.board(boards[0].name) for _ in range(clients - 1)]
        begin, outcomes = threading.Barrier(8), []

        def post(number: int) -> None:
            begin.wait()
            try:
                outcomes.append(boards[number % clients].post("resize", key="cat.png", details={"n": number}).uuid)
            except AlreadyPosted as error:
                outcomes.append(error.uuid or "")

        threads = [threading.Thread(target=post, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(outcomes) == 8
        assert set(outcomes) == {board.uuid for board in boards[0].iterjobs()}
        assert boards[0].job_count == 1

    def test_cancel_by_key_takes_what_begins_so(self, board: JobBoard, other: JobBoard) -> None:
        board.post("remind", key="order/7/first", run_at=datetime.now(UTC) + timedelta(hours=1))
        board.post("remind", key="order/7/second")
        kept = [
            board.post("remind", key="order/8/first"),
            board.post("remind", key="an order/7/first"),
            board.post("remind", key="order/7"),
            board.post("invoice", key="order/7/first"),
            board.post("remind"),
        ]
        assert other.cancel_by_key("remind", "order/7/") == 2
        assert set(uuids_of(board.iterjobs())) == set(uuids_of(kept))
        assert other.cancel_by_key("remind", "order/7/") == 0
        board.post("remind", key="order/7/first")
        assert board.cancel_by_key("remind", "order/7/first") == 1

    def test_cancel_by_key_takes_one_whole_key(self, harness: Harness, board: JobBoard) -> None:
        done = board.post("remind", key="order/4")
        _consume(board, done)
        for key in ("order/4", "order/47", "order/4/", "order"):
            board.post("remind", key=key, delay=LONG)
        board.post("invoice", key="order/4")
        other, backend = harness.lossy_board(board.name)
        assert other.cancel_by_key("remind", key="order/4") == 1
        assert (backend.calls["find"], backend.calls["cancel"], backend.calls["page"]) == (1, 1, 0)
        kept = {("remind", "order/47"), ("remind", "order/4/"), ("remind", "order"), ("invoice", "order/4")}
        assert {(job.name, job.key) for job in board.iterjobs()} == kept
        assert other.cancel_by_key("remind", key="order/4") == 0
        (claimed,) = board.claim_next("alice", names=["invoice"])
        assert other.cancel_by_key("invoice", key="order/4") == 1
        assert (claimed.cancelled, board.job_count) == (True, 4)

    @pytest.mark.parametrize(
        "given",
        [{}, {"key": ""}, {"key": 7}, {"key": "order", "prefix": "order"}, {"prefix": None}, {"key": "order", "by": 7}],
    )
    def test_cancel_by_key_needs_a_key_or_a_prefix(self, board: JobBoard, given: dict[str, Any]) -> None:
        board.post("remind", key="order")
        with pytest.raises((TypeError, ValueError)):
            board.cancel_by_key("remind", **given)
        assert board.job_count == 1

    def test_cancel_by_key_tells_the_owners_of_claimed_jobs(self, board: JobBoard, other: JobBoard) -> None:
        board.post("remind", key="order/7/first")
        board.post("remind", key="order/7/second", delay=LONG)
        (job,) = board.claim_next("alice")
        assert other.cancel_by_key("remind", "order/7/") == 2
        assert (job.cancelled, state_of(board, job), board.job_count) == (True, JobState.CLAIMED, 1)

    def test_cancel_by_key_leaves_what_has_ended(self, board: JobBoard) -> None:
        done, broken = board.post("remind", key="order/7/first"), board.post("remind", key="order/7/second")
        _consume(board, done)
        _trash(board, broken)
        assert board.cancel_by_key("remind", "order/7/") == 0
        assert (state_of(board, done), state_of(board, broken)) == (JobState.COMPLETE, JobState.TRASHED)

    def test_cancel_by_key_of_many(self, board: JobBoard) -> None:
        board.post_many([Posting("remind", key=f"order/{n % 2}/{n}", delay=LONG) for n in range(1_200)])
        assert board.cancel_by_key("remind", "order/1/") == 600
        assert {job.key.split("/")[1] for job in board.iterjobs() if job.key} == {"0"}
        assert board.job_count == 600

    @pytest.mark.parametrize("prefix", ["%", "_", "*", "ordeR", "order[", "^order", "\u00f8"])
    def test_cancel_by_key_knows_no_patterns(self, board: JobBoard, prefix: str) -> None:
        board.post("remind", key="order")
        assert board.cancel_by_key("remind", prefix) == 0
        board.post("remind", key=f"{prefix}/1")
        assert board.cancel_by_key("remind", prefix) == board.job_count == 1

    @pytest.mark.parametrize("fault", ["reply", "request"])
    @pytest.mark.parametrize(("which", "cancelled"), [({"prefix": "order/"}, 3), ({"key": "order/1"}, 1)])
    def test_cancel_by_key_counts_over_a_lost_message(
        self, harness: Harness, fault: Fault, which: dict[str, str], cancelled: int
    ) -> None:
        board, lossy = harness.lossy_board()
        for number in range(3):
            board.post("remind", key=f"order/{number}")
        lossy.lose("cancel", fault)
        assert board.cancel_by_key("remind", **which) == cancelled
        assert (lossy.armed, board.job_count) == (False, 3 - cancelled)

    @pytest.mark.parametrize(("name", "prefix"), [("", "order"), ("remind", ""), (None, "order"), ("remind", 7)])
    def test_cancel_by_key_needs_a_name_and_a_prefix(self, board: JobBoard, name: Any, prefix: Any) -> None:
        board.post("remind", key="order")
        with pytest.raises((TypeError, ValueError)):
            board.cancel_by_key(name, prefix)
        assert board.job_count == 1
