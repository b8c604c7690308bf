"""A post claims its job for a conductor that waits: whatever breaks then, the job runs once, and is not lost."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

import pytest
from harnesses.armed_waiters import armed
from harnesses.fixtures import a_harness, a_harness_behind, a_proxy, a_server
from harnesses.redis_harness import RedisHarness
from servers.proxy import Proxy
from servers.redis_servers import RedisServer

from jobboard import Conductor, Handlers, JobBoard, JobState, Posting, RunningJob
from jobboard.backends.redis import RedisBackend, waiting
from jobboard.backends.redis.scripts import load_scripts
from jobboard.board import client_of
from jobboard.testing import eventually

LONG = 600.0

#: For tests in which a waiter must still be armed when a job is posted, however slow the machine is. Less than the
#: expiry of a claim, before which a waiter would look again.
LONG_SLEEP = 20.0

server = a_server(RedisServer)
harness = a_harness(RedisHarness)
proxy = a_proxy()
behind = a_harness_behind(RedisHarness)


class Ran:
    """What a handler has run, and a conductor that runs it."""

    def __init__(self) -> None:
        self.uuids: list[str] = []
        self.handlers = Handlers()
        self.handlers.add("step", self._run)

    def _run(self, job: RunningJob) -> None:
        self.uuids.append(job.uuid)

    @contextmanager
    def by(self, *boards: JobBoard) -> Iterator[list[Conductor]]:
        conductors = [Conductor(f"idle-{number}", board, self.handlers) for number, board in enumerate(boards)]
        for conductor in conductors:
            conductor.start()
        try:
            yield conductors
        finally:
            for conductor in conductors:
                conductor.stop(drain=False)


def kinds_of(board: JobBoard, uuid: str) -> list[str]:
    return [line.kind.value for line in board.get(uuid).history]


def test_a_pick_up_needs_no_claim_of_its_own(
    server: RedisServer, harness: RedisHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "MAX_SLEEP", LONG_SLEEP)
    board, backend = harness.lossy_board()
    producer, ran = harness.board(board.name), Ran()
    with ran.by(board):
        for count in range(1, 4):
            armed(server, board)
            claims = backend.calls["claim_next"]
            job = producer.post("step")
            eventually(lambda job=job: producer.get(job.uuid).state == JobState.COMPLETE)  # type: ignore[misc]
            armed(server, board)
            # The one that finds the board empty again.
            assert backend.calls["claim_next"] == claims + 1
            assert (len(ran.uuids), producer.get(job.uuid).record.attempts) == (count, 1)
            assert kinds_of(producer, job.uuid) == ["POSTED", "CLAIMED", "CONSUMED"]
    assert board.audit() == []


def test_what_was_claimed_is_found_when_the_wake_up_is_lost_with_its_connection(
    server: RedisServer, harness: RedisHarness, behind: RedisHarness, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "MAX_SLEEP", LONG_SLEEP)
    board, ran = behind.board(), Ran()
    producer = harness.board(board.name)
    with ran.by(board):
        armed(server, board)
        proxy.silence()
        job = producer.post("step")
        assert (producer.get(job.uuid).state, ran.uuids) == (JobState.CLAIMED, [])
        proxy.break_all()
        proxy.speak()
        eventually(lambda: producer.get(job.uuid).state == JobState.COMPLETE)
        assert ran.uuids == [job.uuid]
        assert kinds_of(producer, job.uuid) == ["POSTED", "CLAIMED", "CONSUMED"]


@pytest.mark.parametrize("is_known", [True, False])
def test_what_is_claimed_under_a_request_that_came_late_is_given_back(
    server: RedisServer, harness: RedisHarness, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    """A network may keep a request until long after its client has given it up, and its waiter perhaps too."""
    monkeypatch.setattr(waiting, "MAX_SLEEP", LONG_SLEEP)
    board, ran = harness.board(), Ran()
    backend = client_of(board).backend
    assert isinstance(backend, RedisBackend)
    with ran.by(board) as [conductor]:
        armed(server, board)
        with server.client() as client:
            [waiter] = client.hkeys(f"{backend.key}:waiters")
        gone = waiter.decode().rpartition("/")[0] + "/0"
        request = [conductor.who, "late", 600_000_000, 1, ["step"]]
        late = [["step"], waiter.decode() if is_known else gone, 19_000_000, request]
        backend.client.read("ready_in", waiting.pack(late))
        job = harness.board(backend.board).post("step")
        eventually(lambda: job.state is JobState.COMPLETE)
    assert (ran.uuids, job.record.attempts) == ([job.uuid], 1)
    assert kinds_of(board, job.uuid) == ["POSTED", "CLAIMED", "ABANDONED", "CLAIMED", "CONSUMED"]


def test_a_conductor_that_stops_gives_back_what_was_claimed_for_it(
    server: RedisServer, harness: RedisHarness, behind: RedisHarness, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "MAX_SLEEP", LONG_SLEEP)
    board, ran, asked = behind.board(), Ran(), threading.Event()
    producer, disarm = harness.board(board.name), load_scripts()["disarm"].sha.encode()
    proxy.matters = lambda request: disarm in request and asked.set() is None
    with ran.by(board) as [conductor]:
        armed(server, board)
        proxy.silence()
        job = producer.post("step")
        assert job.state is JobState.CLAIMED
        stop = threading.Thread(target=conductor.stop)
        stop.start()
        assert asked.wait(10)
        proxy.speak()
        stop.join(10)
    assert (ran.uuids, job.state, job.record.attempts) == ([], JobState.UNCLAIMED, 0)
    assert producer.audit() == []


def test_a_conductor_that_is_killed_while_it_waits_keeps_one_job_at_most(
    server: RedisServer, harness: RedisHarness, start: Callable[..., Popen[str]], tmp_path: Path
) -> None:
    """That one is as if it had died after its claim; nothing is claimed for it after its death."""
    board, details = harness.board("killed"), {"diary": str(tmp_path / "diary")}
    process = start("--board", server.uri, "--name", "killed", "conductor", "harnesses.crew_work:handlers")
    armed(server, board)
    process.send_signal(signal.SIGSTOP)
    with server.client() as client:
        # However long this machine stands still.
        [waiter] = client.hkeys("{jobboard:killed}:waiters")
        client.zadd("{jobboard:killed}:waiting:step", {waiter: "+inf"}, xx=True)
    kept = board.post("step", details=details)
    assert (kept.state, kept.record.attempts) == (JobState.CLAIMED, 1)
    process.kill()
    process.wait()
    ran = Ran()
    with ran.by(board):
        armed(server, board)
        job = board.post("step")
        eventually(lambda: ran.uuids == [job.uuid])
        board.release(kept, reason="its conductor was killed")
        eventually(lambda: ran.uuids == [job.uuid, kept.uuid])
    assert kinds_of(board, kept.uuid) == ["POSTED", "CLAIMED", "RELEASED", "CLAIMED", "CONSUMED"]


def test_of_two_who_wait_one_gets_the_job(server: RedisServer, harness: RedisHarness) -> None:
    board, ran = harness.board(), Ran()
    with ran.by(board, harness.board(board.name)):
        armed(server, board, 2)
        job = board.post("step")
        eventually(lambda: job.state is JobState.COMPLETE)
        armed(server, board, 2)
        assert (ran.uuids, job.record.attempts) == ([job.uuid], 1)


def test_nothing_is_claimed_ahead_of_a_paused_name(server: RedisServer, harness: RedisHarness) -> None:
    board, ran = harness.board(), Ran()
    with ran.by(board):
        armed(server, board)
        board.pause("step")
        job = board.post("step")
        assert job.state is JobState.UNCLAIMED
        board.resume("step")
        eventually(lambda: ran.uuids == [job.uuid])


def test_a_batch_is_left_to_whoever_waits(server: RedisServer, harness: RedisHarness) -> None:
    board, ran = harness.board(), Ran()
    with ran.by(board):
        armed(server, board)
        jobs = board.post_many([Posting("step") for _ in range(20)])
        eventually(lambda: board.job_count == 0)
    assert sorted(ran.uuids) == sorted(job.uuid for job in jobs)


def test_jobs_that_many_post_run_once_each(server: RedisServer, harness: RedisHarness) -> None:
    board, ran, posted = harness.board(), Ran(), list[str]()

    def post() -> None:
        own = harness.board(board.name)
        for _ in range(40):
            posted.append(own.post("step").uuid)

    posters = [threading.Thread(target=post) for _ in range(2)]
    with ran.by(board, *(harness.board(board.name) for _ in range(2))):
        armed(server, board, 3)
        for poster in posters:
            poster.start()
        for poster in posters:
            poster.join(60)
        eventually(lambda: board.job_count == 0)
    assert Counter(ran.uuids) == Counter(posted)
    assert {board.get(uuid).record.attempts for uuid in posted} == {1}
    assert board.audit() == []
