"""Packers that are used again."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgpack
import pytest

from jobboard.codec import Packers


@pytest.mark.parametrize("value", [None, {"a": [1, 2.5, "ä"]}, "x" * 1_000_000, [0] * 300_000])
def test_it_packs_as_msgpack_does_also_the_second_time(value: Any) -> None:
    packers = Packers()
    assert [packers.pack(value), packers.pack([]), packers.pack(value)] == [
        msgpack.packb(value),
        b"\x90",
        msgpack.packb(value),
    ]


@pytest.mark.parametrize("fault", [["fine", object()], [2**64], "\ud800"])
def test_what_can_not_be_packed_leaves_nothing_behind(fault: Any) -> None:
    packers = Packers()
    for _ in range(3):
        with pytest.raises((TypeError, ValueError, OverflowError)):
            packers.pack(fault)
        assert packers.pack([1]) == b"\x91\x01"


def test_a_call_inside_of_another_one_has_a_packer_of_its_own() -> None:
    def pack_inside(value: Any) -> bytes:
        return packers.pack(["inner", *value])

    packers = Packers(default=pack_inside)
    assert msgpack.unpackb(packers.pack(["outer", {7}])) == ["outer", msgpack.packb(["inner", 7])]


def test_threads_do_not_mix_their_values() -> None:
    packers = Packers(default=sorted)

    def pack_some(number: int) -> bool:
        values: list[Callable[[], Any]] = [lambda: {number}, lambda: {number: {number}}, lambda: [{number}] * 50]
        return all(packers.pack(value()) == msgpack.packb(value(), default=sorted) for value in values * 300)

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(pack_some, range(8)))
