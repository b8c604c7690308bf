"""Reading: iterate, get, find and count, in pages of jobs, without a request for each job."""

from __future__ import annotations

import uuid as uuids
from itertools import islice

import pytest

from jobboard.board import JobBoard
from jobboard.errors import NotFound
from jobboard.job import Posting
from jobboard.operate.paging import page_of
from jobboard.operate.selecting import Selection
from jobboard.states import JobState
from jobboard.stats import COUNTED
from jobboard.testing.contract.case import LONG, Case, claim_one, needs, per_shard, uuids_of
from jobboard.testing.deadline import eventually
from jobboard.testing.harness import Harness

#: Those in which a job without ties can be.
STATES = [state for state in JobState if state is not JobState.BLOCKED]


def _one_in_each_state(board: JobBoard, name: str = "resize") -> dict[JobState, str]:
    jobs = {state: board.post(name, delay=LONG if state is JobState.DELAYED else None) for state in STATES}
    for state in (JobState.CLAIMED, JobState.COMPLETE, JobState.TRASHED):
        board.claim(jobs[state], "alice", LONG)
    board.consume(jobs[JobState.COMPLETE], "alice")
    board.trash(jobs[JobState.TRASHED], "alice", reason="broken")
    return {state: job.uuid for state, job in jobs.items()}


class IteratingCases(Case):
    def test_an_empty_board_has_no_jobs(self, board: JobBoard) -> None:
        assert (list(board.iterjobs()), list(board.trashed()), board.job_count) == ([], [], 0)

    def test_iterating_shows_what_is_on_the_board(self, board: JobBoard, other: JobBoard) -> None:
        jobs = _one_in_each_state(board)
        live = {JobState.DELAYED, JobState.UNCLAIMED, JobState.CLAIMED}
        assert set(uuids_of(other.iterjobs())) == {jobs[state] for state in live}
        assert {job.record.state for job in other.iterjobs()} == live

    @pytest.mark.parametrize("state", STATES, ids=str)
    def test_iterating_shows_the_state_asked_for(self, board: JobBoard, other: JobBoard, state: JobState) -> None:
        jobs = _one_in_each_state(board)
        [job] = other.iterjobs(states=[state])
        assert (job.uuid, job.record.state) == (jobs[state], state)

    def test_iterating_shows_all_states_asked_for(self, board: JobBoard) -> None:
        jobs = _one_in_each_state(board)
        assert set(uuids_of(board.iterjobs(states=set(JobState)))) == set(jobs.values())
        asked = {JobState.TRASHED, JobState.DELAYED}
        assert set(uuids_of(board.iterjobs(states=asked))) == {jobs[state] for state in asked}
        assert list(board.iterjobs(states=[])) == []

    def test_only_unclaimed_leaves_the_others_out(self, board: JobBoard) -> None:
        jobs = _one_in_each_state(board)
        assert uuids_of(board.iterjobs(only_unclaimed=True)) == [jobs[JobState.UNCLAIMED]]
        assert uuids_of(board.iterjobs(True, True)) == [jobs[JobState.UNCLAIMED]]

    def test_iterating_shows_the_names_asked_for(self, board: JobBoard) -> None:
        resize, rotate = _one_in_each_state(board, "resize"), _one_in_each_state(board, "rotate")
        every = set(JobState)
        assert set(uuids_of(board.iterjobs(names=["rotate"], states=every))) == set(rotate.values())
        assert set(uuids_of(board.iterjobs(names={"rotate", "resize"}, states=every))) == {
            *rotate.values(), *resize.values(),
        }  # fmt: skip
        assert uuids_of(board.iterjobs(True, names=["rotate"])) == [rotate[JobState.UNCLAIMED]]
        assert list(board.iterjobs(names=["crop"])) == list(board.iterjobs(names=[])) == []

    @per_shard
    def test_thousands_are_seen_exactly_once_without_a_request_for_each(self, harness: Harness) -> None:
        board, backend = harness.lossy_board()
        posted = board.post_many([Posting("resize", details={"n": n}) for n in range(1_700)])
        backend.calls.clear()
        seen = list(board.iterjobs())
        assert uuids_of(seen) == uuids_of(posted)
        assert [job.record.state for job in seen] == [JobState.UNCLAIMED] * 1_700
        assert sum(backend.calls.values()) <= 10

    def test_a_look_costs_what_is_taken_of_it(self, harness: Harness) -> None:
        board, backend = harness.lossy_board()
        board.post_many([Posting("rotate") for _ in range(70)])
        posted = board.post_many([Posting("resize") for _ in range(90)])
        for look in (
            board.iterjobs(),
            board.iterjobs(only_unclaimed=True, names=["resize"]),
            board.wait(LONG),
            board.wait(LONG, ["resize"]),
        ):
            backend.rows = 0
            next(look)
            assert backend.rows <= 10
            assert len(list(islice(look, 10))) == 10
            assert 11 <= backend.rows <= 60
        board.pause("rotate")
        assert uuids_of(board.wait(LONG)) == uuids_of(posted)
        assert uuids_of(board.wait(LONG, ["rotate", "resize"])) == uuids_of(posted)

    def test_the_loop_of_a_worker_asks_twice_for_a_job_but_for_the_pages(self, harness: Harness) -> None:
        board, backend = harness.lossy_board()
        posted = board.post_many([Posting("resize") for _ in range(12)])
        backend.calls.clear()
        done: list[str] = []
        for job in board.wait(LONG):
            board.claim(job, "alice", LONG)
            board.consume(job, "alice")
            done.append(job.uuid)
        assert done == uuids_of(posted)
        assert (backend.calls.pop("claim"), backend.calls.pop("consume")) == (12, 12)
        # Two pages.
        assert sum(backend.calls.values()) <= 3

    def test_what_stays_is_seen_once_while_the_rest_changes(self, board: JobBoard, other: JobBoard) -> None:
        posted = uuids_of(board.post_many([Posting("resize") for _ in range(1_200)]))
        seen: list[str] = []
        for job in board.iterjobs():
            change, rest = divmod(len(seen), 100)
            seen.append(job.uuid)
            if rest == 0 and change < 12:
                [claimed] = other.claim_next("alice", expiry=LONG)
                other.consume(claimed, "alice")
                other.cancel(posted[-1 - change])
                other.post("resize")
        staying = [job.uuid for job in other.iterjobs() if job.uuid in set(posted)]
        assert len(staying) == 1_200 - 24
        assert [uuid for uuid in seen if uuid in set(staying)] == staying
        assert len(seen) == len(set(seen))

    @per_shard
    def test_the_trash_and_the_completed_are_paged_too(self, board: JobBoard) -> None:
        jobs = board.post_many([Posting("resize") for _ in range(1_100)])
        claimed = board.claim_next("alice", limit=1_100, expiry=LONG)
        board.consume_many(claimed[:550], "alice")
        for job in claimed[550:]:
            board.trash(job, "alice")
        assert uuids_of(board.iterjobs(states=[JobState.COMPLETE])) == uuids_of(jobs[:550])
        assert uuids_of(board.trashed()) == uuids_of(jobs[550:])

    @pytest.mark.parametrize("read", ["get", "find_owner", "restore", "purge"])
    def test_what_was_never_posted_is_not_found(self, board: JobBoard, read: str) -> None:
        board.post("resize")
        with pytest.raises(NotFound):
            getattr(board, read)(str(uuids.uuid4()))

    def test_get_reads_a_job_in_any_state(self, board: JobBoard, other: JobBoard) -> None:
        jobs = _one_in_each_state(board)
        assert {state: other.get(uuid).record.state for state, uuid in jobs.items()} == {state: state for state in jobs}
        assert all(other.get(uuid).record.history for uuid in jobs.values())

    def test_stats_count_by_state_and_name(self, board: JobBoard, other: JobBoard) -> None:
        _one_in_each_state(board, "resize")
        _one_in_each_state(board, "rotate")
        board.post("rotate")
        stats = other.stats()
        assert (stats.delayed, stats.unclaimed, stats.claimed, stats.trashed) == (2, 3, 2, 2)
        assert set(stats.names) == {"resize", "rotate"}
        rotate = stats.names["rotate"]
        assert (rotate.delayed, rotate.unclaimed, rotate.claimed, rotate.trashed) == (1, 2, 1, 1)

    def test_stats_of_an_empty_board_are_zeros(self, board: JobBoard) -> None:
        stats = board.stats()
        assert [getattr(stats, state) for state in COUNTED] == [0] * len(COUNTED)
        assert stats.oldest_unclaimed is None

    def test_stats_tell_the_age_of_the_oldest_unclaimed(self, board: JobBoard) -> None:
        board.claim(board.post("resize"), "alice", LONG)
        board.post("resize", delay=LONG)
        assert board.stats().oldest_unclaimed is None
        board.post("resize")
        eventually(lambda: 0.05 < (board.stats().oldest_unclaimed or 0) < 60)
        claim_one(board)
        assert board.stats().oldest_unclaimed is None

    def test_stats_tell_since_when_a_job_that_was_delayed_can_be_claimed(self, board: JobBoard) -> None:
        job = board.post("resize", delay=0.5)
        eventually(lambda: board.stats().unclaimed == 1)
        age = board.stats().oldest_unclaimed
        assert age is not None
        assert job.run_at is not None
        assert board._backend.now() - age >= job.run_at.timestamp() - 0.1

    @needs(sharded=False)
    def test_pages_follow_each_other_by_a_text(self, board: JobBoard) -> None:
        """What a URL carries from one page of a console to the next; many jobs are posted at one moment."""
        board.post_many([Posting("resize", key=f"{'ab'[n % 2]}/{n}") for n in range(25)])
        every = uuids_of(board.iterjobs())
        for selection, size, found in (
            (Selection(), 7, every),
            (Selection(key_prefix="b/"), 4, every[1::2]),
            (Selection(names=["resize"], key="a/24"), 2, every[24:]),
        ):
            seen, after = list[str](), None
            for _ in range(10):
                page = page_of(board, selection, after, size, 11)
                seen, after = seen + uuids_of(page.jobs), page.next
                assert len(page.jobs) <= size
                if after is None:
                    break
            assert seen == found
        for wrong in ("~!", "x", "1,2,3,4"):
            with pytest.raises(ValueError, match="no such place"):
                page_of(board, Selection(), wrong)
