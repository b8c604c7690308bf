"""An HTTP proxy that refuses large requests, as those before many a service do."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import BinaryIO, Self

_REFUSAL = b"HTTP/1.1 413 Request Entity Too Large\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s"
_PAGE = b"<html><head><title>413 Request Entity Too Large</title></head></html>"
_PART = 1 << 16


class SmallBodies:
    """Hands on requests with a Content-Length up to ``largest``, and answers 413 to the others.

    Answers pass as they come, also those without an end. A refused connection can be used again.

    :param target: the server's host and port.
    """

    def __init__(self, target: tuple[str, int], largest: int) -> None:
        self._target, self._largest = target, largest
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        #: How many requests were refused.
        self.refused = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError), socket.create_connection(self._target) as server:
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=_pour, args=(server, client), daemon=True).start()
            self._pass_requests(client.makefile("rb"), client, server)
            server.shutdown(socket.SHUT_RDWR)

    def _pass_requests(self, requests: BinaryIO, client: socket.socket, server: socket.socket) -> None:
        while head := _head_of(requests):
            length = _length_of(head)
            is_small = length <= self._largest
            if is_small:
                server.sendall(head)
            for part in _parts(requests, length):
                if is_small:
                    server.sendall(part)
            if not is_small:
                self.refused += 1
                client.sendall(_REFUSAL % (len(_PAGE), _PAGE))


def _head_of(requests: BinaryIO) -> bytes:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = requests.readline(_PART)
        if not line:
            return b""
        head += line
    return head


def _length_of(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def _parts(requests: BinaryIO, length: int) -> Iterator[bytes]:
    while length > 0:
        part = requests.read(min(length, _PART))
        if not part:
            return
        length -= len(part)
        yield part


def _pour(server: socket.socket, client: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while part := server.recv(_PART):
            client.sendall(part)
    for end in (server, client):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
