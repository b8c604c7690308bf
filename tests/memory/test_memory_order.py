"""The orders of the memory backend: always sorted, and cheap at any place."""

from __future__ import annotations

import random
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobboard.backends.ordered import LARGEST_BLOCK, PriorityIndex, SortedKeys, walk

changes = st.lists(st.tuples(st.booleans(), st.integers(0, 60)), max_size=200)


class Counted(int):
    """A number that counts how often it is compared."""

    comparisons: ClassVar[int] = 0

    def __lt__(self, other: int) -> bool:
        Counted.comparisons += 1
        return int(self) < int(other)

    def __gt__(self, other: int) -> bool:
        Counted.comparisons += 1
        return int(self) > int(other)

    __hash__ = int.__hash__


def _order_of(keys: range) -> SortedKeys[int]:
    order: SortedKeys[int] = SortedKeys()
    for key in keys:
        order.add(Counted(key))
    return order


def _comparisons_of_a_change(backlog: int) -> int:
    """Return the most comparisons that one addition and one removal took, anywhere in the order."""
    order, dice, most = _order_of(range(0, 2 * backlog, 2)), random.Random(1), 0
    for _ in range(300):
        key = Counted(2 * dice.randrange(backlog) + 1)
        Counted.comparisons = 0
        order.add(key)
        order.remove(key)
        most = max(most, Counted.comparisons)
    return most


@settings(deadline=None)
@given(changes)
def test_an_order_is_a_sorted_set(steps: list[tuple[bool, int]]) -> None:
    order: SortedKeys[int] = SortedKeys()
    model: set[int] = set()
    for add, key in steps:
        if add and key not in model:
            order.add(key)
            model.add(key)
        elif not add and key in model:
            order.remove(key)
            model.remove(key)
        elif not add:
            with pytest.raises(KeyError):
                order.remove(key)
        assert (list(order), len(order), order.first()) == (sorted(model), len(model), min(model, default=None))
    for key in range(-1, 62):
        assert list(order.after(key)) == sorted(other for other in model if other > key)
        assert (key in order) == (key in model)


@pytest.mark.parametrize("seed", range(4))
def test_an_order_of_many_blocks_is_a_sorted_set(seed: int) -> None:
    dice, order, model = random.Random(seed), SortedKeys[int](), set[int]()
    for _ in range(12_000):
        key = dice.randrange(9_000)
        if key in model:
            order.remove(key)
            model.remove(key)
        else:
            order.add(key)
            model.add(key)
    assert list(order) == sorted(model)
    for key in (-1, 0, 4_500, 8_999, 9_000):
        assert list(order.after(key)) == sorted(other for other in model if other > key)


def test_a_change_compares_hardly_more_among_a_hundred_thousand_than_among_a_hundred() -> None:
    few, many = _comparisons_of_a_change(100), _comparisons_of_a_change(100_000)
    assert 0 < many <= few + 40


@pytest.mark.parametrize("left", [1, 7, 400])
def test_what_was_emptied_leaves_no_small_blocks_behind(left: int) -> None:
    order = _order_of(range(40_000))
    for key in range(40_000):
        if key % (40_000 // left):
            order.remove(key)
    assert len(order) >= left
    assert order.blocks <= 1 + len(order) * 8 // LARGEST_BLOCK


@pytest.mark.parametrize("step", [1, -1])
def test_no_block_grows_beyond_its_size(step: int) -> None:
    order: SortedKeys[int] = SortedKeys()
    for key in range(40_000)[::step]:
        order.add(key)
    assert list(order) == list(range(40_000))
    assert order.blocks >= 40_000 / LARGEST_BLOCK


def test_the_last_key_of_a_block_is_gone_when_it_was_removed() -> None:
    order: SortedKeys[int] = SortedKeys()
    for key in range(3 * LARGEST_BLOCK):
        order.add(key)
    for key in reversed(range(3 * LARGEST_BLOCK)):
        order.remove(key)
        assert key not in order


def test_an_emptied_order_can_be_used_again() -> None:
    order = _order_of(range(3_000))
    for key in range(3_000):
        order.remove(key)
    assert (len(order), order.blocks, order.first(), list(order.after(0))) == (0, 0, None, [])
    order.add(5)
    assert list(order) == [5]


def test_a_line_is_asked_by_name_and_as_a_whole() -> None:
    line: PriorityIndex[int] = PriorityIndex()
    for key, name in [(3, "resize"), (1, "rotate"), (2, "resize"), (4, "crop")]:
        line.add(key, name)
    assert list(walk(line.orders(None))) == [1, 2, 3, 4]
    assert list(walk(line.orders(frozenset({"resize", "crop", "other"})))) == [2, 3, 4]
    assert list(walk(line.orders(None, {"resize"}))) == [1, 4]
    assert list(walk(line.orders(None), 2)) == [3, 4]
    assert list(walk(line.orders(frozenset()))) == []
    assert (line.first(None), line.first(frozenset({"resize"})), line.first(None, {"rotate"})) == (1, 2, 2)
    line.remove(4, "crop")
    assert set(line.by_name) == {"resize", "rotate"}


def test_names_that_are_left_out_but_not_there_cost_nothing() -> None:
    line: PriorityIndex[int] = PriorityIndex()
    line.add(1, "resize")
    assert line.orders(None, {"rotate", None}) == [line.whole]
