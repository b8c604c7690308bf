"""What recorders cost: CPU of a process that posts and runs no-op jobs, with and without them, in rounds; and alone."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial

from prometheus_client import CollectorRegistry

from benchmarks.boards import post
from benchmarks.figures import Figure
from benchmarks.space import Space
from jobboard import Conductor, Handlers, JobBoard, telemetry
from jobboard.board import client_of
from jobboard.conductor.job_facts import JobSnapshot
from jobboard.telemetry.prometheus import PrometheusRecorder

_ROUNDS = 25
#: Of the hooks alone: the number of repeats, of which the fastest counts, and of calls in each.
_REPEATS, _CALLS = 7, 20_000


class Requests(telemetry.Recorder):
    """Counts requests."""

    count = 0

    def requested(self, board: str, operation: str, outcome: str, seconds: float, size: int | None) -> None:
        self.count += 1


def measure_telemetry(store: str, space: Space, scale: float) -> Iterator[Figure]:
    """Medians of rounds in turn, the first of which counts for nothing, and of their differences in pairs."""
    count = int(2_000 * scale)
    costs: dict[str, list[float]] = {"nobody": [], "Prometheus": []}
    for number in range(_ROUNDS + 1):
        for who, spent in costs.items():
            recorder = PrometheusRecorder(CollectorRegistry()) if who == "Prometheus" else None
            with space.open(f"telemetry-{who}-{number}") as board:
                spent.append(_with(recorder, partial(_cpu_of_jobs, board, count)) / count * 1e6)
    nobody, prometheus = (spent[1:] for spent in costs.values())
    added = statistics.median(more - less for less, more in zip(nobody, prometheus, strict=True))
    yield Figure(store, "CPU per job, nobody listens", statistics.median(nobody), "us")
    yield Figure(store, "CPU per job that Prometheus adds", added, "us")
    with space.open("telemetry-requests") as board:
        requests = Requests()
        _with(requests, partial(_cpu_of_jobs, board, count))
        per_job = requests.count / count
        yield Figure(store, "requests per job", per_job, "")
        yield Figure(store, "the hooks alone, nobody listens", _cpu_of_hooks(board, per_job, None), "us")
        prometheus_recorder = PrometheusRecorder(CollectorRegistry())
        yield Figure(store, "the hooks alone, Prometheus", _cpu_of_hooks(board, per_job, prometheus_recorder), "us")


def _with(recorder: telemetry.Recorder | None, call: Callable[[], float]) -> float:
    remove = (lambda: None) if recorder is None else telemetry.add(recorder)
    try:
        return call()
    finally:
        remove()


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


def _cpu_of_hooks(board: JobBoard, requests: float, recorder: telemetry.Recorder | None) -> float:
    """Return the microseconds of all hooks of a job and of its part of the requests."""
    board.post("ping")
    [job] = board.claim_next("somebody")
    client, snapshot = client_of(board), JobSnapshot(job)

    def hooks_of_a_job() -> None:
        for hook, arguments in (
            ("posted", (board.name, "ping", "posted")),
            ("claimed", (board.name, "ping", 0.1)),
            ("started", (snapshot,)),
            ("picked_up", (snapshot, 0.1)),
            ("ended", (snapshot, "consumed", 0.1)),
        ):
            if telemetry.is_on():
                telemetry.emit(hook, *arguments)

    def request() -> None:
        client._heard(_answer)()

    def _answer() -> list[int]:
        return [1]

    def cost(call: Callable[[], object]) -> float:
        return min(_cpu_of(call) for _ in range(_REPEATS))

    def both() -> float:
        return cost(hooks_of_a_job) + requests * (cost(request) - cost(_answer))

    return _with(recorder, both)


def _cpu_of(call: Callable[[], object]) -> float:
    begin = time.process_time()
    for _ in range(_CALLS):
        call()
    return (time.process_time() - begin) / _CALLS * 1e6
