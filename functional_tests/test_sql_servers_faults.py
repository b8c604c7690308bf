"""What breaks between a board and its SQL server, and in the server: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from proxy import Proxy
from servers import HOST
from sql_servers import Site, mariadb, own_site, postgresql, site, site_of  # noqa: F401, they are fixtures

from jobboard import BoardUnavailable, JobBoard, JobState, Posting
from jobboard.entry import Discard
from jobboard.errors import ReplyLost
from jobboard.testing import eventually
from jobboard.testing.contract.processes import Rival

LONG = 600.0


def insist(request: Callable[[], Any]) -> Any:
    """Send a request again that was not sent, because the server was not there; nothing else is forgiven."""
    while True:
        try:
            return request()
        except ReplyLost:
            raise
        except BoardUnavailable:
            continue


# -- the server is killed ----------------------------------------------------------------------------------------------


def test_a_server_that_was_killed_and_restarted_has_everything(own_site: Site) -> None:  # noqa: F811
    board = own_site.harness.board(patience=30.0)
    posted = board.post_many([Posting("resize", details={"n": n}) for n in range(50)])
    [job] = board.claim_next("alice", expiry=LONG)
    board.checkpoint(job, "alice", {"page": 7})
    own_site.server.kill()
    with pytest.raises(BoardUnavailable):
        board.stats()
    assert not board.connected
    own_site.server.start()
    assert [other.uuid for other in board.iterjobs()] == [other.uuid for other in posted]
    assert (job.checkpoint, job.owner, board.connected) == ({"page": 7}, "alice", True)
    board.consume(job, "alice", "done")
    assert (job.state, board.job_count, board.audit()) == (JobState.COMPLETE, 49, [])


def test_work_goes_on_through_a_kill_and_a_restart(own_site: Site) -> None:  # noqa: F811
    producer = own_site.harness.board(patience=60.0)
    workers = _Workers(own_site, producer.name, 3)
    posted = [producer.post("resize").uuid for _ in range(100)]
    with workers:
        eventually(lambda: len(workers.consumed) >= 20, within=60)
        own_site.server.kill()
        own_site.server.start()
        posted += [insist(lambda: producer.post("resize")).uuid for _ in range(50)]
        eventually(lambda: len(workers.consumed) >= 150, within=60)
    assert workers.consumed == Counter(posted)
    assert (producer.job_count, producer.audit()) == (0, [])


def test_a_wait_goes_on_through_a_kill_and_a_restart(own_site: Site) -> None:  # noqa: F811
    board, other = own_site.harness.board("jobs", patience=60.0), own_site.harness.board("jobs", patience=60.0)
    found: list[str] = []
    with board.waiter() as waiter:
        assert waiter.ready_in() is None
        own_site.server.kill()
        own_site.server.start()
        waiting = threading.Thread(target=lambda: found.extend(job.uuid for job in insist(lambda: board.wait(60))))
        waiting.start()
        job = insist(lambda: other.post("resize"))
        waiting.join(60)
    assert found == [job.uuid]


# -- connections are killed --------------------------------------------------------------------------------------------


class _Workers:
    """Threads that claim and consume, each by a client of its own, until the block ends."""

    def __init__(self, site: Site, name: str, count: int) -> None:  # noqa: F811
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


def test_connections_that_are_killed_in_the_midst_of_work_cost_nothing(site: Site) -> None:  # noqa: F811
    producer = site.harness.board(patience=60.0)
    workers, ended, killed = _Workers(site, producer.name, 3), threading.Event(), Counter[str]()

    def kill() -> None:
        while not ended.wait(0.02):
            killed["connections"] += site.server.end_connections()

    killer = threading.Thread(target=kill)
    killer.start()
    with workers:
        posted = [insist(lambda: producer.post("resize", key=str(n))).uuid for n in range(120)]  # noqa: B023
        eventually(lambda: len(workers.consumed) >= 120, within=90)
        ended.set()
        killer.join(30)
    assert killed["connections"] > 20
    assert workers.consumed == Counter(posted)
    assert (producer.job_count, producer.audit()) == (0, [])


def test_a_transaction_whose_connection_is_killed_in_its_midst_has_done_nothing(site: Site) -> None:  # noqa: F811
    board = site.harness.board()
    job = board.post("resize", key="k")
    with closing(_in_transaction(site)) as connection:
        board.trash(job, "an operator", force=True)
        board._backend.within(connection).restore([job.uuid])
        site.server.end_connections()
    assert (board.stats().trashed, board.job_count, board.audit()) == (1, 0, [])
    board.restore(job.uuid)


def _in_transaction(site: Site) -> Any:  # noqa: F811
    client = site.server.client()
    with client.cursor() as cursor:
        cursor.execute("BEGIN")
    return client


# -- replies that are lost ---------------------------------------------------------------------------------------------


@pytest.fixture
def behind(site: Site) -> Iterator[tuple[Proxy, JobBoard]]:  # noqa: F811
    """A client whose line goes through a proxy."""
    with Proxy((HOST, site.server.port)) as proxy:
        far = type(site.harness)(site.server.uri.replace(str(site.server.port), str(proxy.port)))
        with far:
            yield proxy, far.board()


WORK: dict[str, Callable[[JobBoard], object]] = {
    "post": lambda board: board.post("resize", key="k"),
    "post without a key": lambda board: board.post("resize"),
    "post many": lambda board: board.post_many([Posting("resize") for _ in range(50)]),
    "claim next": lambda board: board.claim_next("alice", limit=2, expiry=LONG),
    "consume": lambda board: board.consume(board.claim_next("alice", expiry=LONG)[0], "alice", "done"),
    "abandon": lambda board: board.abandon(board.claim_next("alice", expiry=LONG)[0], "alice", reason="no disk"),
    "cancel": lambda board: board.cancel(next(iter(board.iterjobs()))),
    "pause": lambda board: board.pause("resize"),
}


@pytest.mark.parametrize("what", ["reply", "request"])
@pytest.mark.parametrize("work", WORK)
def test_whatever_request_is_lost_the_effect_is_that_of_once(
    site: Site,  # noqa: F811
    behind: tuple[Proxy, JobBoard],
    work: str,
    what: Any,
) -> None:
    """Each in turn of the requests that a primitive sends: the beginning, the statements, the commit."""
    proxy, board = behind
    turn = 0
    while True:
        expected, name = site.harness.board(), f"{board.name}-{turn}"
        cut = type(site.harness)(site.server.uri.replace(str(site.server.port), str(proxy.port)))
        with cut:
            broken = cut.board(name)
            for prepared in (expected, broken):
                prepared.post_many([Posting("resize", details={"n": n}) for n in range(3)])
            WORK[work](expected)
            proxy.cut(what, after=turn)
            WORK[work](broken)
            assert _photo(broken) == _photo(expected)
            assert broken.audit() == []
            if proxy.disarm():
                return
        turn += 1


def _photo(board: JobBoard) -> Any:
    return board.paused(), [
        (job.name, job.key, job.details, job.record.state, job.record.attempts, job.record.owner, job.result,
         [(line.kind, line.who) for line in job.history])
        for job in board.iterjobs(states=list(JobState))
    ]  # fmt: skip


# -- many at once ------------------------------------------------------------------------------------------------------


def _deadlocks(site: Site) -> int:  # noqa: F811
    if site.is_postgresql:
        return int(site.run("SELECT deadlocks FROM pg_stat_database WHERE datname = 'jobs'")[0][0])
    return int(site.run("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'")[0][1])


def test_a_storm_of_deadlocks_costs_time_only(site: Site) -> None:  # noqa: F811
    before, board = _deadlocks(site), site.harness.board()
    uuids = [job.uuid for job in board.post_many([Posting("resize", key=str(n)) for n in range(30)])]
    backends = [site.harness.board(board.name)._backend for _ in range(4)]
    faults: list[BaseException] = []
    ended = threading.Event()

    def storm(backend: Any, seed: int) -> None:
        dice = random.Random(seed)
        try:
            while not ended.is_set():
                order = dice.sample(uuids, len(uuids))
                backend.trash([Discard(uuid, None, "storm") for uuid in order])
                backend.restore(dice.sample(uuids, len(uuids)))
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=storm, args=(backend, seed)) for seed, backend in enumerate(backends)]
    for thread in threads:
        thread.start()
    try:
        eventually(lambda: faults or _deadlocks(site) >= before + 5, within=60)
    finally:
        ended.set()
        for thread in threads:
            thread.join(60)
    assert faults == []
    board._backend.restore(uuids)
    assert ([job.uuid for job in board.iterjobs()], board.audit()) == (uuids, [])


def test_eight_processes_consume_every_job_once(site: Site) -> None:  # noqa: F811
    board = site.harness.board()
    posted = board.post_many([Posting("resize") for _ in range(400)])
    racers = [Rival("drain", site.harness.uri(), board.name, f"rival {number}") for number in range(8)]
    try:
        for racer in racers:
            racer.until_ready()
        for racer in racers:
            racer.go()
        consumed = [line["uuid"] for racer in racers for line in racer.lines()]
    finally:
        for racer in racers:
            racer.end()
    assert Counter(consumed) == Counter(job.uuid for job in posted)
    assert (board.job_count, board.audit()) == (0, [])


def test_a_long_running_transaction_beside_it_holds_nobody_up(site: Site) -> None:  # noqa: F811
    board, name = site.harness.board(), "jobboard_jobs"
    board.post_many([Posting("resize") for _ in range(200)])
    with closing(site.server.client()) as client, client.cursor() as cursor:
        cursor.execute("START TRANSACTION ISOLATION LEVEL REPEATABLE READ" if site.is_postgresql else "BEGIN")
        cursor.execute(f"SELECT count(*) FROM {name} WHERE state = 1")
        seen = cursor.fetchone()
        for _ in range(200):
            [job] = board.claim_next("alice", expiry=LONG)
            board.consume(job, "alice")
        assert (board.job_count, board.claim_next("alice")) == (0, [])
        cursor.execute(f"SELECT count(*) FROM {name} WHERE state = 1")
        assert cursor.fetchone() == seen
    assert board.audit() == []
