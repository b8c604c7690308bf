"""One request to etcd's gateway and its reply, over a connection of urllib3's pool.

urllib3 and the standard library send the head of a request and its body one by one, and read the head of a reply as
they read mail: that is half of the CPU that a request takes. So only the pool is urllib3's here, by two methods that it
does not promise (``_get_conn``, ``_put_conn``): it connects, by TLS too, and finds connections that the server closed.
"""

from __future__ import annotations

import json
import socket
import ssl
import time
from dataclasses import dataclass
from io import BufferedReader, RawIOBase
from typing import TYPE_CHECKING, Any

from urllib3 import HTTPConnectionPool
from urllib3.exceptions import SSLError

from jobboard.backends.etcd.http_pool import close_idle

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

#: No line of a reply's head is as long as this.
_MAX_LINE = 1 << 16
_MIN_TIMEOUT = 0.001


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole reply; the first attributes are those that etcd3gw reads of a response.

    :param headers: by their names in lower case.
    """

    status_code: int
    reason: str
    data: bytes
    headers: dict[str, str]

    @property
    def text(self) -> str:
        return self.data.decode(errors="replace")

    def json(self) -> Any:
        return json.loads(self.data)


def exchange(pool: HTTPConnectionPool, head: str, body: bytes, until: float) -> Reply:
    """Send a request and return the whole reply.

    :param head: the lines of the head, but for those that say where it goes and how long the body is.
    :param until: the moment of the monotonic clock at which to give up.
    :raises HTTPError: of urllib3: there is no connection.
    :raises OSError: there is no reply.
    :raises ValueError: the reply is none of HTTP.
    """
    request = f"{head}\r\nHost: {_host_of(pool)}\r\nContent-Length: {len(body)}\r\n\r\n".encode("latin-1") + body
    connection: Any = pool._get_conn()
    is_kept = False
    try:
        connection.timeout = max(_MIN_TIMEOUT, until - time.monotonic())
        if connection.sock is None:
            connection.connect()
        connection.sock.settimeout(max(_MIN_TIMEOUT, until - time.monotonic()))
        connection.sock.sendall(request)
        reply, is_kept = _read_reply(BufferedReader(_Incoming(connection.sock, until)))
        return reply
    except ssl.SSLError as error:
        raise SSLError(error) from None
    except OSError:
        # What ended this connection without a word may have ended all.
        close_idle(pool)
        raise
    finally:
        if not is_kept:
            connection.close()
        pool._put_conn(connection)


class _Incoming(RawIOBase):
    """What comes from a server, which has one limit for all of it, however slowly it sends."""

    def __init__(self, sock: socket.socket, until: float) -> None:
        self._sock, self._until = sock, until

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the reply takes too long")
        self._sock.settimeout(left)
        return self._sock.recv_into(buffer)


def _host_of(pool: HTTPConnectionPool) -> str:
    host = f"[{pool.host}]" if ":" in pool.host else pool.host
    return f"{host}:{pool.port}"


def _read_reply(stream: BufferedReader) -> tuple[Reply, bool]:
    """Return a reply, and whether the connection can take another request."""
    protocol, _, status = _line(stream).partition(" ")
    if not protocol.startswith("HTTP/1."):
        raise ValueError(f"not a reply of HTTP: {protocol[:20]!r}")
    code, _, reason = status.partition(" ")
    headers = _headers(stream)
    closes = protocol == "HTTP/1.0" or headers.get("connection", "").lower() == "close"
    if headers.get("transfer-encoding", "").lower() == "chunked":
        data = b"".join(_chunks(stream))
    elif (length := headers.get("content-length")) is not None:
        data = _exactly(stream, _size(length, 10))
    else:
        data, closes = stream.read(), True
    return Reply(int(code), reason, data, headers), not closes


def _headers(stream: BufferedReader) -> dict[str, str]:
    headers: dict[str, str] = {}
    while line := _line(stream):
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return headers


def _chunks(stream: BufferedReader) -> list[bytes]:
    chunks: list[bytes] = []
    while size := _size(_line(stream).partition(";")[0], 16):
        chunks.append(_exactly(stream, size))
        _line(stream)
    # Headers may follow the last chunk.
    _headers(stream)
    return chunks


def _size(digits: str, base: int) -> int:
    size = int(digits, base)
    if size < 0:
        raise ValueError(f"not a size: {digits}")
    return size


def _line(stream: BufferedReader) -> str:
    line = stream.readline(_MAX_LINE)
    if not line.endswith(b"\n"):
        raise OSError(
            "the connection ended within a reply" if len(line) < _MAX_LINE else "the reply has no end of line"
        )
    return line.decode("latin-1").strip()


def _exactly(stream: BufferedReader, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise OSError("the connection ended within a reply")
    return data
