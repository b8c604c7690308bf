"""Tells a page that there is something new to show: a request that waits until then, and holds no thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import anyio
import anyio.to_thread
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from jobboard.board import JobBoard
from jobboard.console.guard import STOPPING
from jobboard.console.pages.events import EventLog
from jobboard.console.shared import sampler_of
from jobboard.console.view import Page, View

#: How many requests of a console wait at a time; further browsers look every few seconds instead. Fewer than the
#: connections that ``jobboard serve`` takes of one address, so that whoever else is there still gets pages.
MAX_WAITING = 60
#: Seconds after which a request is answered in any case, and between two looks at what was heard, which cost nothing.
_TIMEOUT, _PAUSE = 10.0, 0.4
#: Threads that begin to listen, since the store may hang.
_THREADS = 2


class Waiting:
    """The requests that wait for something on one board."""

    def __init__(self, _board: JobBoard) -> None:
        self.number = 0
        self._limiter: anyio.CapacityLimiter | None = None

    @property
    def limiter(self) -> anyio.CapacityLimiter:
        """What bounds the threads; made in the loop that uses it."""
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(_THREADS)
        return self._limiter


async def wait(view: View) -> Response:
    """Answer how many events were heard: at once if it is another number than the browser knows, else later.

    With ``job`` in the URL only events of this job count. With ``of=looks`` it is how often the sampler has looked, for
    pages that show what it saw.
    """
    if not view.settings.is_live:
        raise HTTPException(404, "this console listens to no events")
    waiting = view.part(Waiting)
    if sum(entry.part(Waiting).number for entry in view.settings.boards.values()) >= MAX_WAITING:
        raise HTTPException(429, f"{MAX_WAITING} pages of this console wait for events by now")
    waiting.number += 1
    try:
        news = await anyio.to_thread.run_sync(_news_of, view, limiter=waiting.limiter)
        return JSONResponse({"total": await _wait(view, news)})
    finally:
        waiting.number -= 1


@dataclass(frozen=True, slots=True)
class _News:
    """What a page waits for."""

    total: Callable[[], int]
    #: Whether the newest ones, this many, have something for this page.
    has: Callable[[int], bool]


def _news_of(view: View) -> _News:
    if view.query("of") == "looks":
        sampler = sampler_of(view)
        sampler.start()
        return _News(lambda: sampler.looks, bool)
    view.board  # noqa: B018, connects it
    log, job = view.part(EventLog), view.query("job")
    log.read()
    return _News(lambda: log.total, (lambda number: log.has(job, number)) if job else bool)


async def _wait(view: View, news: _News) -> int:
    known = view.query("since")
    number = int(known) if known.isdecimal() and len(known) < 20 else -1
    with anyio.move_on_after(_TIMEOUT):
        while number == news.total() or (0 <= number < news.total() and not news.has(news.total() - number)):
            number = news.total()
            if view.request.scope.get(STOPPING, bool)() or await view.request.is_disconnected():
                break
            await anyio.sleep(_PAUSE)
    return news.total()


PAGES = (Page("changes", wait),)
