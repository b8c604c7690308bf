"""Serves the console by uvicorn, which has no limits for those who send half of a request, or never read the answer."""

from __future__ import annotations

import asyncio
import functools
import socket
import threading
from collections.abc import Callable
from typing import Any

import click

from jobboard.cli.connections import Connections
from jobboard.conductor import stop_on_signals
from jobboard.console.guard import STOPPING
from jobboard.errors import MissingExtra
from jobboard.interrupts import SIGNAL_POLL
from jobboard.peers import forwarded_address

try:
    import uvicorn
    from starlette.datastructures import Headers
    from starlette.responses import PlainTextResponse
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ModuleNotFoundError as error:
    text = f"the console is served with the Python package {error.name!r}: pip install 'jobboard[console]'"
    raise MissingExtra(text) from None

#: Seconds that open streams have to end when the server stops.
_GRACE = 2
#: Seconds until the head of a request must be whole, from the connection or the last answer on.
HEAD_TIMEOUT = 10.0
#: Seconds for a client that takes nothing of its answer.
_SEND_TIMEOUT = 30.0
#: Connections at a time, and those of one peer; a proxy has those of all its users.
_MAX_CONNECTIONS, _MAX_OF_PEER = 500, 100


def run(app: ASGIApp, host: str, port: int, root_path: str, *, is_behind_proxy: bool = False) -> None:
    """Serve until SIGTERM or SIGINT, and say where.

    :param is_behind_proxy: all requests come from a proxy, which is believed what it says of them.
    :raises click.ClickException: the port is taken, or may not be used.
    """
    listening = _listen(host, port)
    connections: Connections[BoundedConnection] = Connections(
        _MAX_CONNECTIONS, _MAX_CONNECTIONS if is_behind_proxy else _MAX_OF_PEER
    )
    stopping = threading.Event()
    told = _telling(app, stopping.is_set)
    server = uvicorn.Server(config_of(told, connections, root_path.rstrip("/"), is_behind_proxy=is_behind_proxy))
    # In a thread, where it leaves signals alone.
    thread = threading.Thread(target=server.run, args=([listening],), name="jobboard-console", daemon=True)

    with stop_on_signals(_stopper(server, stopping)):
        thread.start()
        shown = f"[{host}]" if ":" in host else host
        click.echo(f"console: http://{shown}:{listening.getsockname()[1]}{root_path.rstrip('/')}/", err=True)
        while thread.is_alive():
            thread.join(SIGNAL_POLL)


def config_of(
    app: ASGIApp,
    connections: Connections[BoundedConnection],
    root_path: str = "",
    *,
    is_behind_proxy: bool = False,
) -> uvicorn.Config:
    """Return how uvicorn serves the console."""
    protocol: Any = functools.partial(BoundedConnection, open_connections=connections)
    return uvicorn.Config(
        _from_last_proxy(app) if is_behind_proxy else app,
        http=protocol,
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        root_path=root_path,
        timeout_graceful_shutdown=_GRACE,
        # The scheme that the browser used decides what the console's own origin is.
        forwarded_allow_ips="*" if is_behind_proxy else None,
    )


class BoundedConnection(H11Protocol):
    """A connection of uvicorn's that ends if its client does not go on.

    :param open_connections: those of the server.
    """

    def __init__(self, *arguments: Any, open_connections: Connections[BoundedConnection], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._open = open_connections
        self._deadline: asyncio.TimerHandle | None = None
        #: What uvicorn calls once the head of a request is whole.
        self.app = functools.partial(self._answer, self.app)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # asyncio sets it only if the listening socket names its protocol. Without it the body waits for a confirmation.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        surplus = self._open.opened(self, transport.get_extra_info("peername")[0])
        self._set_deadline()
        if surplus is not None:
            surplus.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        self._open.closed(self)
        super().connection_lost(exc)

    async def _answer(self, app: Any, scope: Scope, receive: Receive, send: Send) -> None:
        self._cancel_deadline()
        self._open.answers(self)
        headers = dict(scope["headers"])
        is_chunked, length = b"transfer-encoding" in headers, headers.get(b"content-length")
        if is_chunked and length is not None:
            # A proxy may see another end of it, and take what follows for a request of its own.
            text = "a request has Content-Length or Transfer-Encoding, not both\n"
            app = PlainTextResponse(text, 400, {"Connection": "close"})
        elif is_chunked or (length or b"").strip(b"0"):
            self._open.waits(self)
            receive = functools.partial(self._receive, receive)
        try:
            await app(scope, receive, functools.partial(self._send, send))
        finally:
            if not self.transport.is_closing():
                self._open.waits(self)
                self._set_deadline()

    async def _receive(self, receive: Receive) -> Message:
        """Until its body is whole, a request is as good as none: others may need the connection more."""
        message = await receive()
        if not message.get("more_body", False):
            self._open.answers(self)
        return message

    async def _send(self, send: Send, message: Message) -> None:
        try:
            async with asyncio.timeout(_SEND_TIMEOUT):
                await send(message)
        except TimeoutError:
            # The app learns it as of any client that goes away.
            self.transport.abort()

    def _set_deadline(self) -> None:
        self._deadline = self.loop.call_later(HEAD_TIMEOUT, self.transport.abort)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _from_last_proxy(app: ASGIApp) -> ASGIApp:
    """Give an app the address that the nearest proxy tells; uvicorn takes the first one, which a client may forge."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            address = forwarded_address(Headers(scope=scope).getlist("x-forwarded-for"))
            scope = scope if address is None else {**scope, "client": (address, 0)}
        await app(scope, receive, send)

    return answer


def _telling(app: ASGIApp, is_stopping: Callable[[], bool]) -> ASGIApp:
    async def tell(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, STOPPING: is_stopping}, receive, send)

    return tell


def _stopper(server: uvicorn.Server, stopping: threading.Event) -> Callable[[], None]:
    def stop() -> None:
        stopping.set()
        server.should_exit = True

    return stop


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise click.ClickException(f"can't listen on {host}:{port}: {error.strerror or error}") from error
