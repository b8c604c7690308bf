"""Redis: beside other libraries, beside the commit before, and what its server spends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import redis

from benchmarks.goals.goal import BEFORE, Goal, Part, Setting, Sides
from benchmarks.goals.sides import a_second, idle_conductors, scripts, telling
from benchmarks.processes import drain_by
from benchmarks.stores import STORES

_IDLE = "CPU of the server by 100 idle conductors"


def _cpu_of(uri: str) -> float:
    """Return the seconds of CPU that a server has had."""
    with redis.Redis.from_url(uri) as client:
        told = client.info("cpu")
    return float(told["used_cpu_user"]) + float(told["used_cpu_sys"])


@contextmanager
def _idle(setting: Setting) -> Iterator[Sides]:
    with ExitStack() as stack:
        full, empty = (stack.enter_context(STORES["redis"].space()) for _ in range(2))
        stack.enter_context(idle_conductors(full, setting.scaled(100)))

        def cost() -> float:
            """Return the percents of a core that the conductors add to what a server takes by itself."""
            return 100 * a_second(lambda: _cpu_of(full.uri) - _cpu_of(empty.uri), 10 * setting.scale)

        yield {"jobboard": telling(_IDLE, cost)}


@contextmanager
def _processes(setting: Setting) -> Iterator[Sides]:
    with STORES["redis"].space() as space:
        yield {
            "2 processes": telling("drain", lambda: drain_by(2, space, setting.scale)),
            "1 process": telling("drain", lambda: drain_by(1, space, setting.scale)),
        }


PARTS = (
    Part(
        "peers",
        (
            Goal("drain", "/s", "ratio >= 1.5", "BullMQ"),
            Goal("drain", "/s", "ratio >= 2", BEFORE),
            Goal("post one by one", "/s", "ratio >= 0.8", "Huey"),
            Goal("post in batches of 100", "/s", ">= 40,000 or ratio >= 2", "BullMQ"),
            Goal("claim and consume in 100s", "/s", ">= 20,000"),
            Goal("pick-up p50", "ms", "ratio <= 1", "Huey"),
        ),
        scripts("redis", "redis", 10_000, 40, {"BullMQ": 1.0, "Huey": 0.3, BEFORE: 1.0}),
    ),
    Part("processes", (Goal("drain", "/s", "ratio >= 1.3", "1 process", "2 processes"),), _processes),
    Part("idle", (Goal(_IDLE, "% of a core", "<= 1"),), _idle),
)
