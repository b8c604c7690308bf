"""A limit of a name below the number of shards: never more run, whoever is paused or killed; each job gets its turn."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from helpers.sharded import MemoryShardsHarness

from jobboard import Conductor, Handlers, Posting
from jobboard.backends.address import Address
from jobboard.backends.base import Backend
from jobboard.backends.lane_rows import LimitRow
from jobboard.backends.rows import ClaimRequest, Consumption, Fence, JobRow, Verdict
from jobboard.backends.shards import ShardsBackend, slots
from jobboard.backends.shards.slots import Demand, NameLimit, Stage, begin, turn
from jobboard.events import EventKind, JobEvent
from jobboard.job import Job
from jobboard.limit import Limit
from jobboard.states import JobState
from jobboard.testing import eventually
from jobboard.testing.faults import LossyBackend
from jobboard.validation import new_uuid

COUNT, NAME = 4, "resize"
_Reply = TypeVar("_Reply")


class Killed(BaseException):
    """Its client does nothing more."""


class Client(threading.Thread):
    """Goes on by one request whenever it is told to; one that is killed never does again."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._act = act
        self._may_go, self._stands = threading.Semaphore(0), threading.Semaphore(0)
        self._is_killed = False
        self.is_over = False

    def run(self) -> None:
        try:
            self.pause()
            self._act()
        except Killed:
            pass
        finally:
            self.is_over = True
            self._stands.release()

    def pause(self) -> None:
        """Wait, in its own thread, until it may go on."""
        self._stands.release()
        self._may_go.acquire()
        if self._is_killed:
            raise Killed

    def begin(self) -> None:
        self.start()
        assert self._stands.acquire(timeout=60)

    def go_on(self) -> None:
        self._may_go.release()
        assert self._stands.acquire(timeout=60)

    def kill(self) -> None:
        self._is_killed = True
        self.go_on()


class PausingShard(LossyBackend):
    """Lets a client pause before each request."""

    def _send(self, primitive: str, request: Callable[[], _Reply]) -> _Reply:
        client = threading.current_thread()
        if isinstance(client, Client):
            client.pause()
        return super()._send(primitive, request)


class Crowd:
    """Clients of one board, whose requests come in any order; after each one all that runs is counted."""

    def __init__(self, harness: MemoryShardsHarness, seed: int) -> None:
        self._harness, self._name = harness, harness.fresh_name()
        self.choose = random.Random(seed)
        self.board = harness.board(self._name)
        self.bound = self.limit = 0
        self.clients: list[Client] = []
        self.most = 0

    def backend(self) -> ShardsBackend:
        plain = self._harness.backend(self._name)
        assert isinstance(plain, ShardsBackend)
        shards: list[Backend] = [PausingShard(shard) for shard in plain.fleet.shards]
        backend = ShardsBackend(self._name, Address("shards"), shards=shards)
        backend.open(10.0)
        return backend

    def post(self, count: int) -> None:
        self.board.post_many([Posting(NAME, key=str(number)) for number in range(count)])
        self.board.post_many([Posting(NAME) for _ in range(count // 2)])

    def set(self, backend: ShardsBackend, running: int) -> None:
        row = LimitRow(Limit(name=NAME, running=running), new_uuid())
        after = next((row.version for row in backend.limits.all()), None)
        # Until it is set, either holds.
        self.limit = max(self.limit, running)
        self.bound = max(self.bound, running)
        assert backend.limits.put(row, after) is Verdict.DONE
        self.limit = running

    def worker(self) -> Client:
        backend, numbers = self.backend(), itertools.count()

        def act() -> None:
            for _ in range(12):
                claim = ClaimRequest("alice", f"claim {next(numbers)}", 3600.0)
                rows = backend.jobs.claim_next(claim, frozenset({NAME}), self.choose.randint(1, 3))
                backend.jobs.consume([Consumption(fence_of(row), None, 0.0) for row in rows])

        return self._add(act)

    def setter(self, *limits: int) -> Client:
        backend = self.backend()
        return self._add(lambda: [self.set(backend, running) for running in limits])

    def _add(self, act: Callable[[], object]) -> Client:
        client = Client(act)
        self.clients.append(client)
        return client

    def run(self, kills: float) -> None:
        """Let the clients go on until each is over, or killed."""
        for client in self.clients:
            client.begin()
        while left := [client for client in self.clients if not client.is_over]:
            client = self.choose.choice(left)
            if self.choose.random() < kills:
                client.kill()
            else:
                # Some go on for a while, and others stand still meanwhile.
                for _ in range(self.choose.choice((1, 1, 5, 40))):
                    if not client.is_over:
                        client.go_on()
                        self.check()

    def check(self) -> None:
        """Nothing starts that does not fit."""
        running = len(list(self.board.iterjobs(states={JobState.CLAIMED})))
        assert running <= self.bound
        self.bound = max(self.limit, min(self.bound, running))
        self.most = max(self.most, running)

    def end_all(self) -> None:
        """Nothing that was posted is stuck."""
        for job in self.board.iterjobs(states={JobState.CLAIMED}):
            self.board.release(job, reason="its client was killed")
        for _ in range(200):
            jobs = self.board.claim_next("bob", [NAME], 10, 3600.0)
            assert len(jobs) <= self.board.limits.get(name=NAME).running  # type: ignore[union-attr,operator]
            self.board.consume_many(jobs, "bob")
            if self.board.job_count == 0:
                return
        raise AssertionError(f"{self.board.job_count} jobs are stuck")


def fence_of(row: JobRow) -> Fence:
    return Fence(row.uuid, str(row.owner), row.token)


@pytest.fixture
def harness() -> Iterator[MemoryShardsHarness]:
    with MemoryShardsHarness() as harness:
        yield harness


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a shard's turn be over at once."""
    monkeypatch.setattr(slots, "TURN_OF_SHARD", 0.0)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("limit", [1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_no_more_run_whoever_is_paused_or_killed(harness: MemoryShardsHarness, limit: int, seed: int) -> None:
    crowd = Crowd(harness, seed)
    crowd.post(12)
    crowd.set(crowd.backend(), limit)
    for _ in range(5):
        crowd.worker()
    crowd.run(kills=0.01)
    assert 1 <= crowd.most <= limit
    crowd.end_all()
    assert crowd.board.audit() == []


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("seed", range(12))
def test_nothing_starts_that_does_not_fit_while_the_limit_changes(harness: MemoryShardsHarness, seed: int) -> None:
    crowd = Crowd(harness, seed)
    crowd.post(12)
    crowd.set(crowd.backend(), 3)
    for _ in range(4):
        crowd.worker()
    crowd.setter(1, 3, 2, 1)
    crowd.run(kills=0.003)
    crowd.end_all()
    assert crowd.board.audit(repair=True) == [] == crowd.board.audit()


# -- turns ---------------------------------------------------------------------------------------------------------


def told(entry: NameLimit, running: int) -> NameLimit:
    """Return a limit after all shards know of it, on each of which so many of its jobs run."""
    shown = {number: each.told() for number, each in (entry.slots or {}).items()}
    left = {
        number: each.with_running(running) if each.stage is Stage.EMPTYING else each for number, each in shown.items()
    }
    return NameLimit(entry.row, entry.step + 1, {number: each for number, each in left.items() if each is not None})


def counts_of(entry: NameLimit) -> dict[int, int]:
    return {number: each.count for number, each in sorted((entry.slots or {}).items())}


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_each_shard_whose_jobs_wait_gets_its_turn(limit: int) -> None:
    """All have more jobs than they can ever run."""
    row = LimitRow(Limit(name=NAME, running=limit), new_uuid())
    entry, served, numbers = told(begin(None, row, range(8)), 0), list[int](), list(range(8))
    assert counts_of(entry) == {}
    for now in range(0, 8 * 12, 6):
        wanting = sorted(numbers, key=lambda number: (number - entry.ask_next) % 8)
        for _ in range(2):
            # Slots leave; then others get them.
            entry = told(turn(entry, dict.fromkeys(wanting, Demand(100, 0)), float(now)), 0)
            assert sum(counts_of(entry).values()) <= limit
        served += counts_of(entry)
        entry = NameLimit(row, entry.step, entry.slots, ask_next=(served[-1] + 1) % 8)
    assert set(served) == set(numbers)


def test_a_shard_with_many_jobs_gets_all_slots_and_gives_one_to_who_comes() -> None:
    row = LimitRow(Limit(name=NAME, running=3), new_uuid())
    entry = told(begin(None, row, range(4)), 0)
    entry = told(turn(entry, {2: Demand(9, 0)}, 10.0), 3)
    assert counts_of(entry) == {2: 3}
    busy = {1: Demand(1, 0), 2: Demand(6, 3)}
    assert counts_of(turn(entry, busy, 12.0)) == {2: 3}
    entry = turn(entry, busy, 16.0)
    # Its three jobs still run.
    assert counts_of(told(entry, 3)) == {2: 3}
    entry = turn(told(entry, 2), busy, 17.0)
    assert counts_of(entry) == {1: 1, 2: 2}


def test_slots_without_jobs_leave_at_once() -> None:
    row = LimitRow(Limit(name=NAME, running=3), new_uuid())
    entry = told(turn(told(begin(None, row, range(4)), 0), {2: Demand(9, 0)}, 10.0), 1)
    entry = told(turn(entry, {0: Demand(5, 0), 2: Demand(0, 1)}, 10.5), 1)
    entry = turn(entry, {0: Demand(5, 0), 2: Demand(0, 1)}, 10.5)
    assert counts_of(entry) == {0: 2, 2: 1}


# -- boards --------------------------------------------------------------------------------------------------------


def test_conductors_run_all_jobs_and_never_more_than_the_limit(harness: MemoryShardsHarness) -> None:
    name, running, most, lock = harness.fresh_name(), 0, 0, threading.Lock()

    def resize(job: Job) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.005)
        with lock:
            running -= 1

    board = harness.board(name)
    board.post_many([Posting(NAME, key=str(number)) for number in range(20)])
    board.limits.set(name=NAME, running=2)
    conductors = []
    for number in range(3):
        handlers = Handlers()
        handlers.add(NAME, resize)
        conductors.append(Conductor(f"mill {number}", harness.board(name), handlers, concurrency=4))
    for conductor in conductors:
        conductor.start()
    try:
        for number in range(20, 30):
            board.post(NAME, key=str(number))
        eventually(lambda: board.job_count == 0, within=120)
    finally:
        for conductor in conductors:
            conductor.stop()
    assert 1 <= most <= 2


def test_what_slots_do_nobody_is_told(harness: MemoryShardsHarness) -> None:
    board = harness.board()
    events: list[JobEvent] = []
    board.subscribe(events.append)
    board.post_many([Posting(NAME, key=str(number)) for number in range(20)])
    for running in (2, 7, 3, None):
        board.limits.set(name=NAME, running=running) if running else board.limits.remove(name=NAME)
        limits = [limit.running for limit in board.limits]
        assert limits == [running] * len(limits)
        board.consume_many(board.claim_next("alice", [NAME], 3), "alice")
    eventually(lambda: sum(event.kind is EventKind.CONSUMED for event in events) >= 10)
    texts = [event.reason for event in events if event.kind is EventKind.LIMITED]
    assert texts == [f"name {NAME}: {what}" for what in ("2 running", "7 running", "3 running", "no limit")]
    assert len(board.claim_next("alice", [NAME], 100)) == board.job_count


@pytest.mark.parametrize("change", ["raised", "removed"])
@pytest.mark.parametrize("running", [2, 6])
def test_a_share_that_is_wrong_is_found_and_mended(harness: MemoryShardsHarness, change: str, running: int) -> None:
    board = harness.board()
    board.post_many([Posting(NAME, key=str(number)) for number in range(20)])
    board.limits.set(name=NAME, running=running)
    shard = board._backend.fleet.shards[2]  # type: ignore[attr-defined]
    (row,) = shard.limits.all()
    shard.limits.put(LimitRow(Limit(name=NAME, running=9 if change == "raised" else None), new_uuid()), row.version)
    (found,) = board.audit()
    assert found.problem == f"shard 2 has not the limit of name {NAME!r} that it should have"
    assert [each.repaired for each in board.audit(repair=True)] == [True]
    assert board.audit() == []
    assert len(board.claim_next("alice", [NAME], 100)) <= running


def test_what_a_killed_client_has_begun_goes_on(harness: MemoryShardsHarness) -> None:
    """It was killed after each of its requests."""
    for requests in range(1, 300):
        crowd = Crowd(harness, requests)
        crowd.post(8)
        killed = crowd.setter(2)
        killed.begin()
        for _ in range(requests):
            if not killed.is_over:
                killed.go_on()
        if killed.is_over:
            return
        killed.kill()
        if list(crowd.board.limits):
            crowd.board._backend.maintenance.tidy(100)
            assert crowd.board.audit() == []
            assert len(crowd.board.claim_next("alice", [NAME], 100)) == 2
    raise AssertionError("it takes more requests than that to set a limit")
