"""The session through which etcd3gw sends its requests, within a limit and without what requests adds, and its login.

Of the CPU that a request takes through ``requests``, half goes into preparing it and into its response anew. Here
:mod:`~jobboard.backends.etcd.http_exchange` takes a connection of its pool, with the same options of TLS.
"""

from __future__ import annotations

import json as jsons
import math
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool
from urllib3.util import Timeout

from jobboard.backends.etcd.errors import LoginExpired, refused_login
from jobboard.backends.etcd.http_exchange import exchange
from jobboard.backends.etcd.options import Settings
from jobboard.backends.locks import lock_within
from jobboard.errors import TooLarge

#: By ``Accept`` etcd knows a request of its gateway; one without it has the rights of the server's own certificate.
_ACCEPT = "Accept: */*"


class RequestLimit(threading.local):
    """The moment of the monotonic clock at which a thread's present request must end."""

    until = math.inf


class Session(requests.Session):
    """Limits the time of each request, and passes on the date of its reply with the moments before and after it."""

    def __init__(self, limit: RequestLimit, on_reply: Callable[[str | None, float, float], None]) -> None:
        super().__init__()
        # No proxies or passwords from the environment: to look for them costs a third of each request.
        self.trust_env = False
        self._limit, self._on_reply = limit, on_reply
        self._pool: HTTPConnectionPool | None = None

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        sent = time.monotonic()
        options["timeout"] = self._time_left(sent)
        response = super().send(request, **options)
        self._on_reply(response.headers.get("Date"), sent, time.monotonic())
        return response

    def post(self, url: Any, data: Any = None, json: Any = None, *, token: str | None = None, **_: Any) -> Any:
        """Send plain data and return the whole reply; always to the same host.

        :param token: that of a login.
        :raises HTTPError: of urllib3; there is no connection.
        :raises OSError: there is no reply.
        :raises TooLarge: the server, or a proxy before it, takes no request of this size.
        """
        pool = self._pool = self._pool or self._pool_for(url)
        head = f"POST {urlsplit(url).path} HTTP/1.1\r\n{_ACCEPT}"
        if token is not None:
            head += f"\r\nAuthorization: {token}"
        sent = time.monotonic()
        body = jsons.dumps(json).encode()
        reply = exchange(pool, head, body, self._limit.until)
        self._on_reply(reply.headers.get("date"), sent, time.monotonic())
        if reply.status_code == requests.codes.request_entity_too_large:
            # Not etcd's word, but that of a proxy before it: the request went no further.
            raise TooLarge(f"{pool.host}:{pool.port} takes no request of {len(body)} bytes (HTTP status 413)")
        return reply

    def _time_left(self, now: float) -> Timeout:
        """Return one limit for the connection and the reply together; the library would allow each that much."""
        return Timeout(total=max(0.001, self._limit.until - now))

    def _pool_for(self, url: str) -> HTTPConnectionPool:
        """Return the pool of which the library takes its connections, too."""
        adapter = self.get_adapter(url)
        assert isinstance(adapter, HTTPAdapter)
        request = requests.Request("POST", url).prepare()
        pool: Any = adapter.get_connection_with_tls_context(request, self.verify, cert=self.cert)
        adapter.cert_verify(pool, url, self.verify, self.cert)  # type: ignore[no-untyped-call]
        assert isinstance(pool, HTTPConnectionPool)
        return pool


class Login:
    """The login of a user, which all threads of a client share, and its renewal by one of them.

    Without a user in the settings there is none, and ``token`` stays None.

    :param authenticate: sends a name and a password, and returns a token.
    """

    def __init__(self, settings: Settings, authenticate: Callable[[dict[str, Any]], str]) -> None:
        self._settings, self._authenticate = settings, authenticate
        self._lock = threading.Lock()
        #: What etcd gave for the password. It stays until there is another one, since other threads send it meanwhile.
        self.token: str | None = None
        self._doubted: str | None = None

    @property
    def has_user(self) -> bool:
        """Whether a user is configured."""
        return self._settings.username is not None

    @property
    def is_in_doubt(self) -> bool:
        """Whether a request with the present token got no reply."""
        return self.token is not None and self.token == self._doubted

    def doubt(self, token: str | None) -> None:
        """Note that a request with this token got no reply; one without a token says nothing of any.

        A simple token has the number of an entry of the server's log in it. A server that was restored from a copy of
        before that entry does not refuse the token: it waits for the entry.
        """
        if token is not None:
            self._doubted = token

    def renew(self, expired: str | None) -> None:
        """Log in, unless another thread has done so since ``expired`` was the token.

        :raises BoardUnavailable: it is refused, can't be sent, or another thread has waited for it for too long.
        """
        settings = self._settings
        with lock_within(self._lock, settings.timeout, "etcd does not answer another thread, which logs in"):
            if self.token == expired:
                try:
                    self.token = self._authenticate({"name": settings.username, "password": settings.password})
                except LoginExpired as error:
                    raise refused_login(error) from None
