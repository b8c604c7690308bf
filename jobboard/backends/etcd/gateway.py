"""The one place where etcd3gw is used, and what it lacks.

It has no pool, no second endpoint, no renewal of a login, no retry, no limit to the time that a request takes in all,
and no errors that say whether a request may have been carried out. All of that is here: every request is sent by
:meth:`Gateway.call`, and every watch is a :class:`Stream`.
"""

from __future__ import annotations

import functools
import json
import logging
import math
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import requests
from etcd3gw.client import Etcd3Client
from etcd3gw.exceptions import Etcd3Exception
from requests.adapters import HTTPAdapter
from urllib3.util import Timeout

from jobboard.backends.etcd.clock import ServerClock, clock_of
from jobboard.backends.etcd.faults import Lost, TokenGone, Unreachable, Unsettled, cut_off, told, unreachable
from jobboard.backends.etcd.options import Settings
from jobboard.backends.timelimit import is_time_over, seconds_left
from jobboard.errors import BoardUnavailable

logger = logging.getLogger("jobboard.etcd")

T = TypeVar("T")

#: Connections that are kept; more threads at once open more, which are closed after use.
_POOL = 16
_PAUSE = 0.05

#: A stream whose other end vanished without a word is noticed by the kernel, in seconds: first probe, next ones.
_KEEPALIVE = (10, 5, 3)


#: Tells a member that is cut off from the others to end its watches, instead of keeping them open in silence.
_WITH_LEADER = {"Grpc-Metadata-hasleader": "true"}


class _Limit(threading.local):
    """Until when the present request of a thread may last, by the monotonic clock."""

    until = math.inf


class _Session(requests.Session):
    """Ends each request in its time, and hands on the date of its reply and the moments between which that was made."""

    def __init__(self, limit: _Limit, heard: Callable[[str | None, float, float], None]) -> None:
        super().__init__()
        # Neither proxies nor passwords of the environment: each request would look for them, at a third of its cost.
        self.trust_env = False
        self._limit, self._heard = limit, heard

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        sent = time.monotonic()
        # The time for the connection and for the reply together; the library would give each its own.
        options["timeout"] = Timeout(total=max(0.001, self._limit.until - sent))
        response = super().send(request, **options)
        self._heard(response.headers.get("Date"), sent, time.monotonic())
        return response


class Gateway:
    """Requests to whichever endpoint answers, over kept connections. Thread-safe between ``open`` and ``close``.

    A request takes ``timeout`` seconds at most, and those times the number of endpoints if it goes on to others.
    """

    def __init__(self, settings: Settings) -> None:
        #: That of the endpoint that answered last.
        self.clock = clock_of(*settings.endpoints[0])
        self._settings = settings
        self._limit = _Limit()
        self._opened_by = 0.0
        self._clients: list[Etcd3Client] = []
        self._lock = threading.Lock()
        self._at = 0
        #: Whether the last attempt to reach the server succeeded.
        self.answers = False

    @property
    def where(self) -> str:
        """How messages name the server."""
        return ",".join(f"{host}:{port}" for host, port in self._settings.endpoints)

    @property
    def timeout(self) -> float:
        """For how many seconds the reply of an endpoint is waited for."""
        return self._settings.timeout

    def open(self, timeout: float, check: Callable[[], None]) -> None:
        """Reach an endpoint, and see by ``check`` that it can be used; opened anew in a forked child.

        :param timeout: for how many seconds endpoints are asked again that wait for a leader.
        """
        self._opened_by = time.monotonic() + timeout
        self._lock = threading.Lock()
        self._at = 0
        self._clients = [self._client(host, port) for host, port in self._settings.endpoints]
        try:
            self._try_all(lambda client: client.api_path, False)
            self.log_in()
            check()
        except BaseException:
            self.close()
            raise
        finally:
            self._opened_by = 0.0

    def close(self) -> None:
        """Close all connections; a request that is under way meets the end of its own."""
        self.answers = False
        clients, self._clients = self._clients, []
        for client in clients:
            _hang_up(client.session)

    def call(self, path: str, payload: dict[str, Any], *, changes: bool) -> dict[str, Any]:
        """Send a request and return its answer.

        :param changes: what was sent and not answered raises ``ReplyLost``; a mere look is sent again instead.
        :raises LeaseGone: it wanted a lease that there is not; nothing was done.
        """

        def post(client: Etcd3Client) -> dict[str, Any]:
            answer: dict[str, Any] = client.post(client.get_url(path), json=payload)
            return answer

        return self._logged_in(post, changes)

    def ask_time(self) -> None:
        """Make an endpoint tell the time, by a look at its version."""
        self._try_all(lambda client: client.session.get(f"{client.base_url}/version"), False)

    def stream(self, path: str, payload: dict[str, Any]) -> Stream:
        """Open a stream of answers.

        :raises BoardUnavailable: no endpoint answers.
        """

        def begin(client: Etcd3Client) -> Stream:
            response = client.session.post(
                client.get_url(path),
                data=json.dumps(payload),
                headers=_WITH_LEADER,
                stream=True,
            )
            if response.status_code != requests.codes.ok:
                text = response.text
                response.close()
                raise Etcd3Exception(text, response.reason)
            return Stream(response)

        return self._logged_in(begin, changes=False)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _client(self, host: str, port: int) -> Etcd3Client:
        settings = self._settings
        session = _Session(self._limit, functools.partial(self._heard, clock_of(host, port)))
        session.mount("http://", HTTPAdapter(pool_connections=1, pool_maxsize=_POOL))
        session.mount("https://", HTTPAdapter(pool_connections=1, pool_maxsize=_POOL))
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

    def _heard(self, clock: ServerClock, date: str | None, sent: float, received: float) -> None:
        clock.learn(date, sent, received)
        if clock.is_known:
            self.clock = clock

    def _logged_in(self, send: Callable[[Etcd3Client], T], changes: bool) -> T:
        """Send a request under a login that holds, renewed if it does not."""
        try:
            return self._try_all(send, changes)
        except TokenGone:
            self.log_in()
        try:
            return self._try_all(send, changes)
        except TokenGone as error:
            raise BoardUnavailable(f"etcd refuses: {error}") from None

    def _try_all(self, send: Callable[[Etcd3Client], T], changes: bool) -> T:
        """Ask one endpoint after the other, beginning with the one that answered last.

        Those that refuse for now are asked again, for as long as one of them may take.
        """
        timeout, began = self._settings.timeout, time.monotonic()
        refusals = tries = 0
        while True:
            at, clients = self._at, self._clients
            if not clients:
                raise BoardUnavailable("the board is closed")
            now, end = time.monotonic(), max(began + timeout * len(clients), self._opened_by)
            # Each of them has its share, so that one that is silent takes nothing from the others.
            self._limit.until = now + min(timeout, seconds_left(end - now) / max(1, len(clients) - tries))
            tries += 1
            try:
                answer = send(clients[at % len(clients)])
                self.answers = True
                return answer
            except (Etcd3Exception, requests.RequestException, ValueError, OSError) as error:
                fault = told(error)
            if isinstance(fault, BoardUnavailable):
                self.answers = True
                raise fault from None
            if not isinstance(fault, Unreachable | Lost | Unsettled):
                raise fault from None
            self._turn_from(at)
            refusals += isinstance(fault, Unreachable)
            if isinstance(fault, Lost) and changes:
                self.answers = False
                raise cut_off(self.where, fault) from None
            is_over = is_time_over() or time.monotonic() + _PAUSE > max(began + timeout, self._opened_by)
            if refusals >= len(clients) or (is_over and tries >= len(clients)):
                self.answers = False
                raise unreachable(self.where, fault) from None
            if not isinstance(fault, Unreachable):
                time.sleep(_PAUSE)

    def _turn_from(self, at: int) -> None:
        """Go to the next endpoint, unless somebody else did."""
        with self._lock:
            if self._at == at and self._clients:
                self._at = (at + 1) % len(self._clients)

    def log_in(self) -> None:
        """Show the user and the password again, if there are any: a login holds for minutes."""
        settings = self._settings
        if settings.username is None:
            return
        payload = {"name": settings.username, "password": settings.password}

        def ask(client: Etcd3Client) -> str:
            client.session.headers.pop("Authorization", None)
            return str(client.post(client.get_url("/auth/authenticate"), json=payload)["token"])

        try:
            token = self._try_all(ask, False)
        except TokenGone as error:
            raise BoardUnavailable(f"etcd refuses: {error}") from None
        for client in self._clients:
            client.session.headers["Authorization"] = token


def _hang_up(session: requests.Session) -> None:
    """Close the connections of a session now; its own ``close`` leaves that to the garbage collector."""
    for adapter in session.adapters.values():
        if isinstance(adapter, HTTPAdapter):
            pools = adapter.poolmanager.pools
            for key in pools.keys():  # noqa: SIM118, it can't be iterated over, since threads share it
                pool = pools.get(key)
                if pool is not None:
                    pool.close()
    session.close()


class Stream:
    """The answers to one request that goes on, until either side ends it."""

    def __init__(self, response: requests.Response) -> None:
        self._response = response
        connection = getattr(response.raw, "_connection", None)
        sock = getattr(connection, "sock", None)
        if isinstance(sock, socket.socket):
            idle, interval, count = _KEEPALIVE
            # Its first answer had to come in time; the others may be hours away.
            sock.settimeout(None)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, interval)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, count)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Iterate over the results.

        :raises BoardUnavailable: the line broke, or the server said no.
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
        """Make the reader meet the end of the stream; from any thread."""
        try:
            self._response.raw.shutdown()
        except (OSError, ValueError, RuntimeError, AttributeError) as error:
            logger.debug("the stream had ended: %s", error)
