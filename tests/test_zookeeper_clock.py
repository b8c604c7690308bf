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


def test_a_slow_request_does_not_replace_a_closer_look_of_long_ago() -> None:
    clock, here = Clock(), time.monotonic()
    clock.learn(1_000_000, here - 100, here - 100)
    # It was on its way for eight seconds, and was made at the end of them.
    clock.learn(1_100_000, here - 8, here)
    assert clock.now() < 1100 + (time.monotonic() - here) + 0.2


def test_a_look_that_is_about_as_close_replaces_one_of_long_ago() -> None:
    clock, here = Clock(), time.monotonic()
    clock.learn(1_000_000, here - 100, here - 100)
    # Meanwhile the clocks have drifted apart.
    clock.learn(1_100_030, here - 0.05, here)
    assert clock.now() > 1100.04
