"""Where things go on a board of shards: pure functions."""

from __future__ import annotations

import random
import uuid
from collections import Counter

import pytest

from jobboard.backends.rows import NewJob, Ties
from jobboard.backends.shards import placement
from jobboard.validation import check_uuid


@pytest.mark.parametrize("number", [0, 1, 15, 255, 1023])
def test_a_uuid_has_the_number_of_its_shard(number: int) -> None:
    made = placement.new_uuid(number)
    assert check_uuid(made) == made
    assert (uuid.UUID(made).version, uuid.UUID(made).variant) == (8, uuid.RFC_4122)
    assert placement.number_in(made, 1024) == number


def test_uuids_are_unique_and_begin_with_the_moment() -> None:
    made = [placement.new_uuid(3) for _ in range(10_000)]
    assert len(set(made)) == len(made)
    assert [each[:13] for each in made] == sorted(each[:13] for each in made)


def test_a_uuid_of_another_making_goes_by_its_hash() -> None:
    others = [str(uuid.uuid4()) for _ in range(4000)]
    assert {placement.number_in(each, 4) for each in others} == {None}
    assert all(900 < count < 1100 for count in Counter(placement.rendezvous(each, 4) for each in others).values())


def test_the_number_of_a_shard_that_there_is_not_counts_for_nothing() -> None:
    made = placement.new_uuid(9)
    assert placement.number_in(made, 4) is None
    assert placement.number_in("no uuid", 4) is None


def test_one_shard_more_takes_only_its_own_part() -> None:
    texts = [f"text {number}" for number in range(4000)]
    before, after = ([placement.rendezvous(text, count) for text in texts] for count in (4, 5))
    moved = [now for then, now in zip(before, after, strict=True) if then != now]
    assert set(moved) == {4}
    assert 700 < len(moved) < 900


@pytest.mark.parametrize(("count", "owners"), [(16, 4), (16, 5), (64, 16), (64, 100), (256, 64), (256, 1000), (3, 2)])
def test_every_shard_is_waited_on_by_as_many_as_any_other(count: int, owners: int) -> None:
    """From a quarter as many owners as there are shards on."""
    crew = [f"worker {number}" for number in range(owners)]
    waited_on = Counter(number for who in crew for number in placement.homes(who, crew, count)[0])
    assert set(waited_on) == set(range(count))
    assert max(waited_on.values()) - min(waited_on.values()) <= 1


def test_owners_have_four_homes_or_one_if_they_are_many() -> None:
    crew = [f"worker {number}" for number in range(640)]
    assert len(placement.homes(crew[0], crew[:16], 16)[0]) == 4
    assert len(placement.homes(crew[0], crew, 16)[0]) == 1
    assert len(placement.homes("a stranger", [], 16)[0]) == 4
    assert placement.homes(crew[0], crew, 1)[0] == [0]


def test_a_few_owners_stand_far_apart() -> None:
    crew = ["alice", "bob"]
    assert sorted(placement.homes(who, crew, 64)[0][0] for who in crew) == [0, 32]


def test_a_lane_comes_before_a_key() -> None:
    def text(**fields: object) -> str | None:
        return placement.text_of_posting(NewJob("u", "resize", 3, b"", **fields))  # type: ignore[arg-type]

    assert text() is None
    assert text(key="k") == placement.text_of_key("resize", "k")
    assert text(ties=Ties("tenant:1")) == text(key="k", ties=Ties("tenant:1")) == placement.text_of_lane("tenant:1")


def test_of_two_shards_the_one_with_fewer_jobs_is_chosen() -> None:
    choose, loads = random.Random(1), [0.0] * 64
    for _ in range(64_000):
        loads[placement.less_loaded(loads, range(64), choose)] += 1
    assert max(loads) - min(loads) < 10
    assert {placement.less_loaded([5.0, 0.0, 0.0], [0], choose) for _ in range(99)} == {0}


def test_of_those_who_wait_on_a_shard_one_is_the_first() -> None:
    crew = [f"worker {number}" for number in range(640)]
    waits = Counter(
        (number, rank) for who in crew for numbers, rank in [placement.homes(who, crew, 16)] for number in numbers
    )
    assert waits == Counter(dict.fromkeys(((number, rank) for number in range(16) for rank in range(40)), 1))
    few = [placement.homes(who, crew[:7], 16)[1] for who in crew[:7]]
    assert max(few) <= 1
