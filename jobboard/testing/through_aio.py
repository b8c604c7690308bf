"""The contract through :mod:`jobboard.aio`: boards, jobs and schedules that pass every call to their async wrappers.

Mix :class:`ThroughAio` into a harness. Needs the extra ``jobboard[aio]``.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from functools import cached_property
from typing import Any

import anyio
from anyio.from_thread import BlockingPortal

from jobboard.aio import AsyncJob, AsyncJobBoard, AsyncLimits, AsyncSchedules
from jobboard.board import JobBoard
from jobboard.board.limits import Limits
from jobboard.events import EventKind, JobEvent
from jobboard.job import Job
from jobboard.schedules.collection import Schedules
from jobboard.testing.contract import Contract, Counted
from jobboard.testing.contract.ends import AbandonCases, CheckpointCases, ConsumeCases, ExtendCases, TrashCases
from jobboard.testing.contract.events import EventCases
from jobboard.testing.contract.keys import KeyCases
from jobboard.testing.contract.races import RaceCases
from jobboard.testing.contract.retries import RetryCases
from jobboard.testing.contract.waiting import WaitingCases
from jobboard.testing.counting import count_cases
from jobboard.testing.harness import Harness


class AioSelection(
    ConsumeCases, AbandonCases, TrashCases, ExtendCases, CheckpointCases, KeyCases, WaitingCases, EventCases,
    RetryCases, RaceCases, Counted,
):  # fmt: skip
    """The cases of what the async board does in ways of its own; the rest depends on code that the contract tests."""


# As the contract grows; its own number says if a case is missing.
AioSelection.all_cases = sum(count_cases(topic) for topic in AioSelection.__bases__)


#: The selection, or the whole contract with ``JOBBOARD_ALL_TESTS=1``.
AioContract: Any = Contract if os.environ.get("JOBBOARD_ALL_TESTS") else AioSelection

logger = logging.getLogger("jobboard.board")


@functools.cache
def _portal() -> BlockingPortal:
    """Return the way to the one event loop of this process, which ends with it."""
    begun: Future[BlockingPortal] = Future()

    async def serve() -> None:
        async with BlockingPortal() as portal:
            begun.set_result(portal)
            await portal.sleep_until_stopped()

    threading.Thread(target=anyio.run, args=[serve], daemon=True).start()
    return begun.result(30)


def _through(name: str, wrapper_of: Callable[[Any], Any]) -> Callable[..., Any]:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        wrapper = wrapper_of(self)

        async def answer() -> Any:
            return await getattr(wrapper, name)(*_given(args), **kwargs)

        return _taken(self, _portal().call(answer))

    return call


def _iterating(name: str, wrapper_of: Callable[[Any], Any]) -> Callable[..., Any]:
    def call(self: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        iterator = aiter(getattr(wrapper_of(self), name)(*args, **kwargs))
        end = object()

        async def step() -> Any:
            return await anext(iterator, end)

        def steps(value: Any) -> Iterator[Any]:
            while value is not end:
                yield _taken(self, value)
                value = _portal().call(step)

        return steps(_portal().call(step))

    return call


def _asking(name: str, wrapper_of: Callable[[Any], Any]) -> property:
    def read(self: Any) -> Any:
        async def answer() -> Any:
            return await getattr(wrapper_of(self), name)

        return _portal().call(answer)

    return property(read)


def _given(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Hand over handles as a user of the async board has them."""
    return tuple(
        _wrapper_of_job(value)
        if isinstance(value, JobThroughAio)
        else [_wrapper_of_job(item) if isinstance(item, JobThroughAio) else item for item in value]
        if isinstance(value, list)
        else value
        for value in values
    )


def _taken(self: Any, value: Any) -> Any:
    if isinstance(value, AsyncJob):
        job: Job = value._sync
        job.__class__ = JobThroughAio
        job.board = self._through_aio
        return job
    if isinstance(value, list):
        return [_taken(self, item) for item in value]
    return value


def _wrapper_of_job(job: Any) -> AsyncJob:
    return AsyncJob(job.board._wrapper, job, job.board._wrapper._threads)


def _route(original: type, wrapper: type, wrapper_of: Callable[[Any], Any]) -> Callable[[type], type]:
    """Override all that is awaited on the wrapper of a class."""

    def decorate(kind: type) -> type:
        for name in dir(wrapper):
            ours = inspect.getattr_static(original, name, None)
            theirs = inspect.getattr_static(wrapper, name)
            if name.startswith("_") or ours is None or name in vars(kind):
                continue
            if inspect.iscoroutinefunction(theirs):
                setattr(kind, name, _through(name, wrapper_of))
            elif isinstance(ours, property) and not isinstance(theirs, property):
                setattr(kind, name, _asking(name, wrapper_of))
            elif inspect.isfunction(theirs) and name not in ("keep", "subscribe"):
                setattr(kind, name, _iterating(name, wrapper_of))
        return kind

    return decorate


@_route(Job, AsyncJob, _wrapper_of_job)
class JobThroughAio(Job):
    """A job that asks through its async wrapper."""

    __slots__ = ()


@_route(Schedules, AsyncSchedules, lambda schedules: schedules._wrapper)
class SchedulesThroughAio(Schedules):
    """The schedules of a board, asked through their async wrapper."""

    def __init__(self, board: BoardThroughAio) -> None:
        self._through_aio, self._wrapper = board, board._wrapper.schedules

    __iter__ = _iterating("__aiter__", lambda schedules: schedules._wrapper)


@_route(Limits, AsyncLimits, lambda limits: limits._wrapper)
class LimitsThroughAio(Limits):
    """The limits of a board, asked through their async wrapper."""

    def __init__(self, board: BoardThroughAio) -> None:
        super().__init__(board._client, board._backend)
        self._through_aio, self._wrapper = board, board._wrapper.limits

    __iter__ = _iterating("__aiter__", lambda limits: limits._wrapper)


@_route(JobBoard, AsyncJobBoard, lambda board: board._wrapper)
class BoardThroughAio(JobBoard):
    """A board that asks through its async wrapper."""

    def __init__(self, board: JobBoard) -> None:
        self._client, self._backend, self._handles = board._client, board._backend, board._handles
        self._wrapper, self._through_aio = AsyncJobBoard(board), self

    @property
    def schedules(self) -> Schedules:
        return SchedulesThroughAio(self)

    @cached_property
    def limits(self) -> Limits:
        return LimitsThroughAio(self)

    def subscribe(
        self, callback: Callable[[JobEvent], None], kinds: Collection[EventKind] | None = None
    ) -> Callable[[], None]:
        if not callable(callback):
            raise TypeError(f"callback must be callable, not {type(callback).__name__}")
        stream = self._wrapper.subscribe(kinds)
        _portal().call(stream.__aenter__)
        ended = threading.Event()

        async def next_event() -> JobEvent | None:
            return await anext(stream, None)

        def read() -> None:
            while (event := _portal().call(next_event)) is not None and not ended.is_set():
                try:
                    callback(event)
                except Exception:
                    logger.exception("an event callback failed on %s", event.kind)

        threading.Thread(target=read, daemon=True).start()

        def unsubscribe() -> None:
            ended.set()
            _portal().call(stream.aclose)

        return unsubscribe


class ThroughAio(Harness):
    """A harness whose boards are used through :mod:`jobboard.aio`; mix it in before the store's own."""

    def adopt(self, board: JobBoard) -> JobBoard:
        return super().adopt(BoardThroughAio(board))
