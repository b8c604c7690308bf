"""Which jobs operators mean, and what becomes of each of many."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from helpers.conducting import lossy_board
from helpers.memory_board import board
from helpers.memory_seam import HandClock

from jobboard import BoardUnavailable, Every, Job, JobBoard, JobState, Posting, Schedule
from jobboard.backends.memory import MemoryBackend
from jobboard.board import client_of
from jobboard.operate.bulk import ACTIONS, BulkOutcome, Step, Target, of_what, reprioritizing, summary_of, targets_of
from jobboard.operate.selecting import Selection
from jobboard.states import LIVE, JobPriority

__all__ = ["board"]


TRASHED = {JobState.TRASHED}
CANCEL, RESTORE = partial(ACTIONS["cancel"].act, by="me"), partial(ACTIONS["restore"].act, by="me")


class TestSelecting:
    @pytest.fixture
    def jobs(self, board: JobBoard) -> dict[str, Job]:
        jobs = {
            "first": board.post("a", key="order/7/x"),
            "second": board.post("b", key="order/7/y"),
            "delayed": board.post("a", key="order/8/x", delay=1000),
            "claimed": board.post("a"),
            "broken": board.post("b"),
            "fired": board.schedules.add(Schedule("s", Every(hours=1), "c")) and board.schedules.fire_now("s"),
        }
        board.claim(jobs["claimed"], "worker@host-7:1")
        board.trash(jobs["broken"], by="me", reason="disk full on /var")
        return jobs

    @pytest.mark.parametrize(
        ("which", "found"),
        [
            ({}, ["first", "second", "claimed", "fired", "delayed"]),
            ({"states": set(JobState)}, ["first", "second", "claimed", "broken", "fired", "delayed"]),
            ({"states": {JobState.DELAYED}}, ["delayed"]),
            ({"names": ["b", "c"]}, ["second", "fired"]),
            ({"key": "order/7/x"}, ["first"]),
            ({"key_prefix": "order/7/"}, ["first", "second"]),
            ({"key_prefix": "order/7/", "names": ["b"]}, ["second"]),
            ({"key_contains": "7/"}, ["first", "second"]),
            ({"key_contains": "7/", "names": ["b"]}, ["second"]),
            ({"owner": "worker@host-7"}, ["claimed"]),
            ({"owner": "orker"}, []),
            ({"schedule": "s"}, ["fired"]),
            ({"reason": "full"}, []),
            ({"reason": "full", "states": TRASHED}, ["broken"]),
            ({"reason": "", "states": TRASHED}, ["broken"]),
            ({"older_than": 0, "states": TRASHED}, ["broken"]),
            ({"older_than": 100}, []),
            ({"limit": 2}, ["first", "second"]),
            ({"limit": 2, "names": ["a"]}, ["first", "claimed"]),
        ],
    )
    def test_all_filters_must_fit(
        self, board: JobBoard, jobs: dict[str, Job], which: dict[str, Any], found: list[str]
    ) -> None:
        assert list(Selection(**which).jobs(board)) == [jobs[name] for name in found]

    @pytest.mark.parametrize(
        "which",
        [{"older_than": seconds} for seconds in (-1.0, math.nan, math.inf)]
        + [{"limit": 0}, {"scan": 0}, {"names": [""]}],
    )
    def test_filters_that_are_none(self, which: dict[str, Any]) -> None:
        with pytest.raises(ValueError):
            Selection(**which)

    def test_a_trashed_job_is_as_old_as_its_trashing(self, board: JobBoard) -> None:
        backend = client_of(board).backend
        assert isinstance(backend, MemoryBackend)
        backend.store.clock = clock = HandClock()
        live, broken = board.post("a"), board.post("a")
        clock.time += 100
        board.claim(live, "worker")
        board.trash(broken, by="me", reason="disk full")
        old = Selection(states={*LIVE, *TRASHED}, older_than=50)
        assert list(old.jobs(board)) == [live]
        clock.time += 50
        assert list(old.jobs(board)) == [live, broken]

    def test_details_are_compared_as_text(self, board: JobBoard) -> None:
        details = {"order": {"id": 7, "of": "Zoë"}, "a.b": True, "rate": 1.5, "none": None}
        job = board.post("a", details=details)
        board.post("a", details={"order": {"id": 70}})

        def found(**wanted: str) -> list[Job]:
            return list(Selection(details=wanted).jobs(board))

        for wanted in ({"order.id": "7", "order.of": "Zoë"}, {"a.b": "true"}, {"rate": "1.5"}, {"none": "null"}):
            assert found(**wanted) == [job]
        for wanted in ({"order.id": "7", "rate": "2"}, {"order.of.x": "Zoë"}, {"": "7"}, {"order.": "7"}, {"id": "7"}):
            assert found(**wanted) == []

    def test_a_search_stops_and_says_so(self, board: JobBoard) -> None:
        jobs = board.post_many([Posting("a", key=f"k/{number}", details={"n": number % 2}) for number in range(6)])
        stopped = list[int]()
        assert list(Selection(key_contains="/", scan=5).jobs(board, stopped.append)) == jobs[:5]
        assert list(Selection(details={"n": "1"}, scan=5).jobs(board, stopped.append)) == [jobs[1], jobs[3]]
        assert stopped == [5, 5]
        for whole in (Selection(key_contains="/", scan=6), Selection(key_contains="/", scan=None), Selection(scan=5)):
            assert list(whole.jobs(board, stopped.append)) == jobs
        assert list(Selection(key_contains="/", scan=5, limit=2).jobs(board, stopped.append)) == jobs[:2]
        assert stopped == [5, 5]

    def test_of_what(self) -> None:
        targets = [Target("u", name, 0, None) for name in "aabbbcdefg"]
        assert of_what([]) == "0 jobs"
        assert of_what(targets[:1]) == "1 job named 'a'"
        assert of_what(targets) == "10 jobs (3 b, 2 a, 1 c, 1 d, 1 e, 2 other names)"


class TestBulk:
    @pytest.fixture
    def jobs(self, board: JobBoard) -> list[Job]:
        return board.post_many([Posting("a") for _ in range(250)])

    def test_cancel(self, board: JobBoard, jobs: list[Job]) -> None:
        targets, steps = targets_of(Selection().jobs(board)), list[int]()
        board.claim(jobs[0], "w")
        board.cancel(jobs[1])
        outcome = ACTIONS["cancel"].act(board, targets, steps.append, by="me")
        assert (outcome.done, outcome.asked, steps) == (249, 1, [100, 100, 50])
        assert (outcome.refused, len(outcome.gone), jobs[1].uuid in outcome.gone[0]) == ([], 1, True)
        assert summary_of(targets, ACTIONS["cancel"], outcome).startswith(
            "249 of 250 jobs named 'a' cancelled; 1 had ended"
        )
        assert (board.job_count, jobs[0].cancelled) == (1, True)

    def test_trash_restore_and_purge(self, board: JobBoard, jobs: list[Job]) -> None:
        targets = targets_of(Selection().jobs(board))
        board.cancel(jobs[1])
        trashed = ACTIONS["trash"].act(board, targets, _ignore, by="me", reason="bad")
        assert (trashed.done, len(trashed.gone), trashed.refused) == (249, 1, [])
        assert (jobs[0].history[-1].who, jobs[0].record.reason) == ("me", "bad")
        board.purge(jobs[2].uuid)
        restored = ACTIONS["restore"].act(board, targets[:200], _ignore, by="me")
        assert (restored.done, len(restored.gone), restored.refused, board.job_count) == (198, 2, [], 198)
        assert jobs[0].history[-1].who == "me"
        purged = ACTIONS["purge"].act(board, targets, _ignore)
        assert (purged.done, len(purged.gone), purged.refused, len(list(board.trashed()))) == (50, 200, [], 0)

    def test_release_ends_the_claims_that_were_seen(self, board: JobBoard, jobs: list[Job]) -> None:
        board.claim_next("w", limit=3)
        targets = targets_of(Selection(states={JobState.CLAIMED}).jobs(board))
        board.release(jobs[0], reason="x")
        board.claim(jobs[0], "other")
        outcome = ACTIONS["release"].act(board, targets, _ignore, by="me", reason="gone")
        assert (outcome.done, len(outcome.gone), outcome.refused) == (2, 1, [])
        assert jobs[0].state is JobState.CLAIMED
        assert jobs[1].history[-1].reason == "gone (me)"

    def test_run_now(self, board: JobBoard) -> None:
        jobs = board.post_many([Posting("a", delay=1000) for _ in range(3)])
        targets = targets_of(jobs)
        board.run_now(jobs[0])
        board.cancel(jobs[1])
        outcome = ACTIONS["run_now"].act(board, targets, _ignore, by="me")
        assert (outcome.done, len(outcome.gone), outcome.refused, jobs[2].state) == (1, 2, [], JobState.UNCLAIMED)

    def test_reprioritize(self, board: JobBoard) -> None:
        jobs = board.post_many([Posting("a") for _ in range(3)])
        targets = targets_of(jobs)
        board.reprioritize(jobs[0], "low")
        board.claim(jobs[1], "alice")
        outcome = reprioritizing(JobPriority.LOW).act(board, targets, _ignore, by="ada")
        assert (outcome.done, len(outcome.gone), outcome.refused) == (2, 1, [])
        assert board.get(jobs[2].uuid).priority is JobPriority.LOW

    def test_a_key_taken_meanwhile_is_told(self, board: JobBoard) -> None:
        job = board.post("a", key="k")
        board.trash(job, by="me")
        board.post("a", key="k")
        outcome = ACTIONS["restore"].act(board, targets_of([job]), _ignore, by="me")
        assert (outcome.done, "its key" in outcome.refused[0], outcome.gone) == (0, True, [])
        assert list(board.trashed()) == [job]

    @pytest.mark.parametrize("act", [CANCEL, RESTORE, ACTIONS["purge"].act])
    def test_a_store_that_goes_away_says_how_far_it_came(
        self, board: JobBoard, jobs: list[Job], act: Callable[[JobBoard, list[Target], Step], BulkOutcome]
    ) -> None:
        if act is not CANCEL:
            ACTIONS["trash"].act(board, targets_of(jobs), _ignore, by="me", reason="bad")
        with pytest.raises(BoardUnavailable, match="before that, 100 of 250 jobs were done"):
            act(board, targets_of(jobs), lambda _: board.close())
        board.connect()
        states = [LIVE, TRASHED]
        assert sum(len(list(board.iterjobs(states=each))) for each in states) == (250 if act is RESTORE else 150)


def test_what_was_done_by_a_request_without_a_reply_counts(board: JobBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store forgets a purged job: only its absence says that the first try has purged it."""
    from jobboard.errors import ReplyLost

    job, inside = board.post("a"), client_of(board).backend
    board.trash(job, by="me")
    purge, replies = inside.jobs.purge, [ReplyLost("no reply")]

    def lose(uuids: Any, *said: Any) -> Any:
        answer = purge(uuids, *said)
        if replies:
            raise replies.pop()
        return answer

    monkeypatch.setattr(inside.jobs, "purge", lose)
    assert ACTIONS["purge"].act(board, targets_of([job]), _ignore).done == 1


def _ignore(_: int) -> None:
    pass


def test_jobs_that_the_store_refuses_hold_up_no_others() -> None:
    with lossy_board() as (board, lossy):
        jobs = board.post_many([Posting("a") for _ in range(7)])
        refused = [jobs[0].uuid, jobs[3].uuid, jobs[6].uuid]
        lossy.refuse(refused)
        outcome = ACTIONS["trash"].act(board, targets_of(jobs), lambda number: None, by="me", reason=None)
        assert outcome.changed == [job.uuid for job in jobs if job.uuid not in refused]
        assert [line.split()[1] for line in outcome.refused] == refused
        assert {job.uuid for job in board.iterjobs()} == set(refused)
