"""The command that measures a board for other systems: metrics."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

import click

from jobboard.cli.answers import Answer, Route, as_json, text
from jobboard.cli.session import Session, command, pass_session
from jobboard.errors import BoardUnavailable, NotFound
from jobboard.interrupts import SIGNAL_POLL

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from jobboard.board import JobBoard

#: Seconds between two tries to open a board.
_RETRY_INTERVAL = 5.0


@command(
    "metrics",
    "jobboard metrics",
    "jobboard metrics --port 9190 --host 0.0.0.0",
    "curl 'http://127.0.0.1:9190/scale?name=resize'",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    envvar="JOBBOARD_METRICS_PORT",
    help="Serve /metrics and /scale here until SIGTERM or SIGINT. 0: any port.",
)
@click.option(
    "--host", default="127.0.0.1", envvar="JOBBOARD_METRICS_HOST", show_default=True, help="The address of --port."
)
@pass_session
def metrics(session: Session, port: int | None, host: str) -> None:
    """Show the board's gauges as Prometheus reads them, or serve them: one such process a board is enough.

    /scale?name=NAME answers how much there is to do of one name (without it, of all), for autoscalers such as KEDA.
    """
    if port is None:
        click.echo(exposition(_gauges_of(session.board())).body, nl=False)
        return
    from jobboard.cli.http_server import HttpServer
    from jobboard.conductor import stop_on_signals

    # Served before it can be opened, since that is what ``jobboard_up`` is for.
    board, stopped = session.closed_board(create=False), threading.Event()
    with closing(board), stop_on_signals(stopped.set):
        server = HttpServer(host, port, routes_of(board, _gauges_of(board)))
        open_when_due = _opener(session, board)
        open_when_due()
        click.echo(f"metrics: http://{host}:{server.port}/metrics /scale", err=True)
        while not stopped.wait(SIGNAL_POLL):
            open_when_due()


def _opener(session: Session, board: JobBoard) -> Callable[[], None]:
    """Return what opens the board, every few seconds until it has, and says why it can't."""
    is_open, due, told = False, 0.0, ""

    def open_when_due() -> None:
        nonlocal is_open, due, told
        if is_open or time.monotonic() < due:
            return
        try:
            board.connect()
            is_open = True
        except (BoardUnavailable, NotFound) as error:
            if str(error) != told:
                session.output.warn(f"{error}; this is tried again every {_RETRY_INTERVAL:g} seconds")
            due, told = time.monotonic() + _RETRY_INTERVAL, str(error)

    return open_when_due


def _gauges_of(board: JobBoard) -> CollectorRegistry:
    from jobboard.telemetry.prometheus import check_installed

    check_installed()
    from prometheus_client import CollectorRegistry

    from jobboard.operate.gauges import BoardGauges

    registry = CollectorRegistry(auto_describe=False)
    registry.register(BoardGauges([board]))
    return registry


def exposition(registry: CollectorRegistry, accept: str = "") -> Answer:
    """Return a scrape.

    :param accept: the header of the request; only the format OpenMetrics has exemplars.
    """
    from prometheus_client.exposition import choose_encoder

    encode, kind = choose_encoder(accept)
    return Answer(200, kind, encode(registry))


def routes_of(board: JobBoard, registry: CollectorRegistry) -> dict[str, Route]:
    """Return what answers scrapes and autoscalers."""
    return {
        "/metrics": lambda request: exposition(registry, request.accept),
        "/scale": lambda request: _scale(board, request.query),
    }


def _scale(board: JobBoard, query: Mapping[str, str]) -> Answer:
    from jobboard.operate.overview import scale_of

    try:
        return as_json(200, scale_of(board, query.get("name")))
    except BoardUnavailable:
        return text(503, "the store does not answer")


COMMANDS = (metrics,)
