"""``python -m benchmarks shards``: what each further Redis server adds to a board, if each has a share of a core.

Servers of 1, 2, 3 and 4 shards are measured in turn: threads of this process post jobs in batches, then others claim
and consume them in batches. The share is a quota of the kernel's (cgroups, so this needs root): what holds a board of
one server up is then that server, and not this process.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from benchmarks.boards import post
from benchmarks.catalogue import Catalogue
from benchmarks.costs import cpu_of
from benchmarks.figures import print_rows, short
from jobboard import JobBoard, fetch

_NUMBERS = (1, 2, 3, 4)
_BATCH, _THREADS = 50, 16
_PERIOD = 20_000  # microseconds; quotas are of at least 1000
_CGROUPS = Path("/sys/fs/cgroup")
SERVERS = Catalogue({"redis": ("servers.redis_servers:RedisServer", "redis")})


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks shards", description=__doc__)
    parser.add_argument("--share", type=float, default=0.08, help="of a core, for each server (0.08)")
    parser.add_argument("--jobs", type=int, default=10_000, help="for each server (10000)")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(words)
    rounds: dict[int, list[_Rates]] = {number: [] for number in _NUMBERS}
    for _, number in itertools.product(range(given.rounds), _NUMBERS):
        rates = _measure(number, given.share, given.jobs * number)
        print(f"# {number}: {rates}", flush=True)
        rounds[number].append(rates)
    rows = [("servers", "posts/s", "each one added", "ends/s", "each one added", "commands a job", "CPU a job, us")]
    first = [statistics.median(column) for column in zip(*rounds[1], strict=True)]
    for number in _NUMBERS:
        medians = [statistics.median(column) for column in zip(*rounds[number], strict=True)]
        added = [
            f"{(ours / one - 1) / (number - 1):.2f}" if number > 1 else ""
            for ours, one in zip(medians[:2], first[:2], strict=True)
        ]
        rates = (short(medians[0]), added[0], short(medians[1]), added[1], f"{medians[2]:.2f}", f"{medians[3]:.1f}")
        rows.append((str(number), *rates))
    print_rows(rows)


_Rates = tuple[float, float, float, float]


def _measure(number: int, share: float, jobs: int) -> _Rates:
    """Return the posts and the ends a second, and the commands and the microseconds of the servers' CPU a job."""
    with ExitStack() as stack:
        servers = [stack.enter_context(SERVERS["redis"]()) for _ in range(number)]
        uri = uri_of(servers)
        boards = [stack.enter_context(fetch("bench", uri)) for _ in range(_THREADS)]
        for server in servers:
            stack.enter_context(cpu_share(server.process.pid, share))
        cpu, commands = _cpu(servers), _commands(servers)
        posts = jobs / _together(boards, lambda board, _: post(board, jobs // _THREADS, _BATCH))
        ends = jobs / _together(boards, _drain)
        if boards[0].job_count:
            raise AssertionError("jobs are left in a benchmark")
        return posts, ends, (_commands(servers) - commands) / jobs, (_cpu(servers) - cpu) / jobs * 1e6


def uri_of(servers: Iterable[Any]) -> str:
    """Return the URI of a board that is spread over these servers."""
    return "shards://?" + "&".join(f"uri={quote(server.uri, safe='')}" for server in servers)


def _drain(board: JobBoard, number: int) -> None:
    owner = f"worker-{number}"
    while jobs := board.claim_next(owner, limit=_BATCH):
        if any(board.consume_many(jobs, owner)):
            raise AssertionError("a claim was lost in a benchmark")


def _together(boards: list[JobBoard], work: Callable[[JobBoard, int], object]) -> float:
    """Let each thread work on its board; return the seconds until the last is done."""
    began = time.perf_counter()
    with ThreadPoolExecutor(len(boards)) as threads:
        list(threads.map(work, boards, range(len(boards))))
    return time.perf_counter() - began


def _cpu(servers: list) -> float:  # type: ignore[type-arg]
    return sum(cpu_of(server.process.pid) for server in servers)


def _commands(servers: list) -> int:  # type: ignore[type-arg]
    """Return how many requests the servers have answered, without the commands that scripts call."""
    requests = 0
    for server in servers:
        with server.client() as client:
            stats = client.info("commandstats")
        requests += sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("evalsha", "fcall", "fcall_ro"))
    return requests


@contextmanager
def cpu_share(pid: int, share: float) -> Iterator[None]:
    """Let a process have this share of a core for the block."""
    is_old = (_CGROUPS / "cpu").is_dir()
    group = (_CGROUPS / "cpu" if is_old else _CGROUPS) / f"jobboard-{pid}"
    group.mkdir()
    quota = int(share * _PERIOD)
    if is_old:
        (group / "cpu.cfs_period_us").write_text(str(_PERIOD))
        (group / "cpu.cfs_quota_us").write_text(str(quota))
    else:
        (group / "cpu.max").write_text(f"{quota} {_PERIOD}")
    (group / "cgroup.procs").write_text(str(pid))
    try:
        yield
    finally:
        # A group goes once no process is in it.
        (group.parent / "cgroup.procs").write_text(str(pid))
        os.rmdir(group)
