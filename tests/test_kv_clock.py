"""How the boards on etcd and ZooKeeper estimate the clock of a server."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from jobboard.backends.kv.clock import ServerClock


def test_the_true_moment_is_never_before_now_and_never_after_the_slack() -> None:
    clock, here = ServerClock(), time.monotonic()
    # It was made at any moment in between; and whole milliseconds are shown, cut off.
    clock.learn(1000, 0.001, here - 0.4, here)
    before, now, after = time.monotonic() - here, clock.now(), time.monotonic() - here
    # But for the rounding of numbers.
    assert now <= 1000 + after + 1e-6
    assert now + clock.slack >= 1000.401 + before - 1e-6


def test_a_closer_look_does_not_set_the_clock_back() -> None:
    clock, here = ServerClock(), time.monotonic()
    clock.learn(1000, 0.001, here - 0.4, here)
    before = clock.now()
    assert 999.9 < before < 1010
    # The true moment was 0.1 s less than the middle of the first look.
    clock.learn(1000, 0.001, here - 0.1, here)
    assert clock.now() >= before


def test_a_server_whose_clock_was_set_back_is_believed() -> None:
    clock, here = ServerClock(), time.monotonic()
    clock.learn(1000, 0.001, here, here)
    assert clock.now() >= 999.9
    clock.learn(900, 0.001, here, here)
    assert 899.9 <= clock.now() < 999


def test_a_slow_request_does_not_replace_a_closer_look_of_long_ago() -> None:
    clock, here = ServerClock(), time.monotonic()
    clock.learn(1000, 0.001, here - 100, here - 100)
    # It was on its way for eight seconds, and was made at the end of them.
    clock.learn(1100, 0.001, here - 8, here)
    assert clock.now() + clock.slack < 1100 + (time.monotonic() - here) + 0.2


def test_a_look_that_is_about_as_close_replaces_one_of_long_ago() -> None:
    clock, here = ServerClock(), time.monotonic()
    clock.learn(1000, 0.001, here - 100, here - 100)
    # Meanwhile the clocks have drifted apart.
    clock.learn(1100.03, 0.001, here - 0.05, here)
    assert clock.now() > 1100.02


@pytest.fixture
def threads_take_short_turns() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("threads_take_short_turns")
def test_answers_in_several_threads_never_set_the_clock_back() -> None:
    for _ in range(300):
        clock, here, begin = ServerClock(), time.monotonic(), threading.Barrier(3)

        def learn(worst: float, clock: ServerClock = clock, here: float = here, begin: Any = begin) -> None:
            begin.wait()
            for part in range(20):
                slack = worst / (part + 1)
                clock.learn(1000 + time.monotonic() - here - slack, 2 * slack, time.monotonic(), time.monotonic())

        threads = [threading.Thread(target=learn, args=(worst,)) for worst in (0.1, 5.0)]
        for thread in threads:
            thread.start()
        begin.wait()
        moments = [clock.now() for _ in range(300)]
        for thread in threads:
            thread.join()
        # But for the rounding of numbers.
        assert all(later >= earlier - 1e-6 for earlier, later in itertools.pairwise(moments))
