"""The connection to the servers: a kazoo client, the board's own or a lent one."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry
from kazoo.security import OPEN_ACL_UNSAFE

from jobboard.backends.timelimit import seconds_left, time_limit
from jobboard.backends.zookeeper.errors import from_kazoo, no_reply, refused, unreachable
from jobboard.backends.zookeeper.handler import Handler
from jobboard.backends.zookeeper.kazoo_internals import KazooInternals, Pending
from jobboard.backends.zookeeper.requests import Data, Multi, MultiRead, fault_in
from jobboard.errors import BoardUnavailable, TooLarge
from jobboard.interrupts import is_of_signal_handler

logger = logging.getLogger("jobboard.zookeeper")

#: Larger requests break the connection (the server's ``jute.maxbuffer``, 1 MB by default).
MAX_REQUEST = 1_040_000

#: How many znodes one request reads at most.
MAX_READS = 500

#: For how many seconds the server's answer to the end of a session is waited for; and for how many more kazoo's thread,
#: once the connection is broken.
CLOSE_TIMEOUT, THREAD_TIMEOUT = 2.0, 0.2

_REFUSED = "it refuses this user and password"
_DROPPED = (
    "it closes each connection before it answers: has this host more connections than maxClientCnxns allows, or does "
    "the server not serve yet?"
)

#: kazoo reports every connection that drops to a logger of its own, which is silent until the program adds a handler.
#: Below INFO it writes every request and reply, with the password and what jobs carry.
_kazoo_logger = logging.getLogger("jobboard.zookeeper.kazoo")
_kazoo_logger.addHandler(logging.NullHandler())
_kazoo_logger.addFilter(lambda record: record.levelno >= logging.INFO)


class _KazooLogger(logging.LoggerAdapter[logging.Logger]):
    """Where one client of kazoo reports.

    A server may break the connection before kazoo has read the answer to its close; kazoo warns of that as of a fault.
    """

    is_stopping = False

    def isEnabledFor(self, level: int) -> bool:
        return super().isEnabledFor(level) and not (self.is_stopping and level == logging.WARNING)


class Connection:
    """Sends requests, waits for their replies, and knows whether the servers can be reached.

    :param settings: what kazoo's client is made with.
    :param request_timeout: for how long a reply, or a connection, is waited for, in seconds.
    :param lent: a client that the caller started; it is neither stopped nor left changed.
    :param acl: the ACL of what a board makes; None: the client's own.
    :param on_state: is called with each new state of the connection, from kazoo's thread; must not block.
    """

    def __init__(
        self,
        settings: dict[str, Any],
        request_timeout: float,
        lent: KazooClient | None,
        acl: Sequence[Any] | None,
        on_state: Callable[[str], None],
    ) -> None:
        self._settings, self._request_timeout, self._lent = settings, request_timeout, lent
        self._acl, self._on_state = acl, on_state
        #: Whether the board is open: connected at least once, and prepared.
        self.is_open = False
        self._client: KazooClient | None = None
        self._internals: KazooInternals | None = None
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._suspended_at: float | None = None
        #: The session and epoch for which the server was asked whether it is alone, and whether others may know more.
        self._mode: tuple[Any, bool] | None = None

    # -- open and closed -------------------------------------------------------------------------------------------

    def open(self, timeout: float) -> None:
        client = self._lent
        self._logger = _KazooLogger(_kazoo_logger, {})
        if client is None:
            client = KazooClient(
                **self._settings,
                handler=Handler(),
                connection_retry=KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_delay=1.0, max_jitter=0.2),
                logger=self._logger,
            )
            internals = KazooInternals(client, self._settings["timeout"])
            internals.retry_lost_connects()
            internals.connect_anew_after_faults()
            self._start(client, internals, timeout)
        else:
            if not client.connected:
                raise unreachable(self.where, "the client that was given is not connected; start() it first")
            internals = KazooInternals(client, None)
        self._client, self._internals = client, internals
        self._suspended_at = None
        client.add_listener(self._state_changed)

    def _start(self, client: KazooClient, internals: KazooInternals, timeout: float) -> None:
        try:
            client.start_async().wait(timeout)
            if client.connected:
                return
        except BaseException as error:
            self._stop(internals, keep_session=True)
            if not isinstance(error, Exception) or is_of_signal_handler(error):
                raise
            raise unreachable(self.where, str(error) or type(error).__name__) from None
        why = _reason(internals) or f"no connection within {timeout:g} seconds"
        self._stop(internals, keep_session=True)
        # kazoo does not tell why a handshake failed.
        hint = "; is its certificate this host's, and of a known authority?" if self._settings.get("use_ssl") else ""
        raise unreachable(self.where, why + hint)

    def close(self, *, keep_session: bool) -> None:
        """Let go of the client.

        :param keep_session: leave the session to its timeout, so that what it holds does not end now.
        """
        client, self._client = self._client, None
        if client is None:
            return
        client.remove_listener(self._state_changed)
        with self._lock:
            self._changed.notify_all()
        if client is not self._lent and self._internals is not None:
            self._stop(self._internals, keep_session=keep_session)

    def forget_after_fork(self) -> None:
        """Forget a client that the parent process opened; a fork copies its sockets and not its threads."""
        client, self._client = self._client, None
        if client is not None and client is not self._lent and self._internals is not None:
            self._internals.close_copied_sockets()

    def _stop(self, internals: KazooInternals, *, keep_session: bool) -> None:
        """Stop a client. kazoo may wait for the server far too long, so a thread does it."""
        self._logger.is_stopping = True
        thread = threading.Thread(
            target=internals.stop, kwargs={"keep_session": keep_session}, name="jobboard-zookeeper-close", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:
            # There are no more threads. A connection that is broken leaves kazoo nothing to wait for.
            internals.stop(keep_session=True)
            return
        thread.join(seconds_left(CLOSE_TIMEOUT))
        if thread.is_alive():
            internals.break_connection()
            thread.join(THREAD_TIMEOUT)

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
    def internals(self) -> KazooInternals:
        if self._client is None or self._internals is None:
            raise BoardUnavailable("the board is closed")
        return self._internals

    @property
    def acl(self) -> Sequence[Any]:
        """The ACL of what the board makes: the one that it was given, or else the client's own."""
        return self._acl or self.client.default_acl or OPEN_ACL_UNSAFE

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
        """Seconds that a session outlives its connection, as far as it is known what the server granted."""
        return self.internals.session_timeout

    @property
    def suspended_for(self) -> float | None:
        """For how many seconds the connection has been lost, or None."""
        since = self._suspended_at
        return None if since is None else time.monotonic() - since

    def _state_changed(self, state: str) -> None:
        with self._lock:
            if state == KazooState.CONNECTED:
                self._suspended_at = None
            elif self._suspended_at is None:
                self._suspended_at = time.monotonic()
            self._mode = None
            self._changed.notify_all()
        self._on_state(state)

    def check_open(self) -> None:
        if not self.is_open:
            raise BoardUnavailable("the board is closed")

    def wait_until_connected(self, timeout: float | None = None) -> None:
        """Raise :class:`BoardUnavailable` if there is no connection, and none comes in time."""
        if self.connected:
            return
        with self._lock:
            self._changed.wait_for(
                lambda: self._client is None or self.connected,
                seconds_left(self._request_timeout if timeout is None else timeout),
            )
        if not self.connected:
            lost = f"the connection is lost (session {self.client.state})"
            raise unreachable(self.where, _reason(self.internals) or lost)

    # -- requests --------------------------------------------------------------------------------------------------

    def new_read(self) -> MultiRead:
        return MultiRead(str(self.client.chroot or ""))

    def new_write(self) -> Multi:
        return Multi(str(self.client.chroot or ""), self.acl)

    def send(self, request: Any) -> Pending:
        """Send a request, and return what its answer will be in; requests are carried out in their order."""
        _check_size(getattr(request, "size", 0))
        self.wait_until_connected()
        return self.internals.send(request)

    def answer(self, pending: Pending) -> Any:
        try:
            return pending.get(timeout=seconds_left(self._request_timeout))
        except BoardUnavailable:
            raise
        except Exception as error:
            if is_of_signal_handler(error):
                raise
            raise from_kazoo(self.where, error) from None

    def write(self, request: Multi) -> list[Any]:
        """Carry a transaction out; returns its answers, which may say that it did not happen."""
        answers: list[Any] = self.answer(self.send(request))
        return answers

    def is_written(self, request: Multi) -> bool:
        """Carry a transaction out; returns whether it happened."""
        return fault_in(self.write(request)) is None

    def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Send one of kazoo's own requests; its errors are raised as they are, those of the connection as ours."""
        _check_size(sum(len(value) for value in args if isinstance(value, bytes)))
        self.wait_until_connected()
        pending = getattr(self.client, f"{method}_async")(*args, **kwargs)
        try:
            return pending.get(timeout=seconds_left(self._request_timeout))
        except KazooTimeoutError:
            raise no_reply(self.where, f"no answer within {self._request_timeout:g} seconds") from None
        except RuntimeError as error:
            # A fault that ended kazoo's thread.
            raise no_reply(self.where, str(error)) from None

    def read(self, request: MultiRead, *, is_fresh: bool = True, sent: Pending | None = None) -> list[Any]:
        """Return what a read finds.

        :param is_fresh: also what any client has done by now; a follower may be behind otherwise, and a leader is for a
            moment, since it tells the others to commit before it does so itself.
        :param sent: what the answer will be in, if the request was sent already.
        """
        with time_limit(self._request_timeout):
            syncing = self.catch_up() if sent is None and is_fresh else None
            pending = self.send(request) if sent is None else sent
            if syncing is not None:
                self.answer(syncing)
            answers: list[Any] = self.answer(pending)
        if request.refusal is not None:
            raise refused(self.where, request.refusal)
        return answers

    def read_one(self, path: str) -> Any:
        """Return the :class:`~jobboard.backends.zookeeper.requests.Data` under a path, or None."""
        return self.read_many([path])[0]

    def read_many(self, paths: Iterable[str], *, is_fresh: bool = True) -> list[Any]:
        """Return the same for each of many paths, by one request."""
        request = self.new_read()
        for path in paths:
            request.get(path)
        return self.read(request, is_fresh=is_fresh)

    def existing(self, paths: Sequence[str], *, is_fresh: bool = True) -> Iterator[tuple[str, Data]]:
        """Iterate over those of many paths that exist, and their data; some hundred are read by one request."""
        for start in range(0, len(paths), MAX_READS):
            part = paths[start : start + MAX_READS]
            found = zip(part, self.read_many(part, is_fresh=is_fresh), strict=True)
            yield from ((path, data) for path, data in found if data is not None)

    def children(self, paths: Sequence[str], *, is_fresh: bool = True) -> list[str]:
        """Return the paths of all children of these znodes, by one request; what is not there has none."""
        if not paths:
            return []
        request = self.new_read()
        for path in paths:
            request.children(path)
        found = zip(paths, self.read(request, is_fresh=is_fresh), strict=True)
        return [f"{path}/{name}" for path, names in found for name in names or ()]

    def in_buckets(self, kind: str, *, is_fresh: bool = True) -> list[str]:
        """Return the paths of all znodes of a kind, which stand in buckets."""
        return self.children(self.children([kind], is_fresh=is_fresh), is_fresh=False)

    def catch_up(self) -> Pending | None:
        """Ask the server to know all that any client has done by now, before the next request; None if it need not."""
        if not self._may_be_behind():
            return None
        self.wait_until_connected()
        pending: Pending = self.client.sync_async("/")
        return pending

    def _may_be_behind(self) -> bool:
        """Whether another server may know more than the one that this client is connected to."""
        session = self.session_id, self.client.last_zxid >> 32
        mode = self._mode
        if mode is None or mode[0] != session:
            info = self.internals.server_info(seconds_left(self._request_timeout))
            # Also a leader may be: it can take in a commit later than a follower that has answered by then.
            mode = self._mode = (session, "Mode: standalone" not in info)
        return mode[1]

    def server_version(self) -> str:
        """Return the version of the server that this client is connected to; "" if it does not tell."""
        info = self.internals.server_info(seconds_left(self._request_timeout))
        found = re.match(r"Zookeeper version: (\d[\d.]*)", info)
        return found[1] if found else ""

    def delete(self, path: str) -> bool:
        """Delete a znode; False if there was none."""
        try:
            self.call("delete", path)
        except NoNodeError:
            return False
        except KazooException as error:
            raise from_kazoo(self.where, error) from None
        return True

    def unwatch(self, path: str, watcher: Callable[..., Any], kind: str) -> None:
        """Take a watch back, from kazoo and from the server, unless another caller uses the same."""
        if self._client is None:
            return
        request = self.internals.take_watch(str(self.client.chroot or "") + path, watcher, kind)
        if request is None or not self.connected:
            return
        try:
            self.answer(self.send(request))
        except BoardUnavailable as error:
            logger.debug("a watch on %s is left to end with the session: %s", path, error)


def _reason(internals: KazooInternals) -> str | None:
    """Return why there is no connection, if the servers show it."""
    if internals.is_refused:
        return _REFUSED
    return _DROPPED if internals.is_dropped else None


def _check_size(size: int) -> None:
    if size > MAX_REQUEST:
        raise TooLarge(f"a request of {size} bytes is more than ZooKeeper takes ({MAX_REQUEST}); nothing was sent")
