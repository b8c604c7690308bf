"""Metrics of this process for Prometheus."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from jobboard.errors import MissingExtra
from jobboard.telemetry import Recorder, RunningJob
from jobboard.telemetry.labels import BoundedLabels

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Histogram

    Metric = TypeVar("Metric", Counter, Histogram)

#: Seconds; the last ones are for jobs that run for hours.
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0)
#: Seconds of a request.
_REQUEST_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SIZES = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
#: The requests whose sizes are measured.
_BATCHES = frozenset({"post", "claim_next", "extend", "consume", "abandon"})
#: A trace that somebody keeps, and whose name an exemplar can have.
_SAMPLED = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f][13579bdf]")


def check_installed() -> None:
    """Raise :class:`MissingExtra` without the package ``prometheus_client``."""
    try:
        import prometheus_client  # noqa: F401, whether it is there
    except ModuleNotFoundError:
        text = "metrics need the Python package 'prometheus_client': pip install 'jobboard[prometheus]'"
        raise MissingExtra(text) from None


class PrometheusRecorder(Recorder):
    """Counts and measures what this process does: pass it to :func:`jobboard.telemetry.add`.

    Labels are the board, the job's name and the outcome; never a uuid, a key, an owner or a text. After 200 names of
    jobs further ones count as ``other``. The first attempts of jobs that were posted in a sampled trace have its id as
    an exemplar, which Prometheus gets in the format OpenMetrics.

    :param registry: of ``prometheus_client``; None for its default one.
    :raises MissingExtra: the package ``prometheus_client`` is not installed.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        check_installed()
        from prometheus_client import REGISTRY, Counter, Histogram

        into = REGISTRY if registry is None else registry
        by_name, by_outcome, by_operation = ("board", "name"), ("board", "name", "outcome"), ("board", "operation")

        def histogram(
            name: str, text: str, labels: Sequence[str], buckets: Sequence[float]
        ) -> Callable[..., Histogram]:
            return _children(Histogram(f"jobboard_{name}", text, labels, buckets=buckets, registry=into))

        self._posted = _children(Counter("jobboard_posted", "Jobs posted by this process.", by_outcome, registry=into))
        self._claimed = _children(Counter("jobboard_claimed", "Jobs claimed by this process.", by_name, registry=into))
        self._lost = _children(
            Counter("jobboard_claims_lost", "Claims of this process that were lost.", by_name, registry=into)
        )
        self._ended = _children(Counter("jobboard_ended", "Claims that this process ended.", by_outcome, registry=into))
        self._waited = histogram("wait_seconds", "From claimable to the first claim.", by_name, _BUCKETS)
        self._picked_up = histogram("pickup_seconds", "From claimable to the first run.", by_name, _BUCKETS)
        self._ran = histogram("run_seconds", "How long handlers ran.", by_outcome, _BUCKETS)
        self._steps = _children(
            Counter("jobboard_steps", "Steps of jobs recorded by this process.", by_name, registry=into)
        )
        self._stepped = histogram("step_seconds", "How long the functions of steps ran.", by_name, _BUCKETS)
        self._signals = _children(
            Counter("jobboard_signals", "Signals sent by this process.", ("board", "outcome"), registry=into)
        )
        self._fires = _children(Counter("jobboard_fires", "Jobs posted for schedules.", ("board",), registry=into))
        self._late = histogram("fire_late_seconds", "From due to fired.", ("board",), _BUCKETS)
        self._requests = histogram("request_seconds", "Requests to stores.", by_operation, _REQUEST_BUCKETS)
        self._errors = _children(
            Counter("jobboard_request_errors", "Requests that failed.", (*by_operation, "outcome"), registry=into)
        )
        self._sizes = histogram("batch_size", "How many of a request's batch were answered.", by_operation, _SIZES)
        self._label = BoundedLabels()

    def posted(self, board: str, name: str, outcome: str) -> None:
        self._posted(board, self._label(name), outcome).inc()

    def claimed(self, board: str, name: str, waited: float | None) -> None:
        label = self._label(name)
        self._claimed(board, label).inc()
        if waited is not None:
            self._waited(board, label).observe(waited)

    def picked_up(self, job: RunningJob, seconds: float) -> None:
        self._picked_up(job.board_name, self._label(job.name)).observe(seconds, _exemplar(job))

    def ended(self, job: RunningJob, outcome: str, seconds: float) -> None:
        label = self._label(job.name)
        self._ended(job.board_name, label, outcome).inc()
        self._ran(job.board_name, label, outcome).observe(seconds, _exemplar(job))
        if outcome == "lost":
            self._lost(job.board_name, label).inc()

    def stepped(self, job: RunningJob, step: str, seconds: float) -> None:
        label = self._label(job.name)
        self._steps(job.board_name, label).inc()
        if not step.startswith(":"):
            self._stepped(job.board_name, label).observe(seconds)

    def signalled(self, board: str, signal: str, outcome: str) -> None:
        self._signals(board, outcome).inc()

    def fired(self, board: str, schedule_id: str, jobs: int, late: float) -> None:
        self._fires(board).inc(jobs)
        self._late(board).observe(late)

    def requested(self, board: str, operation: str, outcome: str, seconds: float, size: int | None) -> None:
        self._requests(board, operation).observe(seconds)
        if outcome != "answered":
            self._errors(board, operation, outcome).inc()
        elif size is not None and operation in _BATCHES:
            self._sizes(board, operation).observe(size)


def _exemplar(job: RunningJob) -> dict[str, str] | None:
    """Return the trace of a job's first attempt; later ones have traces of their own, which nobody knows here."""
    if job.attempts != 1 or not (trace := job.trace):
        return None
    found = _SAMPLED.fullmatch(trace.get("traceparent", ""))
    return {"trace_id": found[1]} if found else None


def _children(metric: Metric) -> Callable[..., Metric]:
    """Return what gives the series of some labels, and remembers it: their number is bounded."""
    return functools.lru_cache(maxsize=None)(metric.labels)
