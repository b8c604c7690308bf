"""A shard that does not answer: what goes on without it, what says so, and how its jobs come back."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator

import pytest
from helpers.sharded import MemoryShardsHarness

from jobboard import BoardUnavailable, Conductor, Handlers, JobBoard
from jobboard.backends.address import Address
from jobboard.backends.shards import ShardsBackend, homes
from jobboard.backends.shards.placement import MAX_HOMES
from jobboard.operate.status import status
from jobboard.testing import eventually
from jobboard.testing.faults import LossyBackend

LONG = 600.0


class Down:
    """A board of four shards, the third of which can be made to answer no more."""

    def __init__(self, harness: MemoryShardsHarness) -> None:
        name = harness.fresh_name()
        whole = harness.backend(name)
        assert isinstance(whole, ShardsBackend)
        self.shards = [LossyBackend(shard) for shard in whole.fleet.shards]
        self.backend = ShardsBackend(name, whole.address, shards=self.shards)
        self.board: JobBoard = harness.adopt(JobBoard(name, self.backend))
        self.lossy = self.shards[2]

    def post_on(self, number: int) -> str:
        """Post a job onto this shard, and return its uuid."""
        self.backend.loads.choose = lambda: number  # type: ignore[method-assign]
        try:
            return self.board.post("resize").uuid
        finally:
            del self.backend.loads.choose

    def stop(self) -> None:
        """Let the third shard answer nothing any more."""
        for primitive in ("post", "claim_next", "claimable", "count", "stats", "read", "page", "extend", "consume"):
            self.lossy.lose(primitive, "refused", times=10_000)
        self.lossy.lose("waiter", "refused", times=10_000)

    def go_on(self) -> None:
        self.lossy.heal()


@pytest.fixture
def down() -> Iterator[Down]:
    with MemoryShardsHarness() as harness:
        yield Down(harness)


def test_claims_go_on_without_it(down: Down) -> None:
    posted = [down.post_on(number) for number in (0, 1, 2, 3)]
    down.stop()
    assert sorted(job.uuid for job in down.board.claim_next("alice", limit=9, expiry=LONG)) == sorted(
        posted[:2] + posted[3:]
    )
    asked = down.lossy.calls["claim_next"]
    assert [down.board.claim_next("alice") for _ in range(20)] == [[]] * 20
    assert down.lossy.calls["claim_next"] == asked, "it is left alone for a while"
    down.go_on()
    eventually(lambda: [job.uuid for job in down.board.claim_next("alice")] == posted[2:3])


def test_what_it_claimed_as_it_went_away_is_given_back(down: Down) -> None:
    posted = [down.post_on(number) for number in (0, 2)]
    down.lossy.lose("claim_next", "reply")
    down.lossy.lose("claimed_under", "refused")
    assert [job.uuid for job in down.board.claim_next("alice", limit=9, expiry=LONG)] == posted[:1]
    assert down.board.get(posted[1]).record.owner == "alice"
    found = list[str]()
    eventually(lambda: found.extend(job.uuid for job in down.board.claim_next("bob", expiry=LONG)) or found)
    assert found == posted[1:]
    assert down.board.get(posted[1]).record.attempts == 1


def test_what_it_claimed_is_found_if_only_the_reply_was_lost(down: Down) -> None:
    posted = [down.post_on(number) for number in (0, 1, 2, 3)]
    down.lossy.lose("claim_next", "reply")
    assert sorted(job.uuid for job in down.board.claim_next("alice", limit=9, expiry=LONG)) == sorted(posted)


def test_posts_that_can_go_anywhere_go_elsewhere(down: Down) -> None:
    down.stop()
    with pytest.raises(BoardUnavailable, match="shard 2: "):
        down.post_on(2)
    asked = down.lossy.calls["post"]
    for _ in range(50):
        down.board.post("resize")
    assert down.lossy.calls["post"] == asked
    down.go_on()
    eventually(lambda: down.board.post("resize") is not None and down.lossy.answered["post"] > 0)


def test_the_status_names_it_and_counts_the_jobs_of_the_others(down: Down) -> None:
    for number in (0, 2, 3, 3):
        down.post_on(number)
    assert "shards" not in status(down.board)
    down.stop()
    view = status(down.board)
    assert [row["unclaimed"] for row in view["shards"]] == [1, 0, None, 2]
    (finding,) = view["findings"]
    assert finding["verdict"] == "BAD"
    assert "shard 2: " in finding["text"]
    with pytest.raises(BoardUnavailable, match="shard 2: "):
        down.board.stats()


def test_what_is_over_on_the_others_is_deleted_without_the_first_one(down: Down) -> None:
    for primitive in ("limits.all", "books.load", "maintenance.tidy"):
        down.shards[0].lose(primitive, "refused", times=10_000)
    with pytest.raises(BoardUnavailable, match="shard 0: "):
        down.backend.maintenance.tidy(100)
    assert [shard.answered["maintenance.tidy"] for shard in down.shards] == [0, 1, 1, 1]


def test_claims_of_the_others_are_extended(down: Down) -> None:
    for number in range(4):
        down.post_on(number)
    jobs = down.board.claim_next("alice", limit=4, expiry=LONG)
    down.stop()
    with pytest.raises(BoardUnavailable, match="shard 2"):
        down.board.extend_many(jobs, "alice", 2 * LONG)
    extended = [shard.answered["extend"] for shard in down.shards]
    assert extended[2] == 0
    assert all(extended[number] > 0 for number in (0, 1, 3))
    asked = down.lossy.calls["consume"]
    errors = down.board.consume_many(jobs, "alice")
    assert sum(error is None for error in errors) == 3
    assert down.lossy.calls["consume"] - asked == 2, "the ends of the others don't wait for its answer"
    down.go_on()
    assert down.board.consume_many(jobs, "alice").count(None) >= 1
    assert down.board.job_count == 0


def test_a_conductor_goes_on_without_it_and_does_its_jobs_once_it_is_back(down: Down) -> None:
    handlers, done = Handlers(), list[str]()
    handlers.add("resize", lambda job: done.append(job.uuid))
    waits = down.post_on(2)
    down.stop()
    conductor = Conductor("mill", down.board, handlers)
    conductor.start()
    try:
        for number in (0, 1, 3, 0):
            uuid = down.post_on(number)
            eventually(lambda uuid=uuid: uuid in done)  # type: ignore[misc]
        assert waits not in done
        down.go_on()
        eventually(lambda: waits in done)
    finally:
        conductor.stop()


def test_a_waiter_waits_on_four_shards_and_looks_at_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle one costs a look in a second, however many shards there are."""
    with MemoryShardsHarness() as harness:
        name = harness.fresh_name()
        whole = ShardsBackend(name, Address("shards"), uris=[f"memory://w{number}" for number in range(12)])
        shards = [LossyBackend(shard) for shard in whole.fleet.shards]
        backend = ShardsBackend(name, whole.address, shards=shards)
        board = harness.adopt(JobBoard(name, backend))
        waiting = backend.waiter(None)
        assert sum(shard.calls["waiter"] for shard in shards) == MAX_HOMES == 4
        assert waiting.ready_in() is None
        before = sum(sum(shard.calls.values()) for shard in shards)
        waiting.wait(3.2)
        assert sum(sum(shard.calls.values()) for shard in shards) - before <= 4
        monkeypatch.setattr(homes, "LOOK_INTERVAL", 0.02)
        for number in range(12):
            backend.loads.choose = lambda number=number: number  # type: ignore[misc]
            job = board.post("resize")
            waiting.wait(30)
            assert waiting.ready_in() == 0.0
            assert board.claim_next("alice", expiry=math.inf) == [job]
            assert waiting.ready_in() is None
        threading.Timer(0.2, waiting.interrupt).start()
        began = time.monotonic()
        waiting.wait(30)
        assert time.monotonic() - began < 20
        waiting.close()
