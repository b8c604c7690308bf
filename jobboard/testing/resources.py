"""The resources of handlers that run in a test: what their lifespans make, or what the test gives instead."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jobboard.conductor import Handlers
from jobboard.conductor.calling import FreshContexts
from jobboard.conductor.execution import Execution
from jobboard.conductor.executors.loop import LoopThread
from jobboard.conductor.handlers import Handler
from jobboard.conductor.lifespan import CLOSE_TIMEOUT, Lifespan, Resources, async_ones, plain_ones
from jobboard.conductor.outcome import Outcome

#: Stands for no resources of the test's own.
NOT_GIVEN: Any = object()


class HandlerResources:
    """What the handlers of a test have: plain lifespans are entered in its thread, ``async`` ones on a loop."""

    def __init__(self, handlers: Handlers, given: Any) -> None:
        self._given = given
        entered = [] if given is not NOT_GIVEN else [handler.lifespan for handler in handlers]
        self._plain = Resources(plain_ones(entered))
        on_loop = async_ones(entered)
        self._loop = _Loop(on_loop) if on_loop else None

    def enter(self) -> None:
        self._plain.enter()
        try:
            if self._loop is not None:
                self._loop.start()
        except BaseException:
            self._plain.leave()
            raise

    def leave(self) -> str | None:
        """Close it; return why that failed."""
        fault = None if self._loop is None else self._loop.stop()
        self._plain.leave()
        return fault or self._plain.close_fault

    def of(self, handler: Handler) -> Any:
        """Return what the lifespan of a handler has made, but for what is on the loop."""
        return self._plain.of(handler.lifespan) if self._given is NOT_GIVEN else self._given

    def run_on_loop(self, execution: Execution) -> Outcome | None:
        """Run an ``async`` handler on the loop of its lifespan; None if that is plain, or if the loop itself waits."""
        handler = execution.handler
        needs_loop = self._loop is not None and handler.is_async and handler.lifespan.is_async
        return self._loop.run(execution) if needs_loop and self._loop is not None else None


class _Loop:
    """The event loop of async lifespans, with which their handlers run."""

    def __init__(self, lifespans: list[Lifespan]) -> None:
        self._outcomes: dict[Execution, queue.SimpleQueue[Outcome]] = {}
        self._thread = LoopThread(self._finish, FreshContexts(), lifespans)

    def _finish(self, execution: Execution, outcome: Outcome) -> None:
        self._outcomes.pop(execution).put(outcome)

    def start(self) -> None:
        self._thread.start()
        self._thread.wait_until_made()

    def run(self, execution: Execution) -> Outcome | None:
        if self._thread.is_current(threading.current_thread()):
            return None
        self._outcomes[execution] = answer = queue.SimpleQueue[Outcome]()
        self._thread.submit([execution])
        return answer.get()

    def stop(self) -> str | None:
        self._thread.stop(CLOSE_TIMEOUT)
        return self._thread.close_fault


@contextmanager
def entered(handlers: Handlers, given: Any) -> Iterator[HandlerResources]:
    """Enter the lifespans of handlers for the block, unless the test gives resources of its own.

    :raises LifespanFailed: one failed, or is late.
    :raises RuntimeError: one could not close what it has made.
    """
    if not isinstance(handlers, Handlers):
        raise TypeError(f"handlers must be Handlers, not {type(handlers).__name__}")
    resources = HandlerResources(handlers, given)
    resources.enter()
    try:
        yield resources
    except BaseException:
        resources.leave()
        raise
    if (fault := resources.leave()) is not None:
        raise RuntimeError(f"what a lifespan has made could not be closed: {fault}")
