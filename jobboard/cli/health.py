"""What a process tells of itself by HTTP: whether it lives, whether it can work, and its metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from jobboard import telemetry
from jobboard.backends.base import NO_UUID
from jobboard.backends.timelimit import time_limit
from jobboard.cli.answers import Answer, Route, text
from jobboard.cli.session import options, setting
from jobboard.errors import JobBoardError, MissingExtra, NotFound

if TYPE_CHECKING:
    from jobboard.board import JobBoard

#: Seconds that the store has for its answer; probes of Kubernetes wait for one second unless they are told otherwise.
_STORE_TIMEOUT = 2.0

health_options = options(
    setting(
        "--health-port",
        "Answer /livez, /readyz and /metrics here; of several processes, each takes the next port. 0: any.",
        type=click.IntRange(0, 65535),
    ),
    setting("--health-host", "The address of --health-port; 0.0.0.0 in a container.", "127.0.0.1"),
)


def health_routes(
    board: JobBoard,
    lives: Callable[[], bool],
    unsent: Callable[[], list[str]] = list,
    has_started: Callable[[], bool] = lambda: True,
) -> dict[str, Route]:
    """Return what answers probes.

    :param lives: whether the process does its work; a supervisor should start it again otherwise.
    :param unsent: the uuids of jobs whose ends the store refuses; a new process would run them again.
    :param has_started: False while it makes what its handlers need.
    """
    return {
        "/livez": lambda _: text(200, "ok") if lives() else text(503, "it does not work; start it again"),
        "/readyz": lambda _: _readiness(board, unsent()) if has_started() else text(503, "it is starting"),
    }


def _readiness(board: JobBoard, unsent: list[str]) -> Answer:
    try:
        with time_limit(_STORE_TIMEOUT):
            board.get(NO_UUID)
    except NotFound:
        pass
    except JobBoardError:
        # The reason is only in the log: not every client of this page may know addresses.
        return text(503, "the store does not answer")
    if unsent:
        return text(503, f"the store refuses the ends of jobs: {', '.join(unsent)}")
    return text(200, "ok")


def metrics_routes() -> dict[str, Route]:
    """Begin to count for Prometheus, once in a process, and return what answers with the counts, if it is installed."""
    try:
        from jobboard.telemetry.prometheus import PrometheusRecorder

        telemetry.add(PrometheusRecorder())
    except MissingExtra:
        return {}
    from prometheus_client import REGISTRY

    from jobboard.cli.measuring import exposition

    return {"/metrics": lambda request: exposition(REGISTRY, request.accept)}
