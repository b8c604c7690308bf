"""What a board needs of kazoo beyond its public interface. Tested with kazoo 2.11.0, on Python 3.11.

Every use of a private name of kazoo stands here, is checked when a connection is made, and has a fall-back on the
public interface, so that a new kazoo may make a board slower and never breaks it. A private counts as known if kazoo's
major version is 2, the name is there, and a method takes the arguments that it did.

``_call``
    A request that reads many znodes, and a transaction without an exception for each part that failed.
    Fall-back: ``get_async`` for each znode, and ``transaction()``: slower, and more requests.
``_stopped``, ``_safe_close``, ``_connection``
    A client that stops and keeps its session. Fall-back: it stops when the session would have ended.
``_connection`` and its sockets
    The stop of a client whose server is silent. Fall-back: its thread goes on until kazoo gives up.
    What a fork copied is closed. Fall-back: the garbage collector closes it.
    The server says whether others may know more. Fall-back: ``sync`` before every look, since ``command()`` can't do
    TLS, and waits for too long.
``_connection._invoke`` (replaced)
    A connect that a starting server swallowed is sent again. Fall-back: kazoo does so when the session is over.
    A session that no server takes any more is given up. Fall-back: a client that has seen more than its restored server
    knows connects once that knows as much.
``_connection.zk_loop`` (replaced)
    A client whose thread ended by a fault, or by a login that was refused, connects anew. Fall-back: once the board was
    closed and connected again.
``_session_timeout``
    The session timeout that the server granted. Fall-back: the one that was asked for.
``_data_watchers``, ``_child_watchers``, ``_call``
    One watch is taken back. Fall-back: it stays until it fires.
"""

from __future__ import annotations

import inspect
import logging
import math
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from kazoo import version
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionDropped, NoNodeError, SessionExpiredError

from jobboard.backends.zookeeper.requests import Data, Multi, MultiRead, Stat
from jobboard.interrupts import is_of_signal_handler

logger = logging.getLogger("jobboard.zookeeper")

MAJOR_VERSION = "2"
DATA_WATCH, CHILD_WATCH = "data", "children"

#: kazoo's own default, in seconds.
DEFAULT_SESSION_TIMEOUT = 10.0

#: Seconds that the first try to connect waits for the server's reply; each further one in a row waits twice as long.
FIRST_CONNECT_TIMEOUT = 1.0
#: Seconds before a client connects anew whose thread ended by a fault, and one whose login was refused.
FAULT_PAUSE, REFUSAL_PAUSE = 0.5, 2.0


class Pending(Protocol):
    """An answer that is to come, as kazoo has it."""

    def get(self, block: bool = True, timeout: float | None = None) -> Any: ...


def is_known(owner: Any, name: str, *parameters: str) -> bool:
    """Whether a private of kazoo is there, and takes these arguments if any are named."""
    if not version.__version__.startswith(f"{MAJOR_VERSION}.") or not hasattr(owner, name):
        return False
    return not parameters or list(inspect.signature(getattr(owner, name)).parameters) == list(parameters)


class KazooInternals:
    """The privates of one kazoo client.

    :param session_timeout: the one that was asked for, in seconds; None if the client was lent.
    """

    def __init__(self, client: KazooClient, session_timeout: float | None) -> None:
        self._client = client
        self._asked_timeout = DEFAULT_SESSION_TIMEOUT if session_timeout is None else session_timeout
        self._can_call = is_known(client, "_call", "request", "async_object")
        self._can_stop = is_known(client, "_stopped") and is_known(client, "_safe_close")
        self._connection: Any = client._connection if is_known(client, "_connection") else None
        self._has_sockets = all(is_known(self._connection, name) for name in ("_socket", "_read_sock", "_write_sock"))
        self._refused_at = -math.inf
        self._dropped_since: float | None = None

    # -- requests --------------------------------------------------------------------------------------------------

    def send(self, request: MultiRead | Multi | RemoveWatch) -> Pending:
        """Send a request, and return what its answer will be in; requests are carried out in their order."""
        if self._can_call:
            pending: Pending = self._client.handler.async_result()
            try:
                self._client._call(request, pending)
            except BaseException:
                # What a signal's handler raises may come before kazoo's thread is woken for the request, and that
                # thread takes one request for each time that it is woken: each later one would wait for the next.
                self._wake()
                raise
            return pending
        if isinstance(request, MultiRead):
            return _SingleReads(self._client, request)
        assert isinstance(request, Multi)
        return _PublicTransaction(self._client, request)

    def take_watch(self, path: str, watcher: Callable[..., Any], kind: str) -> RemoveWatch | None:
        """Take a watch back from kazoo; returns the request that takes it from the server, if no other caller uses it.

        :param path: with the chroot.
        """
        name = "_data_watchers" if kind == DATA_WATCH else "_child_watchers"
        if not self._can_call or not is_known(self._client, name):
            return None
        watchers = getattr(self._client, name)
        of_path = watchers.get(path)
        if of_path is None:
            return None
        of_path.discard(watcher)
        if of_path:
            return None
        watchers.pop(path, None)
        return RemoveWatch(path, kind)

    def server_info(self, timeout: float) -> str:
        """Return what the connected server says to ``srvr``; nothing if it can't be asked. Blocks."""
        if not self._has_sockets:
            return ""
        client = self._client
        try:
            peer = self._connection._socket.getpeername()[:2]
            with client.handler.create_connection(
                peer,
                hostname=str(peer[0]),
                timeout=timeout,
                use_ssl=client.use_ssl,
                ca=client.ca,
                certfile=client.certfile,
                keyfile=client.keyfile,
                keyfile_password=client.keyfile_password,
                verify_certs=client.verify_certs,
                check_hostname=client.check_hostname,
            ) as line:
                line.sendall(b"srvr")
                return str(line.recv(8192).decode("utf-8", "replace"))
        except Exception as error:
            if is_of_signal_handler(error):
                raise
            logger.debug("the server does not answer srvr: %s", error)
            return ""

    # -- the session and its connection ----------------------------------------------------------------------------

    @property
    def session_timeout(self) -> float:
        """Seconds that a session outlives its connection; what was asked for, unless it is known what was granted."""
        if not is_known(self._client, "_session_timeout"):
            return self._asked_timeout
        return float(self._client._session_timeout) / 1000

    def retry_lost_connects(self) -> None:
        """Let the client wait only a moment for the reply to a connect, and ask again; to be called before its start.

        A server that is starting accepts connections before it serves, and may swallow the first request of one (seen
        once in some 25 restarts of ZooKeeper 3.8 on a busy machine). kazoo waits for the whole session timeout, after
        which the session is gone, and every claim with it.

        A server that was restored from a backup closes the connections of all that have seen more than it knows. kazoo
        would go on telling it how much that is, also for a session that must have ended long ago.
        """
        if not is_known(self._connection, "_invoke", "timeout", "request", "xid"):
            return
        invoke = self._connection._invoke
        longest = FIRST_CONNECT_TIMEOUT

        def invoke_with_retry(timeout: float, request: Any, xid: int | None = None) -> Any:
            nonlocal longest
            if type(request).__name__ != "Connect":
                return invoke(timeout, request, xid)
            # The server may need longer than this; a client that always gave up at the same moment would never connect.
            wait, longest = min(timeout, longest), longest * 2
            try:
                answer = invoke(wait, request, xid)
            except ConnectionDropped as error:
                now = time.monotonic()
                self._dropped_since = now if self._dropped_since is None else self._dropped_since
                if now - self._dropped_since <= self.session_timeout:
                    raise
                self._dropped_since = None
                raise SessionExpiredError(f"no server takes the session: {error}") from None
            longest, self._dropped_since = FIRST_CONNECT_TIMEOUT, None
            return answer

        self._connection._invoke = invoke_with_retry

    def connect_anew_after_faults(self) -> None:
        """Let the client connect anew after a refusal, and after a fault of its thread; to be called before its start.

        A fault that kazoo does not expect, as a reply that belongs to another request (its issue 254), ends the thread
        and the session. So does a refused login, for which kazoo takes also a server that stopped amid one.
        """
        if not is_known(self._connection, "zk_loop") or not self._can_stop:
            return
        loop = self._connection.zk_loop

        def loop_again() -> None:
            # It returns at once if the client was stopped.
            while not self._client._stopped.is_set():
                try:
                    loop()
                    pause, self._refused_at = REFUSAL_PAUSE, time.monotonic()
                except Exception as error:
                    logger.warning("kazoo's connection ended by a fault, and begins anew: %r", error)
                    pause = FAULT_PAUSE
                self._client._stopped.wait(pause)

        self._connection.zk_loop = loop_again

    @property
    def is_refused(self) -> bool:
        """Whether the server refuses the user and password."""
        return time.monotonic() - self._refused_at < 2 * REFUSAL_PAUSE

    @property
    def is_dropped(self) -> bool:
        """Whether the servers close each new connection before they answer."""
        return self._dropped_since is not None

    def stop(self, *, keep_session: bool) -> None:
        """Stop the client; may block for as long as kazoo waits for the server.

        :param keep_session: leave the session to its timeout, so that what it holds does not end now.
        """
        client = self._client
        if keep_session and self._can_stop and self._has_sockets:
            client._stopped.set()
            self.break_connection()
            client._safe_close()
        elif keep_session and client.connected:
            timer = threading.Timer(self.session_timeout, self._stop)
            timer.name, timer.daemon = "jobboard-zookeeper-session", True
            timer.start()
            return
        self._stop()

    def _stop(self) -> None:
        try:
            self._client.stop()
        except Exception as error:
            logger.debug("a kazoo client did not stop in order: %s", error)
        try:
            self._client.close()
        except Exception as error:
            logger.debug("a kazoo client keeps its sockets: %s", error)

    def break_connection(self) -> None:
        """Break the connection without telling the server, so that the session goes on; ends any wait for a reply."""
        if not self._has_sockets:
            return
        try:
            if self._connection._socket is not None:
                self._connection._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._wake()

    def _wake(self) -> None:
        try:
            self._connection._write_sock.send(b"\0")
        except (OSError, AttributeError):
            pass

    def close_copied_sockets(self) -> None:
        """Close what a fork copied of the parent's client, and send nothing."""
        if self._has_sockets:
            for end in (self._connection._socket, self._connection._read_sock, self._connection._write_sock):
                if end is not None:
                    end.close()


class RemoveWatch:
    """The request that takes back the watches of one kind that this session has on a path."""

    type = 18
    __slots__ = ("_kind", "_path")

    def __init__(self, path: str, kind: str) -> None:
        self._path, self._kind = path.encode(), {CHILD_WATCH: 1, DATA_WATCH: 2}[kind]

    def serialize(self) -> bytes:
        return struct.pack("!i", len(self._path)) + self._path + struct.pack("!i", self._kind)

    def deserialize(self, _reply: bytes, _offset: int) -> bool:
        return True


# -- the fall-backs on kazoo's public requests -------------------------------------------------------------------------


class _SingleReads:
    """The answers to reads that were sent one by one, but all before the first answer."""

    def __init__(self, client: KazooClient, request: MultiRead) -> None:
        self._pending = [getattr(client, f"{method}_async")(path) for method, path in request.operations]

    def get(self, block: bool = True, timeout: float | None = None) -> list[Any]:
        deadline = None if timeout is None else time.monotonic() + timeout
        return [
            self._answer(pending, None if deadline is None else max(0.001, deadline - time.monotonic()))
            for pending in self._pending
        ]

    @staticmethod
    def _answer(pending: Pending, timeout: float | None) -> Any:
        try:
            answer = pending.get(timeout=timeout)
        except NoNodeError:
            return None
        return Data(answer[0], Stat(*answer[1])) if isinstance(answer, tuple) else answer


class _PublicTransaction:
    """The answer to a transaction of kazoo's own."""

    def __init__(self, client: KazooClient, request: Multi) -> None:
        transaction = client.transaction()
        for method, *args in request.operations:
            getattr(transaction, method)(*args)
        self._pending: Pending = transaction.commit_async()

    def get(self, block: bool = True, timeout: float | None = None) -> Sequence[Any]:
        return [_plain(answer) for answer in self._pending.get(timeout=timeout)]


def _plain(answer: Any) -> Any:
    """Return one part's answer as :class:`Multi` has it."""
    if isinstance(answer, Exception):
        return getattr(answer, "code", -1)
    if isinstance(answer, tuple):
        return Stat(*answer)
    return answer.encode() if isinstance(answer, str) else answer
