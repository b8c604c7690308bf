"""Connections of clients that don't speak HTTP as they should."""

from __future__ import annotations

import contextlib
import re
import socket
import time
from collections.abc import Iterator

HALF = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


def connected(port: int, peer: str = "127.0.0.1") -> socket.socket:
    """Return a connection from a peer of this machine."""
    return socket.create_connection(("127.0.0.1", port), timeout=60, source_address=(peer, 0))


@contextlib.contextmanager
def half_sent(port: int, number: int) -> Iterator[list[socket.socket]]:
    """Keep this many connections open that have sent half of a request each."""
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(number):
            opened.append(stack.enter_context(connected(port)))
            # It may be closed already, for the ones that came after it.
            with contextlib.suppress(OSError):
                opened[-1].sendall(HALF)
        yield opened


def is_closed(connection: socket.socket) -> bool:
    """Whether the server has closed it; what it sent before is read and dropped."""
    connection.setblocking(False)
    try:
        while connection.recv(1 << 16):
            pass
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def dribble_until_closed(connection: socket.socket, line: bytes = b"x" * 1000) -> int:
    """Send a byte every few milliseconds, without end, until the server closes the connection; return how many."""
    connection.settimeout(0.02)
    end = time.monotonic() + 60
    sent = 0
    while time.monotonic() < end:
        try:
            connection.sendall(line[sent % len(line) :][:1])
            sent += 1
            if not connection.recv(1 << 16):
                return sent
        except TimeoutError:
            continue
        except OSError:
            return sent
    raise AssertionError("the server has not closed the connection")


def status_of(port: int, request: bytes) -> int:
    """Send one request and return the status of its answer; 0 if there is none, or one without a status line."""
    answer = b""
    with connected(port) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(request)
        while b"\r\n" not in answer and (part := connection.recv(1 << 16)):
            answer += part
    found = re.match(rb"HTTP/1\.\d (\d\d\d) ", answer)
    return int(found[1]) if found else 0
