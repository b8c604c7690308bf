"""SQLite: across processes, idle, and beside bare statements that write the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from benchmarks.boards import claim_and_consume, post
from benchmarks.figures import rate
from benchmarks.goals.goal import Goal, Part, Setting, Sides
from benchmarks.goals.sides import a_second, idle_conductors, scripts, telling
from benchmarks.peers.report import Results
from benchmarks.stores import STORES

_STORE = "sqlite-full"
_IDLE = "CPU of an idle conductor"
_POSTS, _PAIRS = "post in batches of 100", "claim and consume in batches of 100"
_BESIDE = "bare, same rows"


@contextmanager
def _idle(setting: Setting) -> Iterator[Sides]:
    with STORES[_STORE].space() as space, idle_conductors(space, 1):
        yield {"jobboard": telling(_IDLE, lambda: 100 * a_second(time.process_time, 10 * setting.scale))}


@contextmanager
def _batches(setting: Setting) -> Iterator[Sides]:
    size = max(100, setting.scaled(5000))
    with STORES[_STORE].space() as space, space.open("batches") as board, space.same() as bare:

        def side(post: Callable[[int, int], int], pair: Callable[[int, int], int]) -> Callable[[Results], None]:
            def measure(results: Results) -> None:
                results.values[_POSTS].append(rate(lambda: post(size, 100)))
                results.values[_PAIRS].append(rate(lambda: pair(size, 100)))

            return measure

        yield {
            "jobboard": side(partial(post, board), partial(claim_and_consume, board)),
            _BESIDE: side(bare.post, bare.claim_and_consume),
        }


PARTS = (
    Part("pickup", (Goal("pick-up p50", "ms", "<= 2"),), scripts(_STORE, "", 0, 60, {})),
    Part("idle", (Goal(_IDLE, "% of a core", "<= 1"),), _idle),
    Part(
        "batches", (Goal(_POSTS, "/s", "ratio >= 0.5", _BESIDE), Goal(_PAIRS, "/s", "ratio >= 0.5", _BESIDE)), _batches
    ),
)
