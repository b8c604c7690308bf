"""What every request passes and every answer carries: known hosts, changes only from the console's own pages, a CSP."""

from __future__ import annotations

from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobboard.console.refusals import refusal, sends_json

#: Where the prefix that the console is mounted at stands in the scope; routers below it change ``root_path``.
ROOT = "jobboard.console.root"

#: Where a server may put a function that says whether it stops: requests that wait end then.
STOPPING = "jobboard.console.stopping"

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    # With no-referrer browsers would send "Origin: null" with changes, and without TLS they send no Sec-Fetch-Site.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """Stands before the whole console, static files too.

    :param hosts: the names, without ports, under which the console may be asked for. A foreign name that resolves to
        this machine (DNS rebinding) would make a stranger's page the console's own.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app = app
        self._hosts = {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            inside = {**scope, ROOT: scope.get("root_path", "").rstrip("/")}
            fault = self._fault(scope, Headers(scope=scope))
            answer = self._app if fault is None else refusal(Headers(scope=scope), fault, 403)
            await answer(inside, receive, _with_headers(send))
        else:
            await send({"type": "websocket.close", "code": 1008})

    def _fault(self, scope: Scope, headers: Headers) -> str | None:
        hosts = headers.getlist("host")
        host = _name_of(hosts[0]) if len(hosts) == 1 else ""
        if not host or (host not in self._hosts and "*" not in self._hosts):
            return f"this console does not answer to the host {host!r}: name it in hosts=, or with --allow-host"
        if scope["method"] in _SAFE_METHODS:
            return None
        sites = set(headers.getlist("sec-fetch-site"))
        if sites:
            return None if sites == {"same-origin"} else "this change was asked for by a page of another site"
        origins = headers.getlist("origin")
        if not origins and sends_json(headers):
            # A program. A page of another site can send no JSON unless its browser asks first, and it sends Origin.
            return None
        if not origins:
            return (
                "this change has neither Sec-Fetch-Site nor Origin: use a browser, or the command line; a program "
                "posts jobs with Content-Type: application/json"
            )
        own = f"{scope['scheme']}://{hosts[0]}".lower()
        if [origin.lower() for origin in origins] == [own]:
            return None
        return (
            f"this change was asked for by a page of another site than {own}; if a proxy ends TLS, it must send "
            "X-Forwarded-Proto"
        )


def _name_of(host: str) -> str:
    """Return a ``Host`` without its port."""
    name, _, port = host.lower().rpartition(":")
    return name if name and port.isdecimal() else host.lower()


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return send_with_headers
