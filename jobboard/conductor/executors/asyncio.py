"""Handlers as tasks of one asyncio loop, which has a thread of its own."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import Callable
from typing import Any

from jobboard.conductor.executors.base import Executor, Finish
from jobboard.conductor.executors.thread import ThreadExecutor
from jobboard.conductor.handlers import Handlers
from jobboard.conductor.outcome import Dropped, Outcome, outcome_of_coroutine, outcome_of_error
from jobboard.conductor.task import Task


class AsyncioExecutor(Executor):
    """``async`` handlers run on the loop, plain ones in threads beside it, as in the thread executor.

    A cancel, a timeout and a lost claim cancel the asyncio task. A handler that blocks the loop holds up the other
    handlers, but not the renewal of their claims.
    """

    def __init__(self, handlers: Handlers, slots: int, finish: Finish) -> None:
        super().__init__(handlers, slots, finish)
        all_async = all(handler.is_async for handler in handlers)
        self._threads = ThreadExecutor(handlers, 0 if all_async else slots, finish)

    def start(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._running: dict[Task, asyncio.Task[Outcome]] = {}
        self._thread = threading.Thread(target=self._run_loop, name="jobboard-asyncio", daemon=True)
        self._threads.start()
        self._thread.start()

    def submit(self, task: Task) -> None:
        if task.handler.is_async:
            self._on_loop(self._begin, task)
        else:
            self._threads.submit(task)

    def ask_to_end(self, task: Task) -> None:
        self._on_loop(self._cancel, task)

    def interrupt(self, task: Task) -> None:
        self._on_loop(self._cancel, task)

    def stop(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        self._on_loop(self._cancel_all)
        self._on_loop(self._stop_when_idle)
        self._threads.stop(timeout)
        self._thread.join(max(0.0, deadline - time.monotonic()))

    def _on_loop(self, function: Callable[..., None], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            # The loop is closed: nothing runs there that could be told anything.
            pass

    # -- on the loop -----------------------------------------------------------------------------------------------

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    def _begin(self, task: Task) -> None:
        running = self._loop.create_task(_run(task))
        self._running[task] = running
        running.add_done_callback(functools.partial(self._ended, task))

    def _cancel(self, task: Task) -> None:
        running = self._running.get(task)
        if running is not None:
            running.cancel()

    def _cancel_all(self) -> None:
        for running in self._running.values():
            running.cancel()

    def _stop_when_idle(self) -> None:
        """Stop once every task has taken its cancel."""
        if self._running:
            self._loop.call_later(0.01, self._stop_when_idle)
        else:
            self._loop.stop()

    def _ended(self, task: Task, running: asyncio.Task[Outcome]) -> None:
        del self._running[task]
        # One that is cancelled before its first step never gets to make an outcome.
        self._finish(task, outcome_of_error(asyncio.CancelledError()) if running.cancelled() else running.result())


async def _run(task: Task) -> Outcome:
    if task.outcome is not None:
        return Dropped()
    try:
        result = task.call()
    except BaseException as error:
        return outcome_of_error(error)
    return await outcome_of_coroutine(result)
