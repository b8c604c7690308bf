"""Races and deaths of processes, on stores that several processes share (promises 2 to 5)."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jobboard.board import JobBoard
from jobboard.job import Posting
from jobboard.states import JobState
from jobboard.testing.contract.case import (
    LONG,
    Case,
    claim_one,
    first_waited_for,
    needs,
    state_of,
    uuids_of,
)
from jobboard.testing.deadline import eventually
from jobboard.testing.harness import Harness
from jobboard.testing.rival import work

PROCESSES = 3


#: Starts each process as a fork of one that has everything imported, which takes longer than most tasks.
FORKS = multiprocessing.get_context("forkserver")


class Rival:
    """A running process of :mod:`jobboard.testing.rival`."""

    def __init__(self, task: str, uri: str, name: str, who: str) -> None:
        self._line, its_end = FORKS.Pipe()
        self._process = FORKS.Process(target=work, args=(task, uri, name, who, its_end))
        self._process.start()
        # So that this end sees when the process is gone.
        its_end.close()

    def until_ready(self) -> None:
        assert self._line.recv() == "ready"

    def go(self) -> None:
        """Let it start or continue."""
        self._line.send(None)

    def line(self) -> dict[str, Any]:
        """Return what it tells next."""
        said = self._line.recv()
        assert isinstance(said, dict)
        return said

    def lines(self) -> list[dict[str, Any]]:
        """Return all that it tells until it ends; its exit status must be 0."""
        said = []
        with contextlib.suppress(EOFError):
            while True:
                said.append(self.line())
        self._process.join(60)
        assert self._process.exitcode == 0
        return said

    def signal(self, number: signal.Signals) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._process.close()
        self._line.close()


class ProcessCases(Case):
    @pytest.fixture
    def rivals(self, harness: Harness, board: JobBoard) -> Iterator[Callable[..., list[Rival]]]:
        """Start several processes on the board, all connected."""
        started: list[Rival] = []
        # For the first store of this process, which mostly is the only one.
        FORKS.set_forkserver_preload([work.__module__, harness.backend_class.__module__])

        def start(task: str, count: int = PROCESSES) -> list[Rival]:
            fresh = [Rival(task, harness.uri(), board.name, f"rival {number}") for number in range(count)]
            started.extend(fresh)
            for rival in fresh:
                rival.until_ready()
            return fresh

        yield start
        for rival in started:
            rival.end()

    @needs(processes=True)
    @pytest.mark.parametrize("task", ["drain", "drain_in_batches"])
    def test_every_job_is_consumed_once_by_several_processes(
        self, board: JobBoard, rivals: Callable[..., list[Rival]], task: str
    ) -> None:
        posted = board.post_many([Posting("resize") for _ in range(120)])
        racers = rivals(task)
        for rival in racers:
            rival.go()
        consumed = [line["uuid"] for rival in racers for line in rival.lines()]
        assert Counter(consumed) == Counter(uuids_of(posted))
        assert (board.job_count, {board.get(job.uuid).record.state for job in posted}) == (0, {JobState.COMPLETE})

    @needs(processes=True)
    @needs(sharded=False)
    def test_what_several_processes_post_is_all_there(
        self, board: JobBoard, rivals: Callable[..., list[Rival]]
    ) -> None:
        racers = rivals("post")
        for rival in racers:
            rival.go()
        posted = [line["uuid"] for rival in racers for line in rival.lines()]
        jobs = list(board.iterjobs())
        assert Counter(uuids_of(jobs)) == Counter(posted)
        assert len({job.sequence for job in jobs}) == len(posted) == 50 * PROCESSES
        for number in range(PROCESSES):
            mine = [(job.details or {})["n"] for job in jobs if (job.details or {})["by"] == f"rival {number}"]
            assert mine == list(range(50))

    @needs(processes=True)
    def test_a_key_that_several_processes_post_is_posted_once(
        self, board: JobBoard, rivals: Callable[..., list[Rival]]
    ) -> None:
        racers = rivals("post_keys")
        for rival in racers:
            rival.go()
        posted = [line["uuid"] for rival in racers for line in rival.lines()]
        assert Counter(posted) == Counter(uuids_of(board.iterjobs()))
        assert {job.key for job in board.iterjobs()} == {f"key {number}" for number in range(20)}
        assert len(posted) == 20

    @needs(processes=True)
    def test_a_wait_wakes_on_a_post_of_another_process(
        self, board: JobBoard, rivals: Callable[..., list[Rival]]
    ) -> None:
        [rival] = rivals("post", 1)
        rival.go()
        job = first_waited_for(board, 60)
        assert job is not None
        assert job.uuid == rival.line()["uuid"]

    @needs(processes=True, expiry="time")
    def test_the_job_of_a_killed_process_is_taken_over(
        self, board: JobBoard, rivals: Callable[..., list[Rival]]
    ) -> None:
        job = board.post("resize")
        [rival] = rivals("hold", 1)
        rival.go()
        held = rival.line()
        assert (held["uuid"], board.find_owner(job)) == (job.uuid, "rival 0")
        rival.signal(signal.SIGKILL)
        assert first_waited_for(board, 60) == job
        taken_over = claim_one(board)
        assert (taken_over.token or 0) > held["token"]
        board.consume(taken_over, "alice")
        assert job.attempts == 2

    @needs(processes=True, expiry="time")
    def test_a_process_that_stood_still_past_its_expiry_consumes_nothing(
        self, board: JobBoard, rivals: Callable[..., list[Rival]]
    ) -> None:
        job = board.post("resize")
        [rival] = rivals("hold", 1)
        rival.go()
        held = rival.line()
        rival.signal(signal.SIGSTOP)
        [taken_over] = eventually(lambda: board.claim_next("alice", expiry=LONG))
        rival.signal(signal.SIGCONT)
        rival.go()
        assert rival.line() == {"outcome": "lost"}
        assert (state_of(board, job), board.find_owner(job)) == (JobState.CLAIMED, "alice")
        board.consume(taken_over, "alice", "alice")
        assert (job.result, (taken_over.token or 0) > held["token"]) == ("alice", True)
