"""A subscription as an async iterator."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Collection
from functools import partial
from typing import Self

import anyio

from jobboard.aio.pending import current_notify
from jobboard.aio.threads import Threads
from jobboard.board import JobBoard
from jobboard.events import EventKind, JobEvent

#: Events are hints: when a reader is this far behind, further ones are dropped.
_MAX_BEHIND = 10_000


class EventStream(AsyncIterator[JobEvent]):
    """Later events, for ``async for``. It begins with ``async with``, or with the first step, and ends with ``aclose``,
    the ``async with`` block, or the board's ``close``."""

    def __init__(self, board: JobBoard, threads: Threads, kinds: Collection[EventKind] | None) -> None:
        self._board = board
        self._threads = threads
        self._kinds = kinds
        self._events: deque[JobEvent] = deque()
        self._unsubscribe: Callable[[], None] | None = None
        self._ended = False

    async def __aenter__(self) -> Self:
        self._notify = current_notify()
        self._arrived = anyio.Event()
        subscribe = partial(self._board.subscribe, self._take, self._kinds)
        self._unsubscribe = await self._threads.run(subscribe, lambda unsubscribe: unsubscribe())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the subscription; idempotent."""
        self.end()
        unsubscribe, self._unsubscribe = self._unsubscribe, None
        if unsubscribe is not None:
            with anyio.CancelScope(shield=True):
                await self._threads.run(unsubscribe)

    def end(self) -> None:
        """Let who reads come to the end, after what has arrived."""
        self._ended = True
        if self._unsubscribe is not None:
            self._arrived.set()

    async def __anext__(self) -> JobEvent:
        if self._unsubscribe is None and not self._ended:
            await self.__aenter__()
        while not self._events:
            if self._ended:
                raise StopAsyncIteration
            await self._arrived.wait()
            self._arrived = anyio.Event()
        return self._events.popleft()

    def _take(self, event: JobEvent) -> None:
        """Is called in the board's thread of subscriptions."""
        if len(self._events) < _MAX_BEHIND:
            self._events.append(event)
            try:
                self._notify(self._wake)
            except RuntimeError:
                # The event loop has ended, and nobody reads any more.
                self._ended = True

    def _wake(self) -> None:
        self._arrived.set()
