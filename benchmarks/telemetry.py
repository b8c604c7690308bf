"""What recorders cost: CPU of a process that posts and runs no-op jobs, with and without them, in rounds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry

from benchmarks.boards import post
from benchmarks.figures import Figure
from benchmarks.space import Space
from jobboard import Conductor, Handlers, JobBoard, telemetry
from jobboard.telemetry.prometheus import PrometheusRecorder

_ROUNDS = 7


def measure_telemetry(store: str, space: Space, scale: float) -> Iterator[Figure]:
    """Medians of seven rounds each, in turn; the first of each counts for nothing."""
    count = int(5_000 * scale)
    costs: dict[str, list[float]] = {"nobody": [], "Prometheus": []}
    for number in range(_ROUNDS + 1):
        for who, spent in costs.items():
            with space.open(f"telemetry-{who}-{number}") as board:
                remove = telemetry.add(PrometheusRecorder(CollectorRegistry())) if who == "Prometheus" else None
                try:
                    spent.append(_cpu_of_jobs(board, count) / count * 1e6)
                finally:
                    if remove is not None:
                        remove()
    nobody, prometheus = (statistics.median(spent[1:]) for spent in costs.values())
    yield Figure(store, "CPU per job, nobody listens", nobody, "us")
    yield Figure(store, "CPU per job that Prometheus adds", prometheus - nobody, "us")


def _cpu_of_jobs(board: JobBoard, count: int) -> float:
    handlers = Handlers()
    handlers.add("ping", lambda job: None)
    begin = time.process_time()
    post(board, count, 1000, "ping")
    conductor = Conductor("telemetry", board, handlers, concurrency=8)
    conductor.start()
    while board.stats().names:
        time.sleep(0.02)
    conductor.stop()
    return time.process_time() - begin
