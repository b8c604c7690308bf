"""A post claims its job for a conductor that waits: whatever breaks then, the job runs once, and is not lost."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any

import msgpack
import pytest
from harnesses.fixtures import a_harness, a_harness_behind, a_proxy, a_server
from harnesses.redis_harness import RedisHarness
from servers.proxy import Proxy
from servers.redis_servers import RedisServer

from jobboard import Conductor, Handlers, JobBoard, JobState, Posting, RunningJob, fetch
from jobboard.backends.redis import RedisBackend, waiting, wake_ups
from jobboard.backends.redis.scripts import load_scripts
from jobboard.backends.rows import ClaimRequest, JobRow
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


def requests_of(server: RedisServer, board: JobBoard) -> list[Any]:
    """Return the claim requests of those who are armed."""
    with server.client(protocol=2) as client:
        armed: dict[bytes, bytes] = client.hgetall(f"{{jobboard:{board.name}}}:waiters")
    unpacked = []
    for value in armed.values():
        unpacker = msgpack.Unpacker()
        unpacker.feed(value)
        unpacked.append(list(unpacker)[1])
    return unpacked


def armed(server: RedisServer, board: JobBoard, count: int = 1) -> None:
    """Wait until so many are armed with claim requests."""
    eventually(lambda: len([request for request in requests_of(server, board) if request]) == count)


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


@pytest.fixture
def backend(harness: RedisHarness) -> Iterator[RedisBackend]:
    backend = harness.backend(harness.fresh_name())
    assert isinstance(backend, RedisBackend)
    backend.open(5.0)
    yield backend
    backend.close()


def armed_waiter(backend: RedisBackend) -> waiting.RedisWaiter:
    waiter = backend.waiter(frozenset(["step"]))
    assert isinstance(waiter, waiting.RedisWaiter)
    waiter.claim_ahead("idle", LONG)
    assert waiter.ready_in() is None
    return waiter


def claim_unheard(backend: RedisBackend, board: JobBoard, waiter: waiting.RedisWaiter) -> JobRow:
    """Leave the server as a post does that claims for a waiter, and whose message gets lost."""
    claim_id = backend.client.read("disarm", waiter.id)[1].decode()
    board.post("step")
    [row] = backend.claim_next(ClaimRequest("idle", claim_id, LONG), frozenset(["step"]), 1)
    return row


def test_what_was_claimed_is_found_when_only_the_wake_up_is_lost(
    harness: RedisHarness, backend: RedisBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "MAX_SLEEP", 0.05)
    board = harness.board(backend.board)
    waiter = armed_waiter(backend)
    lost = claim_unheard(backend, board, waiter)
    before = time.monotonic()
    waiter.wait(60)
    rows, since = waiter.claimed()
    assert [(row.uuid, row.token) for row in rows] == [(lost.uuid, lost.token)]
    assert since <= before
    assert waiter.claimed() == ([], float("inf"))
    waiter.close()


def test_whoever_waits_no_more_gets_what_was_claimed_meanwhile(harness: RedisHarness, backend: RedisBackend) -> None:
    board = harness.board(backend.board)
    waiter = armed_waiter(backend)
    # The request of before is withdrawn.
    assert waiter.ready_in() is None
    lost = claim_unheard(backend, board, waiter)
    assert [row.uuid for row in waiter.claimed()[0]] == [lost.uuid]
    # Now nothing more is claimed for it.
    job = board.post("step")
    assert (job.state, waiter.claimed()[0]) == (JobState.UNCLAIMED, [])
    waiter.close()


def test_a_wake_up_that_comes_after_its_job_was_found_does_not_bring_it_again(
    harness: RedisHarness, backend: RedisBackend
) -> None:
    board = harness.board(backend.board)
    waiter = armed_waiter(backend)
    lost = claim_unheard(backend, board, waiter)
    assert len(waiter.claimed()[0]) == 1
    waiter.learn(lost.claim_id or "", [lost])
    assert waiter.claimed()[0] == []
    waiter.close()


@pytest.mark.parametrize("is_known", [True, False])
def test_what_is_claimed_under_a_request_that_came_late_is_given_back(
    server: RedisServer, harness: RedisHarness, backend: RedisBackend, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    """A network may keep a request until long after its client has given it up, and its waiter perhaps too."""
    monkeypatch.setattr(waiting, "MAX_SLEEP", LONG_SLEEP)
    board, ran = harness.board(backend.board), Ran()
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


def test_a_wake_up_of_a_waiter_that_was_just_closed_is_no_fault(
    server: RedisServer, harness: RedisHarness, backend: RedisBackend, caplog: pytest.LogCaptureFixture
) -> None:
    gone, waiter = (backend.waiter(frozenset(["step"])) for _ in range(2))
    assert isinstance(gone, waiting.RedisWaiter)
    assert isinstance(waiter, waiting.RedisWaiter)
    assert (gone.ready_in(), waiter.ready_in()) == (None, None)
    gone.close()
    channel = f"{backend.key}:wake:{waiter.id.partition('/')[0]}"
    with server.client() as client:
        assert client.execute_command("SPUBLISH", channel, gone.id) == 1
    harness.board(backend.board).post("step")
    waiter.wait(60)
    waiter.close()
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


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


def test_a_job_that_was_ready_before_is_claimed_first(
    server: RedisServer, backend: RedisBackend, harness: RedisHarness
) -> None:
    """Such as one whose conductor died, and which another one was woken for."""
    board = harness.board(backend.board)
    waiter = armed_waiter(backend)
    with server.client() as client:
        armed_with = client.hget(f"{backend.key}:waiters", waiter.id)
        backend.client.read("disarm", waiter.id)
        earlier = board.post("step")
        client.hset(f"{backend.key}:waiters", waiter.id, armed_with)
        client.zadd(f"{backend.key}:waiting:step", {waiter.id: "+inf"})
    later = board.post("step", priority="HIGH")
    waiter.wait(60)
    assert (waiter.claimed()[0], earlier.state, later.state) == ([], JobState.UNCLAIMED, JobState.UNCLAIMED)
    waiter.close()


def test_what_nobody_waits_for_keeps_no_job_from_being_claimed_ahead(
    backend: RedisBackend, harness: RedisHarness
) -> None:
    board = harness.board(backend.board)
    board.post("other")
    waiter = armed_waiter(backend)
    job = board.post("step")
    assert job.state is JobState.CLAIMED
    waiter.wait(60)
    assert [row.uuid for row in waiter.claimed()[0]] == [job.uuid]
    waiter.close()


def test_a_connection_that_died_in_silence_is_opened_again(
    behind: RedisHarness, proxy: Proxy, harness: RedisHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = behind.backend(behind.fresh_name())
    assert isinstance(backend, RedisBackend)
    backend.open(5.0)
    waiter, board = armed_waiter(backend), harness.board(backend.board)
    assert proxy.mute(_subscribes) == 1
    monkeypatch.setattr(wake_ups, "_CHECK_AFTER", -1.0)
    monkeypatch.setattr(wake_ups, "_CHECK_TIMEOUT", 0.0)
    assert (waiter.claimed()[0], waiter.ready_in()) == ([], None)
    # The server has sent a message, which does not come.
    waiter.wait(60)
    assert (waiter.claimed()[0], waiter.ready_in()) == ([], None)
    job = board.post("step")
    waiter.wait(60)
    assert [row.uuid for row in waiter.claimed()[0]] == [job.uuid]
    assert proxy.mute(_subscribes) == 2
    waiter.close()
    backend.close()


def _subscribes(sent: bytes) -> bool:
    return b"SSUBSCRIBE" in sent


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


@pytest.mark.parametrize(
    "request_",
    [["idle"], ["idle", "an id", "soon", 1, ["step"]], [1, 2, 6e8, "x", {}], ["idle", "an id", 6e300], "no list"],
)
def test_a_claim_request_that_can_t_be_read_fails_no_post(
    server: RedisServer, harness: RedisHarness, backend: RedisBackend, request_: Any
) -> None:
    board, waiter = harness.board(backend.board), armed_waiter(backend)
    with server.client() as client:
        client.hset(f"{backend.key}:waiters", waiter.id, msgpack.packb(["step"]) + msgpack.packb(request_))
    job = board.post("step")
    assert (job.state, board.audit()) == (JobState.UNCLAIMED, [])
    assert [found.uuid for found in board.claim_next("alice")] == [job.uuid]
    waiter.close()


def test_nobody_relies_on_a_claim_that_may_have_no_copy(server: RedisServer, harness: RedisHarness) -> None:
    """Whoever claims by himself waits for the copies."""
    board = fetch(harness.fresh_name(), server.uri, durability="wait:1:2000")
    with board, client_of(board).waiter() as waiter:
        waiter.claim_ahead("idle", LONG)
        assert waiter.ready_in() is None
        assert requests_of(server, board) == [None]


def test_a_waiter_asks_for_no_claim_unless_it_is_told_to(server: RedisServer, harness: RedisHarness) -> None:
    board = harness.board()
    with client_of(board).waiter() as waiter:
        assert waiter.ready_in() is None
        assert requests_of(server, board) == [None]
        job = harness.board(board.name).post("step")
        waiter.wait(60)
        assert job.state is JobState.UNCLAIMED
