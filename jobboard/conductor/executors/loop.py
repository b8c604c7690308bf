"""An asyncio loop in a thread of its own, which no handler ends."""

from __future__ import annotations

import asyncio
import functools
import io
import os
import threading
import weakref
from collections import deque

from jobboard.conductor.executors.base import Finish
from jobboard.conductor.executors.thread import stack_of_thread
from jobboard.conductor.log import logger
from jobboard.conductor.outcome import (
    Dropped,
    Failed,
    GivenUp,
    Outcome,
    end_forked_child,
    outcome_of_coroutine,
    outcome_of_error,
)
from jobboard.conductor.task import Task

#: Until the next try to have a loop, in seconds.
_PAUSE = 1.0


class LoopThread:
    """Runs tasks on one loop; a handler that stops or closes the loop, or raises through it, gets it started anew.

    :param finish: is told the outcome of each task.
    """

    def __init__(self, finish: Finish) -> None:
        self._finish = finish
        self._pid = os.getpid()
        self._new: deque[Task] = deque()
        self._running: dict[Task, asyncio.Task[Outcome]] = {}
        self._cancelled: set[Task] = set()
        self._stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self.fault: str | None = None
        self._thread = threading.Thread(target=self._run, name="jobboard-asyncio", daemon=True)
        _all.add(self)

    def start(self) -> None:
        self._thread.start()

    def submit(self, task: Task) -> None:
        self._new.append(task)
        self._wake()

    def cancel(self, task: Task) -> None:
        self._wake(task)

    def has(self, task: Task) -> bool:
        return task in self._running

    def is_blocked_for(self, task: Task) -> bool:
        """Whether a cancel of this task has not come through: some handler keeps the loop from its turn."""
        return task in self._new or (task in self._running and task not in self._cancelled)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def take_new(self) -> list[Task]:
        """Take back the tasks that have not begun, since others will not any more."""
        self._stopping = True
        taken = []
        while self._new:
            taken.append(self._new.popleft())
        return taken

    def retire(self) -> None:
        """Give up a loop that is blocked, and whose new tasks have been taken.

        Those that have begun, but for the one that is having its turn, go back on the board, and are cancelled when
        the loop is free again.
        """
        blocking = None if self._loop is None else asyncio.current_task(self._loop)
        outcome: Outcome = GivenUp("another handler blocks its event loop")
        if blocking not in self._running.values():
            # A task that a handler has started: nobody knows whose, so it counts for all.
            outcome = Failed("its event loop was blocked")
        for task, running in list(self._running.items()):
            if running is not blocking and not task.stuck and self._running.pop(task, None) is not None:
                task.running.lost = True
                self._finish(task, outcome)
        self._wake()

    def stop(self, timeout: float) -> None:
        """Cancel what runs, and end the loop once all have ended."""
        self._stopping = True
        self._wake()
        if not any(task.stuck for task in list(self._running)):
            self._thread.join(timeout)

    def stop_in_child(self) -> None:
        """In a forked child: its handler may end, but the loop may not go on."""
        if self._loop is not None:
            self._loop.stop()

    def stack_of(self, task: Task) -> str:
        running = self._running.get(task)
        if running is None:
            return "(not begun)"
        if self._loop is not None and asyncio.current_task(self._loop) is not None:
            return stack_of_thread(self._thread)
        text = io.StringIO()
        running.print_stack(file=text)
        return text.getvalue().rstrip()

    def _wake(self, cancelled: Task | None = None) -> None:
        loop = self._loop
        try:
            if loop is not None:
                loop.call_soon_threadsafe(self._catch_up, cancelled)
        except RuntimeError:
            # The loop is closed; the next one catches up when it begins.
            pass

    # -- on the loop -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not (self._stopping and not self._running):
            loop = self._new_loop()
            if loop is None:
                continue
            while not loop.is_closed() and not (self._stopping and not self._running):
                self._run_once(loop)
            self._give_up_all()
            self._close(loop)

    def _new_loop(self) -> asyncio.AbstractEventLoop | None:
        try:
            loop = asyncio.new_event_loop()
            asyncio.set_event_loop(loop)
            loop.call_soon(self._catch_up, None)
        except Exception as error:
            self.fault = f"no event loop can be made: {error}"
            logger.error("handlers can't run for now: %s", self.fault)
            threading.Event().wait(_PAUSE)
            return None
        self.fault = None
        self._loop = loop
        # What was submitted since the call above found no loop, or a closed one.
        self._wake()
        return loop

    def _run_once(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run until the loop is stopped, by whoever it is."""
        try:
            loop.run_forever()
        except BaseException as error:
            # SystemExit and KeyboardInterrupt of a handler's own tasks come through. Their handlers get them too.
            logger.warning("a handler raised %s through its event loop, which goes on", type(error))
        end_forked_child(self._pid, Dropped())

    def _close(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            if not loop.is_closed():
                loop.run_until_complete(loop.shutdown_asyncgens())
                loop.close()
        except BaseException as error:
            logger.warning("an event loop could not be closed: %s", type(error))

    def _give_up_all(self) -> None:
        """What ran on a loop that is closed now has no other one to go on."""
        for task in list(self._running):
            if self._running.pop(task, None) is not None:
                task.running.lost = True
                self._finish(task, Failed("its event loop was closed"))

    def _catch_up(self, cancelled: Task | None) -> None:
        loop = asyncio.get_running_loop()
        while not self._stopping and self._new:
            task = self._new.popleft()
            running = loop.create_task(_run(task))
            self._running[task] = running
            running.add_done_callback(functools.partial(self._ended, task))
        if cancelled is not None and (one := self._running.get(cancelled)) is not None:
            self._cancelled.add(cancelled)
            one.cancel()
        if self._stopping:
            self._stop_when_idle(loop)

    def _stop_when_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel all, and stop once every task has taken its cancel."""
        me = asyncio.current_task(loop)
        for running in asyncio.all_tasks(loop):
            if running is not me and not running.cancelling():
                running.cancel()
        if self._running:
            loop.call_later(0.01, self._stop_when_idle, loop)
        else:
            loop.stop()

    def _ended(self, task: Task, running: asyncio.Task[Outcome]) -> None:
        self._cancelled.discard(task)
        # A task that was given up before has been reported already.
        if self._running.pop(task, None) is None:
            return
        try:
            # One that is cancelled before its first step never gets to make an outcome.
            outcome = running.result()
        except BaseException as error:
            outcome = outcome_of_error(error)
        self._finish(task, outcome)


async def _run(task: Task) -> Outcome:
    if task.outcome is not None:
        return Dropped()
    pid = os.getpid()
    try:
        result = task.call()
    except BaseException as error:
        outcome = outcome_of_error(error)
    else:
        outcome = await outcome_of_coroutine(result)
    end_forked_child(pid, outcome)
    return outcome


_all: weakref.WeakSet[LoopThread] = weakref.WeakSet()


def _stop_all_in_child() -> None:
    for loop in list(_all):
        loop.stop_in_child()


os.register_at_fork(after_in_child=_stop_all_in_child)
