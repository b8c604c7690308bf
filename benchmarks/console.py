"""The console beside a large board: how long its overview takes, and how large it grows; a process of its own."""

from __future__ import annotations

import http.client
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.boards import claim_and_consume, post
from benchmarks.costs import cpu_of, memory_of
from benchmarks.figures import Figure, percentile
from benchmarks.space import Space
from jobboard.operate.status import status

_NAME, _NAMES = "console", 5
_PAGES, _BROWSERS = 50, 4


def measure_console(store: str, space: Space, scale: float) -> Iterator[Figure]:
    """Of a board with a million waiting jobs, half of which are then claimed and consumed."""
    if space.uri is None:
        return
    jobs = int(1_000_000 * scale)
    with space.open(_NAME) as board:
        for number in range(_NAMES):
            post(board, jobs // _NAMES, 1000, f"name-{number}")
        began = time.perf_counter()
        status(board)
        yield Figure(store, f"one look at a board, {jobs:,} jobs", (time.perf_counter() - began) * 1e3, "ms")
        with console(space.uri, board.name) as (process, port):
            began = time.perf_counter()
            look(port, _NAME, "")
            yield Figure(store, "the first overview", (time.perf_counter() - began) * 1e3, "ms")
            for path in ("", "history.json", "names"):
                taken = _times(port, path)
                what = path or "overview"
                yield Figure(store, f"{what}, {jobs:,} jobs, p50", percentile(taken, 0.5) * 1e3, "ms")
                yield Figure(store, f"{what}, {jobs:,} jobs, p95", percentile(taken, 0.95) * 1e3, "ms")
            look(port, _NAME, "events")
            yield Figure(store, "memory of the console", memory_of(process.pid) / 1e6, "MB")
            before = cpu_of(process.pid)
            events = 2 * claim_and_consume(board, jobs // 2 // space.batch * space.batch, space.batch)
            cost = (cpu_of(process.pid) - before) / events
            yield Figure(store, f"memory of the console after {events:,} events", memory_of(process.pid) / 1e6, "MB")
            yield Figure(store, "CPU of the console for an event", cost * 1e6, "us")


@contextmanager
def console(uri: str, name: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Serve the console of a board by a process of its own; yields that, and its port."""
    command = [sys.executable, "-m", "jobboard", "serve", "--board", uri, "--name", name, "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        # There may be warnings of the store before it; if the console does not start, its errors end the lines.
        ports = (re.search(r"^console: .*:(\d+)/$", line) for line in process.stderr)
        yield process, int(next(filter(None, ports))[1])
    finally:
        process.terminate()
        process.wait(30)


def _times(port: int, path: str) -> list[float]:
    """Return how long each page took, with several browsers at once."""
    taken: list[float] = []

    def look() -> None:
        for _ in range(_PAGES):
            began = time.perf_counter()
            look(port, _NAME, path)
            taken.append(time.perf_counter() - began)

    browsers = [threading.Thread(target=look) for _ in range(_BROWSERS)]
    for browser in browsers:
        browser.start()
    for browser in browsers:
        browser.join()
    return taken


def look(port: int, board: str, path: str = "") -> None:
    """Get a page of a board's."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("GET", f"/b/{board}/{path}", headers={"Host": "localhost"})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    if answer.status != 200:
        raise RuntimeError(f"{path}: {answer.status}")
