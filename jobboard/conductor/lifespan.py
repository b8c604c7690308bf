"""The lifespan of handlers: what they need in each process that runs them is made once there, and closed in the end."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from typing import Any, Generic, TypeVar

from jobboard.conductor.calling import place_of, signature_of
from jobboard.conductor.log import logger
from jobboard.conductor.running_job import NOT_MADE
from jobboard.errors import LifespanFailed
from jobboard.text import line_of

#: Seconds that the lifespans of a process have to close what they have made.
CLOSE_TIMEOUT = 10.0
#: Seconds between two looks whether late handlers have returned.
_USERS_POLL = 0.1
_ADVICE = "it must be a generator function without arguments, plain or async, which yields the resources once"

#: A function that makes resources, yields them once, and closes them.
MakesResources = TypeVar("MakesResources", bound=Callable[[], Iterator[Any] | AsyncIterator[Any]])
Manager = TypeVar("Manager", AbstractContextManager[Any], AbstractAsyncContextManager[Any])


class Lifespan:
    """What a collection's handlers have from their registration on; it does nothing until it has a function."""

    def __init__(self) -> None:
        self.function: Callable[[], Any] | None = None
        #: Seconds until it must have yielded.
        self.timeout = 0.0

    def register(self, function: Callable[[], Any], timeout: float) -> None:
        """Take this function.

        :raises ValueError: there is one already.
        :raises TypeError: it is no generator function, or needs arguments.
        """
        if not (inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)):
            raise TypeError(f"{_described(function)} can't be a lifespan: {_ADVICE}")
        try:
            signature_of(function).bind()
        except TypeError as error:
            raise TypeError(f"{place_of(function)} can't be a lifespan, {error}: {_ADVICE}") from None
        if self.function is not None:
            there, other = place_of(self.function), place_of(function)
            raise ValueError(f"these handlers have a lifespan already: {there}; {other} can't be another")
        self.function, self.timeout = function, timeout

    @property
    def is_async(self) -> bool:
        return inspect.isasyncgenfunction(self.function)

    def __repr__(self) -> str:
        return "no lifespan" if self.function is None else f"the lifespan {place_of(self.function)}"


def _described(function: object) -> str:
    return place_of(function) if callable(function) else repr(function)


def plain_ones(lifespans: Iterable[Lifespan]) -> list[Lifespan]:
    """Return those that are no coroutines, each once."""
    return [one for one in dict.fromkeys(lifespans) if one.function is not None and not one.is_async]


def async_ones(lifespans: Iterable[Lifespan]) -> list[Lifespan]:
    """Return those that need an event loop, each once."""
    return [one for one in dict.fromkeys(lifespans) if one.is_async]


def time_for(lifespans: Iterable[Lifespan]) -> float:
    """Return the seconds that they have to yield, one after the other."""
    return sum(one.timeout for one in lifespans if one.function is not None)


class _Made(Generic[Manager]):
    """What lifespans have made, and how it is closed: in the order back, each by itself."""

    def __init__(self, lifespans: list[Lifespan]) -> None:
        self.lifespans = lifespans
        self.entered: list[tuple[Lifespan, Manager]] = []
        #: Which one makes or closes something now.
        self.at: Lifespan | None = None
        self._values: dict[Lifespan, Any] = {}
        #: Why what they have made could not be closed, or None.
        self.close_fault: str | None = None

    def of(self, lifespan: Lifespan) -> Any:
        """Return what a lifespan has made here; ``NOT_MADE`` if it is of others, or none."""
        return self._values.get(lifespan, NOT_MADE)

    def add(self, lifespan: Lifespan, manager: Manager, value: Any) -> None:
        self._values[lifespan] = value
        self.entered.append((lifespan, manager))

    def failure(self, error: BaseException, is_late: bool = False) -> LifespanFailed:
        """Return the failure of the one that makes something now."""
        failed = LifespanFailed(_late(self.at) if is_late else f"{self.at!r} failed: {_place_and_line(self.at, error)}")
        failed.__cause__ = error
        return failed

    def note_unclosed(self, why: str, error: BaseException | None = None) -> None:
        """What they have made could not be closed."""
        self.close_fault = self.close_fault or why
        logger.error("resources of handlers could not be closed: %s", why, exc_info=error)

    def note_late_close(self, seconds: float) -> None:
        """They have not closed it in this time."""
        self.note_unclosed(f"{self.at!r} did not end within {seconds:g} s")


def _late(lifespan: Lifespan | None) -> str:
    seconds = 0.0 if lifespan is None else lifespan.timeout
    return f"{lifespan!r} did not yield within {seconds:g} s, its timeout"


def _place_and_line(lifespan: Lifespan | None, error: BaseException) -> str:
    """Return the error in one line, after the line of the lifespan's file from which it came."""
    file = getattr(getattr(lifespan and lifespan.function, "__code__", None), "co_filename", None)
    lines, trace = [], error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return f"{file}, line {lines[-1]}: {line_of(error)}" if lines else line_of(error)


class Resources(_Made[AbstractContextManager[Any]]):
    """What plain lifespans make; the thread that enters closes, too."""

    def enter(self) -> None:
        """Make it.

        :raises LifespanFailed: one failed; what the others have made is closed.
        """
        for lifespan in self.lifespans:
            assert lifespan.function is not None  # nosec B101 # plain_ones chose it
            self.at = lifespan
            try:
                manager = contextmanager(lifespan.function)()
                self.add(lifespan, manager, manager.__enter__())
            except BaseException as error:
                failure = self.failure(error)
                self.leave()
                raise failure from error

    def leave(self) -> None:
        """Close it; an error is logged, and keeps no other lifespan from closing."""
        while self.entered:
            self.at, manager = self.entered.pop()
            try:
                manager.__exit__(None, None, None)
            except BaseException as error:
                self.note_unclosed(f"{self.at!r}: {_place_and_line(self.at, error)}", error)


class ResourcesThread:
    """Enters plain lifespans in a thread of their own, which closes what they have made.

    :param users: returns how many handlers run in this process, which may use it; it is not closed before they return.
    """

    def __init__(self, lifespans: list[Lifespan], users: Callable[[], int]) -> None:
        self._users = users
        self._resources = Resources(lifespans)
        self.of = self._resources.of
        self._thread = threading.Thread(target=self._run, name="jobboard-lifespan", daemon=True)
        self._entered, self._leaving = threading.Event(), threading.Event()
        self._failure: LifespanFailed | None = None

    @property
    def close_fault(self) -> str | None:
        return self._resources.close_fault

    def enter_for(self, start: Callable[[], object]) -> None:
        """Make it, in the time that the lifespans say, and call ``start``; close it if that raises.

        :raises LifespanFailed: one failed, or is late; what a late one makes after all is closed at once.
        """
        if self._resources.lifespans:
            self._enter()
        try:
            start()
        except BaseException:
            self.leave()
            raise

    def _enter(self) -> None:
        self._thread.start()
        if not self._entered.wait(time_for(self._resources.lifespans)):
            self._leaving.set()
            raise LifespanFailed(_late(self._resources.at))
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            self._resources.enter()
        except LifespanFailed as error:
            self._failure = error
            return
        finally:
            self._entered.set()
        self._leaving.wait()
        while self._users():
            time.sleep(_USERS_POLL)
        self._resources.leave()

    def leave(self) -> None:
        """Close it, and wait for that for 10 seconds at most; while handlers use it, don't wait."""
        is_first = not self._leaving.is_set()
        self._leaving.set()
        if not self._thread.is_alive() or not is_first:
            return
        if (users := self._users()) > 0:
            logger.warning("resources of handlers are closed later: %d handlers still run, and may use them", users)
            return
        self._thread.join(CLOSE_TIMEOUT)
        if self._thread.is_alive():
            self._resources.note_late_close(CLOSE_TIMEOUT)


class LoopResources(_Made[AbstractAsyncContextManager[Any]]):
    """What async lifespans make on an event loop: one asyncio task there enters and closes, as task groups want it."""

    def enter(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make it, on a loop that does not run yet; anew on each loop.

        :raises LifespanFailed: one failed, or is late; what the others have made is closed.
        """
        if not self.lifespans:
            return
        self._leaving, entered = asyncio.Event(), loop.create_future()
        self._task = loop.create_task(self._live(entered))
        loop.run_until_complete(entered)

    def leave(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close it, on a loop that runs no more."""
        if not self.entered:
            return
        if loop.is_closed():
            self.note_unclosed(f"a handler has closed the event loop of {self.entered[-1][0]!r}")
            self.entered.clear()
            return
        self._leaving.set()
        try:
            loop.run_until_complete(self._task)
        except BaseException as error:
            self.note_unclosed(f"{self.at!r}: {line_of(error)}", error)

    async def _live(self, entered: asyncio.Future[None]) -> None:
        limit = asyncio.timeout(None)
        try:
            for lifespan in self.lifespans:
                assert lifespan.function is not None  # nosec B101 # async_ones chose it
                self.at = lifespan
                manager = asynccontextmanager(lifespan.function)()
                async with asyncio.timeout(lifespan.timeout) as limit:
                    value = await manager.__aenter__()
                self.add(lifespan, manager, value)
        except BaseException as error:
            failure = self.failure(error, limit.expired())
            await self._close()
            entered.set_exception(failure)
            return
        entered.set_result(None)
        while not self._leaving.is_set():
            # A handler that cancels all asyncio tasks of its loop does not mean this one.
            with suppress(asyncio.CancelledError):
                await self._leaving.wait()
        await self._close()

    async def _close(self) -> None:
        while self.entered:
            self.at, manager = self.entered.pop()
            limit = asyncio.timeout(CLOSE_TIMEOUT)
            try:
                async with limit:
                    await manager.__aexit__(None, None, None)
            except BaseException as error:
                late = f"did not end within {CLOSE_TIMEOUT:g} s"
                why = late if limit.expired() else _place_and_line(self.at, error)
                self.note_unclosed(f"{self.at!r}: {why}", error)
