"""Names and passwords by HTTP's basic authentication, for a console that stands alone."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping

from starlette.authentication import SimpleUser
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send


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
    """Lets only users in whose names and passwords are known; ``request.user`` is who it is then."""

    def __init__(self, app: ASGIApp, users: Mapping[str, str]) -> None:
        self._app = app
        self._users = {name: _digest(password) for name, password in users.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        name = self._user_of(Headers(scope=scope).get("authorization", ""))
        if name is None:
            headers = {"WWW-Authenticate": 'Basic realm="jobboard", charset="UTF-8"', "Cache-Control": "no-store"}
            await PlainTextResponse("name and password, please\n", 401, headers)(scope, receive, send)
        else:
            await self._app({**scope, "user": SimpleUser(name)}, receive, send)

    def _user_of(self, header: str) -> str | None:
        scheme, _, data = header.partition(" ")
        if scheme.lower() != "basic":
            return None
        try:
            name, _, password = base64.b64decode(data, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            return None
        # An unknown name takes as long as a wrong password.
        known = self._users.get(name, b"\0" * 32)
        return name if hmac.compare_digest(_digest(password), known) else None


def _digest(password: str) -> bytes:
    return hashlib.sha256(password.encode()).digest()
