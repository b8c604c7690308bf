"""Each reason why a job is not running, and that it is given for that job and no other."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from helpers.memory_board import board

from jobboard import (
    AlreadyPosted,
    Conductor,
    Entity,
    Every,
    Handlers,
    Job,
    JobBoard,
    Rate,
    RunAgain,
    RunningJob,
    Schedule,
    fetch,
)
from jobboard.cli.app import run
from jobboard.events import EventKind
from jobboard.operate.why import why
from jobboard.testing import clock_of, eventually, memory_board, run_due

__all__ = ["board"]


def kinds(job: Job) -> list[str]:
    board = job.board
    assert isinstance(board, JobBoard)
    return [reason.kind for reason in why(board, board.get(job.uuid))]


def text(job: Job) -> str:
    board = job.board
    assert isinstance(board, JobBoard)
    return "\n".join(reason.text for reason in why(board, board.get(job.uuid)))


def register(
    board: JobBoard, *names: str, running: int = 0, kind: str = "conductor", name: str = "worker", **told: Any
) -> None:
    board.register_entity(Entity(kind, name, {"names": list(names), "running": running, "concurrency": 2, **told}))


def test_nothing_holds_back_the_first(board: JobBoard) -> None:
    register(board, "a")
    assert kinds(board.post("a")) == ["next"]


def test_jobs_that_come_before(board: JobBoard) -> None:
    register(board, "a", "b")
    jobs = [board.post("a"), board.post("b"), board.post("other"), board.post("a")]
    assert [kinds(job) for job in jobs] == [["next"], ["behind"], ["no_conductor"], ["behind"]]
    assert text(jobs[1]).startswith("1 job comes")
    assert text(jobs[3]).startswith("2 jobs come")
    urgent = board.post("b", priority="high")
    assert (kinds(urgent), kinds(jobs[0])) == (["next"], ["behind"])


def test_a_conductor_of_every_name(board: JobBoard) -> None:
    board.register_entity(Entity("conductor", "any", {"names": "*", "concurrency": 1}))
    jobs = [board.post("a"), board.post("b"), board.post("c")]
    assert [kinds(job) for job in jobs] == [["next"], ["behind"], ["behind"]]
    assert text(jobs[2]).startswith("2 jobs come before it")
    board.register_entity(Entity("conductor", "any", {"names": "*", "concurrency": 1, "quiet": True}))
    assert kinds(jobs[0]) == ["quiet"]
    board.register_entity(Entity("scheduler", "any", {"names": "*"}))
    board.remove_entity(Entity("conductor", "any"))
    assert kinds(jobs[0]) == ["no_conductor"]


def test_no_conductor_of_what_a_schedule_posts(board: JobBoard) -> None:
    register(board, "report")
    board.schedules.add(Schedule("nightly", Every(hours=1), "reprot"))
    job = board.schedules.fire_now("nightly")
    assert kinds(job) == ["no_conductor"]
    assert "'nightly'" in text(job)


def test_no_conductor_of_that_name(board: JobBoard) -> None:
    register(board, "b")
    register(board, "a", kind="scheduler")
    job = board.post("a")
    assert kinds(job) == ["no_conductor"]
    assert "'a'" in text(job)
    [reason] = why(board, board.get(job.uuid))
    assert "jobboard entities" in reason.cure
    assert "jobboard conductor " in reason.cure
    board.register_entity(Entity("conductor", "dead", {"names": ["a"]}, ttl=0.001))
    eventually(lambda: not any(entity.alive for entity in board.entities() if entity.name == "dead"))
    assert kinds(job) == ["no_conductor"]
    assert "dead, which had one, was last heard of 0s ago, and did not stop in good order." in text(job)


def test_no_free_slot(board: JobBoard) -> None:
    register(board, "a", running=2)
    job = board.post("a")
    assert kinds(job) == ["no_free_slot"]
    assert "What has the slots: worker has 2 of 2 slots taken." in text(job), "an older one does not tell more"
    register(board, "a", running=1, name="another")
    assert kinds(job) == ["next"]
    assert "is the next for another, which told of a free slot 0s ago, and may have filled it since." in text(job)


def test_who_has_the_slots_is_named_with_what_they_run(board: JobBoard) -> None:
    job = board.post("a")
    names = {"a": 1, "hog": 4, "mail": 2, "sms": 1, "call": 1}
    register(board, "a", running=9, name="w0", concurrency=9, running_names=names)
    for number in range(1, 8):
        register(board, "a", running=2, name=f"w{number}", running_names={"hog": 2})
    register(board, "b", running=1, name="other", running_names={"b": 1})
    assert kinds(job) == ["no_free_slot"]
    said = text(job)
    assert "; alive: 8. What has the slots: w0 runs 4 'hog', 2 'mail', 1 'a', 2 other names in 9 of 9 slots; " in said
    assert "w1 runs 2 'hog' in 2 of 2 slots; " in said
    assert said.endswith("w4 runs 2 'hog' in 2 of 2 slots; and 3 more. See them with: jobboard ls --state claimed")
    assert "other runs" not in said


def silent(board: JobBoard, *names: str, **told: Any) -> None:
    """Register a conductor, and let it be silent for two of the four intervals after which it is gone."""
    board.register_entity(Entity("conductor", "silent", {"names": list(names), "concurrency": 2, **told}, ttl=60))
    clock_of(board).move(31)


def test_a_conductor_that_is_dead_to_the_world_does_not_leave_a_job_the_next() -> None:
    with memory_board("silent") as board:
        job = board.post("a")
        silent(board, "a")
        assert next(iter(board.entities())).alive
        assert kinds(job) == ["conductor_silent"]
        assert "No conductor with a handler for 'a' tells that it lives: silent was last heard of 31s ago" in text(job)
        register(board, "b", name="other")
        assert kinds(job) == ["conductor_silent"], "that one has no handler for it"
        register(board, "a", name="full", running=2)
        assert kinds(job) == ["no_free_slot"]
        assert "; alive: 1, and 1 more that tell nothing now. What has the slots: full " in text(job)
        register(board, "a", name="free")
        assert kinds(job) == ["next"]
        assert "the next for free, which told of a free slot 0s ago" in text(job)


def test_pauses_and_a_delay(board: JobBoard) -> None:
    register(board, "a b")
    job, delayed = board.post("a b"), board.post("a b", delay=1000)
    board.pause("a b", by="ada", reason="disk full")
    board.pause()
    assert kinds(job) == ["board_paused", "name_paused"]
    assert kinds(delayed) == ["board_paused", "name_paused", "delayed"]
    assert text(delayed).endswith(f" UTC. Run it now with: jobboard run-now {delayed.uuid}")
    assert "resume 'a b'" in text(job)
    assert "(by ada since 2" in text(job)
    assert ": disk full)" in text(job)
    board.resume()
    assert kinds(job) == ["name_paused"]
    board.resume("a b")
    assert delayed.run_at is not None
    assert f"{delayed.run_at:%Y-%m-%d %H:%M:%S} UTC" in text(delayed)


def test_a_claim_and_its_owner(board: JobBoard) -> None:
    job = board.post("a", max_attempts=3)
    board.claim(job, "worker", expiry=1000)
    assert kinds(job) == ["claimed", "owner_unknown"]
    assert "worker since " in text(job)
    assert "(attempt 1 of 3)" in text(job)
    register(board)
    assert kinds(job) == ["claimed"]
    assert f"cancel {job.uuid}" in text(job)
    board.cancel(job)
    assert kinds(job) == ["claimed", "cancel_asked"]
    assert f"cancel {job.uuid}" not in text(job)
    assert f"jobboard trash {job.uuid}; or, for another attempt: jobboard release {job.uuid}" in text(job)


def test_a_dead_owner(board: JobBoard) -> None:
    job = board.post("a")
    board.claim(job, "worker", expiry=1000)
    board.register_entity(Entity("conductor", "worker", ttl=0.001))
    eventually(lambda: not board.entities()[0].alive)
    assert kinds(job) == ["claimed", "owner_gone"]
    assert f"release {job.uuid}" in text(job)


def test_a_claim_without_an_end(board: JobBoard) -> None:
    job = board.post("a")
    board.claim(job, "worker", expiry=float("inf"))
    assert "without an end" in text(job)


def test_an_earlier_failure(board: JobBoard) -> None:
    register(board, "a")
    job = board.post("a", max_attempts=2)
    board.claim(job, "worker")
    board.abandon(job, "worker", error="Traceback:\nValueError: bad\n")
    assert kinds(job) == ["failed_before", "next"]
    assert "(attempt 1 of 2 so far): ValueError: bad" in text(job)


@pytest.mark.parametrize("runs", [1, 3, 15])
def test_a_handler_that_asks_to_run_again_is_told_of(runs: int) -> None:
    with memory_board("again") as board:
        handlers = Handlers()
        handlers.add("poll", lambda job: RunAgain(after=600))
        job = board.post("poll")
        for number in range(runs):
            clock_of(board).move(600 if number else 0)
            assert run_due(board, handlers) == [job]
        register(board, "poll")
        assert kinds(job) == ["delayed", "runs_again"]
        until = f"{board.get(job.uuid).run_at:%Y-%m-%d %H:%M:%S} UTC"
        assert f"delayed until {until}, since its handler asked to run again then. Run it now" in text(job)
        first, *_, last = [line.at for line in job.history if line.kind is EventKind.ABANDONED] * 2
        said = text(job).splitlines()[1]
        assert f", until {last:%Y-%m-%d %H:%M:%S} UTC, did not fail" in said
        since = f"since {first:%Y-%m-%d %H:%M:%S} UTC"
        often = {1: "", 3: f"; it has 3 times {since}", 15: f"; it has 7 times or more {since}"}[runs]
        assert said.endswith(f" asked to run again{often}.")
        clock_of(board).move(600)
        register(board, "poll")
        assert kinds(job) == ["runs_again", "next"]


@pytest.mark.parametrize(("after", "is_hasty"), [(0, True), (0.5, True), (2, False)])
def test_a_handler_that_always_asks_to_run_again_is_told_of_its_haste(after: float, is_hasty: bool) -> None:
    with memory_board("haste") as board:
        job, clock = board.post("poll"), clock_of(board)
        for _ in range(6):
            board.claim(job, "w")
            clock.move(0.01)
            board.abandon(job, "w", delay=after, reason="runs again", counted=False)
            clock.move(after)
        register(board, "poll")
        assert ("RunAgain(after=...)" in text(job)) is is_hasty
        assert kinds(job) == ["runs_again", "next"]
        board.claim(job, "w")
        assert kinds(job)[-1] == "runs_again", "it is claimed most of the time"
        assert ("RunAgain(after=...)" in text(job)) is is_hasty


def test_of_whose_wish_a_delay_is(board: JobBoard) -> None:
    reasons = {"again": "runs again", "sleeps": "it sleeps for 600 s", "failed": "OSError: disk", "moved": "runs again"}
    jobs = {name: board.post(name, key="k") for name in reasons} | {"posted": board.post("posted", delay=600)}
    for name, reason in reasons.items():
        board.claim(jobs[name], "w")
        board.abandon(jobs[name], "w", delay=600, reason=reason, counted=name == "failed")
    board.post("moved", key="k", delay=900, if_exists="replace")
    said = {name: text(job).partition(" UTC")[2].partition(". Run it now")[0] for name, job in jobs.items()}
    assert said == {
        "again": ", since its handler asked to run again then", "sleeps": ", since it sleeps for 600 s",
        "failed": "", "moved": "", "posted": "",
    }  # fmt: skip


def test_trash_and_restore(board: JobBoard) -> None:
    register(board, "a")
    job = board.post("a")
    board.trash(job, by="me", reason="no such image")
    assert kinds(job) == ["trashed"]
    assert text(job).startswith("It is in the trash: no such image.")
    board.restore(job.uuid)
    assert kinds(job)[-1] == "next"
    assert "attempt" not in text(job)


def test_no_restore_is_recommended_that_would_be_refused(board: JobBoard) -> None:
    jobs = [board.post("a", key=key) for key in ("k", "l", None)]
    for job in jobs:
        board.trash(job)
    holder = board.post("a", key="k")
    board.post("b", key="l")
    assert [kinds(job) for job in jobs] == [["trashed", "key_taken"], ["trashed"], ["trashed"]]
    said = text(jobs[0])
    assert f"while job {holder.uuid} (a:k), which is unclaimed, has its key" in said
    assert f"jobboard cancel {holder.uuid}, bring it back with: jobboard restore {jobs[0].uuid}" in said
    with pytest.raises(AlreadyPosted):
        board.restore(jobs[0])
    board.cancel(holder)
    assert kinds(jobs[0]) == ["trashed"]
    board.restore(jobs[0])


def test_complete(board: JobBoard) -> None:
    job = board.post("a")
    board.claim(job, "worker")
    board.consume(job, "worker")
    assert kinds(job) == ["complete"]
    assert "consumed by worker at" in text(job)


def test_what_a_real_conductor_registers_is_understood(board: JobBoard) -> None:
    handlers = Handlers()

    @handlers.handler("a")
    def hold(job: RunningJob) -> None:
        eventually(lambda: job.cancelled)

    conductor = Conductor("mine", board, handlers, expiry=1.0)
    conductor.start()
    try:
        running, waiting = board.post("a"), board.post("a")
        eventually(lambda: kinds(running) == ["claimed"])
        eventually(lambda: kinds(waiting) == ["no_free_slot"])
        assert kinds(board.post("b")) == ["no_conductor"]
        board.cancel(waiting)
        board.cancel(running)
    finally:
        assert conductor.stop(timeout=10)


def test_a_full_lane_names_those_that_hold_its_slots(board: JobBoard) -> None:
    register(board, "a")
    board.limits.set(lane="tenant:*", running=2)
    running, claimable, first, second = (board.post(name, lane="tenant:42") for name in ("a", "b", "a", "a"))
    board.claim(running, "w1")
    assert [kinds(job) for job in (first, second)] == [["lane_full"], ["lane_full", "behind"]]
    assert text(second).endswith("\n1 job of its lane waits before it.")
    said = text(first)
    assert "Its lane tenant:42 has 2 of 2: " in said
    assert said.endswith(". If more may run: jobboard limits set --lane 'tenant:*' --running 3")
    assert f"job {running.uuid} (a) runs since 0s (w1)" in said
    assert f"job {claimable.uuid} (b) can be claimed since 0s and no conductor runs its name" in said
    register(board, "b", name="another")
    assert "no conductor runs its name" not in text(second)
    board.consume(running, "w1")
    assert (kinds(first), kinds(second)) == (["next"], ["lane_full"])


def test_a_strict_lane_names_the_job_whose_retry_it_waits_for(board: JobBoard) -> None:
    register(board, "a")
    board.limits.set(lane="hook:*", running=1, order="strict")
    first, second, third = (board.post("a", lane="hook:1") for _ in range(3))
    for _ in range(2):
        board.run_now(first)
        assert board.claim_next("w1") == [first]
        board.abandon(first, "w1", delay=3600, error="Traceback\nOSError: dead server")
    assert (kinds(second), kinds(third)) == (["lane_full"], ["lane_full", "behind"])
    said = text(third)
    assert f"Its lane hook:1 has 1 of 1: job {first.uuid} (a) waits " in said
    assert " for its retry, and keeps the slot; it failed 2 times, the last error: OSError: dead server." in said
    board.limits.set(lane="hook:*", running=1)
    board.claim(second, "w1")
    assert first.uuid not in text(third)


@pytest.mark.parametrize("burst", [1, 2, 3])
def test_a_rate_waits_for_the_claim_of_the_jobs_that_it_let_start(burst: int) -> None:
    with memory_board("offered") as board:
        board.limits.set(lane="api", rate=Rate(1, 10, burst=burst))
        offered = [board.post("b", lane="api") for _ in range(burst)]
        jobs = [board.post("a", lane="api") for _ in range(3)]
        clock_of(board).move(600)
        assert [kinds(job) for job in jobs] == [
            ["lane_offered", "no_conductor"], *[["lane_offered", "behind", "no_conductor"]] * 2,
        ]  # fmt: skip
        said = [text(job).splitlines() for job in jobs]
        assert all(f"{job.uuid} (b) can be claimed since 10m and no conductor" in said[0][0] for job in offered)
        assert [lines[1] for lines in said[1:]] == [
            "1 job of its lane waits before it.",
            "2 jobs of its lane wait before it.",
        ]
        board.register_entity(Entity("conductor", "w", {"names": ["a"]}))
        board.register_entity(Entity("conductor", "v", {"names": ["b"], "running": 1}))
        assert kinds(jobs[0]) == ["lane_offered"]
        assert text(jobs[0]).count("and no conductor of its name has a free slot") == burst
        board.pause("b")
        assert text(jobs[0]).count("and its name is paused") == burst
        board.resume("b")
        board.register_entity(Entity("conductor", "v", {"names": ["b"]}))
        assert "since 10m, job" in text(jobs[0]) if burst > 1 else text(jobs[0]).endswith("since 10m.")
        for job in offered:
            board.claim(job, "w")
        assert kinds(jobs[0]) == ["lane_rate"]


def test_how_many_of_a_lane_come_before_is_told_while_little_is_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    with memory_board("before") as board:
        register(board, "a")
        for lane in ("l", "m"):
            board.limits.set(lane=lane, running=1)
            board.claim(board.post("a", lane=lane), "w")
        jobs = [board.post("a", lane=lane) for lane in ("l", "m", "l", "m", "l")]
        urgent = board.post("a", lane="l", priority="high")
        assert [text(job).splitlines()[-1][:6] for job in (urgent, *jobs)] == [
            "Its la", "1 job ", "Its la", "2 jobs", "1 job ", "3 jobs",
        ]  # fmt: skip
        monkeypatch.setattr("jobboard.operate.why.MAX_AHEAD", 5)
        assert [kinds(job) for job in jobs[-2:]] == [["lane_full", "behind"], ["lane_full"]]


def test_a_paused_lane_a_rate_and_a_full_name(board: JobBoard) -> None:
    register(board, "a")
    job = board.post("a", lane="tenant:42")
    board.pause(lane="tenant:*", by="ada", reason="they asked")
    assert kinds(job) == ["lane_paused"]
    assert "(by ada since 2" in text(job)
    assert "resume --lane 'tenant:*'" in text(job)
    board.resume(lane="tenant:*")
    board.pause(lane="tenant:42", until=datetime(2090, 1, 31, 9, tzinfo=UTC))
    assert "The lane tenant:42 is paused until 2090-01-31 09:00:00 UTC (since 2" in text(job)
    board.resume(lane="tenant:42")
    board.limits.set(lane="slow", rate=Rate(1, 1000))
    board.claim(board.post("a", lane="slow"), "w1")
    late = board.post("a", lane="slow")
    assert kinds(late) == ["lane_rate"]
    assert text(late).endswith(" See the rates with: jobboard limits")
    board.limits.set(name="a", running=1)
    assert kinds(job) == ["name_full"]
    assert "1 of 1 claims. See them with: jobboard ls --state claimed --job-name a. If more may run: " in text(job)
    assert text(job).endswith(": jobboard limits set --job-name a --running 2")
    board.limits.set(name="a", running=2)
    assert kinds(job) == ["next"]


def test_the_command_that_lets_more_of_a_full_lane_run_changes_nothing_else(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/jobs.db"
    with fetch("why", uri) as board:
        register(board, "a")
        limit = board.limits.set(lane="my orders", running=1, rate=Rate(30, 60, burst=5), order="strict")
        jobs = [board.post("a", lane="my orders") for _ in range(3)]
        board.claim(jobs[0], "w1")
        command = shlex.split(text(jobs[1]).rpartition(": ")[2])
        assert run(["--board", uri, "--name", "why", *command[1:]]) == 0
        changed = board.limits.get(lane="my orders")
        assert changed is not None
        assert (changed.running, changed.rate, changed.order) == (2, limit.rate, "strict")
