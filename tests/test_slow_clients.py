"""Clients that send half of a request, or never read an answer, hold up nobody: of the console, of --health-port."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx
import pytest
from helpers.console import served_app
from helpers.memory_board import board
from helpers.raw_http import HALF, connected, dribble_until_closed, half_sent, is_closed
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from jobboard import JobBoard
from jobboard.cli import console_server, http_server
from jobboard.cli.answers import Answer, text
from jobboard.cli.connections import Connections
from jobboard.cli.console_server import BoundedConnection, config_of
from jobboard.cli.http_server import HttpServer
from jobboard.console import allow, app
from jobboard.testing import eventually

__all__ = ["board"]

_FORM = (
    b"POST /b/test/names HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-origin\r\nContent-Length: 60000\r\n"
    b"Connection: close\r\n\r\n"
)
_POST = (
    b"POST /b/test/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n"
)


@contextlib.contextmanager
def console(
    asgi: Any, most: int = 500, most_of_peer: int = 100
) -> Iterator[tuple[int, Connections[BoundedConnection]]]:
    """Serve an app as the console is served; give its port."""
    connections: Connections[BoundedConnection] = Connections(most, most_of_peer)
    with served_app(asgi, config_of(asgi, connections)) as url:
        yield urlsplit(url).port or 0, connections


@contextlib.contextmanager
def health(route: Callable[[], Answer] = lambda: text(200, "ok")) -> Iterator[HttpServer]:
    with contextlib.closing(HttpServer("127.0.0.1", 0, {"/livez": lambda _: route()})) as server:
        yield server


def test_620_halves_of_requests_leave_the_console_answering(board: JobBoard) -> None:
    with console(app(board)) as (port, _), half_sent(port, 620):
        assert httpx.get(f"http://127.0.0.1:{port}/static/console.css", timeout=60).status_code == 200


def test_620_halves_of_requests_leave_a_health_port_answering() -> None:
    before = threading.active_count()
    with health() as server, half_sent(server.port, 620):
        assert httpx.get(f"http://127.0.0.1:{server.port}/livez", timeout=60).text == "ok\n"
        most = http_server._MAX_CONNECTIONS + 10
        assert eventually(lambda: threading.active_count() - before <= most)


def test_a_head_of_the_console_has_a_time_in_all(board: JobBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the next one of a kept connection, and one of which nothing comes."""
    monkeypatch.setattr(console_server, "HEAD_TIMEOUT", 0.3)
    with console(app(board)) as (port, connections):
        with connected(port) as silent, connected(port) as first:
            first.sendall(HALF + b"X: ")
            dribble_until_closed(first)
            assert eventually(lambda: is_closed(silent))
        with connected(port) as second:
            second.sendall(b"GET /static/console.css HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert second.recv(12) == b"HTTP/1.1 200"
            second.sendall(HALF + b"X: ")
            dribble_until_closed(second)
        assert eventually(lambda: not connections._peers)


def test_a_head_of_a_health_port_has_a_time_in_all_and_is_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "_TIMEOUT", 0.3)
    asked: list[str] = []

    def route() -> Answer:
        asked.append("asked")
        return text(200, "ok")

    with health(route) as server:
        for half in (b"", b"GET /live", b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: "):
            with connected(server.port) as connection:
                connection.sendall(half)
                dribble_until_closed(connection)
        assert eventually(lambda: not server._server.connections._peers)
    assert asked == []


def test_a_form_has_a_time_in_all(board: JobBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobboard.console.application._BODY_TIMEOUT", 0.3)
    asgi = app({"test": board}, access=allow("pause"))
    with console(asgi) as (port, _), connected(port) as connection:
        connection.sendall(_FORM)
        connection.settimeout(60)
        assert connection.recv(12) == b"HTTP/1.1 408"


def test_who_sends_half_of_a_body_gives_way(board: JobBoard) -> None:
    """Such a connection waits, as one with half of a head does; once the body is whole it does not."""
    asgi = app({"test": board}, access=allow("post"))
    with console(asgi, most=5, most_of_peer=3) as (port, connections), contextlib.ExitStack() as stack:
        halves = [stack.enter_context(connected(port)) for _ in range(3)]
        for each in halves:
            each.sendall(_POST + b'{"name": "mail"')
        assert eventually(lambda: len(connections._waiting) == 3)
        assert _told(port, "127.0.0.1").startswith(b"HTTP/1.1 303")
        assert eventually(lambda: sum(map(is_closed, halves)) == 1)
        whole = next(each for each in halves if not is_closed(each))
        whole.settimeout(60)
        whole.sendall(b"}".rjust(60000 - len('{"name": "mail"')))
        assert whole.recv(12) == b"HTTP/1.1 201"


def test_who_lacks_a_right_is_refused_before_the_body_comes(board: JobBoard) -> None:
    job = board.post("mail")
    asgi = app({"test": board}, access=allow("details"))
    pages = [b"names", b"lanes", b"conductors", b"conductors/release", b"lanes/limit", b"names/post", b"schedules"]
    pages += [b"bulk?action=cancel", b"jobs/" + job.uuid.encode(), b"jobs/" + job.uuid.encode() + b"/retry"]
    with console(asgi) as (port, _):
        for page in pages:
            with connected(port) as connection:
                connection.sendall(_FORM.replace(b"names", page))
                assert connection.recv(12) == b"HTTP/1.1 403", page


@pytest.mark.parametrize("path", [b"/", b"/b/test/jobs"])
def test_a_request_of_two_lengths_is_refused_and_nothing_behind_it_is_read(board: JobBoard, path: bytes) -> None:
    """What stands before the console may see its end elsewhere."""
    head = b" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
    after = b"0\r\n\r\nGET /static/console.css HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with console(app({"test": board}, access=allow("post"))) as (port, _), connected(port) as connection:
        connection.sendall(b"POST " + path + head + b"Content-Length: 5\r\n\r\n" + after)
        said = _all_of(connection)
    assert (said[:12], said.count(b"HTTP/1.1")) == (b"HTTP/1.1 400", 1)


def test_who_takes_nothing_of_an_answer_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console_server, "_SEND_TIMEOUT", 0.3)
    ended = threading.Event()

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        async def parts() -> Any:
            try:
                while True:
                    yield b"x" * (1 << 20)
                    await anyio.sleep(0)
            finally:
                ended.set()

        await StreamingResponse(parts())(scope, receive, send)

    with console(endless) as (port, connections), connected(port) as connection:
        connection.sendall(HALF + b"\r\n")
        assert ended.wait(60)
        assert eventually(lambda: not connections._peers)


def test_what_is_being_answered_is_not_closed_for_others() -> None:
    """The new one of the same peer is then; other peers are answered. Once an answer ends, there is room again."""
    go_on = threading.Event()

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        async def parts() -> Any:
            yield b"begun"
            while not go_on.is_set():
                await anyio.sleep(0.01)
            yield b"ended"

        quick = PlainTextResponse("quick")
        await (StreamingResponse(parts()) if Request(scope).url.path == "/stream" else quick)(scope, receive, send)

    with console(stream, most=5, most_of_peer=3) as (port, _), contextlib.ExitStack() as stack:
        streams = []
        for _ in range(3):
            streams.append(stack.enter_context(connected(port)))
            streams[-1].sendall(b"GET /stream HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert streams[-1].recv(12) == b"HTTP/1.1 200"
        assert _told(port, "127.0.0.1") == b""
        for peer in ("127.0.0.2", "127.0.0.3"):
            assert _told(port, peer).endswith(b"quick")
        go_on.set()
        for each in streams:
            assert _all_of(each).endswith(b"ended\r\n0\r\n\r\n")
        assert eventually(lambda: _told(port, "127.0.0.1").endswith(b"quick"))


def _told(port: int, peer: str) -> bytes:
    with connected(port, peer) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return _all_of(connection)
    return b""


def _all_of(connection: socket.socket) -> bytes:
    said = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(1 << 16):
            said += part
    return said


def test_no_segment_of_an_answer_waits_for_a_confirmation(board: JobBoard) -> None:
    """Without TCP_NODELAY the second one of a kept connection waits for some 40 milliseconds."""

    def has_no_delay(connection: socket.socket) -> bool:
        return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0

    with console(app(board)) as (port, connections), connected(port) as client:
        client.sendall(HALF)
        assert eventually(lambda: len(connections._peers) == 1)
        [served] = connections._peers
        assert has_no_delay(served.transport.get_extra_info("socket"))
    with health() as server, connected(server.port) as client:
        client.sendall(HALF)
        # In the thread of the connection, before it reads.
        assert eventually(lambda: [has_no_delay(each) for each in server._server.connections._peers] == [True])


class TestConnections:
    def test_the_peer_that_has_too_many_gives_way(self) -> None:
        connections: Connections[str] = Connections(10, 3)
        assert [connections.opened(name, "10.0.0.1") for name in ("a", "b", "c")] == [None] * 3
        assert [connections.opened(name, "10.0.0.2") for name in ("d", "e", "f")] == [None] * 3
        assert connections.opened("g", "10.0.0.2") == "d"
        assert connections.answers("e")
        assert [connections.opened(name, "10.0.0.2") for name in ("h", "i")] == ["f", "g"]
        assert connections.answers("h") and connections.answers("i")  # noqa: PT018
        assert connections.opened("j", "10.0.0.2") == "j"
        connections.waits("e")
        assert connections.opened("k", "10.0.0.2") == "e"
        assert not connections.answers("e")
        connections.closed("k")
        connections.closed("k")
        assert connections.opened("l", "10.0.0.2") is None
        assert connections.opened("m", "10.0.0.1") == "a"

    def test_of_all_the_one_that_has_waited_longest_gives_way(self) -> None:
        connections: Connections[str] = Connections(3, 3)
        for number, name in enumerate(("a", "b", "c")):
            assert connections.opened(name, f"10.0.0.{number}") is None
        connections.answers("a")
        connections.waits("a")
        assert [connections.opened(name, f"10.0.1.{name}") for name in ("d", "e", "f")] == ["b", "c", "a"]

    def test_a_host_has_many_addresses_of_version_6(self) -> None:
        connections: Connections[int] = Connections(10, 2)
        addresses = ["2001:db8::1", "2001:db8:0:1::1", "2001:db8::2", "fe80::1%eth0", "2001:db8::ffff:1"]
        assert [connections.opened(number, address) for number, address in enumerate(addresses)] == [
            None, None, None, None, 0,
        ]  # fmt: skip

    def test_what_waits_for_too_long_is_overdue(self) -> None:
        connections: Connections[str] = Connections(10, 10)
        for name in ("a", "b", "c"):
            connections.opened(name, "10.0.0.1")
        connections.answers("b")
        assert connections.take_overdue(3600) == []
        assert connections.take_overdue(-1) == ["a", "c"]
        assert connections.take_overdue(-1) == []
        assert (connections.answers("a"), connections.answers("b")) == (False, True)
