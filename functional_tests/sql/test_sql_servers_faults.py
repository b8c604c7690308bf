"""What breaks between a board and its SQL server, and in the server: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import closing, suppress
from typing import Any

import pytest
from harnesses.descriptors import few_descriptors
from harnesses.sql_site import Site
from harnesses.working import insist
from servers.base import HOST
from servers.proxy import Proxy

from jobboard import BoardUnavailable, JobBoard, JobState, Posting, backend
from jobboard.board import client_of
from jobboard.testing import eventually

pytest_plugins = ("harnesses.sql_fixtures",)

LONG = 600.0


# -- the server is killed ----------------------------------------------------------------------------------------------


def test_a_server_that_was_killed_and_restarted_has_everything(site: Site) -> None:
    board = site.harness.board(patience=30.0)
    posted = board.post_many([Posting("resize", details={"n": n}) for n in range(50)])
    [job] = board.claim_next("alice", expiry=LONG)
    board.checkpoint(job, "alice", {"page": 7})
    site.server.kill()
    with pytest.raises(BoardUnavailable):
        board.stats()
    assert not board.connected
    site.server.start()
    assert [other.uuid for other in board.iterjobs()] == [other.uuid for other in posted]
    assert (job.checkpoint, job.owner, board.connected) == ({"page": 7}, "alice", True)
    board.consume(job, "alice", "done")
    assert (job.state, board.job_count, board.audit()) == (JobState.COMPLETE, 49, [])


def test_work_goes_on_through_a_kill_and_a_restart(site: Site) -> None:
    producer = site.harness.board(patience=60.0)
    workers = _Workers(site, producer.name, 3)
    posted = [producer.post("resize").uuid for _ in range(100)]
    with workers:
        eventually(lambda: len(workers.consumed) >= 20, within=60)
        site.server.kill()
        site.server.start()
        posted += [insist(lambda: producer.post("resize")).uuid for _ in range(50)]
        eventually(lambda: len(workers.consumed) >= 150, within=60)
    assert workers.consumed == Counter(posted)
    assert (producer.job_count, producer.audit()) == (0, [])


def test_a_wait_goes_on_through_a_kill_and_a_restart(site: Site) -> None:
    board, other = site.harness.board("jobs", patience=60.0), site.harness.board("jobs", patience=60.0)
    found: list[str] = []
    with client_of(board).waiter() as waiter:
        assert waiter.ready_in() is None
        site.server.kill()
        site.server.start()
        waiting = threading.Thread(target=lambda: found.extend(job.uuid for job in insist(lambda: board.wait(60))))
        waiting.start()
        job = insist(lambda: other.post("resize"))
        waiting.join(60)
    assert found == [job.uuid]


def test_events_are_heard_from_a_replica_that_lacks_the_last_ones(site: Site) -> None:
    """After a failover to it, lines of the journal get numbers that others have had."""
    board, received = site.harness.board(patience=60.0), Counter[str]()
    board.subscribe(lambda event: received.update([event.uuid]), kinds=["POSTED"])
    _number_lines_from(site, 1_000_000)
    first = board.post("resize")
    eventually(lambda: received[first.uuid] == 1)
    _number_lines_from(site, 1)
    site.server.end_connections()
    eventually(lambda: received[insist(lambda: board.post("resize")).uuid] or len(received) > 1, within=20)
    last = board.post("resize")
    eventually(lambda: received[last.uuid] == 1)
    assert set(received.values()) == {1}


def _number_lines_from(site: Site, number: int) -> None:
    site.run("DELETE FROM jobboard_journal")
    if site.is_postgresql:
        site.run(f"SELECT setval(pg_get_serial_sequence('jobboard_journal', 'id'), {number})")
    else:
        site.run("TRUNCATE jobboard_journal")
        site.run(f"ALTER TABLE jobboard_journal AUTO_INCREMENT = {number}")


# -- connections are killed --------------------------------------------------------------------------------------------


class _Workers:
    """Threads that claim and consume, each by a client of its own, until the block ends."""

    def __init__(self, site: Site, name: str, count: int) -> None:
        self.consumed: Counter[str] = Counter()
        self._ended = threading.Event()
        boards = [site.harness.board(name, patience=60.0) for _ in range(count)]
        self._threads = [
            threading.Thread(target=self._work, args=(board, f"worker {number}")) for number, board in enumerate(boards)
        ]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(60)

    def _work(self, board: JobBoard, who: str) -> None:
        while not self._ended.is_set():
            for job in insist(lambda: board.claim_next(who, limit=3, expiry=LONG)):
                insist(lambda job=job: board.consume(job, who))  # type: ignore[misc]
                self.consumed[job.uuid] += 1


def test_connections_that_are_killed_in_the_midst_of_work_cost_nothing(site: Site) -> None:
    producer = site.harness.board(patience=60.0)
    workers, ended, killed = _Workers(site, producer.name, 3), threading.Event(), Counter[str]()

    def kill() -> None:
        while not ended.wait(0.02):
            killed["connections"] += site.server.end_connections()

    killer = threading.Thread(target=kill)
    killer.start()
    with workers:
        posted = []
        for number in range(5000):
            posted.append(insist(lambda: producer.post("resize", key=str(number))).uuid)  # noqa: B023
            if number >= 120 and killed["connections"] > 20:
                break
        eventually(lambda: len(workers.consumed) >= len(posted), within=90)
        ended.set()
        killer.join(30)
    assert killed["connections"] > 20
    assert workers.consumed == Counter(posted)
    assert (producer.job_count, producer.audit()) == (0, [])


def test_a_transaction_whose_connection_is_killed_in_its_midst_has_done_nothing(site: Site) -> None:
    board = site.harness.board()
    job = board.post("resize", key="k")
    with closing(_in_transaction(site)) as connection:
        board.trash(job, by="an operator")
        board._backend.within(connection).jobs.restore([job.uuid])
        site.server.end_connections()
    assert (board.stats().trashed, board.job_count, board.audit()) == (1, 0, [])
    board.restore(job.uuid)


def _in_transaction(site: Site) -> Any:
    client = site.server.client()
    with client.cursor() as cursor:
        cursor.execute("BEGIN")
    return client


# -- a line that is half open ------------------------------------------------------------------------------------------


def test_a_server_that_does_not_reply_is_given_up_after_the_timeout(site: Site) -> None:
    with Proxy((HOST, site.server.port)) as proxy:
        uri = site.server.uri.replace(str(site.server.port), str(proxy.port))
        with backend("silence", f"{uri}?socket_timeout=0.5", patience=0.0) as board:
            board.post("resize", key="k", if_exists="keep")
            proxy.silence()
            begin = time.monotonic()
            with pytest.raises(BoardUnavailable):
                board.stats()
            # One try on the old line, and one to make another within its own ten seconds.
            assert time.monotonic() - begin < 20
            assert not board.connected
            proxy.speak()
            eventually(lambda: _answers(board))
            assert board.connected


def _answers(board: JobBoard) -> bool:
    try:
        return board.job_count == 1
    except BoardUnavailable:
        return False


@pytest.mark.parametrize("spare", range(4))
def test_who_listens_while_descriptors_are_used_up_hears_once_there_are_some(
    site: Site, caplog: pytest.LogCaptureFixture, spare: int
) -> None:
    board = site.harness.board()
    producer, received = site.harness.board(board.name), list[str | None]()
    board.stats()
    # It has a connection for requests, and needs another one for what others do.
    with few_descriptors(spare):
        board.subscribe(lambda event: received.append(event.uuid))
        notifier = board._backend.change_notifier  # type: ignore[attr-defined]
        eventually(lambda: notifier._source is not None or "can't see what other processes do" in caplog.text)
    job = producer.post("resize")
    eventually(lambda: job.uuid in received)


@pytest.mark.parametrize("spare", range(3))
def test_a_connection_that_needs_a_descriptor_too_many_is_unavailable(site: Site, spare: int) -> None:
    board = site.harness.board()
    board.close()
    with few_descriptors(spare), suppress(BoardUnavailable):
        board.connect(2.0)
    board.connect()
