"""``python -m benchmarks lives STORE``: what a life costs the server after many others, tenth by tenth.

A life is a post, a claim and its end, in batches of 50 of one client, at a fixed rate. Beside them a scheduler fires
20 schedules each second, a listener hears every event, and a console is looked at each second. Jobs that are over are
forgotten after the retention and a minute for repeated requests; the first tenth begins when as many are forgotten as
end. For SQLite the server is this process, with its console.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.boards import post
from benchmarks.catalogue import Catalogue
from benchmarks.console import console, look
from benchmarks.costs import cpu_of, disk_of, memory_of
from benchmarks.curves import check_chart, draw_curves
from benchmarks.figures import print_rows, short
from jobboard import Every, JobBoard, Schedule, Scheduler, fetch

_BATCH, _SCHEDULES, _TENTHS = 50, 20, 10
#: In seconds, besides the retention: the time for repeated requests, and some for what forgets them.
_REMEMBERED = 75
_NAME = "lives"


@dataclass(frozen=True)
class Cost:
    """What the lives of one tenth cost: microseconds of CPU each, bytes of memory and of the disk at its end."""

    cpu: float
    memory: float
    disk: float
    rate: float


_SERVERS = Catalogue(
    {
        "redis": ("servers.redis_servers:RedisServer", "redis"),
        "postgresql": ("benchmarks.postgresql_store:postgresql_server", "postgresql"),
        "mariadb": ("benchmarks.mariadb_store:mariadb_server", "mysql"),
        "zookeeper": ("benchmarks.zookeeper_store:zookeeper_server", "zookeeper"),
        "etcd": ("benchmarks.etcd_store:compacting_server", "etcd"),
        "sqlite": ("benchmarks.embedded_stores:SqliteFolder", ""),
    }
)


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks lives", description=__doc__)
    parser.add_argument("store", choices=_SERVERS)
    parser.add_argument("--lives", type=int, default=1_000_000, help="how many, without those before (1000000)")
    parser.add_argument("--rate", type=int, default=3000, help="how many a second (3000)")
    parser.add_argument("--retention", type=float, default=10, help="seconds that records stay (10)")
    parser.add_argument("--chart", type=Path, metavar="FILE", help="draw the costs over time; needs matplotlib")
    given = parser.parse_args(words)
    check_chart(given.chart)
    start: Callable[[], Any] = _SERVERS[given.store]
    rows = [("tenth", "us of CPU a life", "memory, MB", "disk, MB", "lives/s")]
    costs = list(_measure(start, given.lives, given.rate, given.retention))
    for number, cost in enumerate(costs, 1):
        rows.append((str(number), *map(short, (cost.cpu, cost.memory / 1e6, cost.disk / 1e6, cost.rate))))
    first, last = costs[0], costs[-1]
    ratios = (last.cpu / first.cpu, last.memory / first.memory, last.disk / max(first.disk, 1), last.rate / first.rate)
    print_rows([*rows, ("last/first", *(f"{ratio:.2f}" for ratio in ratios))])
    if given.chart is not None:
        lives = [number * given.lives / _TENTHS for number in range(1, _TENTHS + 1)]
        curves = {
            "CPU of a life, us": list(zip(lives, (cost.cpu for cost in costs), strict=True)),
            "memory, MB": list(zip(lives, (cost.memory / 1e6 for cost in costs), strict=True)),
            "disk, MB": list(zip(lives, (cost.disk / 1e6 for cost in costs), strict=True)),
        }
        draw_curves(curves, f"{given.store}, after many lives", "lives", "", given.chart)


def _measure(start: Callable[[], Any], lives: int, rate: int, retention: float) -> Iterator[Cost]:
    with start() as server, ExitStack() as stack:
        board = stack.enter_context(fetch(_NAME, server.uri, retention=retention))
        stack.enter_context(_beside(board, server.uri))
        _live(board, int(rate * (retention + _REMEMBERED)), rate)
        for _ in range(_TENTHS):
            began, before = time.perf_counter(), cpu_of(server.process.pid)
            done = _live(board, lives // _TENTHS, rate)
            took = time.perf_counter() - began
            cpu = (cpu_of(server.process.pid) - before) / done * 1e6
            cost = Cost(cpu, memory_of(server.process.pid), disk_of(server.folder), done / took)
            print(f"# {short(cpu)} us of CPU, {short(cost.memory / 1e6)} MB, {short(cost.rate)}/s", flush=True)
            yield cost


def _live(board: JobBoard, count: int, rate: int) -> int:
    """Lead about this many lives, besides those of the schedules; return how many."""
    ended, began = 0, time.perf_counter()
    for led in range(0, count, _BATCH):
        time.sleep(max(0.0, led / rate - (time.perf_counter() - began)))
        post(board, _BATCH, _BATCH, _NAME)
        jobs = board.claim_next("bench", limit=2 * _BATCH)
        if any(board.consume_many(jobs, "bench")):
            raise AssertionError("a claim was lost in a benchmark")
        ended += len(jobs)
    return ended


@contextmanager
def _beside(board: JobBoard, uri: str) -> Iterator[None]:
    """Have schedules, a listener and a console on this board."""
    for number in range(_SCHEDULES):
        board.schedules.add(Schedule(f"often-{number}", Every(seconds=1), _NAME, max_instances=None))
    over = threading.Event()
    with fetch(board.name, uri) as listening, console(uri, board.name) as (_, port):
        unsubscribe = listening.subscribe(lambda event: None)
        scheduler = Scheduler(board)
        scheduler.start()

        def look_on() -> None:
            while not over.wait(1):
                look(port, board.name)

        looker = threading.Thread(target=look_on)
        looker.start()
        try:
            yield
        finally:
            over.set()
            looker.join()
            scheduler.stop()
            unsubscribe()
