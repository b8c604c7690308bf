"""Draining, sleeping and picking up through conductors."""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

from benchmarks.boards import claim_and_consume, post
from benchmarks.figures import Figure, percentile
from benchmarks.space import Space
from jobboard import Conductor, Handlers, Job, JobBoard

_POSTER = """
import sys, time, jobboard
with jobboard.backend(sys.argv[2], sys.argv[1]) as board:
    for line in sys.stdin:
        board.post("ping", details={"at": time.time()})
"""


def measure_drain(store: str, space: Space, scale: float) -> Iterator[Figure]:
    """20,000 no-op jobs by one conductor with 1, 8 and 64 slots, and its CPU above what the board needs by itself."""
    count = int(20_000 * scale)
    for slots in (1, 8, 64):
        with space.open(f"drain-{slots}") as board:
            post(board, 2 * count, 1000)
            begin = time.process_time()
            claim_and_consume(board, count, slots)
            alone = time.process_time() - begin
            took, cpu = _drain(board, count, slots)
        yield Figure(store, f"drain no-op jobs, {slots} slots", count / took, "/s")
        above = (cpu - alone) / count * 1e6
        yield Figure(store, f"CPU per no-op job above the board's, {slots} slots", above, "us")


def measure_sleepers(store: str, space: Space, scale: float) -> Iterator[Figure]:
    """8 slots of jobs that sleep 10 ms each, as a share of the ideal rate."""
    count = int(4000 * scale)
    with space.open("sleepers") as board:
        post(board, count, 1000)
        took, _ = _drain(board, count, 8, lambda job: time.sleep(0.01))
    ideal = 8 / 0.01
    yield Figure(store, "10 ms jobs, 8 slots", count / took, "/s", "ideal", ideal, count / took / ideal)


def measure_pickup(store: str, space: Space, scale: float) -> Iterator[Figure]:
    """From the call of post to the start of the handler in an idle conductor."""
    count = int(200 * scale)
    with space.open("pickup") as board:
        latencies = _pick_up(board, count, lambda: board.post("ping", details={"at": time.time()}))
        yield from _latencies(store, "in one process", latencies)
    if space.uri is not None:
        with space.open("pickup-far") as board:
            poster = subprocess.Popen(
                [sys.executable, "-c", _POSTER, space.uri, "pickup-far"], stdin=subprocess.PIPE, text=True
            )
            assert poster.stdin is not None
            stdin = poster.stdin

            def post_there() -> None:
                stdin.write("go\n")
                stdin.flush()

            try:
                yield from _latencies(store, "across processes", _pick_up(board, count, post_there))
            finally:
                stdin.close()
                poster.wait(10)


def _latencies(store: str, where: str, latencies: list[float]) -> Iterator[Figure]:
    for label, value in (
        ("p50", statistics.median(latencies)),
        ("p95", percentile(latencies, 0.95)),
        ("p99", percentile(latencies, 0.99)),
    ):
        yield Figure(store, f"pick-up {where}, {label}", value * 1e3, "ms")


def _pick_up(board: JobBoard, count: int, post_one: Callable[[], object]) -> list[float]:
    handlers, latencies, started = Handlers(), [], threading.Semaphore(0)

    @handlers.handler("ping")
    def ping(job: Job) -> None:
        latencies.append(time.time() - job.details["at"])  # type: ignore[index]
        started.release()

    conductor = Conductor("bench", board, handlers)
    conductor.start()
    try:
        for index in range(count + 5):
            post_one()
            if not started.acquire(timeout=30):
                raise AssertionError("a job was not picked up within 30 s")
            time.sleep(0.005 + index % 7 * 0.003)  # idle again, at no fixed distance from any polling
    finally:
        conductor.stop()
    return latencies[5:]


def _drain(board: JobBoard, count: int, slots: int, work: Callable[[Job], None] | None = None) -> tuple[float, float]:
    handlers, done, finished = Handlers(), 0, threading.Event()
    lock = threading.Lock()

    @handlers.handler("bench")
    def bench(job: Job) -> None:
        nonlocal done
        if work is not None:
            work(job)
        with lock:
            done += 1
            if done == count:
                finished.set()

    conductor = Conductor("bench", board, handlers, concurrency=slots)
    begin, cpu = time.perf_counter(), time.process_time()
    conductor.start()
    try:
        if not finished.wait(600):
            raise AssertionError("the board was not drained within 10 minutes")
    finally:
        conductor.stop()
    return time.perf_counter() - begin, time.process_time() - cpu
