"""An event loop in a thread of its own, which goes on whatever handlers do to it."""

from __future__ import annotations

import asyncio
import functools
import io
import os
import threading
from collections import deque
from collections.abc import Iterable

from jobboard.backends.thread_end import wait_for_thread
from jobboard.conductor.calling import FreshContexts
from jobboard.conductor.execution import Execution
from jobboard.conductor.executors.base import Finish, go_on_until_done
from jobboard.conductor.executors.thread import stack_of_thread
from jobboard.conductor.lifespan import Lifespan, LoopResources, time_for
from jobboard.conductor.log import logger
from jobboard.conductor.outcome import (
    Dropped,
    Failed,
    Outcome,
    Returned,
    end_forked_child,
    outcome_of_coroutine,
    outcome_of_error,
)
from jobboard.conductor.running_job import NOT_MADE
from jobboard.errors import LifespanFailed
from jobboard.forks import watch_forks
from jobboard.text import line_of, name_of

#: Seconds until the next try to make an event loop, and the resources on it.
_RETRY_DELAY = 1.0
#: Seconds beyond the time of the lifespans themselves, in which the loop begins.
_START_MARGIN = 5.0


class LoopThread:
    """Runs executions on one event loop; starts it again if a handler stops it, closes it, or raises through it."""

    def __init__(self, finish: Finish, contexts: FreshContexts, lifespans: list[Lifespan]) -> None:
        self._finish = finish
        self._contexts = contexts
        self._resources = LoopResources(lifespans)
        #: Is set once the first loop has what they make, or has failed to get it.
        self._made = threading.Event()
        self._failure: LifespanFailed | None = None
        self._pid = os.getpid()
        self._new: deque[Execution] = deque()
        self._running: dict[Execution, asyncio.Task[Outcome]] = {}
        #: The asyncio tasks of all handlers, also of those that were ended before.
        self._tasks: set[asyncio.Task[Outcome]] = set()
        self._cancelled: set[Execution] = set()
        self._stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self.fault: str | None = None
        self._thread = threading.Thread(target=self._run, name="jobboard-asyncio", daemon=True)
        watch_forks(self)

    def start(self) -> None:
        self._thread.start()

    def wait_until_made(self) -> None:
        """Block until the lifespans have made what they make.

        :raises LifespanFailed: one failed, or is late; the loop ends then.
        """
        lifespans = self._resources.lifespans
        if not lifespans:
            return
        is_late = not self._made.wait(time_for(lifespans) + _START_MARGIN)
        if is_late or self._failure is not None:
            self._stopping = True
            raise self._failure or self._resources.failure(TimeoutError(), is_late=True)

    @property
    def close_fault(self) -> str | None:
        return self._resources.close_fault

    def submit(self, executions: Iterable[Execution]) -> None:
        self._new.extend(executions)
        self._wake()

    def cancel(self, execution: Execution) -> None:
        self._wake(execution)

    def has(self, execution: Execution) -> bool:
        return execution in self._running

    def is_blocked_for(self, execution: Execution) -> bool:
        """Whether a cancel has not reached this execution, since some handler blocks the loop."""
        return execution in self._new or (execution in self._running and execution not in self._cancelled)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def is_current(self, thread: threading.Thread) -> bool:
        return thread is self._thread

    def take_new(self) -> list[Execution]:
        """Begin no more executions, and return those that have not begun."""
        self._stopping = True
        taken = []
        while self._new:
            taken.append(self._new.popleft())
        return taken

    def retire(self) -> None:
        """Give up a blocked loop, after :meth:`take_new`.

        The executions that have begun end here, but for the one that blocks; their asyncio tasks are cancelled when the
        loop runs again.
        """
        blocking = None if self._loop is None else asyncio.current_task(self._loop)
        outcome: Outcome = Returned("another handler blocks its event loop")
        if blocking not in self._running.values():
            # An asyncio task that some handler has started blocks the loop. Any of them may be to blame.
            outcome = Failed("its event loop was blocked")
        for execution, running in list(self._running.items()):
            if running is not blocking and not execution.stuck and self._running.pop(execution, None) is not None:
                execution.lost = True
                self._finish(execution, outcome)
        self._wake()

    def stop(self, timeout: float) -> None:
        """Cancel what runs, end the loop when all have ended, and wait up to ``timeout`` seconds for it."""
        self._stopping = True
        self._wake()
        if not any(execution.stuck for execution in list(self._running)):
            wait_for_thread(self._thread, timeout)
            if self._resources.lifespans and self._thread.is_alive() and not self._tasks:
                self._resources.note_late_close(timeout)

    def _begin_anew_in_child(self) -> None:
        """In a child that a handler forked: the handler may finish, but the loop must not go on."""
        if self._loop is not None:
            self._loop.stop()

    def stack_of(self, execution: Execution) -> str:
        running = self._running.get(execution)
        if running is None:
            return "(not begun)"
        if self._loop is not None and asyncio.current_task(self._loop) is not None:
            return stack_of_thread(self._thread)
        text = io.StringIO()
        running.print_stack(file=text)
        return text.getvalue().rstrip()

    def _wake(self, cancelled: Execution | None = None) -> None:
        loop = self._loop
        try:
            if loop is not None:
                is_inside = threading.current_thread() is self._thread
                (loop.call_soon if is_inside else loop.call_soon_threadsafe)(self._catch_up, cancelled)
        except RuntimeError:
            # The loop is closed; the next one calls it when it begins.
            pass

    # -- on the loop -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        go_on_until_done(self._run_loops, lambda error: self._fail_all())

    def _run_loops(self) -> None:
        while not self._is_over():
            loop = self._new_loop()
            if loop is None:
                continue
            while not loop.is_closed() and not self._is_over():
                self._run_once(loop)
            self._fail_all()
            self._resources.leave(loop)
            self._close(loop)

    def _is_over(self) -> bool:
        return self._stopping and not self._running and not self._tasks

    def _new_loop(self) -> asyncio.AbstractEventLoop | None:
        try:
            loop = asyncio.new_event_loop()
            asyncio.set_event_loop(loop)
            self._make_resources(loop)
            loop.call_soon(self._catch_up, None)
        except Exception as error:
            self.fault = str(error) if error is self._failure else f"no event loop can be made: {error}"
            logger.error("handlers can't run for now: %s", self.fault)
            self._made.set()
            threading.Event().wait(_RETRY_DELAY)
            return None
        self.fault = self._failure = None
        self._made.set()
        self._loop = loop
        # For what was submitted since the call_soon above, when there was no loop, or a closed one.
        self._wake()
        return loop

    def _make_resources(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            self._resources.enter(loop)
        except LifespanFailed as error:
            self._failure = error
            self._close(loop)
            raise

    def _run_once(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run until something stops the loop."""
        try:
            loop.run_forever()
        except BaseException as error:
            # asyncio raises SystemExit and KeyboardInterrupt of a task here too, besides the handler that awaits it.
            logger.warning("a handler raised %s through its event loop, which goes on", name_of(error))
        end_forked_child(self._pid, Dropped())

    def _close(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            if not loop.is_closed():
                for task in asyncio.all_tasks(loop):
                    task.cancel()
                loop.run_until_complete(loop.shutdown_asyncgens())
                loop.close()
        except BaseException as error:
            logger.warning("an event loop could not be closed: %s", line_of(error))

    def _fail_all(self) -> None:
        """End the executions of a loop that was closed: their asyncio tasks can't go on."""
        self._tasks.clear()
        for execution in list(self._running):
            if self._running.pop(execution, None) is not None:
                execution.lost = True
                self._finish(execution, Failed("its event loop was closed"))

    def _catch_up(self, cancelled: Execution | None) -> None:
        """Begin the new executions, and cancel this one."""
        loop = asyncio.get_running_loop()
        while not self._stopping and self._new:
            execution = self._new.popleft()
            if (made := self._resources.of(execution.handler.lifespan)) is not NOT_MADE:
                execution.made = made
            running = loop.create_task(_run(execution), context=self._contexts.new())
            self._running[execution] = running
            self._tasks.add(running)
            running.add_done_callback(functools.partial(self._ended, execution))
        if cancelled is not None and (one := self._running.get(cancelled)) is not None:
            self._cancelled.add(cancelled)
            one.cancel()
        if self._stopping:
            self._stop_when_idle(loop)

    def _stop_when_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel the handlers, and stop the loop when all have ended, since they use what lifespans have made."""
        for running in self._tasks:
            if not running.cancelling():
                running.cancel()
        if self._tasks:
            loop.call_later(0.01, self._stop_when_idle, loop)
        else:
            loop.stop()

    def _ended(self, execution: Execution, running: asyncio.Task[Outcome]) -> None:
        self._cancelled.discard(execution)
        self._tasks.discard(running)
        # retire() or _fail_all() may have ended it before.
        if self._running.pop(execution, None) is None:
            return
        try:
            # It raises CancelledError if it was cancelled before its first step.
            outcome = running.result()
        except BaseException as error:
            outcome = outcome_of_error(error)
        self._finish(execution, outcome)


async def _run(execution: Execution) -> Outcome:
    if (refusal := execution.refusal()) is not None:
        return refusal
    pid = os.getpid()
    try:
        result = execution.call()
    except BaseException as error:
        outcome = outcome_of_error(error)
    else:
        outcome = await outcome_of_coroutine(result)
    end_forked_child(pid, outcome)
    return outcome
