"""Makes coroutines for asyncio and Trio out of the methods of a synchronous class."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from jobboard.aio.threads import Threads
from jobboard.aio.transactions import call_in_transaction
from jobboard.client.paging import page_sizes
from jobboard.client.subscriptions import Interruption
from jobboard.job import Job

if TYPE_CHECKING:
    from jobboard.aio.job import AsyncJob

P = ParamSpec("P")
T = TypeVar("T")


class AsyncWrapper:
    """Makes the calls of another object in threads.

    ``_sync`` is that object, of the class ``_of``, and ``_shown`` makes of what it returns what users get.
    """

    __slots__ = ()
    _of: ClassVar[type]
    _sync: Any
    _threads: Threads

    def _shown(self, value: Any) -> Any:
        raise NotImplementedError


@overload
def as_coroutine(
    method: Callable[Concatenate[Any, P], Job], undo: Callable[..., object] | None = None
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, AsyncJob]]: ...
@overload
def as_coroutine(
    method: Callable[Concatenate[Any, P], list[Job]], undo: Callable[..., object] | None = None
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, list[AsyncJob]]]: ...
@overload
def as_coroutine(
    method: Callable[Concatenate[Any, P], T], undo: Callable[..., object] | None = None
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]: ...
def as_coroutine(method: Any, undo: Callable[..., object] | None = None) -> Any:
    """Return a method as a coroutine: gathered with others if it sends one request, else in a thread of the pool.

    With a ``connection`` it is called by the task itself.

    :param undo: is called with the sync object, the result and the arguments, if the task was cancelled meanwhile.
    """
    generator = getattr(method, "generator", None)

    async def call(self: AsyncWrapper, /, *args: Any, **kwargs: Any) -> Any:
        connection = kwargs.pop("connection", None)
        if connection is not None:
            return self._shown(await call_in_transaction(connection, partial(method, self._sync, *args, **kwargs)))
        if generator is not None:
            return self._shown(await self._threads.gather(method.__name__, generator(self._sync, *args, **kwargs)))
        take_back = None if undo is None else lambda result: undo(self._sync, result, *args, **kwargs)
        return self._shown(await self._threads.request(partial(method, self._sync, *args, **kwargs), take_back))

    return _named(call, method)


@overload
def as_async_iterator(
    method: Callable[Concatenate[Any, P], Iterator[Job]],
) -> Callable[Concatenate[Any, P], AsyncIterator[AsyncJob]]: ...
@overload
def as_async_iterator(
    method: Callable[Concatenate[Any, P], Iterator[T]],
) -> Callable[Concatenate[Any, P], AsyncIterator[T]]: ...
def as_async_iterator(method: Any) -> Any:
    """Return a method that iterates as one for ``async for``; what is wrong is raised by its first step."""

    def call(self: AsyncWrapper, /, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        return Iteration(self, partial(method, self._sync, *args, **kwargs))

    return _named(call, method)


def _named(call: Any, method: Any) -> Any:
    functools.update_wrapper(call, method)
    call.__signature__ = inspect.signature(method)
    return call


class AsyncProperty(Generic[T]):
    """A property that reads the store, as a coroutine."""

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, wrapper: None, _owner: type) -> Self: ...
    @overload
    def __get__(self, wrapper: AsyncWrapper, _owner: type) -> Coroutine[Any, Any, T]: ...
    def __get__(self, wrapper: AsyncWrapper | None, _owner: type) -> Self | Coroutine[Any, Any, T]:
        return self if wrapper is None else self._read(wrapper)

    async def _read(self, wrapper: AsyncWrapper) -> Any:
        return wrapper._shown(
            await wrapper._threads.request(partial(getattr(wrapper._of, self._name).fget, wrapper._sync))
        )


class Iteration(AsyncIterator[Any]):
    """Iterates in a thread, several items at a time.

    :param waits: whether the beginning may block for long; it takes an interruption then.
    """

    def __init__(self, wrapper: AsyncWrapper, begin: Callable[..., Iterator[Any]], *, waits: bool = False) -> None:
        self._wrapper = wrapper
        self._begin = begin
        self._waits = waits
        self._iterator: Iterator[Any] | None = None
        self._fetched: Iterator[Any] = iter(())
        self._sizes = page_sizes()

    def __aiter__(self) -> Iteration:
        return self

    async def __anext__(self) -> Any:
        for value in self._fetched:
            return self._wrapper._shown(value)
        first_of_wait = self._waits and self._iterator is None
        fetch = self._wrapper._threads.wait if first_of_wait else self._wrapper._threads.request
        self._fetched = iter(await fetch(self._fetch))
        for value in self._fetched:
            return self._wrapper._shown(value)
        raise StopAsyncIteration

    def _fetch(self, *interruption: Interruption) -> list[Any]:
        if self._iterator is None:
            self._iterator = self._begin(*interruption)
        return list(islice(self._iterator, next(self._sizes)))
