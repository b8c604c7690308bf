"""Whatever a client sends, the console and --health-port answer it or close: no 500, and no traceback."""

from __future__ import annotations

import contextlib
import inspect
import logging
import re
import socket
import socketserver
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote_from_bytes, urlsplit

import pytest
from helpers.console import served_app
from helpers.raw_http import connected, status_of

import jobboard.console
from jobboard import Every, JobBoard, Schedule, backend
from jobboard.cli.answers import text
from jobboard.cli.connections import Connections
from jobboard.cli.console_server import config_of
from jobboard.cli.http_server import HttpServer
from jobboard.cli.measuring import _gauges_of, routes_of
from jobboard.console import RIGHTS, allow, app
from jobboard.console.basic_auth import BasicAuth
from jobboard.console.pages import all_pages

#: What parsers of URLs, numbers, dates, headers and texts stumble over.
VALUES = [
    b"", b" ", b"[", b"]", b"http://[", b"http://[::1", b"http://]", b"//[", b"http://a:99999999", b"http://a:x", b"//",
    b"http://\xe2\x84\x80@b", b"null", b"%", b"%zz", b"%00", b"%ff%fe", b"\xff\xfe", b"\xc3\xa9", b"\xed\xa0\x80",
    b",", b";", b"=", b'"', b"'", b"<b>", b"..", b"../../etc/passwd", b"0", b"-1", b"1e999", b"9" * 5000, b"NaN",
    b"inf", b"x" * 5000, b"Basic [", b"Basic /w==", b"Basic Og==", b"Bearer x", b"gzip;q=[", b"*/*;q=x", b"bytes=9-1",
    b'W/"', b"chunked, chunked", b"9999-99-99T99:99:99Z", b"{}", b"[[[[", b"a=b; a=b;;=", b"100-continue", b"h2c",
    b"websocket", b"true", b"\t", b"a\tb",
]  # fmt: skip
HEADERS = [
    "Host", "Origin", "Sec-Fetch-Site", "Authorization", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-User",
    "X-Forwarded-Host", "Forwarded", "Accept", "Accept-Encoding", "Accept-Language", "Cookie", "Content-Type", "Expect",
    "Content-Length", "Transfer-Encoding", "If-None-Match", "If-Modified-Since", "Range", "Referer", "Last-Event-ID",
    "Connection", "Upgrade", "HX-Request", "User-Agent", "X",
]  # fmt: skip
TARGETS = [
    *VALUES,
    *(b"/" + value for value in VALUES),
    b"*",
    b"/static/" + b"../" * 50,
    b"/b/b/jobs?" + b"&".join(VALUES),
]
CONSOLE = Path(inspect.getfile(jobboard.console)).parent
#: Every parameter and every field that a page reads.
NAMES = sorted(
    {
        found
        for file in CONSOLE.rglob("*.py")
        for found in re.findall(r'(?:query|typed|field)\("(\w+)"', file.read_text())
    }
)


@pytest.fixture
def board(request: pytest.FixtureRequest) -> Iterator[JobBoard]:
    with backend(request.node.name, "memory") as board:
        board.post("mail", key="a")
        board.trash(board.post("bad"), by="test")
        board.schedules.add(Schedule("s", Every(hours=1), "mail"))
        yield board


@pytest.fixture
def console(board: JobBoard) -> Iterator[int]:
    """A console for anybody, with all rights, as ``serve`` serves it behind a proxy."""
    asgi = app({"b": board}, access=allow(*RIGHTS), hosts=["*"])
    with served_app(asgi, config_of(asgi, Connections(500, 500), is_behind_proxy=True)) as url:
        yield urlsplit(url).port or 0


@pytest.fixture
def health(board: JobBoard) -> Iterator[int]:
    routes = {"/livez": lambda _: text(200, "ok"), **routes_of(board, _gauges_of(board))}
    with contextlib.closing(HttpServer("127.0.0.1", 0, routes)) as server:
        yield server.port


@pytest.fixture(autouse=True)
def nothing_fails(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    caplog.set_level(logging.ERROR)
    printed: list[object] = []
    # It prints a traceback.
    monkeypatch.setattr(socketserver.BaseServer, "handle_error", lambda *_: printed.append(sys.exception()))
    yield
    assert [record.getMessage() for record in caplog.get_records("call")] == []
    assert printed == []


def request_of(
    target: bytes = b"/", headers: dict[str, bytes] | None = None, method: bytes = b"GET", body: bytes = b""
) -> bytes:
    given = {"Host": b"localhost", "Connection": b"close", "Sec-Fetch-Site": b"same-origin"} | (headers or {})
    if body:
        given["Content-Length"] = str(len(body)).encode()
    lines = b"".join(name.encode() + b": " + value + b"\r\n" for name, value in given.items())
    return method + b" " + target + b" HTTP/1.1\r\n" + lines + b"\r\n" + body


def refused(port: int, requests: Iterator[bytes]) -> list[tuple[int, bytes]]:
    """Return the requests that are answered with a fault of the server's, which still has to answer a good one."""
    answers = [(status_of(port, request), request[:200]) for request in requests]
    assert {status for status, _ in answers} & {200, 303, 400, 404}
    return [(status, request) for status, request in answers if status >= 500]


def test_headers(console: int, health: int) -> None:
    for port in (console, health):
        requests = (request_of(b"/b/b/names", {header: value}) for header in HEADERS for value in VALUES)
        assert refused(port, requests) == []


def test_headers_of_a_change(console: int) -> None:
    requests = (
        request_of(b"/b/b/names", {header: value}, b"POST", b"x=y") for header in HEADERS for value in VALUES[::3]
    )
    assert refused(console, requests) == []


def test_a_change_without_sec_fetch_site(console: int) -> None:
    def requests() -> Iterator[bytes]:
        for origin in VALUES:
            for host in (b"localhost", b"[", b"http://[", origin):
                yield request_of(b"/b/b/names", {"Origin": origin, "Host": host}, b"POST", b"x=y").replace(
                    b"Sec-Fetch-Site: same-origin\r\n", b""
                )

    assert refused(console, requests()) == []


def test_targets(console: int, health: int) -> None:
    for port in (console, health):
        assert refused(port, (request_of(target) for target in TARGETS)) == []
    scaled = (
        request_of(b"/scale?name=" + value) for value in VALUES + [quote_from_bytes(value).encode() for value in VALUES]
    )
    assert refused(health, scaled) == []


def test_parameters_and_fields_of_every_page(console: int) -> None:
    assert {"after", "older", "number", "token"} <= set(NAMES)

    def requests() -> Iterator[bytes]:
        for page in all_pages():
            for value in map(quote_from_bytes, VALUES):
                path = f"/b/b/{page.path.replace('{uuid}', value or 'x')}"
                given = "&".join(f"{name}={value}" for name in NAMES).encode()
                yield request_of(path.encode() + b"?" + given[:60_000])
                if page.act is not None:
                    yield request_of(path.encode(), None, b"POST", given[:60_000])

    assert refused(console, requests()) == []


def test_one_parameter_at_a_time(console: int) -> None:
    paths = [page.path for page in all_pages() if "{" not in page.path]
    requests = (
        request_of(f"/b/b/{path}?{name}={value}".encode())
        for path in paths
        for name in NAMES
        for value in ("%ff%00", "9" * 400, "[")
    )
    assert refused(console, requests) == []


def test_names_and_passwords(board: JobBoard) -> None:
    asgi = BasicAuth(app(board), {"ann": "secret"}, delay=0)
    with served_app(asgi, config_of(asgi, Connections(500, 500))) as url:
        port = urlsplit(url).port or 0
        requests = (
            request_of(b"/", {"Authorization": prefix + value}) for prefix in (b"", b"Basic ") for value in VALUES
        )
        assert {status_of(port, request) for request in requests} <= {401, 400}


@pytest.mark.parametrize("sent", [b"", b"action=pau"])
def test_a_client_that_goes_away_in_a_form(console: int, board: JobBoard, sent: bytes) -> None:
    head = request_of(b"/b/b/names", {"Content-Length": b"60"}, b"POST")
    for _ in range(20):
        with connected(console) as connection:
            connection.sendall(head + sent)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    assert status_of(console, request_of(b"/b/b/names")) == 200


def test_a_client_that_goes_away_before_its_answer(console: int, health: int) -> None:
    for port in (console, health):
        for target in (b"/metrics", b"/b/b/jobs", b"/scale"):
            for _ in range(20):
                with connected(port) as connection:
                    connection.sendall(request_of(target))
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        assert status_of(port, request_of(b"/")) in (303, 404)
