"""Names and passwords by HTTP's basic authentication, for a console that stands alone."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
from collections import Counter
from collections.abc import Mapping

import anyio
from starlette.authentication import SimpleUser
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from jobboard.console.refusals import refusal
from jobboard.peers import network_of
from jobboard.text import in_one_line

logger = logging.getLogger("jobboard.console")

#: How many wrong passwords of one network for one user may wait for their answers.
MAX_TRIES = 10


def read_users(text: str) -> dict[str, str]:
    """Return the passwords by the users' names from lines of ``NAME:PASSWORD``; blank lines and ``#`` are left out.

    :raises ValueError: a line is none, or there is none.
    """
    lines = [line.strip() for line in text.splitlines()]
    users: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#"):
            continue
        name, colon, password = line.partition(":")
        if not (name and colon and password):
            raise ValueError(f"line {number} is not NAME:PASSWORD")
        users[name] = password
    if not users:
        raise ValueError("there is no NAME:PASSWORD")
    return users


class BasicAuth:
    """Lets only users in whose names and passwords are known; ``request.user`` is who it is then.

    A wrong password is logged, and answered after a delay, which holds up nobody else. While :data:`MAX_TRIES` of one
    network for one user wait, further tries of that pair are refused unseen, right or wrong: otherwise a client
    that sends many at once would guess as fast as ever, since only the right one is answered at once. It is by network,
    so that strangers who know a user's name can't keep that user out.

    :param users: passwords by names.
    :param delay: seconds before a wrong password is answered.
    """

    def __init__(self, app: ASGIApp, users: Mapping[str, str], *, delay: float = 1.0) -> None:
        self._app = app
        self._users = {name: _digest(password) for name, password in users.items()}
        self._delay = delay
        #: How many answers wait, by network and user; all unknown users count as one.
        self._waiting: Counter[tuple[str, str | None]] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = _credentials_of(Headers(scope=scope).get("authorization", ""))
        if given is None:
            await _refusal(scope, "name and password, please", 401)(scope, receive, send)
            return
        name, password = given
        address = _address_of(scope)
        tried = (network_of(address), name if name in self._users else None)
        if self._waiting[tried] >= MAX_TRIES:
            await _refusal(scope, "too many wrong passwords; try again later", 429)(scope, receive, send)
        elif self._is_right(name, password):
            await self._app({**scope, "user": SimpleUser(name)}, receive, send)
        else:
            await self._wait(tried, address)
            await _refusal(scope, "name and password, please", 401)(scope, receive, send)

    def _is_right(self, name: str, password: str) -> bool:
        # An unknown name takes as long as a wrong password.
        return hmac.compare_digest(_digest(password), self._users.get(name, b"\0" * 32))

    async def _wait(self, tried: tuple[str, str | None], address: str) -> None:
        name = tried[1]
        # Not the name that was typed, unless it is known: it may be a password in the wrong place.
        whose = "an unknown user" if name is None else in_one_line(name)
        logger.warning("wrong password of %s from %s", whose, in_one_line(address))
        self._waiting[tried] += 1
        try:
            await anyio.sleep(self._delay)
        finally:
            self._waiting[tried] -= 1
            if not self._waiting[tried]:
                del self._waiting[tried]


def _credentials_of(header: str) -> tuple[str, str] | None:
    scheme, _, data = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, _, password = base64.b64decode(data, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return name, password


def _address_of(scope: Scope) -> str:
    """Return the address that a request comes from; of what a proxy sends, the server has put its client's there."""
    client = scope.get("client")
    return client[0] if client else "an unknown address"


def _refusal(scope: Scope, line: str, status: int) -> Response:
    headers = {"Cache-Control": "no-store"}
    headers |= (
        {"WWW-Authenticate": 'Basic realm="jobboard", charset="UTF-8"'} if status == 401 else {"Retry-After": "2"}
    )
    return refusal(Headers(scope=scope), line, status, headers)


def _digest(password: str) -> bytes:
    return hashlib.sha256(password.encode()).digest()
