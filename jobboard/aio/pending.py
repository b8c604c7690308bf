"""What a task of asyncio or Trio waits for while a thread does it."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar, cast

import anyio
from anyio.lowlevel import current_token

T = TypeVar("T")

#: Takes back what was done for a task that has been cancelled, such as a claim; may block.
Undo = Callable[[T], object]


def current_notify() -> Callable[..., object]:
    """Return what lets the present event loop call a function soon; it may be called from any thread.

    It raises RuntimeError once the loop has ended.
    """
    loop: Any = current_token().native_token
    return cast(Callable[..., object], getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon)


class _AsyncioEvent:
    """An event for one task of asyncio; :class:`anyio.Event` takes several times as long, for each call."""

    __slots__ = ("_future",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._future: asyncio.Future[None] = loop.create_future()

    def set(self) -> None:
        if not self._future.done():
            self._future.set_result(None)

    def wait(self) -> asyncio.Future[None]:
        return self._future


def _event() -> tuple[Callable[..., object], Any]:
    """Return what notifies the present event loop, and an event of its own."""
    try:
        loop = asyncio.get_running_loop()
        # Without a task, Trio runs as a guest of asyncio's loop.
        if asyncio.current_task(loop) is not None:
            return loop.call_soon_threadsafe, _AsyncioEvent(loop)
    except RuntimeError:
        pass
    return current_notify(), anyio.Event()


class Pending(Generic[T]):
    """A call that some thread makes for a task. Whatever comes for a task that was cancelled is undone.

    :param undo: is called with the value that nobody takes.
    :param in_thread: calls a function in some thread.
    """

    __slots__ = ("_arrived", "_error", "_has_left", "_in_thread", "_lock", "_undo", "_value", "is_answered", "notify")

    def __init__(self, in_thread: Callable[[Callable[[], object]], object], undo: Undo[T] | None) -> None:
        self.notify, self._arrived = _event()
        self._lock = threading.Lock()
        self._in_thread = in_thread
        self._undo = undo
        self._value: T | None = None
        self._error: BaseException | None = None
        self._has_left = False
        self.is_answered = False

    async def wait(self) -> T:
        """Return the value, or raise the error; if the task is cancelled meanwhile, what was not begun never begins."""
        try:
            await self._arrived.wait()
        except BaseException:
            with self._lock:
                self._has_left = True
                is_wasted = self.is_answered
            if is_wasted and self._undo is not None:
                self._in_thread(self._take_back)
            raise
        if self._error is not None:
            raise self._error
        return cast(T, self._value)

    # -- in the thread ---------------------------------------------------------------------------------------------

    @property
    def is_withdrawn(self) -> bool:
        """Whether the task was cancelled."""
        return self._has_left

    def answer(self, function: Callable[[], T]) -> None:
        """Keep what a function returns or raises; :func:`deliver` wakes the task."""
        try:
            self._value = function()
        except BaseException as error:
            self._error = error
        with self._lock:
            self.is_answered = True
            is_wasted = self._has_left
        if is_wasted:
            self._take_back()

    def _take_back(self) -> None:
        if self._undo is not None and self._error is None:
            self._undo(cast(T, self._value))

    def _set(self) -> None:
        self._arrived.set()

    def _lose(self) -> None:
        """The loop has ended before the answer came."""
        with self._lock:
            is_taken_back, self._has_left = self._has_left, True
        if not is_taken_back:
            self._take_back()


def deliver(answered: Iterable[Pending[Any]]) -> None:
    """Wake the tasks whose calls are answered: one wake-up for each event loop."""
    by_loop: defaultdict[Callable[..., object], list[Pending[Any]]] = defaultdict(list)
    for pending in answered:
        by_loop[pending.notify].append(pending)
    for notify, pendings in by_loop.items():
        try:
            notify(_set_all, pendings)
        except RuntimeError:
            for pending in pendings:
                pending._lose()


def _set_all(pendings: list[Pending[Any]]) -> None:
    for pending in pendings:
        pending._set()
