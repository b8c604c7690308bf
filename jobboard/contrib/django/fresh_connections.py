"""Every run of a handler begins and ends without Django connections that are broken or too old."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import django
from asgiref.sync import sync_to_async
from django.apps import apps
from django.db import close_old_connections, connections

from jobboard.conductor import Handlers
from jobboard.conductor.calling import is_async
from jobboard.conductor.task import Task


def with_fresh_connections(handlers: Handlers) -> Handlers:
    """Return a copy whose handlers run so: in threads, on an event loop and in worker processes; idempotent."""
    return handlers.with_tasks(lambda task: task if isinstance(task, FreshTask) else FreshTask(task))


class FreshTask(Task[Any, ..., Any]):
    """A task whose runs begin and end with ``close_old_connections``.

    :param task: what it runs. A worker process sets up Django before it imports that, as its module may have models.
    """

    def __init__(self, task: Task[Any, ..., Any]) -> None:
        around = _around_coroutine if is_async(task.function) else _around
        super().__init__(task.name, around(task.function), task.declared, task.is_batch)
        self._task = task

    def __reduce__(self) -> tuple[object, ...]:
        # A worker process makes these arguments one after the other.
        return _fresh_task, (_DjangoIsReady(), self._task)


class _DjangoIsReady:
    """Sets up Django where it is unpickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return _set_up, ()


def _set_up() -> None:
    if not apps.ready:
        django.setup()


def _fresh_task(_: None, task: Task[Any, ..., Any]) -> FreshTask:
    return FreshTask(task)


def _around(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: Any) -> Any:
        _close_old_connections()
        try:
            return function(*args)
        finally:
            _close_old_connections()

    return run


def _around_coroutine(function: Callable[..., Any]) -> Callable[..., Any]:
    # What the handler calls by sync_to_async runs in the same thread.
    close = sync_to_async(_close_old_connections)

    @functools.wraps(function)
    async def run(*args: Any) -> Any:
        await close()
        try:
            return await function(*args)
        finally:
            await close()

    return run


def _close_old_connections() -> None:
    """Close this thread's connections that are of no use any more; none within a transaction."""
    # A test runs tasks in its own thread and transaction, and Django would close that connection, too.
    if not any(connection.in_atomic_block for connection in connections.all(initialized_only=True)):
        close_old_connections()
