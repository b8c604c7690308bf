"""What speaks TLS before a server that doesn't: with any certificate, and remembering what it was told."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from servers.base import HOST


class TlsFront:
    """Takes TLS connections, and hands on what they say to a server.

    :param certificate: the file of its certificate, with the key beside it.
    :param port: the server's.
    """

    def __init__(self, certificate: Path, port: int) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, certificate.with_suffix(".key"))
        self._target = (HOST, port)
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        #: What clients said, decrypted.
        self.received = b""

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for end in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        # A socket that is closed in the meantime is a ValueError for `select`.
        with contextlib.suppress(OSError, ValueError), client:
            client.settimeout(5)
            inside = self._context.wrap_socket(client, server_side=True)
            with inside, socket.create_connection(self._target) as server:
                self._open += [inside, server]
                self._forward(inside, server)

    def _forward(self, client: ssl.SSLSocket, server: socket.socket) -> None:
        """Both ways in one thread, since a TLS socket serves one thread at a time."""
        ways = {client: server, server: client}
        while True:
            ready = [client] if client.pending() else select.select([client, server], [], [])[0]
            for source in ready:
                part = source.recv(65536)
                if not part:
                    return
                if source is client:
                    self.received += part
                ways[source].sendall(part)
