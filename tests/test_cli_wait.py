"""``jobboard wait``: until jobs have ended, with a status for scripts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from helpers.command_line import Run, as_json
from helpers.graphs import count_requests, end, post_graph

from jobboard import Backoff, Conductor, Handlers, JobBoard, RunAgain, RunningJob, fetch
from jobboard.cli.app import run
from jobboard.events import EventKind, JobEvent
from jobboard.operate.views import view_of
from jobboard.operate.waiting import wait_for_ends
from jobboard.operate.waiting_families import wait_for_families
from jobboard.types import IfFailedName

pytest_plugins = ("helpers.command_fixtures",)

Wait = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def wait(uri: str, capsys: pytest.CaptureFixture[str]) -> Wait:
    """Run ``jobboard wait --json``; returns its status and the states that it printed."""

    def call(*arguments: str) -> tuple[int, list[str]]:
        capsys.readouterr()
        status = run(["wait", *arguments, "--json"])
        return status, [line["state"] for line in as_json(capsys.readouterr().out)]

    return call


def test_jobs_that_are_complete_are_status_0(board: JobBoard, wait: Wait) -> None:
    jobs = [board.post("a", key=str(number)) for number in range(3)]
    for job in jobs[1:]:
        end(board, job)
    board.claim(jobs[0], "ann")
    ended = threading.Timer(0.3, board.consume, (jobs[0], "ann", {"rows": 7}))
    ended.start()
    assert wait("a:0", jobs[1].uuid, jobs[2].uuid[-12:]) == (0, ["COMPLETE"] * 3)
    ended.join()


@pytest.mark.parametrize("again", [RunAgain(after=0), OSError("disk"), None])
def test_a_complete_job_has_no_reason(again: OSError | RunAgain | None, jobboard: Run, board: JobBoard) -> None:
    handlers, runs = Handlers(), list[int]()

    @handlers.handler("a", backoff=Backoff(first=0.001))
    def run_twice(job: RunningJob) -> object:
        runs.append(1)
        if len(runs) == 1 and isinstance(again, OSError):
            raise again
        return again if len(runs) == 1 else None

    job = board.post("a")
    conductor = Conductor("w", board, handlers)
    with conductor:
        assert job.wait(30)
    assert len(runs) == (1 if again is None else 2)
    assert as_json(jobboard("wait", job.uuid, "--json"))[0]["reason"] is None
    view = view_of(board.get(job.uuid))
    assert (view["reason"], view["last_error"] is None) == (None, not isinstance(again, OSError))


def test_its_json_has_the_results(board: JobBoard, uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    job = board.post("a")
    end(board, job)
    assert run(["wait", job.uuid, "--json"]) == 0
    expected = {"uuid": job.uuid, "name": "a", "key": None, "state": "COMPLETE", "result": {"ok": True}, "reason": None}
    assert as_json(capsys.readouterr().out) == [expected]


def test_a_job_that_is_in_the_trash_is_status_1(board: JobBoard, wait: Wait) -> None:
    done, trashed, other = (board.post(name) for name in "abc")
    for job in (done, other):
        end(board, job)
    board.trash(trashed, reason="no source")
    assert wait(done.uuid, trashed.uuid, other.uuid) == (1, ["COMPLETE", "TRASHED", "COMPLETE"])


def test_a_timeout_is_status_124(board: JobBoard, wait: Wait) -> None:
    done, blocked_by, trashed = (board.post(name) for name in "abc")
    end(board, done)
    board.trash(trashed)
    blocked = board.post("d", after=[blocked_by])
    assert wait(done.uuid, blocked.uuid, trashed.uuid, "--timeout", "0.1s") == (
        124, ["COMPLETE", "BLOCKED", "TRASHED"],
    )  # fmt: skip


def test_a_job_that_is_not_there_is_refused(board: JobBoard, uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    job = board.post("a")
    board.cancel(job)
    assert run(["wait", job.uuid]) == 1
    assert f"no job {job.uuid}" in capsys.readouterr().err


def test_what_ends_and_is_forgotten_while_another_is_waited_for_is_known(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fetch("test", uri, retention=0) as board:
        first, *others = (board.post(name) for name in ("first", "cancelled", "purged", "consumed"))
        subscribed, told, ends = threading.Event(), threading.Event(), list[str]()
        subscribe = board.subscribe

        def noted(*given: Any) -> Any:
            unsubscribe = subscribe(*given)
            subscribed.set()
            return unsubscribe

        monkeypatch.setattr(board, "subscribe", noted)
        thread = threading.Thread(
            target=lambda: ends.extend(line["state"] for line in wait_for_ends(board, [first, *others], 60))
        )
        thread.start()
        assert subscribed.wait(30)
        subscribe(lambda event: told.set() if event.uuid == others[2].uuid else None, {EventKind.CONSUMED})
        board.cancel(others[0])
        board.trash(others[1])
        board.purge(others[1])
        end(board, others[2])
        assert told.wait(30)
        end(board, first)
        thread.join(60)
        assert ends == ["COMPLETE", "CANCELLED", "PURGED", "COMPLETE"]


@pytest.mark.parametrize("options", [[], ["--with-children"]])
def test_how_a_job_that_is_gone_ended_may_be_told_a_moment_later(
    board: JobBoard, wait: Wait, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    jobs, subscribe = [board.post(name) for name in "abc"], JobBoard.subscribe

    def subscribe_late(board: JobBoard, callback: Callable[[JobEvent], object], *kinds: Any) -> Any:
        def tell(event: JobEvent) -> None:
            threading.Timer(0.3, callback, (event,)).start()

        return subscribe(board, tell, *kinds)

    monkeypatch.setattr(JobBoard, "subscribe", subscribe_late)
    for job, after in zip(jobs, (0.3, 0.4, 0.5), strict=True):
        threading.Timer(after, board.cancel, (job,)).start()
    assert wait(*(job.uuid for job in jobs), *options) == (1, ["CANCELLED"] * 3)


class TestWithChildren:
    def test_it_waits_for_all_levels_and_for_what_comes_meanwhile(self, board: JobBoard, wait: Wait) -> None:
        jobs = post_graph(board, {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]})

        def work() -> None:
            end(board, jobs["a"])
            board.post("late", after=[jobs["b"]])
            while claimed := board.claim_next("ann"):
                board.consume(claimed[0], "ann")

        worker = threading.Timer(0.3, work)
        worker.start()
        assert wait(jobs["a"].uuid, "--with-children") == (0, ["COMPLETE"] * 5)
        worker.join()

    @pytest.mark.parametrize("way", ["wait", "run", "cancel"])
    def test_what_waits_for_a_job_in_the_trash_does_not_end(
        self, board: JobBoard, wait: Wait, way: IfFailedName
    ) -> None:
        """A job with ``run`` waits for one that waits for that, and one with ``cancel`` too."""
        top = board.post("a")
        failing, fine = board.post("b", after=[top]), board.post("b", after=[top])
        held = board.post("c", after=[failing])
        board.post("d", after=[held, fine], if_failed=way)
        end(board, top)
        board.trash(failing, reason="no source")
        threading.Timer(0.3, end, (board, fine)).start()
        assert wait(top.uuid, "--with-children") == (
            1,
            ["COMPLETE", "TRASHED", "COMPLETE", "BLOCKED", "BLOCKED"],
        )
        assert wait(held.uuid, "--with-children", "--timeout", "0.1s") == (124, ["BLOCKED", "BLOCKED"])

    def test_a_child_that_is_cancelled_is_status_1_and_one_with_run_ends(self, board: JobBoard, wait: Wait) -> None:
        top = board.post("a")
        cancelled, runs = (board.post("b", after=[top], if_failed=way) for way in ("cancel", "run"))

        def work() -> None:
            board.trash(top)
            end(board, runs)

        threading.Timer(0.5, work).start()
        status, states = wait(top.uuid, "--with-children")
        assert (status, sorted(states)) == (1, ["CANCELLED", "COMPLETE", "TRASHED"])
        assert cancelled.uuid != runs.uuid

    def test_a_child_that_was_cancelled_before_is_status_1(self, board: JobBoard, wait: Wait) -> None:
        jobs = post_graph(board, {"a": [], "b": ["a"], "c": ["b"], "d": ["b"]})
        for name in "ab":
            end(board, jobs[name])
        board.cancel(jobs["c"])
        end(board, jobs["d"])
        status, states = wait(jobs["a"].uuid, "--with-children")
        assert (status, sorted(states)) == (1, ["COMPLETE", "COMPLETE", "COMPLETE", "GONE"])

    def test_people_see_a_sum_and_what_is_not_complete(
        self, board: JobBoard, uri: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        jobs = post_graph(board, {"a": [], "b": ["a"], "c": ["a"]})
        for name in "ab":
            end(board, jobs[name])
        board.trash(jobs["c"], reason="no source")
        assert run(["wait", jobs["a"].uuid, "--with-children"]) == 1
        out = capsys.readouterr().out
        assert "2 of 3 jobs complete" in out
        assert [job.uuid in out for job in jobs.values()] == [False, False, True]

    def test_many_that_have_ended_are_read_by_the_hundred(self, board: JobBoard) -> None:
        jobs = post_graph(board, {"a": [], **{f"b{number}": ["a"] for number in range(300)}})
        while claimed := board.claim_next("ann", limit=100):
            board.consume_many(claimed, "ann")
        requests = count_requests(board)
        family = wait_for_families(board, [jobs["a"]], 10)
        assert family is not None
        assert (len(family.ends), family.is_timed_out) == (301, False)
        # A page of 500 children, and their rows, counts and children of their own; the jobs that were named.
        assert len(requests) <= 3 * 4 + 4
        assert wait_for_families(board, [jobs["a"]], 10, most=299) is None
