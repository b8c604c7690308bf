"""Handlers as tasks of one asyncio loop, which has a thread of its own."""

from __future__ import annotations

import asyncio
import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from jobboard.conductor.executors.base import Executor
from jobboard.conductor.outcome import Outcome, outcome_of_error, outcome_of_result
from jobboard.conductor.task import Task


class AsyncioExecutor(Executor):
    """``async`` handlers run on the loop, plain ones in threads beside it.

    A cancel, a timeout and a lost claim cancel the asyncio task. A handler that blocks the loop holds up the other
    handlers, but not the renewal of their claims.
    """

    def start(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._threads = ThreadPoolExecutor(self._slots, thread_name_prefix="jobboard-asyncio-thread")
        self._loop.set_default_executor(self._threads)
        self._running: dict[Task, asyncio.Task[None]] = {}
        self._thread = threading.Thread(target=self._loop.run_forever, name="jobboard-asyncio", daemon=True)
        self._thread.start()

    def submit(self, task: Task) -> None:
        self._loop.call_soon_threadsafe(self._begin, task)

    def ask_to_end(self, task: Task) -> None:
        self._loop.call_soon_threadsafe(self._cancel, task)

    def interrupt(self, task: Task) -> None:
        self._loop.call_soon_threadsafe(self._cancel, task)

    def stop(self, timeout: float) -> None:
        self._loop.call_soon_threadsafe(self._cancel_all)
        self._loop.call_soon_threadsafe(self._stop_when_idle)
        self._thread.join(timeout)
        self._threads.shutdown(wait=False)
        if not self._thread.is_alive():
            self._loop.close()

    def _begin(self, task: Task) -> None:
        self._running[task] = self._loop.create_task(self._run(task))

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

    async def _run(self, task: Task) -> None:
        outcome: Outcome
        try:
            outcome = outcome_of_result(await _call(task))
        except BaseException as error:
            outcome = outcome_of_error(error)
        finally:
            del self._running[task]
        self._finish(task, outcome)


async def _call(task: Task) -> Any:
    function = task.handler.function
    if inspect.iscoroutinefunction(function):
        return await function(task.running)
    result = await asyncio.to_thread(function, task.running)
    return await result if inspect.isawaitable(result) else result
