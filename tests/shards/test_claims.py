"""How many shards a claim asks in vain."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from helpers.sharded import COUNT, Counting, MemoryShardsHarness


@pytest.fixture
def counting() -> Iterator[Counting]:
    with MemoryShardsHarness() as harness:
        yield Counting(harness)


def test_who_has_no_homes_asks_every_shard(counting: Counting) -> None:
    for _ in range(5):
        assert counting.board.claim_next("alice") == []
    assert counting.claims == 5 * COUNT


def test_an_owner_with_homes_asks_no_more_in_vain_than_its_jobs_allow(counting: Counting) -> None:
    counting.backend._homes.learn("alice", ["alice"])
    for _ in range(5):
        assert counting.board.claim_next("alice") == []
    assert counting.claims == COUNT
    for number in range(100):
        counting.post_on(number % COUNT)
        counting.backend._claims.begin_at(number % COUNT)
        assert len(counting.board.claim_next("alice", limit=2)) == 1
        assert counting.board.claim_next("alice", limit=2) == []
    assert counting.claims <= COUNT + 100 * 1.15 + 1


def test_it_goes_on_where_it_got_all_that_it_asked_for(counting: Counting) -> None:
    """Also without credit, and if that is no home."""
    homes = counting.backend._homes
    homes.learn("alice", ["alice"])
    (other, *_) = [number for number in range(COUNT) if not homes.has("alice", number)]
    for _ in range(50):
        counting.post_on(other)
    while not counting.board.claim_next("alice"):
        continue
    for _ in range(49):
        assert len(counting.board.claim_next("alice")) == 1
    assert counting.claims <= 2 * COUNT + 50 * 1.3


def test_the_more_owners_the_fewer_shards_one_asks_in_a_row(counting: Counting) -> None:
    homes = counting.backend._homes
    asked = []
    for others in (0, 5, 11, 100):
        homes.forget("alice")
        homes.learn("alice", ["alice", *(f"bob {number}" for number in range(others))])
        for _ in range(100):
            counting.post_on(5)
            counting.backend._claims.begin_at(5)
            assert len(counting.board.claim_next("alice")) == 1
        before = counting.claims
        for _ in range(20):
            assert counting.board.claim_next("alice") == []
        # One where it got its last job.
        asked.append(counting.claims - before)
    assert asked == sorted(asked, reverse=True)
    assert (asked[0], asked[-1]) == (COUNT, 2)
