"""The slots whose claims are over and whose handlers have not returned."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from jobboard.conductor.executors.base import Executor
from jobboard.conductor.log import logger
from jobboard.conductor.slots import Slots
from jobboard.conductor.task import Task


class StuckSlots:
    """Puts a new slot in the place of each stuck one, up to a bound; beyond it, refuses the names that got stuck.

    :param most: how many slots may be replaced at a time.
    :param grace: seconds that a handler has to return once its claim is over.
    :param on_change: is called after each change, under no lock.
    """

    def __init__(
        self, who: str, slots: Slots, executor: Executor, most: int, grace: float, on_change: Callable[[], None]
    ) -> None:
        self._who = who
        self._slots = slots
        self._executor = executor
        self._most = most
        self._grace = grace
        self._on_change = on_change
        self._lock = threading.Lock()
        self._expected: set[Task] = set()
        self._stuck: list[Task] = []
        self._replaced: set[Task] = set()
        self._beyond: frozenset[str] = frozenset()

    def expect(self, task: Task, *, at_once: bool = False) -> None:
        """The task's claim is over: its handler has to return within the grace."""
        with self._lock:
            if not task.returned:
                task.stuck_at = time.monotonic() + (0.0 if at_once else self._grace)
                self._expected.add(task)

    def all(self) -> list[Task]:
        """Return the tasks whose claims are over, and whose handlers have not returned."""
        with self._lock:
            return [*self._stuck, *self._expected]

    def expected(self) -> list[Task]:
        """Return the tasks whose handlers have still time to return."""
        with self._lock:
            return list(self._expected)

    def declare(self, task: Task) -> None:
        """The handler has not returned in time."""
        with self._lock:
            if task not in self._expected:
                return
            self._expected.remove(task)
            task.stuck_at = None
            task.stuck = True
            self._stuck.append(task)
            self._count()
            number, is_replaced = len(self._stuck), task in self._replaced
        logger.warning(
            "conductor %s: a handler of %r is stuck: the claim of job %s is over, and it has not returned. %s; "
            "%d stuck, at most %d are replaced. It is at:\n%s",
            self._who, task.job.name, task.job.uuid, "Its slot is replaced" if is_replaced else "Its slot is lost",
            number, self._most, self._executor.stack_of(task),
        )  # fmt: skip
        self._on_change()

    def returned(self, task: Task) -> None:
        """The handler has returned, in time or late."""
        with self._lock:
            task.returned = True
            self._expected.discard(task)
            if not task.stuck:
                return
            self._stuck.remove(task)
            self._replaced.discard(task)
            self._count()
        logger.warning("conductor %s: the stuck handler of job %s has returned", self._who, task.job.uuid)
        self._on_change()

    def _count(self) -> None:
        for task in self._stuck:
            if task not in self._replaced and len(self._replaced) < self._most and self._executor.replace(task):
                self._replaced.add(task)
        is_beyond = len(self._stuck) > self._most
        self._beyond = frozenset(task.job.name for task in self._stuck) if is_beyond else frozenset()
        self._slots.stuck(len(self._stuck), len(self._replaced))

    @property
    def number(self) -> int:
        return len(self._stuck)

    @property
    def names(self) -> list[str]:
        """The names of the jobs whose handlers are stuck."""
        with self._lock:
            return sorted({task.job.name for task in self._stuck})

    @property
    def refused(self) -> frozenset[str]:
        """The names that are not claimed for now, since more slots are stuck than may be replaced."""
        return self._beyond
