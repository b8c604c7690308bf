"""A small HTTP server for probes and scrapes: it answers GET on a few paths, from threads of its own."""

from __future__ import annotations

import contextlib
import logging
import socket
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import click

from jobboard.cli.answers import Answer, Request, Route, text
from jobboard.cli.connections import Connections

logger = logging.getLogger("jobboard.cli")

#: Seconds that a client has for its whole request, and as many to take the answer.
_TIMEOUT = 10.0
#: Connections at a time, each of which has a thread, and those of one peer.
_MAX_CONNECTIONS, _MAX_OF_PEER = 128, 64


class HttpServer:
    """Serves until it is closed or the process ends.

    :param port: 0 for any free one.
    :param routes: what answers which path.
    :raises click.ClickException: the port is taken, or may not be used.
    """

    def __init__(self, host: str, port: int, routes: Mapping[str, Route]) -> None:
        try:
            self._server = _Server((host, port), routes)
        except OSError as error:
            raise click.ClickException(f"can't listen on {host}:{port}: {error.strerror or error}") from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="jobboard-http", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        port: int = self._server.server_address[1]
        return port

    def close(self) -> None:
        """Serve no more, and free the port."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    #: Connections that are not accepted yet; of more than these the kernel lets clients try again after seconds.
    request_queue_size = _MAX_CONNECTIONS

    def __init__(self, address: tuple[str, int], routes: Mapping[str, Route]) -> None:
        self.routes = routes
        self.connections: Connections[socket.socket] = Connections(_MAX_CONNECTIONS, _MAX_OF_PEER)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        surplus = self.connections.opened(request, client_address[0])
        if surplus is not None:
            _cut_off(surplus)
        if surplus is request:
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Called twice a second: the time limit of a socket is that of one read."""
        for each in self.connections.take_overdue(_TIMEOUT):
            _cut_off(each)

    def shutdown_request(self, request: Any) -> None:
        self.connections.closed(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client may go away at any time; all else is a bug."""
        if not isinstance(sys.exception(), OSError):
            logger.exception("a request of %s could not be answered", client_address[0])


def _cut_off(connection: socket.socket) -> None:
    """End what its thread is waiting for; the thread closes it."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    #: Seconds for one read, and for a whole write.
    timeout = _TIMEOUT
    #: An answer's last segment must not wait until the client has confirmed the one before.
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        # What is cut off in its head looks whole.
        if not self.server.connections.answers(self.connection):
            return
        answer = self._answer()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def _answer(self) -> Answer:
        try:
            url = urlsplit(self.path)
            query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        except ValueError:
            return text(400, "the target of the request is no URL")
        route = self.server.routes.get(url.path)
        if route is None:
            return text(404, f"there are: {' '.join(sorted(self.server.routes))}")
        return route(Request(query, self.headers.get("Accept", "")))

    def log_message(self, format: str, *arguments: object) -> None:
        """Probes come every few seconds."""
