"""Many callers at once: tasks of an event loop, and threads that share requests, each beside the plain board's loop."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.boards import post
from benchmarks.figures import Figure, compare, rate
from benchmarks.space import Space
from jobboard import Job, JobBoard, fetch
from jobboard.aio import AsyncJobBoard

_CALLERS = 64
_ROUNDS = 5


def measure_aio(store: str, space: Space, scale: float) -> Iterator[Figure]:
    """Post and consume from 64 tasks and from 64 threads, and one lone call."""
    size = max(_CALLERS, int(2000 * scale))
    alone = max(1, size // 8)
    with space.open("aio") as board, fetch("aio-threads", space.uri or "memory://aio", gather=True) as gathering:
        # All in one event loop, as in a program.
        with asyncio.Runner() as runner:
            wrapper = AsyncJobBoard.of(board)

            def tasks(calls: list[Coroutine[Any, Any, Any]]) -> int:
                runner.run(_from_tasks(calls))
                return len(calls)

            posts = compare(
                lambda: rate(lambda: tasks([wrapper.post("bench") for _ in range(size)])),
                lambda: rate(lambda: post(board, alone, 1)),
                _ROUNDS,
            )
            yield _figure(store, "post from 64 tasks", posts)
            ends = compare(
                lambda: _rate_of(tasks, [wrapper.consume(job, "me") for job in _claimed(board, size)]),
                lambda: _rate_of(_consume_each(board), _claimed(board, alone)),
                _ROUNDS,
            )
            yield _figure(store, "consume from 64 tasks", ends)
            yield from _lone_call(store, board, wrapper, runner, alone)
        with ThreadPoolExecutor(_CALLERS) as threads:
            posts = compare(
                lambda: rate(lambda: len(list(threads.map(gathering.post, ["bench"] * size)))),
                lambda: rate(lambda: post(board, alone, 1)),
                _ROUNDS,
            )
        yield _figure(store, "post from 64 threads", posts)


async def _from_tasks(calls: list[Coroutine[Any, Any, Any]]) -> None:
    """Await all calls from as many tasks as there are callers, each of which awaits its own one by one."""

    async def caller(own: list[Coroutine[Any, Any, Any]]) -> None:
        for call in own:
            await call

    async with asyncio.TaskGroup() as group:
        for number in range(_CALLERS):
            group.create_task(caller(calls[number::_CALLERS]))


def _lone_call(
    store: str, board: JobBoard, wrapper: AsyncJobBoard, runner: asyncio.Runner, count: int
) -> Iterator[Figure]:
    ours: list[float] = []
    theirs: list[float] = []

    async def both() -> None:
        for _ in range(count):
            begin = time.perf_counter()
            await wrapper.post("bench")
            ours.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            board.post("bench")
            theirs.append(time.perf_counter() - begin)

    runner.run(both())
    mine, other = statistics.median(ours) * 1e6, statistics.median(theirs) * 1e6
    yield Figure(store, "a lone await of post", mine, "us", "plain", other)
    yield Figure(store, "what the await adds", mine - other, "us", goal="150 at most")


def _claimed(board: JobBoard, size: int) -> list[Job]:
    post(board, size, 100)
    return board.claim_next("me", limit=size, expiry=600)


def _rate_of(work: Any, given: list[Any]) -> float:
    return rate(lambda: work(given))


def _consume_each(board: JobBoard) -> Any:
    def consume(jobs: list[Job]) -> int:
        for job in jobs:
            board.consume(job, "me")
        return len(jobs)

    return consume


def _figure(store: str, what: str, measured: tuple[float, float, float]) -> Figure:
    ours, loop, ratio = measured
    return Figure(store, what, ours, "/s", "plain loop", loop, ratio, "3 times")
