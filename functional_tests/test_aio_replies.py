"""Requests that many calls share, with each of them in turn lost on the way to a server or back: each is done once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest
from harnesses import working
from harnesses.redis_harness import RedisHarness
from harnesses.sql_harness import PostgresqlHarness
from servers.base import HOST
from servers.postgresql_servers import PostgresqlServer
from servers.proxy import Proxy
from servers.redis_servers import RedisServer

from jobboard import BoardUnavailable, Job, JobBoard, JobState
from jobboard.aio import AsyncJobBoard
from jobboard.errors import ReplyLost
from jobboard.testing import Harness

CALLERS = 24
#: More requests than what all callers share takes.
TURNS = 8


@pytest.fixture(scope="module", params=["redis", "postgresql"])
def server(request: pytest.FixtureRequest) -> Iterator[Any]:
    with RedisServer() if request.param == "redis" else PostgresqlServer() as server:
        yield server


@pytest.fixture
def proxy(server: Any) -> Iterator[Proxy]:
    with Proxy((HOST, server.port)) as proxy:
        yield proxy


@pytest.fixture
def board(server: Any, proxy: Proxy) -> Iterator[JobBoard]:
    """A board behind the proxy, whose threads share requests too."""
    kind: Any = RedisHarness if isinstance(server, RedisServer) else PostgresqlHarness
    with kind(server.uri.replace(f":{server.port}", f":{proxy.port}")) as harness:
        assert isinstance(harness, Harness)
        yield harness.board(gather=True, patience=60.0)


def by_tasks(board: JobBoard, calls: list[tuple[str, tuple[Any, ...]]]) -> list[Any]:
    """Make all calls from tasks of one event loop."""
    answers: list[Any] = [None] * len(calls)
    wrapper = AsyncJobBoard.of(board)

    async def make(number: int, name: str, args: tuple[Any, ...]) -> None:
        while True:
            try:
                answers[number] = await getattr(wrapper, name)(*args)
                return
            except ReplyLost:
                raise
            except BoardUnavailable:
                continue  # as below

    async def make_all() -> None:
        async with anyio.create_task_group() as group:
            for number, (name, args) in enumerate(calls):
                group.start_soon(make, number, name, args)

    anyio.run(make_all)
    return answers


def by_threads(board: JobBoard, calls: list[tuple[str, tuple[Any, ...]]]) -> list[Any]:
    """Make all calls from threads; one is made again if a line that was only being made was cut, and nothing sent."""
    requests = [functools.partial(getattr(board, name), *args) for name, args in calls]
    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(working.insist, requests))


@pytest.mark.parametrize("make", [by_tasks, by_threads])
@pytest.mark.parametrize("what", ["reply", "request"])
def test_whatever_is_lost_each_call_takes_effect_once(
    board: JobBoard, proxy: Proxy, make: Callable[..., list[Any]], what: Any
) -> None:
    for turn in range(TURNS):
        name = f"turn {turn}"
        proxy.cut(what, after=turn)
        posted: list[Job] = make(board, [("post", (name, {"n": n})) for n in range(CALLERS)])
        proxy.disarm()
        assert [job.details for job in posted] == [{"n": n} for n in range(CALLERS)]
        assert {job.uuid for job in board.iterjobs(names=[name])} == {job.uuid for job in posted}
        claimed = board.claim_next("alice", [name], limit=CALLERS)
        proxy.cut(what, after=turn)
        assert make(board, [("consume", (job, "alice", job.uuid)) for job in claimed]) == [None] * CALLERS
        proxy.disarm()
        rows = [board.get(job.uuid).record for job in claimed]
        assert [(row.state, row.result) for row in rows] == [(JobState.COMPLETE, job.uuid) for job in claimed]
    assert board.job_count == 0
    assert proxy.cuts >= 2
