"""A small HTTP server for probes and scrapes: it answers GET on a few paths, from threads of its own."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import click

from jobboard.cli.answers import Request, Route, text


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

    def __init__(self, address: tuple[str, int], routes: Mapping[str, Route]) -> None:
        self.routes = routes
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    #: Seconds for a client that sends nothing.
    timeout = 10
    server: _Server

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        route = self.server.routes.get(url.path)
        known = " ".join(sorted(self.server.routes))
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        answer = (
            text(404, f"there are: {known}") if route is None else route(Request(query, self.headers.get("Accept", "")))
        )
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Probes come every few seconds."""
