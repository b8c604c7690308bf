"""HTTP requests to etcd's gateway by etcd3gw, and what that library lacks.

etcd3gw alone is not enough: it keeps no connections for many threads, knows one endpoint only, renews no login, limits
no request's time as a whole, can't end a watch from another thread, and its errors don't say whether a request may have
been carried out. All of that is here, in ``http_session``, ``http_exchange``, ``http_pool`` and ``errors``:
:meth:`HttpClient.call` sends every request, and every watch is a :class:`Stream`. Tested with etcd3gw 2.6.0 and 2.7.0,
requests 2.32.2 and 2.34.2, urllib3 2.3.0 and 2.7.0. Two places use what these libraries do not promise, and work
without it: :func:`_close_connections` (the pools of an adapter) and :class:`Stream` (the socket of a response).
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import requests
from etcd3gw.client import Etcd3Client
from etcd3gw.exceptions import Etcd3Exception
from urllib3.exceptions import HTTPError

from jobboard.backends.etcd.clock import ReplyClock, clock_of
from jobboard.backends.etcd.errors import (
    EndpointFailed,
    LoginExpired,
    NoReply,
    Unreachable,
    meaning_of,
    refused_login,
    reply_lost,
    unreachable,
)
from jobboard.backends.etcd.http_pool import pooled_adapter
from jobboard.backends.etcd.http_session import Login, RequestLimit, Session
from jobboard.backends.etcd.options import Settings
from jobboard.backends.timelimit import is_time_over, seconds_left
from jobboard.errors import BoardUnavailable

logger = logging.getLogger("jobboard.etcd")

T = TypeVar("T")

#: Connections that are kept; more threads at once open more, which are closed after use.
_POOL_SIZE = 16
_RETRY_DELAY = 0.05
#: How often a request is sent if each time the login has just expired.
_MAX_LOGINS = 3

#: After how many silent seconds the kernel probes a stream, after how many it probes again, and how often in all.
_KEEPALIVE = (10, 5, 3)

#: Makes a member that is cut off from the others end its watches, instead of keeping them open in silence.
_WITH_LEADER = {"Grpc-Metadata-hasleader": "true"}


class _Attempts:
    """The attempts at one request: how long each may take, and whether there may be another.

    :param opened_by: a moment of the monotonic clock before which attempts don't end for lack of time.
    """

    def __init__(self, endpoints: int, timeout: float, opened_by: float) -> None:
        self._endpoints, self._timeout, self._opened_by = endpoints, timeout, opened_by
        self._began = time.monotonic()
        self._tries = self._unreachable = 0

    def next_end(self) -> float:
        """Return the moment at which the next attempt must end."""
        now, end = time.monotonic(), max(self._began + self._timeout * self._endpoints, self._opened_by)
        # Each endpoint has its share of the time, so that a silent one takes nothing from the others.
        share = seconds_left(end - now) / max(1, self._endpoints - self._tries)
        self._tries += 1
        return now + min(self._timeout, share)

    def are_over(self, fault: EndpointFailed) -> bool:
        """Count the failure of an attempt; whether it was the last."""
        self._unreachable += isinstance(fault, Unreachable)
        end = max(self._began + self._timeout, self._opened_by)
        is_late = is_time_over() or time.monotonic() + _RETRY_DELAY > end
        return self._unreachable >= self._endpoints or (is_late and self._tries >= self._endpoints)


class HttpClient:
    """Sends requests to the endpoint that answers, over kept connections. Thread-safe between ``open`` and ``close``.

    A request takes at most ``timeout`` seconds for each endpoint that it is sent to.
    """

    def __init__(self, settings: Settings) -> None:
        #: The clock of the endpoint that answered last.
        self.clock = clock_of(*settings.endpoints[0])
        self._settings = settings
        self._limit = RequestLimit()
        self._opened_by = 0.0
        self._clients: list[Etcd3Client] = []
        self._lock = threading.Lock()
        self._at = 0
        self.login = Login(settings, self._authenticate)
        #: Whether the last attempt to reach the server succeeded.
        self.is_reachable = False

    @property
    def where(self) -> str:
        """How messages name the server."""
        return ",".join(f"{host}:{port}" for host, port in self._settings.endpoints)

    @property
    def timeout(self) -> float:
        """For how many seconds to wait for the reply of an endpoint."""
        return self._settings.timeout

    def open(self, timeout: float, check: Callable[[], None]) -> None:
        """Reach an endpoint, and call ``check``, which raises if it can't be used. A forked child opens once more.

        :param timeout: for how many seconds to ask endpoints again that have no leader.
        """
        self._opened_by = time.monotonic() + timeout
        self._lock = threading.Lock()
        self.login = Login(self._settings, self._authenticate)
        self._at = 0
        self._clients = [self._client(host, port) for host, port in self._settings.endpoints]
        try:
            self._try_all(lambda client: client.api_path, False)
            if self.login.has_user:
                self.login.renew(None)
            check()
        except BaseException:
            self.close()
            raise
        finally:
            self._opened_by = 0.0

    def close(self) -> None:
        """Close all connections; requests that wait for a reply fail."""
        self.is_reachable = False
        clients, self._clients = self._clients, []
        for client in clients:
            _close_connections(client.session)

    def call(self, path: str, payload: dict[str, Any], *, changes: bool) -> dict[str, Any]:
        """Send a request and return its answer.

        :param changes: if no reply comes, raise ``ReplyLost``; a request that only reads is sent again instead.
        :raises LeaseNotFound: it needed a lease that does not exist; nothing was done.
        """

        def post(token: str | None, client: Etcd3Client) -> dict[str, Any]:
            answer: dict[str, Any] = client.post(client.get_url(path), json=payload, token=token)
            return answer

        return self._logged_in(post, changes)

    def request_time(self) -> str:
        """Learn the time of an endpoint: ask it for its version, which is returned."""
        answer = self._try_all(lambda client: client.session.get(f"{client.base_url}/version"), False)
        return answer.text

    def stream(self, path: str, payload: dict[str, Any]) -> Stream:
        """Open a stream of answers.

        :raises BoardUnavailable: no endpoint answers.
        """

        def begin(token: str | None, client: Etcd3Client) -> Stream:
            headers = _WITH_LEADER if token is None else {**_WITH_LEADER, "Authorization": token}
            response = client.session.request(
                "POST", client.get_url(path), data=json.dumps(payload), headers=headers, stream=True
            )
            if response.status_code != requests.codes.ok:
                text = response.text
                response.close()
                raise Etcd3Exception(text, response.reason)
            return Stream(response, token)

        return self._logged_in(begin, changes=False)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _client(self, host: str, port: int) -> Etcd3Client:
        settings = self._settings
        session = Session(self._limit, functools.partial(self._on_reply, clock_of(host, port)))
        session.mount("http://", pooled_adapter(_POOL_SIZE))
        session.mount("https://", pooled_adapter(_POOL_SIZE))
        if settings.tls:
            session.verify = settings.ca_cert or True
            if settings.cert_cert and settings.cert_key:
                session.cert = (settings.cert_cert, settings.cert_key)
        return Etcd3Client(
            host,
            port,
            protocol="https" if settings.tls else "http",
            timeout=settings.timeout,
            api_path=settings.api_path,
            session=session,
        )

    def _on_reply(self, clock: ReplyClock, date: str | None, sent: float, received: float) -> None:
        clock.learn_date(date, sent, received)
        if clock.is_known:
            self.clock = clock

    def _logged_in(self, send: Callable[[str | None, Etcd3Client], T], changes: bool) -> T:
        """Send a request; log in and send it again if the login has expired, of which the server did nothing."""
        login = self.login
        if login.is_in_doubt:
            login.renew(login.token)
        for left in reversed(range(_MAX_LOGINS)):
            token = login.token
            try:
                return self._try_all(functools.partial(send, token), changes, token)
            except LoginExpired as error:
                if not left or not login.has_user:
                    raise refused_login(error) from None
            login.renew(token)
        raise AssertionError("the last try returns or raises")

    def _try_all(self, send: Callable[[Etcd3Client], T], changes: bool, token: str | None = None) -> T:
        """Ask one endpoint after the other, beginning with the one that answered last.

        Those that refuse for now are asked again until the timeout of one request is over.

        :param token: that of the login with which it is sent.
        """
        attempts = _Attempts(len(self._settings.endpoints), self._settings.timeout, self._opened_by)
        while True:
            at, clients = self._at, self._clients
            if not clients:
                raise BoardUnavailable("the board is closed")
            self._limit.until = attempts.next_end()
            try:
                answer = send(clients[at % len(clients)])
                self.is_reachable = True
                return answer
            except (Etcd3Exception, requests.RequestException, HTTPError, ValueError, OSError) as error:
                fault = meaning_of(error)
            if not isinstance(fault, EndpointFailed):
                self.is_reachable = True
                raise fault from None
            self._next_endpoint(at)
            if isinstance(fault, NoReply):
                self.login.doubt(token)
            if isinstance(fault, NoReply) and changes:
                self.is_reachable = False
                raise reply_lost(self.where, fault) from None
            if attempts.are_over(fault):
                self.is_reachable = False
                raise unreachable(self.where, fault) from None
            if not isinstance(fault, Unreachable):
                time.sleep(_RETRY_DELAY)

    def _next_endpoint(self, at: int) -> None:
        """Choose the next endpoint, unless another thread has done so."""
        with self._lock:
            if self._at == at and self._clients:
                self._at = (at + 1) % len(self._clients)

    def _authenticate(self, payload: dict[str, Any]) -> str:
        def ask(client: Etcd3Client) -> str:
            return str(client.post(client.get_url("/auth/authenticate"), json=payload)["token"])

        return self._try_all(ask, False)


def _close_connections(session: requests.Session) -> None:
    """Close the connections of a session at once; its own ``close`` leaves that to the garbage collector."""
    for adapter in session.adapters.values():
        with contextlib.suppress(AttributeError):
            pools = adapter.poolmanager.pools  # type: ignore[attr-defined]
            for key in pools.keys():  # noqa: SIM118, since threads share the pools they can't be iterated over
                pool = pools.get(key)
                if pool is not None:
                    pool.close()
    session.close()


class Stream:
    """The results of one request, until either side ends it."""

    def __init__(self, response: requests.Response, token: str | None) -> None:
        self._response = response
        #: The login under which it began.
        self.token = token
        connection = getattr(response.raw, "_connection", None)
        sock = getattr(connection, "sock", None)
        if isinstance(sock, socket.socket):
            idle, interval, count = _KEEPALIVE
            # The first answer had to come in time; the next one may take hours.
            sock.settimeout(None)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, interval)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, count)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Iterate over the results.

        :raises BoardUnavailable: the connection broke, or the server refused.
        """
        rest = b""
        try:
            for chunk in self._response.iter_content(chunk_size=None):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield self._result(json.loads(line))
        except (requests.RequestException, OSError, ValueError, AttributeError) as error:
            raise BoardUnavailable(f"the stream broke: {error}") from None
        finally:
            self._response.close()
        raise BoardUnavailable("the stream ended")

    def _result(self, message: dict[str, Any]) -> dict[str, Any]:
        if "result" not in message:
            raise BoardUnavailable(f"etcd refuses: {message.get('error', message)}")
        result: dict[str, Any] = message["result"]
        return result

    def end(self) -> None:
        """End the stream for its reader; from any thread."""
        try:
            self._response.raw.shutdown()
        except (OSError, ValueError, RuntimeError, AttributeError) as error:
            logger.debug("the stream had ended: %s", error)
