"""The verdict on a board: each thing that is not well is found, and what is well is left alone."""

from __future__ import annotations

import math
import shlex
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from helpers.findings import NONE, conductor, found
from helpers.memory_board import board

from jobboard import Conductor, Entity, Every, Handlers, JobBoard, JobState, Posting, Rate, Schedule, backend
from jobboard.board import client_of
from jobboard.client import BackendClient
from jobboard.operate.overview import MAX_NAMES, overview
from jobboard.operate.selecting import Selection
from jobboard.operate.status import status
from jobboard.operate.verdict import Limits
from jobboard.testing import clock_of, eventually, memory_board

__all__ = ["board"]


def test_a_board_that_does_its_work_is_well(board: JobBoard) -> None:
    assert found(board) == []
    conductor(board, "a")
    board.register_entity(Entity("scheduler", "clock", ttl=600))
    board.schedules.add(Schedule("s", Every(hours=1), "a"))
    board.post_many([Posting("a"), Posting("a"), Posting("a", delay=1000)])
    board.claim_next("worker")
    view = status(board)
    assert (view["verdict"], view["conductors"]["running"], view["conductors"]["concurrency"]) == ("WELL", 1, 2)
    assert view["names"]["a"] | {"next_waits": 0} == {
        "unclaimed": 1, "next_waits": 0, "delayed": 1, "claimed": 1, "trashed": 0, "blocked": 0,
        "conductors": 1, "paused": False, "limit": None,
    }  # fmt: skip
    assert view["schedules"]["active"] == view["schedulers"]["alive"] == 1


def test_jobs_that_nobody_claims(board: JobBoard) -> None:
    board.post("a")
    assert found(board) == [("ATTENTION", "no_conductor", "a")], "it may be a restart"
    assert found(board, NONE) == [("BAD", "no_conductor", "a")]
    conductor(board, "b")
    assert found(board, NONE) == [("BAD", "no_conductor", "a")]
    conductor(board, "a", "b", refused=["a"])
    assert found(board, NONE) == [("BAD", "no_conductor", "a")]
    assert " Start one, or trash them." in status(board)["findings"][0]["text"]
    conductor(board, "a", "b", quiet=True)
    assert " Let one claim again (jobboard quiet --off worker), or trash" in status(board)["findings"][0]["text"]
    conductor(board, "a", ttl=0.001, longest=[{"uuid": "7", "name": "a", "seconds": 60}])
    eventually(lambda: not board.entities()[0].alive)
    assert status(board)["conductors"]["longest"] is None
    assert found(board, NONE) == [("BAD", "no_conductor", "a"), ("ATTENTION", "conductor_gone", "worker")]
    board.pause("a")
    assert found(board, NONE) == [("ATTENTION", "name_paused", "a")]


def test_a_job_that_waits_long(board: JobBoard) -> None:
    conductor(board, "a")
    board.post("a", run_at=datetime.now(UTC) - timedelta(hours=1))
    board.post("a")
    assert found(board, Limits(wait=3600)) == []
    assert found(board, NONE) == [("ATTENTION", "waits_long", "a")]
    assert "2 jobs named 'a' wait, the next one for 0s." in status(board, NONE)["findings"][0]["text"]


def test_slots_that_are_stuck(board: JobBoard) -> None:
    conductor(board, "a", stuck=1, stuck_names=["a"], healthy=True)
    assert found(board) == [("ATTENTION", "stuck", "worker")]
    conductor(board, "a", stuck=3, stuck_names=["a"], refused=["a"], healthy=False)
    assert found(board) == [("BAD", "unhealthy", "worker")]
    conductor(board, "a", refused=["a"], fault="no fork", healthy=False)
    assert "no fork" in status(board)["findings"][0]["text"]


def test_a_handler_that_never_returns_is_found_though_its_claim_holds(board: JobBoard) -> None:
    handlers, let_go = Handlers(), threading.Event()
    handlers.add("hangs", lambda job: bool(let_go.wait(60)))
    handlers.add("quick", lambda job: None)
    conductor = Conductor("worker", board, handlers, concurrency=2, expiry=3)
    conductor.start()
    try:
        job = board.post("hangs")
        board.post("quick")
        eventually(lambda: found(board, Limits(run=0)) == [("ATTENTION", "runs_long", conductor.who)], within=30)
        assert found(board) == []
        view = status(board, Limits(run=0))
        assert "'hangs' for " in view["findings"][0]["text"]
        assert job.uuid in view["findings"][0]["text"]
        longest = view["conductors"]["longest"]
        assert longest | {"seconds": 0} == {
            "uuid": job.uuid, "name": "hangs", "seconds": 0, "conductor": conductor.who,
        }  # fmt: skip
    finally:
        let_go.set()
        conductor.stop()


def test_what_conductors_tell_may_be_anything(board: JobBoard) -> None:
    board.post("a")
    for told in (
        {"names": 3},
        {"names": [["a"]], "stuck": "x", "stuck_names": 1, "longest": 3},
        {"stuck": None, "refused": {}, "longest": [1, {"uuid": 2}]},
        {"running_names": {"b": "x", "a": None}, "running": 2, "uptime": "x"},
        {"names": ["b"], "running_names": [], "running": 1, "concurrency": 1, "uptime": -1},
    ):
        board.register_entity(Entity("conductor", "worker", dict(told)))
        assert found(board) == [("ATTENTION", "no_conductor", "a")]


def test_what_a_conductor_told_before_it_fell_silent_is_old() -> None:
    with memory_board("told") as board:
        longest = [{"uuid": "0", "name": "a", "seconds": 8}]
        conductor(board, "a", ttl=40, longest=longest)
        board.claim(board.post("a"), "worker", expiry=math.inf)
        seen = status(board)["conductors"]
        assert (seen["alive"], seen["silent"], seen["longest"]["seconds"]) == (1, 0, 8)
        clock_of(board).move(21)
        seen = status(board)["conductors"]
        assert (seen["alive"], seen["silent"], seen["longest"]["seconds"]) == (1, 1, 8)
        for job in board.iterjobs():
            board.release(job)
        assert status(board)["conductors"]["longest"] is None, "nothing is claimed"


def test_what_is_paused(board: JobBoard) -> None:
    board.pause()
    board.pause("a", by="ada", reason="disk full")
    assert found(board) == [("ATTENTION", "board_paused", None), ("ATTENTION", "name_paused", "a")]
    seen = status(board)
    assert "by ada since 20" in seen["findings"][1]["text"]
    assert [(pause["name"], pause["reason"]) for pause in seen["paused"]["pauses"]] == [
        (None, None),
        ("a", "disk full"),
    ]


def test_the_trash_by_reason(board: JobBoard) -> None:
    reasons = ["KeyError: 'x'", "KeyError: 'y'", "timed out after 3 s", "timed out after 60 s", None, "KeyError: 'x'"]
    for reason in reasons:
        board.trash(board.post("a"), by="me", reason=reason)
    assert found(board) == [("ATTENTION", "trash", "a")]
    assert all(isinstance(group[moment], datetime) for group in status(board)["trash"] for moment in ("first", "last"))
    assert [(group["kind"], group["jobs"]) for group in status(board)["trash"]] == [
        ("KeyError: 'x'", 2), ("timed out after # s", 2), ("KeyError: 'y'", 1), ("no reason", 1),
    ]  # fmt: skip


def test_a_store_that_is_away(board: JobBoard) -> None:
    with backend("x", "memory") as other:
        pass
    client_of(other).backend.open = _refuse  # type: ignore[method-assign]
    assert found(other) == [("BAD", "store", None)]


def _refuse(timeout: float) -> None:
    from jobboard import BoardUnavailable

    raise BoardUnavailable("it is away")


def test_a_strict_lane_whose_first_job_fails_again_and_again(board: JobBoard) -> None:
    conductor(board, "a")
    board.limits.set(lane="hook:*", running=1, order="strict")
    first, *_ = board.post_many([Posting("a", lane="hook:1") for _ in range(4)])
    for failures in range(1, 5):
        board.run_now(first)
        assert board.claim_next("w1") == [first]
        board.abandon(first, "w1", delay=3600, error="OSError: dead server")
        expected = [("ATTENTION", "lane_held", "hook:1")] if failures >= 3 else []
        assert found(board) == expected, failures
    said = status(board)["findings"][0]["text"]
    assert said.startswith(
        f"3 jobs of the strict lane hook:1 wait for one that fails again and again: job {first.uuid} (a) "
    )
    assert f"OSError: dead server. Once the cause is mended: jobboard run-now {first.uuid}; " in said
    board.limits.set(lane="hook:*", running=1)
    assert found(board) == []


def test_a_strict_lane_whose_first_job_asks_to_run_again_and_again(board: JobBoard) -> None:
    """Such as one that looks whether another job of its own lane is complete, which waits for it."""
    conductor(board, "a")
    board.limits.set(lane="hook:*", running=1, order="strict")
    first, *_ = board.post_many([Posting("a", lane="hook:1") for _ in range(3)])
    assert board.claim_next("w1") == [first]
    board.abandon(first, "w1", delay=3600, counted=False)
    assert found(board) == []
    eventually(lambda: found(board, Limits(wait=0.05)) == [("ATTENTION", "lane_held", "hook:1")])
    said = status(board, limits=Limits(wait=0.05))["findings"][0]["text"]
    assert said.startswith(
        f"2 jobs of the strict lane hook:1 wait for one that runs again and again: job {first.uuid} (a) has asked"
    )


def test_a_paused_lane_and_slots_that_nobody_claims(board: JobBoard) -> None:
    conductor(board, "a")
    board.limits.set(lane="tenant:*", running=1)
    unclaimed = board.post("b", lane="tenant:1")
    board.post_many([Posting("a", lane=lane) for lane in ("tenant:1", "tenant:1", "tenant:2", "tenant:2")])
    board.pause(lane="tenant:3", by="ada", reason="they asked")
    assert found(board) == [
        ("ATTENTION", "lane_paused", "tenant:3"),
        ("ATTENTION", "lane_idle", "tenant:1"),
        ("ATTENTION", "no_conductor", "b"),
    ]
    view = status(board)
    assert "by ada since " in view["findings"][0]["text"]
    assert view["findings"][1]["text"].startswith("2 jobs of the lane tenant:1 wait for slots of jobs named 'b'")
    assert view["paused"]["lanes"][0]["lane"] == "tenant:3"
    assert ("BAD", "lane_idle", "tenant:1") in found(board, NONE)
    board.pause(lane="tenant:4", duration=600)
    assert [(kind, what) for _, kind, what in found(board) if kind == "lane_paused"] == [("lane_paused", "tenant:3")]
    board.cancel(unclaimed)
    board.resume(lane="tenant:3")
    assert found(board) == []


def test_a_failed_parent_for_which_others_wait_is_named_with_what_mends_it(board: JobBoard) -> None:
    conductor(board, "a", "b", "child")
    parents = board.post_many([Posting("a"), Posting("b"), Posting("b")])
    for number in range(3):
        board.post("child", after=parents[:1], if_failed="wait" if number else "run")
    many = board.post_many([Posting("child", after=parents[1:2]) for _ in range(150)])
    for parent in parents:
        board.trash(parent, reason="disk\nfull")
    assert found(board) == [
        ("ATTENTION", "parent_failed", parents[0].uuid),
        ("ATTENTION", "parent_failed", parents[1].uuid),
        ("ATTENTION", "trash", "b"),
    ], "of the job that others wait for it is said once"
    texts = [finding["text"] for finding in status(board)["findings"]]
    assert texts[2].startswith("1 more job named 'b' in the trash.")
    assert texts[0].startswith(f"2 jobs wait for job {parents[0].uuid} (a), which is in the trash: disk")
    assert texts[0].endswith(f"jobboard restore {parents[0].uuid}")
    assert texts[1].startswith("100 or more jobs wait for job ")
    # The first hundred children are those with the lowest uuids, which within a millisecond come in no order.
    for child in sorted(many, key=lambda job: job.uuid)[1:]:
        board.cancel(child)
    assert status(board)["findings"][1]["text"].startswith("1 or more jobs wait for job ")
    board.restore(parents[0])
    board.restore(parents[1])
    assert [kind for _, kind, _ in found(board)] == ["trash"]


def test_jobs_that_wait_for_those_which_wait_for_a_failed_parent_are_told_of(board: JobBoard) -> None:
    conductor(board, "extract", "load")
    parents = board.post_many([Posting("extract"), Posting("extract"), Posting("extract")])
    for number, parent in enumerate(parents):
        loads = [board.post("load", after=[parent]) for _ in range(1 + number % 2)]
        if number < 2:
            board.post("load", after=[board.post("load", after=loads)])
        board.trash(parent, reason=f"{'xyz'[number]}: bad")
    texts = [finding["text"] for finding in status(board)["findings"]]
    assert texts[0].startswith(f"1 job, and what waits for it, waits for job {parents[0].uuid}")
    assert texts[1].startswith(f"2 jobs, and what waits for them, wait for job {parents[1].uuid}")
    assert texts[2].startswith(f"1 job waits for job {parents[2].uuid}")


def test_parents_that_failed_alike_are_one_finding() -> None:
    with memory_board("alike") as board:
        conductor(board, "fetch", "sum", "report")
        parents = [board.post("fetch", key=f"2027-01-{number:02}") for number in range(1, 5)]
        alone = board.post("fetch", key="taken")
        sums = [board.post("sum", after=[parent]) for parent in parents]
        board.post("report", after=[*parents, *sums])
        board.post("report", after=[alone])
        for number, parent in enumerate(parents):
            board.trash(parent, reason=f"HTTPError: {500 + number}")
        board.trash(alone, reason="HTTPError: 500")
        holder = board.post("fetch", key="taken")
        assert found(board) == [("ATTENTION", "parents_failed", "fetch"), ("ATTENTION", "parent_failed", alone.uuid)]
        texts = [finding["text"] for finding in status(board)["findings"]]
        assert texts[0].startswith(
            "5 jobs, and what waits for them, wait for 4 jobs named 'fetch', which are in the trash"
        )
        assert [parent.uuid in texts[0] for parent in parents] == [True, True, True, False]
        assert f"job {parents[2].uuid} (fetch:2027-01-03), and 1 more." in texts[0]
        assert f"jobboard cancel {holder.uuid}" in texts[1]
        board.cancel(holder)
        command = shlex.split(status(board)["findings"][0]["text"].rpartition("with: ")[2])
        assert command == ["jobboard", "restore", "--job-name", "fetch", "--reason-kind", "HTTPError: #"]
        selection = Selection(states={JobState.TRASHED}, names=[command[3]], kind=command[5])
        assert {job.uuid for job in selection.jobs(board)} == {job.uuid for job in (*parents, alone)}


def test_all_jobs_of_a_name_that_wait_are_counted() -> None:
    with memory_board("waiting") as board:
        conductor(board, "fetch", "sum", running=2, running_names={"sum": 2})
        board.limits.set(lane="api", rate=Rate(1, 10))
        board.post_many([Posting("fetch", lane="api") for _ in range(40)])
        clock_of(board).move(100)
        (finding,) = status(board)["findings"]
        assert (finding["kind"], finding["about"]) == ("one_name", "sum")
        assert "while 40 jobs named 'fetch' wait, 39 of them blocked, the next one for 1m40s." in finding["text"]


def test_conductors_that_are_gone_and_replaced_are_counted() -> None:
    with memory_board("gone") as board:
        for number in range(3):
            board.register_entity(Entity("conductor", f"old{number}", {"names": ["a"], "uptime": 5}, ttl=10))
        clock_of(board).move(60)
        for number in range(2):
            board.register_entity(Entity("conductor", f"new{number}", {"names": ["a"], "uptime": 5}, ttl=600))
        conductors = status(board)["conductors"]
        assert (conductors["alive"], conductors["gone"], conductors["replaced"]) == (2, 3, 2)
        assert found(board) == []


def test_a_full_name_is_named_by_what_waits_long(board: JobBoard) -> None:
    conductor(board, "a")
    board.limits.set(name="a", running=1)
    board.post_many([Posting("a"), Posting("a"), Posting("a")])
    assert len(board.claim_next("w", limit=3)) == 1
    (finding,) = status(board, Limits(wait=0))["findings"]
    assert (finding["kind"], finding["text"].endswith("; their limit has 1 of 1.")) == ("waits_long", True)
    assert status(board)["names"]["a"]["limit"] == 1


def test_the_cost_is_bounded(board: JobBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, read, before = [], [], BackendClient.call_until_certain

    def count(self: BackendClient, primitive: Any, *args: Any, **kwargs: Any) -> Any:
        answer = before(self, primitive, *args, **kwargs)
        asked.append(primitive)
        read.extend(getattr(answer[0], "rows", ()))
        return answer

    monkeypatch.setattr(BackendClient, "call_until_certain", count)
    overview(board)
    assert len(asked) == 8
    board.post_many([Posting(f"name {number}") for number in range(3 * MAX_NAMES) for _ in range(3)])
    for job in list(board.iterjobs(names=[f"name {number}" for number in range(MAX_NAMES + 1)])):
        board.trash(job, by="me")
    for number in range(1100):
        board.schedules.add(Schedule(f"s{number}", Every(hours=1), "a"))
    asked.clear()
    read.clear()
    look = overview(board)
    assert (len(asked), len(read)) == (30, 1000 + MAX_NAMES + 60)
    assert (look.schedules.active, look.schedules.complete) == (1000, False)
    assert sum(name.next_waits is not None for name in look.names) == MAX_NAMES
