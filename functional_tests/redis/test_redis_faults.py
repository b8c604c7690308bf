"""What breaks between a board and its Redis server, and in the server: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from typing import Any

import pytest
from harnesses.fixtures import a_harness, a_harness_behind, a_proxy, a_server
from harnesses.mutations import MUTATIONS, SCHEDULE_MUTATIONS, photo_of
from harnesses.redis_harness import RedisHarness
from harnesses.working import insist
from servers.proxy import Proxy
from servers.redis_servers import RedisServer

from jobboard import BoardUnavailable, ClaimLost, EventKind, JobBoard, JobEvent, JobState, Posting
from jobboard.backends.redis import subscriber, waiting
from jobboard.backends.redis.scripts import load_scripts
from jobboard.backends.timelimit import time_limit
from jobboard.board import client_of
from jobboard.testing import eventually

LONG = 600.0


server = a_server(RedisServer)
harness = a_harness(RedisHarness)
proxy = a_proxy()
behind = a_harness_behind(RedisHarness)


def board_with_timeout(uri: str, seconds: float, name: str, **options: Any) -> JobBoard:
    class Impatient(RedisHarness):
        backend_options = {"socket_timeout": seconds}

    return Impatient(uri).board(name, **options)


# -- a lost reply, for every mutation ----------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["reply", "request"])
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_mutation_whose_reply_was_lost_has_the_effect_of_once(
    harness: RedisHarness, behind: RedisHarness, proxy: Proxy, mutation: str, what: Any
) -> None:
    prepare, act = MUTATIONS[mutation]
    expected = harness.board()
    act(expected, prepare(expected))
    board = behind.board()
    prepared = prepare(board)
    proxy.cut(what)
    act(board, prepared)
    assert not proxy.armed
    assert proxy.cuts == 1
    assert photo_of(board) == photo_of(expected)
    assert board.audit() == []


@pytest.mark.parametrize("what", ["reply", "request"])
@pytest.mark.parametrize("mutation", SCHEDULE_MUTATIONS)
def test_a_change_of_a_schedule_whose_reply_was_lost_has_the_effect_of_once(
    harness: RedisHarness, behind: RedisHarness, proxy: Proxy, mutation: str, what: Any
) -> None:
    prepare, act = SCHEDULE_MUTATIONS[mutation]
    expected = harness.board()
    act(expected, prepare(expected))
    board = behind.board()
    prepared = prepare(board)
    steps = [load_scripts()[name].sha.encode() for name in ("step_schedules", "change_schedules")]
    proxy.matters = lambda request: any(step in request for step in steps)
    proxy.cut(what)
    act(board, prepared)
    assert (proxy.armed, proxy.cuts) == (False, 1)
    assert photo_of(board) == photo_of(expected)
    assert board.audit() == []


def test_claims_found_again_after_a_lost_reply_can_be_ended(behind: RedisHarness, proxy: Proxy) -> None:
    board = behind.board()
    posted = board.post_many([Posting("resize", priority=priority) for priority in ("low", "high", "normal")])
    proxy.cut("reply")
    jobs = board.claim_next("alice", limit=3, expiry=LONG)
    assert jobs == [posted[1], posted[2], posted[0]]
    assert board.consume_many(jobs, "alice") == [None] * 3


# -- scripts that the server has forgotten -----------------------------------------------------------------------------


def test_scripts_are_loaded_again_when_the_server_forgot_them(server: RedisServer, harness: RedisHarness) -> None:
    board = harness.board()
    with server.client() as client:

        def forget() -> None:
            client.script_flush()

        forget()
        board.post("resize")
        forget()
        [job] = board.claim_next("alice", expiry=LONG)
        forget()
        board.extend(job, "alice", LONG)
        forget()
        board.consume(job, "alice", "done")
        forget()
        assert job.result == "done"


def test_a_restart_with_an_append_only_file_keeps_jobs_claims_and_clients() -> None:
    with RedisServer({"appendonly": "yes", "appendfsync": "always"}) as server, RedisHarness(server.uri) as harness:
        board = harness.board()
        posted = board.post_many([Posting("resize", details={"n": n}) for n in range(20)])
        [job] = board.claim_next("alice", expiry=LONG)
        board.checkpoint(job, "alice", {"page": 7})
        server.kill()
        server.start()
        assert [other.uuid for other in board.iterjobs()] == [other.uuid for other in posted]
        assert (job.checkpoint, job.owner) == ({"page": 7}, "alice")
        board.consume(job, "alice", "done")
        assert (job.state, board.job_count, board.audit()) == (JobState.COMPLETE, 19, [])


# -- connections that break, a server that stops answering -------------------------------------------------------------


def test_killed_connections_in_the_midst_of_work_cost_nothing(server: RedisServer, harness: RedisHarness) -> None:
    name = harness.fresh_name()
    ended = threading.Event()
    consumed: Counter[str] = Counter()

    def kill() -> None:
        with server.client() as client:
            while not ended.wait(0.01):
                client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    def work(who: str) -> None:
        board = boards[who]
        while not ended.is_set():
            for job in insist(lambda: board.claim_next(who, limit=3, expiry=LONG)):
                insist(lambda job=job: board.consume(job, who))  # type: ignore[misc]
                consumed[job.uuid] += 1

    killer = threading.Thread(target=kill)
    boards = {f"worker {n}": harness.board(name, patience=30.0) for n in range(3)}
    workers = [threading.Thread(target=work, args=(who,)) for who in boards]
    producer = harness.board(name, patience=30.0)
    killer.start()
    for worker in workers:
        worker.start()
    posted = [insist(lambda n=n: producer.post("resize", details={"n": n})).uuid for n in range(200)]  # type: ignore[misc]
    eventually(lambda: len(consumed) >= 200, within=60)
    ended.set()
    for thread in (killer, *workers):
        thread.join(60)
    assert consumed == Counter(posted)
    assert (producer.job_count, producer.audit()) == (0, [])


def test_a_server_that_sleeps_for_longer_than_the_timeout_does_each_request_once(server: RedisServer) -> None:
    board = board_with_timeout(server.uri, 0.2, "sleepy")
    with server.client() as client:
        sleep = threading.Thread(target=lambda: client.execute_command("DEBUG", "SLEEP", "0.7"))
        sleep.start()
        job = board.post("resize")
        sleep.join()
        assert [line.kind for line in job.history] == ["POSTED"]
        sleep = threading.Thread(target=lambda: client.execute_command("DEBUG", "SLEEP", "0.7"))
        sleep.start()
        claimed = board.claim_next("alice", expiry=LONG)
        sleep.join()
        assert (claimed, job.attempts) == ([job], 1)
    board.close()


def test_a_frozen_server_is_unavailable_and_fine_once_it_goes_on() -> None:
    with RedisServer() as server:
        board = board_with_timeout(server.uri, 0.2, "frozen", patience=60.0)
        [job] = [board.post("resize")]
        board.claim(job, "alice", LONG)
        board._client.patience = 0.3
        server.freeze()
        with pytest.raises(BoardUnavailable, match="unknown"):
            board.consume(job, "alice", "done")
        with pytest.raises(BoardUnavailable):
            list(board.iterjobs())
        server.thaw()
        # What was sent to the frozen server takes effect now, and a consume after that is one too many.
        eventually(lambda: job.state is JobState.COMPLETE)
        with pytest.raises(ClaimLost):
            board.consume(job, "alice", "again")
        assert job.result == "done"
        assert [str(line.kind) for line in job.history] == ["POSTED", "CLAIMED", "CONSUMED"]
        assert board.connected
        board.close()


def test_a_server_that_is_gone_is_unavailable_at_once() -> None:
    with RedisServer() as server, RedisHarness(server.uri) as harness:
        board = harness.board(patience=0.2)
        board.post("resize")
        server.kill()
        with pytest.raises(BoardUnavailable):
            board.stats()
        began = time.monotonic()
        with pytest.raises(BoardUnavailable, match="can't be reached"):
            board.stats()
        assert time.monotonic() - began < 4
        assert not board.connected


def test_a_server_out_of_memory_changes_nothing_and_says_so() -> None:
    with RedisServer() as server, RedisHarness(server.uri) as harness:
        board = harness.board()
        job = board.post("resize")
        with server.client() as client:
            client.config_set("maxmemory", "1mb")
            with pytest.raises(BoardUnavailable, match="out of memory"):
                board.post("resize", details={"large": "x" * 1000})
            client.config_set("maxmemory", "0")
        assert [other.uuid for other in board.iterjobs()] == [job.uuid]
        assert board.audit() == []


# -- waiting through faults --------------------------------------------------------------------------------------------


def test_a_wait_survives_the_break_of_its_line(behind: RedisHarness, proxy: Proxy, harness: RedisHarness) -> None:
    board = behind.board()
    found: list[str] = []
    waiting = threading.Thread(target=lambda: found.extend(job.uuid for job in board.wait(30)))
    waiting.start()
    _until_armed(harness, board.name)
    proxy.break_all()
    job = harness.board(board.name).post("resize")
    waiting.join(20)
    assert found == [job.uuid]


def test_after_a_break_all_who_wait_look_again(
    behind: RedisHarness, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "MAX_SLEEP", LONG)
    client = client_of(behind.board())
    with client.waiter() as one, client.waiter() as other:
        assert (one.ready_in(), other.ready_in()) == (None, None)
        proxy.break_all()
        for waiter in (one, other):
            # Otherwise this lasts until the limit of the test.
            waiter.wait(LONG)


def test_who_listens_hears_again_soon_after_a_break_that_another_one_noticed_first(
    behind: RedisHarness, proxy: Proxy, harness: RedisHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """redis-py connects again by itself where a request is to be sent, and that connection has no subscriptions."""
    # Before it got its connection, it had paused longer and longer.
    monkeypatch.setattr(subscriber, "_FIRST_PAUSE", LONG)
    board, received, told, go_on = behind.board(), list[str | None](), threading.Event(), threading.Event()
    producer = harness.board(board.name)

    def receive(event: JobEvent) -> None:
        received.append(event.uuid)
        told.set()
        go_on.wait(30)

    # In the thread that reads, which does not see the break meanwhile.
    listen = client_of(board).backend.listen
    listen(receive, frozenset([EventKind.POSTED]))
    producer.post("resize")
    assert told.wait(30)
    monkeypatch.undo()
    proxy.break_all()
    for _ in range(3):
        with time_limit(0.1), contextlib.suppress(BoardUnavailable):
            listen(receive, frozenset([EventKind.TRASHED]))
    go_on.set()
    eventually(lambda: producer.post("resize") and len(received) > 1, every=0.1)


def test_a_lost_wake_up_costs_seconds(behind: RedisHarness, proxy: Proxy, harness: RedisHarness) -> None:
    board = behind.board()
    found: list[str] = []
    waiting = threading.Thread(target=lambda: found.extend(job.uuid for job in board.wait(60)))
    waiting.start()
    _until_armed(harness, board.name)
    proxy.silence()
    began = time.monotonic()
    job = harness.board(board.name).post("resize")
    # The line is dead for a moment, and nobody is told.
    proxy.break_all()
    proxy.speak()
    waiting.join(30)
    assert found == [job.uuid]
    assert time.monotonic() - began < 20


def _until_armed(harness: RedisHarness, name: str) -> None:
    """Wait until somebody sleeps on the board."""
    backend: Any = harness.backend(name)
    backend.open(5.0)
    eventually(lambda: backend.client.send([("HLEN", f"{backend.key}:waiters")])[0] == 1)
    backend.close()


# -- keys that vanish --------------------------------------------------------------------------------------------------


def _delete(harness: RedisHarness, board: JobBoard, *kinds: str) -> None:
    backend: Any = harness.backend(board.name)
    backend.open(5.0)
    assert backend.client.send([("DEL", *(f"{backend.key}:{kind}" for kind in kinds))]) != [0]
    backend.close()


def test_claims_end_without_leases(harness: RedisHarness) -> None:
    """What is taken back is found from the claimed jobs: the leases can be gone."""
    board = harness.board()
    job = board.post("resize")
    board.claim(job, "alice", 0.5)
    _delete(harness, board, "leases")
    # A waiting client would look every few seconds by itself.
    eventually(lambda: [found.uuid for found in board.wait(0.2)] == [job.uuid])


def test_an_audit_mends_what_vanished(harness: RedisHarness) -> None:
    board = harness.board()
    jobs = board.post_many([Posting("resize", key=str(n), priority="high") for n in range(5)])
    delayed = board.post("rotate", delay=LONG)
    _delete(harness, board, "ready:resize", "heads", "delayed", "keys")
    assert board.audit() != []
    board.audit(repair=True)
    assert board.audit() == []
    assert board.find("resize", "3") == jobs[3]
    assert board.claim_next("alice", limit=9) == jobs
    assert delayed.state is JobState.DELAYED


def test_a_script_that_breaks_off_is_not_said_to_have_changed_nothing(harness: RedisHarness) -> None:
    """Redis takes nothing back of a script that fails: here somebody else has written under a key of the board."""
    board = harness.board()
    job = board.post("resize")
    backend: Any = harness.backend(board.name)
    backend.open(5.0)
    backend.client.send([("SET", f"{backend.key}:claimed:resize", "of somebody else")])
    with pytest.raises(BoardUnavailable, match="a part may have been done; `jobboard check`"):
        board.claim(job, "alice", LONG)
    backend.client.send([("DEL", f"{backend.key}:claimed:resize")])
    backend.close()
    board.audit(repair=True)
    assert board.audit() == []
    # How far it came is the script's affair; what it began holds or does not, and nothing in between.
    assert (job.state is JobState.CLAIMED) == (job.owner == "alice")
    if job.owner:
        board.release(job, reason="half claimed")
    assert board.claim_next("bob", expiry=LONG) == [job]


def test_a_right_that_is_taken_away_in_the_midst_of_work_is_named(server: RedisServer, harness: RedisHarness) -> None:
    board = harness.board()
    board.post("resize")
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "default", "-zadd")
        try:
            with pytest.raises(BoardUnavailable, match="a part may have been done.* lacks a right") as caught:
                board.post("resize")
        finally:
            client.execute_command("ACL", "SETUSER", "default", "+zadd")
    assert "Least rights" in str(caught.value)
    board.audit(repair=True)
    assert board.audit() == []
