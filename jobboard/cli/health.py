"""What a process tells of itself by HTTP: whether it lives, whether it can work, and its metrics."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import click

from jobboard import telemetry
from jobboard.backends.timelimit import time_limit
from jobboard.board import JobBoard
from jobboard.cli.session import options
from jobboard.errors import JobBoardError, MissingExtra, NotFound

#: Seconds that the store has for its answer; probes of Kubernetes wait for one second unless they are told otherwise.
_STORE_TIMEOUT = 2.0
#: No job has it.
_NO_UUID = "00000000-0000-0000-0000-000000000000"

#: What a path answers: an HTTP status, a content type, a body.
Answer = tuple[int, str, bytes]

health_options = options(
    click.option(
        "--health-port",
        type=click.IntRange(0, 65535),
        default=None,
        envvar="JOBBOARD_HEALTH_PORT",
        help="Answer /livez, /readyz and /metrics here; of several processes, each takes the next port. 0: any.",
    ),
    click.option(
        "--health-host",
        default="127.0.0.1",
        envvar="JOBBOARD_HEALTH_HOST",
        show_default=True,
        help="The address of --health-port; 0.0.0.0 in a container.",
    ),
)


class HealthServer:
    """Serves from threads of its own until the process ends.

    :param lives: whether the process does its work; a supervisor should start it again otherwise.
    :param metrics: answers ``/metrics``; None: there are none.
    :raises click.ClickException: the port is taken, or may not be used.
    """

    def __init__(
        self,
        host: str,
        port: int,
        board: JobBoard,
        lives: Callable[[], bool],
        metrics: Callable[[], Answer] | None = None,
    ) -> None:
        routes: dict[str, Callable[[], Answer]] = {
            "/livez": lambda: _text(200, "ok") if lives() else _text(503, "it does not work; start it again"),
            "/readyz": lambda: _readiness(board),
        }
        if metrics is not None:
            routes["/metrics"] = metrics
        try:
            self._server = _Server((host, port), routes)
        except OSError as error:
            raise click.ClickException(f"--health-port {port}: can't listen on {host}: {error.strerror}") from error
        threading.Thread(target=self._server.serve_forever, name="jobboard-health", daemon=True).start()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        port: int = self._server.server_address[1]
        return port


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], routes: Mapping[str, Callable[[], Answer]]) -> None:
        self.routes = routes
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    timeout = 10
    server: _Server

    def do_GET(self) -> None:
        route = self.server.routes.get(self.path.partition("?")[0])
        known = " ".join(sorted(self.server.routes))
        status, kind, body = _text(404, f"there are: {known}") if route is None else route()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Probes come every few seconds."""


def _text(status: int, text: str) -> Answer:
    return status, "text/plain; charset=utf-8", f"{text}\n".encode()


def _readiness(board: JobBoard) -> Answer:
    try:
        with time_limit(_STORE_TIMEOUT):
            board.get(_NO_UUID)
    except NotFound:
        return _text(200, "ok")
    except JobBoardError:
        # Not why: the log says that, and whoever may ask for this need not know addresses.
        return _text(503, "the store does not answer")
    return _text(200, "ok")


def count_for_prometheus() -> Callable[[], Answer] | None:
    """Begin to count what this process does, and return what answers with the counts; None without the package.

    Once in a process.
    """
    try:
        from jobboard.telemetry.prometheus import PrometheusRecorder

        telemetry.add(PrometheusRecorder())
    except MissingExtra:
        return None
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

    return lambda: (200, CONTENT_TYPE_LATEST, generate_latest())
