"""Redis: beside other libraries, beside the commit before, and what its server spends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from benchmarks.boards import claim_and_consume, post
from benchmarks.goals.goal import BEFORE, Goal, Part, Setting, Sides
from benchmarks.goals.graphs import graphs
from benchmarks.goals.lanes import lanes
from benchmarks.goals.sides import a_second, idle_conductors, scripts, telling
from benchmarks.peers.report import Results
from benchmarks.processes import drain_by
from benchmarks.stores import STORES

_LEAN = "lean scripts"
_PAIR = "CPU of the server for a pair in batches"
_IDLE = "CPU of the server by 100 idle conductors"
#: How many times as many jobs as other drains have: conductors begin for 30 ms or more, which is to count for little.
_LONG = 3
_DRAIN, _WORK = "drain", "drain of jobs that compute for 0.1 ms"


@contextmanager
def _batches(setting: Setting) -> Iterator[Sides]:
    size = max(100, setting.scaled(10_000))
    with STORES["redis"].space() as space, space.open("batches") as board, space.lean() as lean:

        def cost(post: Callable[[int, int], int], pair: Callable[[int, int], int]) -> float:
            """Return the microseconds of the server's CPU for each pair."""
            post(size, 100)
            before = space.server_cpu()
            pair(size, 100)
            return (space.server_cpu() - before) / size * 1e6

        yield {
            "jobboard": telling(_PAIR, lambda: cost(partial(post, board), partial(claim_and_consume, board))),
            _LEAN: telling(_PAIR, lambda: cost(lean.post, lean.claim_and_consume)),
        }


@contextmanager
def _idle(setting: Setting) -> Iterator[Sides]:
    with ExitStack() as stack:
        full, empty = (stack.enter_context(STORES["redis"].space()) for _ in range(2))
        stack.enter_context(idle_conductors(full, setting.scaled(100)))

        def cost() -> float:
            """Return the percents of a core that the conductors add to what a server takes by itself."""
            return 100 * a_second(lambda: full.server_cpu() - empty.server_cpu(), 10 * setting.scale)

        yield {"jobboard": telling(_IDLE, cost)}


@contextmanager
def _processes(setting: Setting) -> Iterator[Sides]:
    with STORES["redis"].space() as space:

        def side(processes: int) -> Callable[[Results], None]:
            def measure(results: Results) -> None:
                results.values[_DRAIN].append(drain_by(processes, space, _LONG * setting.scale))
                results.values[_WORK].append(drain_by(processes, space, setting.scale, cpu=100e-6))

            return measure

        yield {"2 processes": side(2), "1 process": side(1)}


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
            Goal("add the parents of a job", "/s", ">= 20,000 or ratio >= 5", "BullMQ"),
        ),
        scripts("redis", "redis", 10_000, 40, {"BullMQ": 1.0, "Huey": 0.3, BEFORE: 1.0}),
    ),
    Part("batches", (Goal(_PAIR, "us", "<= 30 or ratio <= 1.07", _LEAN),), _batches),
    Part(
        "processes",
        tuple(Goal(what, "/s", "ratio >= 1.3", "1 process", "2 processes") for what in (_DRAIN, _WORK)),
        _processes,
    ),
    lanes("redis", ">= 2,000", "ratio >= 0.95"),
    graphs("redis"),
    Part("idle", (Goal(_IDLE, "% of a core", "<= 1"),), _idle),
)
