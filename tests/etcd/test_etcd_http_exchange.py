"""One request over a connection of urllib3's pool, answered by a socket that says what a gateway or a proxy may say."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from urllib3 import HTTPConnectionPool

from jobboard.backends.etcd.http_exchange import Reply, exchange

LONG = 30.0
BODY = b'{"key": "aw=="}'
HEAD = "POST /v3/kv/txn HTTP/1.1\r\nAccept: */*"


class Gateway:
    """Answers each request by the next of some replies; with False, it closes the connection then."""

    def __init__(self, *replies: tuple[bytes, bool]) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self.has_closed = threading.Event()
        self._replies = list(replies)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.port = self._listener.getsockname()[1]

    def _run(self) -> None:
        # The test may end while the next connection is waited for.
        with suppress(OSError):
            self._serve()

    def _serve(self) -> None:
        while self._replies:
            connection, _ = self._listener.accept()
            self.connections += 1
            with connection:
                is_open = True
                while is_open and self._replies and (request := self._request(connection)):
                    self.requests.append(request)
                    reply, is_open = self._replies.pop(0)
                    connection.sendall(reply)
            self.has_closed.set()

    @staticmethod
    def _request(connection: socket.socket) -> bytes:
        data = b""
        while not data.endswith(BODY):
            part = connection.recv(65536)
            if not part:
                return b""
            data += part
        return data

    def close(self) -> None:
        self._listener.close()


@contextmanager
def pool_to(*replies: tuple[bytes, bool]) -> Iterator[tuple[HTTPConnectionPool, Gateway]]:
    gateway = Gateway(*replies)
    pool = HTTPConnectionPool("127.0.0.1", gateway.port, maxsize=1)
    try:
        yield pool, gateway
    finally:
        pool.close()
        gateway.close()


def ask(pool: HTTPConnectionPool) -> Reply:
    return exchange(pool, HEAD, BODY, time.monotonic() + LONG)


PLAIN = b"HTTP/1.1 200 OK\r\nDate: Mon, 23 Nov 2026 06:00:00 GMT\r\nContent-Length: 2\r\n\r\n{}"


def test_request_and_reply() -> None:
    with pool_to((PLAIN, True)) as (pool, gateway):
        reply = ask(pool)
    assert (reply.status_code, reply.reason, reply.json()) == (200, "OK", {})
    assert reply.headers["date"] == "Mon, 23 Nov 2026 06:00:00 GMT"
    head = f"{HEAD}\r\nHost: 127.0.0.1:{gateway.port}\r\nContent-Length: {len(BODY)}\r\n\r\n"
    assert gateway.requests == [head.encode() + BODY]


def test_connection_is_kept() -> None:
    with pool_to((PLAIN, True), (PLAIN, True)) as (pool, gateway):
        ask(pool), ask(pool)
        assert gateway.connections == 1


@pytest.mark.parametrize(
    "reply",
    [
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{"a\r\nA;x=y\r\n": "0123"}\r\n0\r\n\r\n',
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\nd\r\n{"a": "0123"}\r\n0\r\nX: 1\r\n\r\n',
    ],
    ids=["chunks", "trailers"],
)
def test_chunks(reply: bytes) -> None:
    with pool_to((reply, True), (PLAIN, True)) as (pool, gateway):
        assert ask(pool).json() == {"a": "0123"}
        # Nothing of the first reply is left for the next one.
        assert ask(pool).json() == {}
        assert gateway.connections == 1


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n\r\n{}",
    ],
    ids=["says so", "old protocol", "no length"],
)
def test_connection_that_ends_with_the_reply(reply: bytes) -> None:
    with pool_to((reply, False), (PLAIN, True)) as (pool, gateway):
        assert ask(pool).json() == ask(pool).json() == {}
        assert gateway.connections == 2


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (b"", OSError),
        (b"HTTP/1.1 200 OK\r\nContent-", OSError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{}", OSError),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}", OSError),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nmany\r\n{}", ValueError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n{}", ValueError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}", ValueError),
        (b"SSH-2.0-OpenSSH\r\n\r\n", ValueError),
        (b"x" * 70_000, OSError),
    ],
)
def test_what_is_no_reply_ends_the_connection(reply: bytes, error: type[Exception]) -> None:
    with pool_to((reply, False), (PLAIN, True)) as (pool, gateway):
        with pytest.raises(error):
            ask(pool)
        assert ask(pool).json() == {}
        assert gateway.connections == 2


def test_silence_ends_in_time() -> None:
    with pool_to((b"", True), (PLAIN, True)) as (pool, _), pytest.raises(TimeoutError):
        exchange(pool, HEAD, BODY, time.monotonic() + 0.05)


def test_reply_that_comes_byte_by_byte_ends_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\n")
                while True:
                    connection.sendall(b"A: b\r\n")
                    time.sleep(0.01)

        threading.Thread(target=drip, daemon=True).start()
        pool = HTTPConnectionPool("127.0.0.1", listener.getsockname()[1])
        with pytest.raises(TimeoutError):
            exchange(pool, HEAD, BODY, time.monotonic() + 0.1)


def test_connection_that_the_server_has_closed_is_made_anew() -> None:
    with pool_to((PLAIN, False), (PLAIN, True)) as (pool, gateway):
        ask(pool)
        assert gateway.has_closed.wait(LONG)
        assert ask(pool).json() == {}
        assert gateway.connections == 2
