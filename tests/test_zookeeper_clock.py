"""How a ZooKeeper board estimates the server's clock."""

from __future__ import annotations

import time

from jobboard.backends.zookeeper.clock import Clock


def test_a_closer_look_does_not_set_the_clock_back() -> None:
    clock, here = Clock(), time.monotonic()
    clock.learn(1_000_000, here - 0.4, here)
    before = clock.now()
    assert 1000.19 < before < 1010
    # The true moment was 0.1 s less than the middle of the first look.
    clock.learn(1_000_000, here - 0.1, here)
    assert clock.now() >= before


def test_a_server_whose_clock_was_set_back_is_believed() -> None:
    clock, here = Clock(), time.monotonic()
    clock.learn(1_000_000, here, here)
    assert clock.now() >= 1000
    clock.learn(900_000, here, here)
    assert 900 <= clock.now() < 999
