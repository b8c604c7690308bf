"""One connection to a server: connected, and used, within a time limit that each request sets anew."""

from __future__ import annotations

import contextlib
import ctypes
import math
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import hiredis
from redis import connection as library
from redis import exceptions

from jobboard.backends.timelimit import seconds_left

Host = tuple[str, int]
#: No numbers: hiredis ends the process where a signal's handler raises while it writes one (3.5.0, ``pack_command``).
Argument = str | bytes
Command = tuple[Argument, ...]

#: Replies that redis-py takes for broken connections.
REPLIES = (exceptions.AuthenticationError, exceptions.AuthorizationError, exceptions.BusyLoadingError)


class Connection(Protocol):
    """What is used of redis-py's connections, which have no types of their own."""

    socket_timeout: float | None
    socket_connect_timeout: float | None

    def connect(self) -> None: ...

    def disconnect(self) -> None: ...

    def send_packed_command(self, command: list[bytes], check_health: bool = True) -> None: ...

    def send_command(self, *parts: object, check_health: bool = True) -> None: ...

    def read_response(self, *, disconnect_on_error: bool = True) -> Any: ...


#: By how many seconds the limit of a socket may be wrong.
_TIMEOUT_GRAIN = 0.01
#: In seconds; with less, a socket does not wait at all.
_LEAST_TIMEOUT = 0.001

#: redis-py's classes, without their types.
TCP: Any = library.Connection
TLS: Any = library.SSLConnection
UNIX: Any = library.UnixDomainSocketConnection

#: What redis-py calls in the end, after two copies of the arguments that no request of a board needs.
_pack_command: Any = hiredis.pack_command


class Network:
    """Makes connections to any host, with the same credentials and TLS options.

    :param settings: keyword arguments of redis-py's connections.
    """

    def __init__(self, tls: bool, settings: dict[str, Any]) -> None:
        self._kind = TLS if tls else TCP
        self.settings = settings
        self.tls = tls
        #: How long one step of connecting may take, in seconds.
        self.timeout: float = settings["socket_timeout"]

    def connection(self, host: Host) -> Connection:
        """Return a connection that is not connected yet."""
        made: Connection = self._kind(host=host[0], port=host[1], **self.settings)
        return made


def unix_connection(path: str, settings: dict[str, Any]) -> Connection:
    """Return a connection to a Unix socket that is not connected yet."""
    made: Connection = UNIX(path=path, **settings)
    return made


def connect_within(connection: Connection, seconds: float) -> None:
    """Connect, each step within this many seconds, or leave nothing open."""
    connection.socket_timeout = connection.socket_connect_timeout = seconds
    try:
        connection.connect()
    except BaseException:
        connection.disconnect()
        raise


def exchange(connection: Connection, commands: Sequence[Command], timeout: float) -> list[Any]:
    """Send commands in one round trip, and return the replies; a server's error is a reply too.

    :param timeout: seconds for the sending and for each reply; less if the time limit of the call is over sooner.
    :raises OSError: the connection broke, and so do redis-py's ``ConnectionError`` and ``TimeoutError`` say.
    """
    packed: list[bytes] = []
    for command in commands:
        packed.append(_pack_command(command))
    _limit_socket(connection, timeout)
    limited_at = time.monotonic()
    _send(connection, b"".join(packed))
    replies = []
    for _ in commands:
        if time.monotonic() - limited_at > _TIMEOUT_GRAIN:
            _limit_socket(connection, timeout)
            limited_at = time.monotonic()
        replies.append(_read(connection))
    return replies


def receive(connection: Connection, timeout: float) -> list[bytes] | None:
    """Return the next message of a subscribed connection; None if there is none within this many seconds.

    :raises OSError: the connection broke, and so does redis-py's ``ConnectionError`` say.
    """
    held: socket.socket | None = getattr(connection, "_sock", None)
    if held is not None:
        held.settimeout(max(timeout, _LEAST_TIMEOUT))
    try:
        message: list[bytes] = connection.read_response(disconnect_on_error=False)
    except exceptions.TimeoutError:
        return None
    return message


def break_off(connection: Connection) -> None:
    """Let a read in another thread fail at once; the connection is of no use any more."""
    held: socket.socket | None = getattr(connection, "_sock", None)
    if held is not None:
        with contextlib.suppress(OSError):
            # Not by the method of a TLS socket, which drops what the reading thread uses.
            socket.socket.shutdown(held, socket.SHUT_RDWR)


def _send(connection: Connection, data: bytes) -> None:
    """Send all; what a plain socket takes at once leaves before another thread of this process runs.

    Python lets go of the interpreter before each system call. If handlers wait for it, they may run before the call is
    made, and for so long the server has no request. What is left, and any error, is for the usual way.
    """
    held: socket.socket | None = getattr(connection, "_sock", None)
    if type(held) is socket.socket and _send_at_once is not None:
        data = data[max(0, _send_at_once(held.fileno(), data, len(data), socket.MSG_DONTWAIT)) :]
    if data or held is None:
        connection.send_packed_command([data], check_health=False)


def _libc_send() -> Callable[[int, bytes, int, int], int] | None:
    """Return the system's ``send``, which keeps the interpreter; None where it can't be called so."""
    try:
        send = ctypes.PyDLL(None).send
    except (OSError, TypeError, AttributeError):
        return None
    send.argtypes, send.restype = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int), ctypes.c_ssize_t
    return send


_send_at_once = _libc_send()


def _read(connection: Connection) -> Any:
    """Return a reply.

    The parser is private. The connection's own method calls three functions more, to name the server in errors, and
    would close a broken connection, which the pool does.
    """
    parser: Any = getattr(connection, "_parser", connection)
    try:
        return parser.read_response()
    except (*REPLIES, exceptions.ResponseError) as error:
        return error


def _limit_socket(connection: Connection, timeout: float) -> None:
    """Let everything sent and read from now on take this many seconds at most.

    redis-py sets the limit when it makes the connection; a request of a call that has less left must not take it all.
    Its socket is private: if a later version names it otherwise, only the limit of the connection applies.
    """
    held: socket.socket | None = getattr(connection, "_sock", None)
    if held is not None:
        seconds = seconds_left(timeout)
        # Setting the limit is a system call, of which most requests would make two.
        if abs((held.gettimeout() or math.inf) - seconds) > _TIMEOUT_GRAIN:
            held.settimeout(seconds)
