"""Several executors in one conductor: each handler runs in its own."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from jobboard.conductor.execution import Execution
from jobboard.conductor.executors.base import Executor, Finish
from jobboard.conductor.handlers import Handlers
from jobboard.conductor.lifespan import Lifespan, async_ones, plain_ones
from jobboard.converter import Converter
from jobboard.plugins import load_plugin

_NAMESPACE = "jobboard.executors"


def load_executor(name: str) -> type[Executor]:
    """Return the class of an executor.

    :raises ValueError: there is no such executor.
    """
    try:
        found = load_plugin(_NAMESPACE, name)
    except LookupError as error:
        raise ValueError(f"executor: {error}") from None
    if not (isinstance(found, type) and issubclass(found, Executor)):
        raise ValueError(f"the entry point {name!r} is not an Executor")
    return found


def executor_for(handlers: Handlers, default: str, slots: int, finish: Finish) -> Executor:
    """Return the executor of a conductor: a single one if all its handlers run in the same.

    :param default: the executor of handlers that name none.
    :raises ValueError: there is no such executor.
    """
    names: dict[str, set[str]] = {}
    for handler in handlers:
        names.setdefault(handler.executor or default, set()).add(handler.name)
    executors = {
        name: load_executor(name)(handlers.only(those), slots, finish) for name, those in sorted(names.items())
    }
    if len(executors) == 1:
        return next(iter(executors.values()))
    by_handler = {handler: executors[name] for name, those in names.items() for handler in those}
    return ExecutorByHandler(handlers, slots, finish, by_handler)


def conductor_lifespans(handlers: Handlers, default: str) -> list[Lifespan]:
    """Return the lifespans that are entered in the conductor's process, and not by the executors.

    :param default: the executor of handlers that name none.
    :raises ValueError: a lifespan is async, and none of its handlers runs on an event loop.
    """
    here, on_loops = [], []
    for handler in handlers:
        executor = load_executor(handler.executor or default)
        here += [handler.lifespan] if executor.in_conductor else []
        on_loops += [handler.lifespan] if executor.has_loop and handler.is_async else []
    for lifespan in async_ones(handler.lifespan for handler in handlers):
        if lifespan not in on_loops:
            raise ValueError(
                f'{lifespan!r} is async, and needs an async handler in the executor "asyncio", which has one event '
                "loop for all; a plain one serves all executors"
            )
    return plain_ones(here)


class ExecutorByHandler(Executor):
    """Hands each execution to the executor of its handler; the conductor's slots bound all of them together.

    :param executors: of each handler, by its name.
    """

    def __init__(self, handlers: Handlers, slots: int, finish: Finish, executors: Mapping[str, Executor]) -> None:
        super().__init__(handlers, slots, finish)
        self._executors = executors
        self._all = list(dict.fromkeys(executors.values()))

    def _of(self, execution: Execution) -> Executor:
        return self._executors[execution.job.name]

    def check_converter(self, converter: Converter | None) -> None:
        for executor in self._all:
            executor.check_converter(converter)

    def start(self) -> None:
        started: list[Executor] = []
        try:
            for executor in self._all:
                executor.start()
                started.append(executor)
        except BaseException:
            for executor in started:
                executor.stop(0.0)
            raise

    def submit(self, executions: Sequence[Execution]) -> None:
        parts: dict[Executor, list[Execution]] = {}
        for execution in executions:
            parts.setdefault(self._of(execution), []).append(execution)
        for executor, part in parts.items():
            executor.submit(part)

    def request_cancel(self, execution: Execution) -> None:
        self._of(execution).request_cancel(execution)

    def interrupt(self, execution: Execution) -> None:
        self._of(execution).interrupt(execution)

    def replace(self, execution: Execution) -> bool:
        return self._of(execution).replace(execution)

    def stack_of(self, execution: Execution) -> str:
        return self._of(execution).stack_of(execution)

    @property
    def fault(self) -> str | None:
        return next((fault for executor in self._all if (fault := executor.fault) is not None), None)

    def stop(self, timeout: float) -> None:
        until = time.monotonic() + timeout
        for executor in self._all:
            executor.stop(max(0.0, until - time.monotonic()))
            self.close_fault = self.close_fault or executor.close_fault
