"""How tests use the console: asked without a server, or served over HTTP for browsers."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Iterator
from html import unescape
from typing import Any

import anyio
import httpx
import uvicorn

from jobboard.console import app

SAME_SITE = {"Sec-Fetch-Site": "same-origin"}


class Asking:
    """Asks an ASGI app, as a browser on ``localhost`` would; ``post`` comes from the console's own pages."""

    def __init__(self, asgi: Any, root: str = "") -> None:
        self._asgi = asgi
        self._root = root

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.ask("GET", path, **options)

    def post(self, path: str, data: dict[str, Any] | None = None, **options: Any) -> httpx.Response:
        return self.ask("POST", path, data=data or {}, **{"headers": SAME_SITE} | options)

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        return anyio.run(self._ask, method, path, options)

    async def _ask(self, method: str, path: str, options: dict[str, Any]) -> httpx.Response:
        transport = httpx.ASGITransport(self._asgi)
        url = f"http://localhost{self._root}"
        async with httpx.AsyncClient(transport=transport, base_url=url, follow_redirects=True, timeout=60) as web:
            return await web.request(method, path, **options)


def asking(boards: Any, **options: Any) -> Asking:
    """Return what asks a console of these boards."""
    return Asking(app(boards, **options))


def text_of(page: httpx.Response | str) -> str:
    """Return what a page says, without its tags, in one line."""
    html = page if isinstance(page, str) else page.text
    main = re.sub(r".*<main[^>]*>|</main>.*", "", html, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", main)).split())


def links_of(page: httpx.Response) -> list[str]:
    """Return where the links of a page lead to."""
    return [unescape(link) for link in re.findall(r'href="([^"]*)"', page.text)]


def fields_of(page: httpx.Response) -> dict[str, str]:
    """Return what the forms of a page send as they stand, without their buttons."""
    main = page.text.partition("<main")[2].partition("</main>")[0]
    inputs = [dict(re.findall(r' (\w+)="([^"]*)"', tag)) for tag in re.findall(r"<input[^>]*>", main)]
    fields = {each["name"]: unescape(each.get("value", "")) for each in inputs}
    areas = re.findall(r'<textarea[^>]* name="(\w+)"[^>]*>\n(.*?)</textarea>', main, re.DOTALL)
    selects = re.findall(r'<select name="(\w+)">(.*?)</select>', main, re.DOTALL)
    chosen = {name: re.findall(r'value="(\w+)" selected', options) for name, options in selects}
    fields |= {name: unescape(text) for name, text in areas}
    return fields | {name: values[0] for name, values in chosen.items() if values}


@contextlib.contextmanager
def served(boards: Any, **options: Any) -> Iterator[str]:
    """Serve a console on a free port, and give its address, ``http://127.0.0.1:PORT``."""
    with served_app(app(boards, **options)) as url:
        yield url


@contextlib.contextmanager
def served_app(asgi: Any, config: uvicorn.Config | None = None) -> Iterator[str]:
    """Serve any ASGI app likewise, such as one that the console is mounted in; or as ``config`` says."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(config or uvicorn.Config(asgi, log_level="warning", timeout_graceful_shutdown=1))
        # The socket listens, so that a client that connects before the server is ready waits.
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(30)
