"""The line to the servers: a kazoo client, of the board's own or lent by somebody."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from kazoo.client import KazooClient, KazooState
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry
from kazoo.security import OPEN_ACL_UNSAFE

from jobboard.backends.timelimit import seconds_left, time_limit
from jobboard.backends.zookeeper.faults import cut_off, refused, translated, unreachable
from jobboard.backends.zookeeper.handshake import ask_again
from jobboard.backends.zookeeper.requests import DATA_WATCH, MultiRead, RemoveWatches
from jobboard.errors import BoardUnavailable

logger = logging.getLogger("jobboard.zookeeper")

#: Larger requests break the connection (the server's ``jute.maxbuffer``, 1 MB by default).
LARGEST_REQUEST = 1_040_000

#: For how many seconds the server's answer to the end of a session is waited for; and for how many more kazoo's thread,
#: once the connection is broken.
_CLOSE_TIMEOUT, _THREAD_TIMEOUT = 2.0, 0.2


class Line:
    """Sends requests, waits for their replies, and knows whether the servers can be reached.

    :param settings: what kazoo's client is made with.
    :param patience: for how long a reply, or a connection, is waited for, in seconds.
    :param lent: a client that somebody else started; it is neither stopped nor left changed.
    :param told: is called with the state that the connection has come to, from kazoo's thread; must not block.
    """

    def __init__(
        self, settings: dict[str, Any], patience: float, lent: KazooClient | None, told: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._patience = patience
        self._lent = lent
        self._told = told
        self._client: KazooClient | None = None
        self._changed = threading.Condition()
        self._suspended_at: float | None = None
        self._mode: tuple[Any, bool] | None = None

    # -- open and closed -------------------------------------------------------------------------------------------

    def open(self, timeout: float) -> None:
        if self._lent is not None:
            client = self._lent
            if not client.connected:
                raise unreachable(self.where, "the client that was given is not connected; start() it first")
        else:
            client = KazooClient(
                **self._settings,
                connection_retry=KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_delay=1.0, max_jitter=0.2),
                logger=_quiet,
            )
            ask_again(client)
            self._start(client, timeout)
        self._client = client
        self._suspended_at = None
        client.add_listener(self._state_changed)

    def _start(self, client: KazooClient, timeout: float) -> None:
        try:
            event = client.start_async()
            event.wait(timeout)
            if client.connected:
                return
        except Exception as error:
            self._end(client, keep_session=True)
            raise unreachable(self.where, str(error) or type(error).__name__) from None
        why = "it refuses this user and password" if client.client_state == "AUTH_FAILED" else "no connection"
        self._end(client, keep_session=True)
        # kazoo does not tell why a handshake failed.
        hint = "; is its certificate this host's, and of a known authority?" if self._settings.get("use_ssl") else ""
        raise unreachable(self.where, f"{why} within {timeout:g} seconds{hint}")

    def close(self, *, keep_session: bool) -> None:
        """Let go of the client.

        :param keep_session: leave the session to its timeout, so that what it holds does not end now.
        """
        client, self._client = self._client, None
        if client is None:
            return
        client.remove_listener(self._state_changed)
        with self._changed:
            self._changed.notify_all()
        if client is not self._lent:
            self._end(client, keep_session=keep_session)

    def abandon(self) -> None:
        """Forget a client that another process opened, which a fork copied without its threads."""
        client, self._client = self._client, None
        connection = getattr(client, "_connection", None)
        if connection is None or client is self._lent:
            return
        for end in (connection._socket, connection._read_sock, connection._write_sock):
            if end is not None:
                end.close()

    def _end(self, client: KazooClient, *, keep_session: bool) -> None:
        """Stop a client. kazoo may wait for the server far longer than anybody should, so that a thread does it."""
        thread = threading.Thread(target=self._stop, args=(client, keep_session), name="jobboard-zookeeper-close")
        thread.daemon = True
        thread.start()
        thread.join(seconds_left(_CLOSE_TIMEOUT))
        if thread.is_alive():
            _break(client)
            thread.join(_THREAD_TIMEOUT)

    def _stop(self, client: KazooClient, keep_session: bool) -> None:
        try:
            if keep_session:
                client._stopped.set()
                _break(client)
                client._safe_close()
            client.stop()
        except Exception as error:
            logger.debug("the line to %s did not end in order: %s", self.where, error)
        finally:
            try:
                client.close()
            except Exception as error:
                logger.debug("the line to %s keeps its sockets: %s", self.where, error)

    # -- state -----------------------------------------------------------------------------------------------------

    @property
    def where(self) -> str:
        if self._lent is not None:
            return ",".join(f"{host}:{port}" for host, port in self._lent.hosts)
        return str(self._settings["hosts"])

    @property
    def client(self) -> KazooClient:
        client = self._client
        if client is None:
            raise BoardUnavailable("the board is closed")
        return client

    @property
    def connected(self) -> bool:
        client = self._client
        return client is not None and client.state == KazooState.CONNECTED

    @property
    def session_id(self) -> int:
        """The present session's id; 0 without one."""
        client_id = self.client.client_id
        return int(client_id[0] or 0) if client_id else 0

    @property
    def session_timeout(self) -> float:
        """Seconds that a session outlives its connection; what was asked for, unless it is known what was granted."""
        return float(self.client._session_timeout) / 1000

    @property
    def suspended_for(self) -> float | None:
        """For how many seconds the connection has been lost, or None."""
        since = self._suspended_at
        return None if since is None else time.monotonic() - since

    @property
    def chroot(self) -> str:
        return str(self.client.chroot or "")

    def _state_changed(self, state: str) -> None:
        with self._changed:
            if state == KazooState.CONNECTED:
                self._suspended_at = None
            elif self._suspended_at is None:
                self._suspended_at = time.monotonic()
            self._mode = None
            self._changed.notify_all()
        self._told(state)

    def wait_until_connected(self, timeout: float | None = None) -> None:
        """Raise :class:`BoardUnavailable` if there is no connection, and none comes in time."""
        if self.connected:
            return
        with self._changed:
            self._changed.wait_for(
                lambda: self._client is None or self.connected,
                seconds_left(self._patience if timeout is None else timeout),
            )
        if not self.connected:
            raise unreachable(self.where, f"the connection is lost (session {self.client.state})")

    # -- requests --------------------------------------------------------------------------------------------------

    def ask(self, request: Any) -> Any:
        """Send a request, and return its answer."""
        return self.answer(self.send(request))

    def send(self, request: Any) -> Any:
        """Send a request, and return what its answer will be in; requests are carried out in their order."""
        _check_size(getattr(request, "size", 0))
        self.wait_until_connected()
        client = self.client
        pending = client.handler.async_result()
        client._call(request, pending)
        return pending

    def answer(self, pending: Any) -> Any:
        try:
            return pending.get(timeout=seconds_left(self._patience))
        except Exception as error:
            raise self._fault(error) from None

    def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Send one of kazoo's own requests; its errors are returned as they are, the line's are translated."""
        _check_size(sum(len(value) for value in args if isinstance(value, bytes)))
        self.wait_until_connected()
        pending = getattr(self.client, f"{method}_async")(*args, **kwargs)
        try:
            return pending.get(timeout=seconds_left(self._patience))
        except KazooTimeoutError:
            raise cut_off(self.where, f"no answer within {self._patience:g} seconds") from None

    def read(self, request: MultiRead, *, is_fresh: bool = True) -> list[Any]:
        """Return what a read finds.

        :param is_fresh: also what any client has done by now; a follower may be behind otherwise, and a leader is for a
            moment, since it tells the others to commit before it does so itself.
        """
        with time_limit(self._patience):
            catching_up = self._catch_up() if is_fresh and self._may_be_behind() else None
            pending = self.send(request)
            if catching_up is not None:
                self.answer(catching_up)
            answers: list[Any] = self.answer(pending)
        if request.refusal is not None:
            raise refused(self.where, request.refusal)
        return answers

    def _catch_up(self) -> Any:
        self.wait_until_connected()
        return self.client.sync_async("/")

    def _may_be_behind(self) -> bool:
        """Whether another server may know more than the one that this client is connected to."""
        session = self.session_id, self.client.last_zxid >> 32
        mode = self._mode
        if mode is None or mode[0] != session:
            try:
                answer = _command(self.client, b"srvr", seconds_left(self._patience))
            except Exception:
                answer = ""
            # Also a leader may be: it can take in a commit later than a follower that has answered by then.
            mode = self._mode = (session, "Mode: standalone" not in answer)
        return mode[1]

    def unwatch(self, path: str, watcher: Callable[..., Any], kind: int) -> None:
        """Take a watch back, from kazoo and from the server, unless somebody else uses the same."""
        client = self._client
        if client is None:
            return
        full = self.chroot + path
        watchers = client._data_watchers if kind == DATA_WATCH else client._child_watchers
        mine = watchers.get(full)
        if mine is None:
            return
        mine.discard(watcher)
        if mine:
            return
        watchers.pop(full, None)
        if not self.connected:
            return
        try:
            self.ask(RemoveWatches(full, kind))
        except BoardUnavailable as error:
            logger.debug("a watch on %s is left to end with the session: %s", path, error)

    def _fault(self, error: Exception) -> BoardUnavailable:
        return error if isinstance(error, BoardUnavailable) else translated(self.where, error)


#: What kazoo says of every connection that drops is for those who ask for it; on a terminal the board's word is enough.
#: Below INFO it writes every request and reply, with the password and what jobs carry.
_quiet = logging.getLogger("jobboard.zookeeper.kazoo")
_quiet.addHandler(logging.NullHandler())
_quiet.addFilter(lambda record: record.levelno >= logging.INFO)


def _command(client: KazooClient, word: bytes, timeout: float) -> str:
    """Ask the server that a client is connected to a four-letter word; kazoo's own way can't do it over TLS."""
    peer = client._connection._socket.getpeername()[:2]
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
        line.sendall(word)
        return str(line.recv(8192).decode("utf-8", "replace"))


def _check_size(size: int) -> None:
    if size > LARGEST_REQUEST:
        raise BoardUnavailable(
            f"a request of {size} bytes is more than ZooKeeper takes ({LARGEST_REQUEST}); nothing was sent"
        )


def _break(client: KazooClient) -> None:
    """Break the connection without a word, so that the session goes on until its timeout; ends any wait for it."""
    connection = client._connection
    end = connection._socket
    if end is not None:
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
    try:
        connection._write_sock.send(b"\0")
    except (OSError, AttributeError):
        pass


def acl_of(client: KazooClient, wanted: Sequence[Any] | None) -> Sequence[Any]:
    """Return the ACL of what a board makes: what it was told, or else what the client has as its own."""
    return wanted or client.default_acl or OPEN_ACL_UNSAFE
