"""Metrics of this process for Prometheus."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from jobboard.errors import MissingExtra
from jobboard.telemetry import Recorder, RunningJob

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Histogram

    Metric = TypeVar("Metric", Counter, Histogram)

#: Seconds; the last ones are for jobs that run for hours.
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0)
#: How many names of jobs get series of their own, since what is posted may have any name.
MAX_NAMES = 200
OTHER = "other"


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
    jobs further ones count as ``other``.

    :param registry: of ``prometheus_client``; None for its default one.
    :raises MissingExtra: the package ``prometheus_client`` is not installed.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        check_installed()
        from prometheus_client import REGISTRY, Counter, Histogram

        into = REGISTRY if registry is None else registry
        by_name, by_outcome = ("board", "name"), ("board", "name", "outcome")
        self._posted = _children(Counter("jobboard_posted", "Jobs posted by this process.", by_outcome, registry=into))
        self._claimed = _children(Counter("jobboard_claimed", "Jobs claimed by this process.", by_name, registry=into))
        self._lost = _children(
            Counter("jobboard_claims_lost", "Claims of this process that were lost.", by_name, registry=into)
        )
        self._ended = _children(Counter("jobboard_ended", "Claims that this process ended.", by_outcome, registry=into))
        self._waited = _children(
            Histogram(
                "jobboard_wait_seconds", "From claimable to the first claim.", by_name, buckets=_BUCKETS, registry=into
            )
        )
        self._ran = _children(
            Histogram("jobboard_run_seconds", "How long handlers ran.", by_outcome, buckets=_BUCKETS, registry=into)
        )
        self._fires = _children(Counter("jobboard_fires", "Jobs posted for schedules.", ("board",), registry=into))
        self._late = _children(
            Histogram("jobboard_fire_late_seconds", "From due to fired.", ("board",), buckets=_BUCKETS, registry=into)
        )
        self._names: set[str] = set()

    def _label(self, name: str) -> str:
        if name not in self._names:
            if len(self._names) >= MAX_NAMES:
                return OTHER
            self._names.add(name)
        return name

    def posted(self, board: str, name: str, outcome: str) -> None:
        self._posted(board, self._label(name), outcome).inc()

    def claimed(self, board: str, name: str, waited: float | None) -> None:
        label = self._label(name)
        self._claimed(board, label).inc()
        if waited is not None:
            self._waited(board, label).observe(waited)

    def ended(self, job: RunningJob, outcome: str, seconds: float) -> None:
        label = self._label(job.name)
        self._ended(job.board_name, label, outcome).inc()
        self._ran(job.board_name, label, outcome).observe(seconds)
        if outcome == "lost":
            self._lost(job.board_name, label).inc()

    def fired(self, board: str, schedule_id: str, jobs: int, late: float) -> None:
        self._fires(board).inc(jobs)
        self._late(board).observe(late)


def _children(metric: Metric) -> Callable[..., Metric]:
    """Return what gives the series of some labels, and remembers it: their number is bounded."""
    return functools.lru_cache(maxsize=None)(metric.labels)
