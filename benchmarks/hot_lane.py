"""``python -m benchmarks hot-lane``: how long others wait on a board of shards while one lane has half of the jobs.

Four Redis servers, four conductors, and posts at a steady rate; a round without the lane and one with it take turns.
A job waits from its post to the start of its handler.
"""

from __future__ import annotations

import argparse
import statistics
import time
from contextlib import ExitStack

from benchmarks.figures import percentile
from benchmarks.shards import SERVERS, uri_of
from jobboard import Conductor, Handlers, JobBoard, fetch
from jobboard.testing import eventually

_NUMBER = 4


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks hot-lane", description=__doc__)
    parser.add_argument("--rate", type=float, default=200.0, help="posts a second (200)")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each round (10)")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(words)
    pairs = []
    for _ in range(options.rounds):
        without, beside = (_measure(options.rate, options.seconds, has_lane) for has_lane in (False, True))
        print(f"p95 without it {without * 1000:.1f} ms, beside it {beside * 1000:.1f} ms", flush=True)
        pairs.append((without, beside))
    print(f"ratio: {statistics.median(beside / without for without, beside in pairs):.2f} (median of the rounds)")


def _measure(rate: float, seconds: float, has_lane: bool) -> float:
    """Return the 95th percentile of the waits of the jobs that are not in the lane."""
    waits: list[float] = []
    handlers = Handlers()
    handlers.add("job", lambda job: waits.append(time.time() - job.details["at"]))
    handlers.add("hot", lambda _: None)
    with ExitStack() as stack:
        servers = [stack.enter_context(SERVERS["redis"]()) for _ in range(_NUMBER)]
        uri = uri_of(servers)
        for number in range(_NUMBER):
            board = stack.enter_context(fetch("bench", uri))
            stack.enter_context(Conductor(f"mill {number}", board, handlers, concurrency=4))
        board = stack.enter_context(fetch("bench", uri))
        _post(board, rate, 2.0, has_lane)
        waits.clear()
        _post(board, rate, seconds, has_lane)
        eventually(lambda: board.job_count == 0)
        return percentile(waits, 0.95)


def _post(board: JobBoard, rate: float, seconds: float, has_lane: bool) -> None:
    began = time.monotonic()
    for number in range(int(rate * seconds)):
        time.sleep(max(0.0, began + number / rate - time.monotonic()))
        is_hot = number % 2 == 1
        name, lane = ("hot", "hot") if is_hot and has_lane else ("hot" if is_hot else "job", None)
        board.post(name, {"at": time.time()}, lane=lane)
