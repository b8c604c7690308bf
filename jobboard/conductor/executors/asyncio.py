"""Handlers as tasks of one asyncio loop, which has a thread of its own."""

from __future__ import annotations

import threading
import time

from jobboard.conductor.executors.base import Executor, Finish
from jobboard.conductor.executors.loop import LoopThread
from jobboard.conductor.executors.thread import ThreadExecutor
from jobboard.conductor.handlers import Handlers
from jobboard.conductor.log import logger
from jobboard.conductor.task import Task


class AsyncioExecutor(Executor):
    """``async`` handlers run on the loop, plain ones in threads beside it, as in the thread executor.

    A cancel, a timeout and a lost claim cancel the asyncio task. A handler that blocks the loop holds up the other
    handlers, but not the renewal of their claims; when a claim on a blocked loop is over, further handlers get a new
    loop, and the others of the old one go back on the board.
    """

    def __init__(self, handlers: Handlers, slots: int, finish: Finish) -> None:
        super().__init__(handlers, slots, finish)
        all_async = all(handler.is_async for handler in handlers)
        self._threads = ThreadExecutor(handlers, 0 if all_async else slots, finish)

    def start(self) -> None:
        self._lock = threading.Lock()
        self._loop = LoopThread(self._finish)
        self._old: list[LoopThread] = []
        self._threads.start()
        self._loop.start()

    @property
    def fault(self) -> str | None:
        return self._loop.fault

    def submit(self, task: Task) -> None:
        if task.handler.is_async:
            with self._lock:
                self._loop.submit(task)
        else:
            self._threads.submit(task)

    def ask_to_end(self, task: Task) -> None:
        self._loop_of(task).cancel(task)

    def interrupt(self, task: Task) -> None:
        self._loop_of(task).cancel(task)

    def replace(self, task: Task) -> bool:
        if not task.handler.is_async:
            return self._threads.replace(task)
        loop = self._loop_of(task)
        if loop.is_blocked_for(task):
            # In a thread, since it ends tasks, and the one who says this counts the stuck ones.
            threading.Thread(target=self._renew, args=(loop,), name="jobboard-renew", daemon=True).start()
        return True

    def _renew(self, blocked: LoopThread) -> None:
        with self._lock:
            if blocked is not self._loop:
                return
            self._loop = LoopThread(self._finish)
            self._old = [loop for loop in self._old if loop.is_alive] + [blocked]
            self._loop.start()
            for task in blocked.take_new():
                self._loop.submit(task)
        logger.warning("a handler blocks its event loop; a new one takes its place")
        blocked.retire()

    def stack_of(self, task: Task) -> str:
        return self._loop_of(task).stack_of(task) if task.handler.is_async else self._threads.stack_of(task)

    def _loop_of(self, task: Task) -> LoopThread:
        return next((loop for loop in self._old if loop.has(task)), self._loop)

    def stop(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        self._threads.stop(timeout)
        with self._lock:
            loops = [*self._old, self._loop]
        for loop in loops:
            loop.stop(max(0.0, deadline - time.monotonic()))
