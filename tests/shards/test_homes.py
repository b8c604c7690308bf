"""Which shards the owners of a client look at first."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import pytest
from helpers.sharded import MemoryShardsHarness

from jobboard import Conductor, Handlers
from jobboard.backends.address import Address
from jobboard.backends.shards import ShardsBackend, homes
from jobboard.backends.shards.fleet import Fleet
from jobboard.backends.shards.homes import LOOK_INTERVAL, Homes
from jobboard.backends.shards.placement import MAX_HOMES
from jobboard.board import JobBoard
from jobboard.testing import eventually


@pytest.fixture
def backend() -> Iterator[ShardsBackend]:
    with MemoryShardsHarness() as harness:
        yield ShardsBackend(harness.fresh_name(), Address("shards"), uris=[f"memory://h{n}" for n in range(16)])


@pytest.fixture
def fleet(backend: ShardsBackend) -> Fleet:
    return backend.fleet


def test_a_claim_asks_each_shard_once(fleet: Fleet) -> None:
    homes = Homes(fleet)
    for seen in ([], [7]):
        order = list(homes.order("alice", seen))
        assert sorted(order) == list(range(16))
    assert order[0] == 7


def test_those_who_know_nothing_begin_with_another_shard_each_time(fleet: Fleet) -> None:
    homes = Homes(fleet)
    assert sorted(next(homes.order("alice", [])) for _ in range(16)) == list(range(16))


def test_one_claim_of_four_begins_with_a_home_and_one_with_the_next_shard_of_all(fleet: Fleet) -> None:
    homes = Homes(fleet)
    homes.learn("alice", ["alice", *(f"bob {number}" for number in range(9))])
    own = homes.waited_on()
    assert len(own) == MAX_HOMES
    rich = next(number for number in range(16) if number not in own)
    firsts = Counter(next(homes.order("alice", [], rich)) for _ in range(400))
    assert set(firsts) == set(range(16)), "no shard waits for good"
    assert 200 <= firsts[rich] < 220
    assert sum(firsts[number] for number in own) >= 100
    assert set(homes.order("bob", [])) == set(range(16))
    homes.forget("alice")
    assert not homes.are_known_to("alice")


@pytest.mark.parametrize("seen", [[], [7], [7, 3]])
def test_what_was_seen_comes_first(fleet: Fleet, seen: list[int]) -> None:
    homes = Homes(fleet)
    homes.learn("alice", ["alice"])
    for _ in range(8):
        order = list(homes.order("alice", seen, 9))
        assert sorted(order) == list(range(16))
        assert order[: len(seen)] == seen


def test_the_more_owners_the_more_rarely_each_looks(fleet: Fleet) -> None:
    homes = Homes(fleet)
    homes.learn("alice", ["alice"])
    assert homes.look_interval == LOOK_INTERVAL
    homes.learn("alice", [f"bob {number}" for number in range(1280)])
    assert homes.look_interval == 10.0
    assert len(homes.waited_on()) == 1


def test_of_many_who_wait_on_a_shard_one_wakes_at_once_when_a_job_gets_due(fleet: Fleet) -> None:
    homes, crew = Homes(fleet), [f"bob {number}" for number in range(640)]
    assert homes.rank_delay == 0.0
    delays = Counter[float]()
    for who in crew:
        homes = Homes(fleet)
        homes.learn(who, crew)
        delays[homes.rank_delay] += 1
    assert delays[0.0] == 16
    assert max(delays) == 1.0
    assert len(delays) == 9


def test_a_shard_that_is_down_is_not_asked(fleet: Fleet) -> None:
    homes = Homes(fleet)
    fleet.health.failed(3)
    assert sorted(homes.order("alice", [3])) == [number for number in range(16) if number != 3]
    for number in range(16):
        fleet.health.failed(number)
    assert len(list(homes.order("alice", []))) == 16


def test_looks_go_on_where_the_last_one_was(backend: ShardsBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """An owner that is busy between its waits passes no shard over."""
    monkeypatch.setattr(homes, "LOOK_INTERVAL", 0.02)
    with JobBoard(backend.board, backend) as board:
        waiting = backend.waiter(None)
        others, places = sorted(set(range(16)) - set(backend._homes.waited_on())), {}
        for number in others:
            monkeypatch.setattr(backend.loads, "choose", lambda number=number: number)
            places[board.post("resize").uuid] = number
        found = []
        for _ in others:
            while waiting.ready_in() != 0.0:
                waiting.wait(30)
            [job] = board.claim_next("alice", expiry=600)
            found.append(places[job.uuid])
            time.sleep(0.05)
        first = others.index(found[0])
        assert found == others[first:] + others[:first]
        waiting.close()


def test_a_conductor_learns_its_homes_and_does_the_jobs_of_all_shards(
    backend: ShardsBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    # At each of the shards that it does not wait on it looks in turn.
    monkeypatch.setattr(homes, "LOOK_INTERVAL", 0.1)
    with JobBoard(backend.board, backend) as board:
        handlers, done = Handlers(), set[str]()
        handlers.add("resize", lambda job: done.add(job.uuid))
        conductor = Conductor("mill", board, handlers, expiry=3.0)
        conductor.start()
        try:
            (entity,) = eventually_some(board)
            eventually(lambda: backend._homes.are_known_to(entity))
            posted = {board.post("resize", key=str(number)).uuid for number in range(64)}
            eventually(lambda: done == posted)
        finally:
            conductor.stop()
        assert not backend._homes.are_known_to(entity)


def eventually_some(board: JobBoard) -> list[str]:
    """Return the names of those who have registered, once somebody has."""
    eventually(lambda: board.entities() != [])
    return [entity.name for entity in board.entities()]
