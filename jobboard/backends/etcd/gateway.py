"""The one place where etcd3gw is used, and what it lacks.

It has no pool, no second endpoint, no renewal of a login, no retry and no errors that say whether a request may have
been carried out. All of that is here: every request is sent by :meth:`Gateway.call`, and every watch is a
:class:`Stream`.
"""

from __future__ import annotations

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
from requests.adapters import HTTPAdapter

from jobboard.backends.etcd.clock import ServerClock
from jobboard.backends.etcd.faults import Lost, TokenGone, Unreachable, Unsettled, cut_off, told, unreachable
from jobboard.backends.etcd.options import Settings
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


class Gateway:
    """Requests to whichever endpoint answers, over kept connections. Thread-safe between ``open`` and ``close``."""

    def __init__(self, settings: Settings) -> None:
        self.clock = ServerClock()
        self._settings = settings
        self._clients: list[Etcd3Client] = []
        self._lock = threading.Lock()
        self._at = 0
        #: Whether the last attempt to reach the server succeeded.
        self.answers = False

    @property
    def where(self) -> str:
        """How messages name the server."""
        return ",".join(f"{host}:{port}" for host, port in self._settings.endpoints)

    def open(self, timeout: float) -> None:
        """Reach an endpoint within ``timeout`` seconds; opened anew in a forked child."""
        self._lock = threading.Lock()
        self._at = 0
        self._clients = [self._client(host, port) for host, port in self._settings.endpoints]
        try:
            self._try_all(lambda client: client.api_path, False, time.monotonic() + timeout)
            self._log_in(timeout)
        except BaseException:
            self.close()
            raise

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
                timeout=(self._settings.timeout, None),
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
        session = requests.Session()
        # Neither proxies nor passwords of the environment: each request would look for them, at a third of its cost.
        session.trust_env = False
        session.mount("http://", HTTPAdapter(pool_connections=1, pool_maxsize=_POOL))
        session.mount("https://", HTTPAdapter(pool_connections=1, pool_maxsize=_POOL))
        session.hooks["response"].append(self._heard)
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

    def _heard(self, response: requests.Response, *_: Any, **__: Any) -> None:
        self.clock.learn(response.headers.get("Date"), response.elapsed.total_seconds())

    def _logged_in(self, send: Callable[[Etcd3Client], T], changes: bool) -> T:
        """Send a request under a login that holds, renewed if it does not."""
        try:
            return self._try_all(send, changes, time.monotonic() + self._settings.timeout)
        except TokenGone:
            self.log_in()
        try:
            return self._try_all(send, changes, time.monotonic() + self._settings.timeout)
        except TokenGone as error:
            raise BoardUnavailable(f"etcd refuses: {error}") from None

    def _try_all(self, send: Callable[[Etcd3Client], T], changes: bool, deadline: float) -> T:
        """Ask one endpoint after the other, beginning with the one that answered last."""
        refusals = tries = 0
        while True:
            tries += 1
            at, clients = self._at, self._clients
            if not clients:
                raise BoardUnavailable("the board is closed")
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
            if refusals >= len(clients) or (tries >= len(clients) and time.monotonic() + _PAUSE > deadline):
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
        self._log_in(self._settings.timeout)

    def _log_in(self, timeout: float) -> None:
        settings = self._settings
        if settings.username is None:
            return
        payload = {"name": settings.username, "password": settings.password}

        def ask(client: Etcd3Client) -> str:
            client.session.headers.pop("Authorization", None)
            return str(client.post(client.get_url("/auth/authenticate"), json=payload)["token"])

        try:
            token = self._try_all(ask, False, time.monotonic() + timeout)
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
