"""Ends that post: what follows a job is posted in the step that ends it, once, or the job has not ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from jobboard.backends.rows import Fence, PostOutcome, Refused, Ties, Trashing, Verdict
from jobboard.board import JobBoard, client_of
from jobboard.errors import AlreadyPosted, ClaimLost, InvalidPosting, JobBoardError, NotFound
from jobboard.job import Job, Posting
from jobboard.testing.contract.case import (
    LONG,
    SHORT,
    claim_one,
    drain,
    needs,
    numbers_of,
    snapshot,
    until_expired,
    uuids_of,
)
from jobboard.testing.contract.edge_case import (
    BLOCKED,
    CLAIMED,
    COMPLETE,
    DELAYED,
    TRASHED,
    UNCLAIMED,
    EdgeCase,
    end,
    new_job,
    of_edges,
    post_after,
    post_rows,
    results_of,
)
from jobboard.testing.contract.failed_parents import FAILURES
from jobboard.testing.contract.lane_case import LANE, limit, post_in, states_of
from jobboard.testing.deadline import eventually
from jobboard.testing.faults import LossyBackend
from jobboard.validation import new_uuid


def named(board: JobBoard, name: str = "next") -> list[Job]:
    """Return the live jobs of a name, in claim order."""
    return list(board.iterjobs(names=[name]))


def trash_with(board: JobBoard, job: Job, *posts: Any, token: int | None = None) -> Any:
    """Set a claimed job aside, and post in the same step."""
    fence = Fence(job.uuid, "alice", (job.token or 0) if token is None else token)
    (answer,) = client_of(board).call(
        client_of(board).backend.jobs.trash, [Trashing(job.uuid, fence, "broken", posts=posts)]
    )
    return answer


class FollowUpCases(EdgeCase):
    @of_edges
    @needs(sharded=False)
    def test_an_end_posts_what_follows(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize")
        board.claim(job, "alice", LONG)
        posts = [Posting("next", details={"n": n}, key=str(n), delay=LONG if n == 2 else None) for n in range(3)]
        board.consume(job, "alice", "done", post=posts)
        assert (states_of(other, job), other.get(job.uuid).result) == ([COMPLETE], "done")
        jobs = named(other)
        assert sorted(numbers_of(jobs)) == [0, 1, 2]
        assert states_of(other, *(other.find("next", str(n)) for n in range(3))) == [UNCLAIMED, UNCLAIMED, DELAYED]

    @of_edges
    def test_a_graph_follows_an_end(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize")
        board.claim(job, "alice", LONG)
        parts = [Posting("next", details={"n": n}, after=[job]) for n in range(3)]
        board.consume(job, "alice", "its result", post=[*parts, Posting("last", after=parts)])
        (last,) = named(other, "last")
        assert states_of(other, *named(other), last) == [UNCLAIMED] * 3 + [BLOCKED]
        assert results_of(other, named(other)[0]) == {job.uuid: "its result"}
        assert numbers_of(drain(board, limit=1)) == [0, 1, 2, None]

    @of_edges
    def test_what_follows_may_be_too_large_for_one_step(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend
    ) -> None:
        """It is there before the end, and waits for it."""
        lossy.capabilities = replace(lossy.capabilities, largest_graph=8)  # type: ignore[misc]
        job, bad = board.post("resize"), board.post("resize")
        for each in (job, bad):
            board.claim(each, "alice", LONG)
        parts = [Posting("next", details={"n": n}) for n in range(20)]

        def look() -> None:
            assert states_of(other, job) == [CLAIMED]
            assert states_of(other, *named(other), *named(other, "last")) == [BLOCKED] * 21
            assert other.claim_next("bob") == []

        lossy.lose("consume", "request", meanwhile=look)
        board.consume(job, "alice", post=[*parts, Posting("last", after=parts)])
        assert states_of(other, job, *named(other), *named(other, "last")) == [COMPLETE, *[UNCLAIMED] * 20, BLOCKED]
        with pytest.raises(NotFound):
            board.consume(bad, "alice", post=[*parts, Posting("never", after=[*parts, new_uuid()])])
        assert states_of(other, bad) == [CLAIMED]
        assert named(other, "never") == []
        assert sorted(numbers_of(drain(other, "bob", limit=1)), key=str) == [*sorted(range(20), key=str), None]
        board.consume(bad, "alice")

    @of_edges
    def test_large_results_of_many_parents_reach_what_follows(self, board: JobBoard, other: JobBoard) -> None:
        """They are more than one step of some stores takes."""
        parents = [board.post("resize") for _ in range(30)]
        for number, parent in enumerate(parents):
            end(board, parent, [number, "x" * 60_000])
        job = board.post("resize")
        board.claim(job, "alice", LONG)
        board.consume(job, "alice", [30], post=[Posting("next", after=[*parents, job])])
        (child,) = named(other)
        assert states_of(other, job, child) == [COMPLETE, UNCLAIMED]
        assert sorted(result[0] for result in results_of(other, child).values()) == list(range(31))

    @of_edges
    def test_the_key_of_a_job_that_ends_is_free_for_what_follows(self, board: JobBoard) -> None:
        job = board.post("resize", key="k")
        for number in range(3):
            claimed = claim_one(board)
            board.consume(claimed, "alice", post=[Posting("resize", details={"n": number}, key="k")])
            assert numbers_of(named(board, "resize")) == [number]
        assert states_of(board, job) == [COMPLETE]

    @of_edges
    @needs(sharded=False)
    def test_what_follows_keeps_or_replaces_what_has_its_key(self, board: JobBoard) -> None:
        first, second = board.post("next", key="1"), board.post("next", key="2", priority="low")
        job = board.post("resize", priority="high")
        board.claim(job, "alice", LONG)
        postings = [
            Posting("next", key="1", if_exists="keep", priority="low"),
            Posting("next", key="2", if_exists="replace", priority="high"),
        ]
        board.consume(job, "alice", post=postings)
        assert uuids_of(named(board)) == uuids_of([second, first])

    @of_edges
    @pytest.mark.parametrize(
        ("posting", "error"),
        [
            (Posting("taken", key="k"), AlreadyPosted),
            (Posting("taken", key="k", if_exists="replace", lane="another"), InvalidPosting),
            (Posting("next", after=["00000000-0000-4000-8000-000000000001"]), NotFound),
        ],
    )
    @needs(sharded=False)
    def test_a_claim_goes_on_if_what_is_to_follow_is_refused(
        self, board: JobBoard, other: JobBoard, posting: Posting, error: type[JobBoardError]
    ) -> None:
        board.post("taken", key="k", delay=LONG)
        job = board.post("resize")
        child = post_after(board, job)
        board.claim(job, "alice", LONG)
        before = snapshot(other, job)
        with pytest.raises(error):
            board.consume(job, "alice", post=[Posting("next"), posting])
        assert snapshot(other, job) == before
        assert named(other) == []
        assert states_of(other, child) == [BLOCKED]
        board.extend(job, "alice", LONG)
        board.consume(job, "alice", post=[Posting("next")])
        assert len(named(other)) == 1

    @of_edges
    def test_a_late_owner_posts_nothing(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize")
        board.claim(job, "alice", SHORT)
        until_expired(other, job)
        other.claim(other.get(job.uuid), "bob", LONG)
        with pytest.raises(ClaimLost):
            board.consume(job, "alice", post=[Posting("next")])
        with pytest.raises(ClaimLost):
            # What is to follow goes in parts here: all of them are given up.
            board.consume(job, "alice", post=[Posting("next", before=[post_after(board, job)])])
        eventually(lambda: other.claim_next("carol") == [] and named(other) == [])

    @of_edges
    def test_what_follows_joins_its_lane(self, board: JobBoard) -> None:
        limit(board, 1)
        first, second = post_in(board), post_in(board)
        board.claim(first, "alice", LONG)
        board.consume(first, "alice", post=[Posting("next", lane=LANE), Posting("next", lane=LANE, priority="high")])
        low, high = sorted(named(board), key=lambda job: job.priority)
        assert states_of(board, second, low, high) == [BLOCKED, BLOCKED, UNCLAIMED]
        assert uuids_of(drain(board)) == uuids_of([high, second, low])

    @of_edges
    def test_an_end_posts_what_a_waiting_job_waits_for(self, board: JobBoard) -> None:
        finder = board.post("resize")
        report = post_after(board, finder)
        board.claim(finder, "alice", LONG)
        board.consume(finder, "alice", post=[Posting("next", before=[report]) for _ in range(3)])
        assert states_of(board, report) == [BLOCKED]
        order = uuids_of(drain(board, limit=1))
        assert (len(order), order[-1]) == (4, report.uuid)

    @of_edges
    @needs(sharded=False)
    def test_a_trashing_posts_what_follows(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize")
        board.claim(job, "alice", LONG)
        taken = board.post("taken", key="k", delay=LONG)
        refused = trash_with(board, job, new_job(name="next"), new_job(name="taken", key="k"))
        assert isinstance(refused, Refused)
        assert (refused.posts[1].outcome, refused.posts[1].row.uuid) == (PostOutcome.TAKEN, taken.uuid)
        assert (states_of(other, job), named(other)) == ([CLAIMED], [])
        news = [new_job(name="next") for _ in range(3)]
        assert trash_with(board, job, *news) is Verdict.DONE
        assert states_of(other, job) == [TRASHED]
        assert uuids_of(named(other)) == [new.uuid for new in news]
        assert trash_with(board, job, *news) is Verdict.REPEATED
        assert len(named(other)) == 3


class DeclaredFollowUpCases(EdgeCase):
    @of_edges
    @needs(sharded=False)
    def test_what_follows_a_consume_is_posted_with_it(self, board: JobBoard, other: JobBoard) -> None:
        limit(board, 1)
        follow_up = Posting(
            "next", details={"n": 7}, key="größe", priority="high", max_attempts=3, lane=LANE, delay=SHORT
        )
        jobs = [board.post("resize", on_complete=follow_up, key=str(number)) for number in range(2)]
        end(board, jobs[0])
        (job,) = named(other)
        assert (job.details, job.key, job.priority, job.max_attempts, job.lane) == ({"n": 7}, "größe", 4, 3, LANE)
        eventually(lambda: states_of(other, job) == [UNCLAIMED])
        # The key is taken by what followed the first one, so nothing follows the second one, and nothing is refused.
        end(board, jobs[1])
        assert (states_of(other, jobs[1]), named(other)) == ([COMPLETE], [job])

    @of_edges
    @pytest.mark.parametrize("failure", FAILURES)
    def test_what_follows_when_a_job_goes_to_the_trash(self, board: JobBoard, other: JobBoard, failure: str) -> None:
        jobs = [
            board.post("resize", max_attempts=1, on_trashed=Posting("next"), on_complete=Posting("never"))
            for _ in range(3)
        ]
        FAILURES[failure](board, jobs[0])
        assert states_of(other, jobs[0]) == [TRASHED]
        assert len(named(other)) == 1
        end(board, jobs[1])
        board.cancel(jobs[2])
        assert (len(named(other)), len(named(other, "never"))) == (1, 1)

    @of_edges
    def test_what_follows_a_loss_of_a_parent_and_a_late_start(self, board: JobBoard, other: JobBoard) -> None:
        parent = board.post("resize")
        post_after(board, parent, on_trashed=Posting("next"))
        post_rows(board, new_job(ties=Ties(start_by=1.0, on_trashed=_packed(board, Posting("next")))))
        board.cancel(parent)
        eventually(lambda: len(named(other)) == 2)
        assert other.stats().trashed == 2

    @of_edges
    def test_each_end_after_a_restore_has_a_follow_up_of_its_own(self, board: JobBoard) -> None:
        job = board.post("resize", on_trashed=Posting("next"), on_complete=Posting("last"))
        for number in range(3):
            board.claim(job, "alice", LONG)
            board.trash(job, "alice")
            assert len(named(board)) == number + 1
            board.restore(job.uuid)
        end(board, job)
        assert (len(named(board)), len(named(board, "last"))) == (3, 1)

    @of_edges
    def test_batches_of_ends_post_what_follows_each(self, board: JobBoard) -> None:
        board.post_many([Posting("resize", on_complete=Posting("next", details={"n": n})) for n in range(5)])
        jobs = board.claim_next("alice", limit=5, expiry=LONG)
        assert board.consume_many(jobs, "alice") == [None] * 5
        assert sorted(numbers_of(named(board))) == list(range(5))

    @of_edges
    def test_an_abandoned_or_released_job_posts_nothing(self, board: JobBoard) -> None:
        job = board.post("resize", on_trashed=Posting("next"), on_complete=Posting("next"))
        for _ in range(2):
            board.claim(job, "alice", LONG)
            board.abandon(job, "alice")
        board.claim(job, "alice", LONG)
        board.release(job, reason="its host is gone")
        assert named(board) == []

    @of_edges
    def test_a_replacement_has_follow_ups_of_its_own(self, board: JobBoard) -> None:
        job = board.post("resize", key="k", on_complete=Posting("next"))
        board.post("resize", key="k", if_exists="replace", on_complete=Posting("last"))
        end(board, job)
        assert (len(named(board)), len(named(board, "last"))) == (0, 1)

    @of_edges
    def test_both_what_an_end_posts_and_what_its_record_says(self, board: JobBoard) -> None:
        job = board.post("resize", on_complete=Posting("next", details={"n": 0}))
        board.claim(job, "alice", LONG)
        board.consume(job, "alice", post=[Posting("next", details={"n": 1}, after=[job])])
        assert sorted(numbers_of(named(board))) == [0, 1]

    @of_edges
    def test_a_follow_up_that_cannot_be_read_harms_nobody(self, board: JobBoard) -> None:
        ties = Ties(on_trashed=b"\xc1 no posting", on_complete=b"")
        (first, second) = (
            board.get(each.row.uuid) for each in post_rows(board, new_job(ties=ties), new_job(ties=ties))
        )
        end(board, first)
        board.trash(second, by="an operator")
        assert (states_of(board, first, second), board.job_count) == ([COMPLETE, TRASHED], 0)

    @of_edges
    @pytest.mark.parametrize("field", ["uuid", "after", "key_for", "on_complete"])
    def test_what_a_follow_up_cannot_have_is_refused(self, board: JobBoard, field: str) -> None:
        values = {"uuid": new_uuid(), "after": [new_uuid()], "key_for": 5.0, "on_complete": Posting("last")}
        bad = Posting("next", key="k", **{field: values[field]})  # type: ignore[arg-type]
        with pytest.raises(InvalidPosting) as caught:
            board.post("resize", on_trashed=bad)
        assert caught.value.path == f"on_trashed.{field}"
        assert board.job_count == 0


def _packed(board: JobBoard, posting: Posting) -> bytes | None:
    """Return a follow-up as it lies in a record."""
    follower = board.post("packed", on_trashed=posting)
    [row] = client_of(board).backend.jobs.read([follower.uuid])
    board.cancel(follower)
    assert row is not None
    assert row.ties is not None
    return row.ties.on_trashed
