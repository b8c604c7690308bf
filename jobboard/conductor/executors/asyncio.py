"""Handlers as asyncio tasks on one event loop, which has a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from jobboard.conductor.calling import FreshContexts
from jobboard.conductor.execution import Execution
from jobboard.conductor.executors.base import Executor, Finish
from jobboard.conductor.executors.loop import LoopThread
from jobboard.conductor.executors.thread import ThreadExecutor
from jobboard.conductor.handlers import Handlers
from jobboard.conductor.lifespan import CLOSE_TIMEOUT, async_ones
from jobboard.conductor.log import logger


class AsyncioExecutor(Executor):
    """Runs ``async`` handlers on the loop, and plain ones in threads as the thread executor does.

    A cancel, a timeout and a lost claim cancel the asyncio task. A handler that blocks the loop delays the other
    handlers, but not the renewal of their claims. When a claim on a blocked loop is over, further handlers run on a new
    loop, and the other jobs of the old loop are given back.
    """

    has_loop = True

    def __init__(self, handlers: Handlers, slots: int, finish: Finish) -> None:
        super().__init__(handlers, slots, finish)
        self._lifespans = async_ones(handler.lifespan for handler in handlers if handler.is_async)
        all_async = all(handler.is_async for handler in handlers)
        self._threads = ThreadExecutor(handlers, 0 if all_async else slots, finish)

    def start(self) -> None:
        self._lock = threading.Lock()
        self._contexts = FreshContexts()
        self._loop = LoopThread(self._finish, self._contexts, self._lifespans)
        self._old: list[LoopThread] = []
        self._threads.start()
        try:
            self._loop.start()
            self._loop.wait_until_made()
        except BaseException:
            self._threads.stop(0.0)
            raise

    @property
    def fault(self) -> str | None:
        # There is no loop before the start.
        return self._loop.fault if hasattr(self, "_loop") else None

    def submit(self, executions: Sequence[Execution]) -> None:
        later = [execution for execution in executions if execution.handler.is_async]
        if later:
            with self._lock:
                self._loop.submit(later)
        if len(later) < len(executions):
            self._threads.submit([execution for execution in executions if not execution.handler.is_async])

    def request_cancel(self, execution: Execution) -> None:
        # A batch goes on for its other jobs.
        if execution.batch is None:
            self._loop_of(execution).cancel(execution)

    def interrupt(self, execution: Execution) -> None:
        self._loop_of(execution).cancel(execution)

    def replace(self, execution: Execution) -> bool:
        if not execution.handler.is_async:
            return self._threads.replace(execution)
        loop = self._loop_of(execution)
        if loop.is_blocked_for(execution):
            # In a thread, since it ends executions, and the caller holds the lock that this needs.
            thread = threading.Thread(target=self._replace_loop, args=(loop,), name="jobboard-new-loop", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return False
        return True

    def _replace_loop(self, blocked: LoopThread) -> None:
        with self._lock:
            if blocked is not self._loop:
                return
            new = LoopThread(self._finish, self._contexts, self._lifespans)
            new.start()
            self._loop = new
            self._old = [loop for loop in self._old if loop.is_alive] + [blocked]
            new.submit(blocked.take_new())
        logger.warning("a handler blocks its event loop; a new loop replaces it")
        blocked.retire()

    def stack_of(self, execution: Execution) -> str:
        return (
            self._loop_of(execution).stack_of(execution)
            if execution.handler.is_async
            else self._threads.stack_of(execution)
        )

    def _loop_of(self, execution: Execution) -> LoopThread:
        return next((loop for loop in self._old if loop.has(execution)), self._loop)

    def stop(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        self._threads.stop(timeout)
        with self._lock:
            loops = [*self._old, self._loop]
        if self._lifespans:
            deadline = max(deadline, time.monotonic() + CLOSE_TIMEOUT)
        for loop in loops:
            loop.stop(max(0.0, deadline - time.monotonic()))
            self.close_fault = self.close_fault or loop.close_fault
