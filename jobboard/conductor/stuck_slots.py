"""The stuck slots of a conductor."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from jobboard.conductor.execution import Execution
from jobboard.conductor.executors.base import Executor
from jobboard.conductor.log import logger
from jobboard.conductor.slots import Slots


class StuckSlots:
    """The slots whose claim is over and whose handler has not returned.

    Each gets a new slot in its place, up to a maximum. Beyond it the names of the stuck jobs are refused.

    :param max_replaced: how many slots may be replaced at a time.
    :param grace: seconds that a handler has to return once its claim is over.
    :param on_change: is called after each change, under no lock.
    """

    def __init__(
        self,
        who: str,
        slots: Slots,
        executor: Executor,
        max_replaced: int,
        grace: float,
        on_change: Callable[[], None],
    ) -> None:
        self._who = who
        self._slots = slots
        self._executor = executor
        self._max_replaced = max_replaced
        self._grace = grace
        self._on_change = on_change
        self._lock = threading.Lock()
        self._expected: set[Execution] = set()
        self._stuck: list[Execution] = []
        self._replaced: set[Execution] = set()
        self._refused: frozenset[str] = frozenset()

    def expect_return(self, execution: Execution, *, at_once: bool = False) -> None:
        """The execution's claim is over: its handler has to return within the grace."""
        with self._lock:
            if not execution.returned:
                execution.stuck_at = time.monotonic() + (0.0 if at_once else self._grace)
                self._expected.add(execution)

    def all(self) -> list[Execution]:
        """Return the executions whose claims are over, and whose handlers have not returned."""
        with self._lock:
            return [*self._stuck, *self._expected]

    def expected(self) -> list[Execution]:
        """Return the executions whose handlers still have time to return."""
        with self._lock:
            return list(self._expected)

    def declare_stuck(self, execution: Execution) -> None:
        """The handler has not returned in time."""
        with self._lock:
            if execution not in self._expected:
                return
            self._expected.remove(execution)
            execution.stuck_at = math.inf
            execution.stuck = True
            self._stuck.append(execution)
            self._replace_and_count()
            number, is_replaced = len(self._stuck), execution in self._replaced
        what_happens = "Its slot is replaced" if is_replaced else "Its slot is lost"
        job, stack = execution.job, self._executor.stack_of(execution)
        logger.warning(
            "conductor %s: a handler of %r is stuck: the claim of job %s is over, and it has not returned. %s; "
            "%d stuck, at most %d are replaced. It is at:\n%s",
            *(self._who, job.name, job.uuid, what_happens, number, self._max_replaced, stack),
        )
        self._on_change()

    def returned(self, execution: Execution) -> None:
        """The handler has returned, in time or late."""
        with self._lock:
            execution.returned = True
            self._expected.discard(execution)
            if execution not in self._stuck:
                return
            self._stuck.remove(execution)
            self._replaced.discard(execution)
            self._replace_and_count()
        logger.warning("conductor %s: the stuck handler of job %s has returned", self._who, execution.job.uuid)
        self._on_change()

    def _replace_and_count(self) -> None:
        for execution in self._stuck:
            is_full = len(self._replaced) >= self._max_replaced
            if not is_full and execution not in self._replaced and self._executor.replace(execution):
                self._replaced.add(execution)
        is_beyond = len(self._stuck) > self._max_replaced
        self._refused = frozenset(execution.job.name for execution in self._stuck) if is_beyond else frozenset()
        self._slots.set_stuck(len(self._stuck), len(self._replaced))

    @property
    def number(self) -> int:
        return len(self._stuck)

    @property
    def names(self) -> list[str]:
        """The names of the jobs whose handlers are stuck."""
        with self._lock:
            return sorted({execution.job.name for execution in self._stuck})

    @property
    def refused(self) -> frozenset[str]:
        """The names that are not claimed for now, since more slots are stuck than may be replaced."""
        return self._refused
