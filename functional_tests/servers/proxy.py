"""A TCP proxy that stands between a client and a server, and breaks what a test tells it to."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable
from typing import Literal, Self

_LENGTH = re.compile(rb"(?i)content-length: *(\d+)")
#: As nginx says it.
_PAGE = b"<html><head><title>413 Request Entity Too Large</title></head></html>"
_TOO_LARGE = b"HTTP/1.1 413 Request Entity Too Large\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (
    len(_PAGE),
    _PAGE,
)

Cut = Literal["request", "reply", "both"]


class Proxy:
    """Forwards bytes both ways; :meth:`cut` breaks the connection of a request, before it passes or after.

    :param target: the server's host and port.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._armed: list[Cut | None] = []
        self._sockets: set[socket.socket] = set()
        self._pairs: list[_Pair] = []
        self._received = threading.Event()
        self._received.set()
        #: How many connections were broken.
        self.cuts = 0
        #: Which requests :meth:`cut` means.
        self.matters: Callable[[bytes], bool] = lambda _request: True
        #: HTTP requests with more bytes in their body are answered by status 413, and not passed on.
        self.longest_body: int | None = None
        #: How many bytes went to the clients.
        self.replied = 0
        self._is_shut = False

    def cut(self, what: Cut, times: int = 1, *, after: int = 0) -> None:
        """Break the next requests: ``"request"`` drops one unsent, ``"reply"`` lets it pass and drops the answer.

        ``"both"`` swallows one, and leaves its connection open without a word.

        :param after: how many requests pass unharmed before.
        """
        with self._lock:
            self._armed += [*[None] * after, *[what] * times]

    def disarm(self) -> bool:
        """Break nothing more; return whether anything that was to be broken was not."""
        with self._lock:
            was_armed = any(self._armed)
            self._armed.clear()
        return was_armed

    @property
    def armed(self) -> bool:
        return any(self._armed)

    def silence(self) -> None:
        """Let nothing through to the clients, without a word: a line that is half open."""
        self._received.clear()

    def speak(self) -> None:
        self._received.set()

    def mute(self, those: Callable[[bytes], bool]) -> int:
        """Let nothing more through to the clients on the connections of today that have sent this; return how many."""
        muted = [pair for pair in list(self._pairs) if those(pair.sent)]
        for pair in muted:
            pair.is_muted = True
        return len(muted)

    def shut(self) -> None:
        """Break every connection, and let no new one come about until :meth:`open_again`."""
        self._is_shut = True
        self.break_all()

    def open_again(self) -> None:
        self._is_shut = False

    def break_all(self) -> None:
        """Break every connection that is there now."""
        with self._lock:
            sockets = list(self._sockets)
        for end in sockets:
            _shut(end)

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        _shut(self._listener)
        self._listener.close()
        self._received.set()
        self.break_all()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._is_shut:
                client.close()
                continue
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()
                continue
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._sockets |= {client, server}
            pair = _Pair(self, client, server)
            self._pairs.append(pair)
            pair.start()

    def next_cut(self) -> Cut | None:
        with self._lock:
            return self._armed.pop(0) if self._armed else None

    def wait_until_received(self) -> None:
        self._received.wait()

    def forget(self, *ends: socket.socket) -> None:
        with self._lock:
            self._sockets.difference_update(ends)
        for end in ends:
            _shut(end)
            end.close()


class _Pair:
    """One client's connection, and the one to the server that belongs to it."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._drops_reply = False
        #: What the client has sent first.
        self.sent = b""
        self.is_muted = False
        self._ended = threading.Semaphore(0)

    def start(self) -> None:
        for run in (self._requests, self._replies, self._bury):
            threading.Thread(target=run, daemon=True).start()

    def _requests(self) -> None:
        try:
            while data := self._client.recv(1 << 16):
                self.sent += data if len(self.sent) < 1 << 12 else b""
                if self._is_too_long(data):
                    self._refuse(data)
                    break
                cut = self._proxy.next_cut() if not self._drops_reply and self._proxy.matters(data) else None
                if cut == "request":
                    self._proxy.cuts += 1
                    break
                if cut == "both":
                    self._proxy.cuts += 1
                    continue
                self._drops_reply = self._drops_reply or cut == "reply"
                self._server.sendall(data)
        except OSError:
            pass
        self._end()

    def _refuse(self, data: bytes) -> None:
        """Read the rest of a request, since its sender may not read the answer before, and refuse it."""
        head, _, body = data.partition(b"\r\n\r\n")
        found = _LENGTH.search(head)
        left = 0 if found is None else int(found[1]) - len(body)
        while left > 0 and (data := self._client.recv(1 << 16)):
            left -= len(data)
        self._client.sendall(_TOO_LARGE)

    def _is_too_long(self, data: bytes) -> bool:
        longest = self._proxy.longest_body
        found = _LENGTH.search(data) if longest is not None and data.startswith(b"POST ") else None
        return found is not None and longest is not None and int(found[1]) > longest

    def _replies(self) -> None:
        try:
            while data := self._server.recv(1 << 16):
                self._proxy.wait_until_received()
                if self.is_muted:
                    continue
                if self._drops_reply:
                    self._proxy.cuts += 1
                    break
                # Before the client has it: its next request may come in parts, which all meet the same number.
                self._proxy.replied += len(data)
                self._client.sendall(data)
        except OSError:
            pass
        self._end()

    def _end(self) -> None:
        for end in (self._client, self._server):
            _shut(end)
        self._ended.release()

    def _bury(self) -> None:
        """Close both sockets once nobody reads from them any more."""
        for _ in range(2):
            self._ended.acquire()
        self._proxy.forget(self._client, self._server)


def _shut(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
