"""What a conductor asks of an executor; a package can bring its own by an entry point ``jobboard.executors``."""

from __future__ import annotations

import abc
from collections.abc import Callable

from jobboard.conductor.handlers import Handlers
from jobboard.conductor.outcome import Outcome
from jobboard.conductor.task import Task

#: Called exactly once per submitted task, from any thread, when its handler has ended and its slot is free.
Finish = Callable[[Task, Outcome], None]


class Executor(abc.ABC):
    """Runs handlers, at most ``slots`` at a time.

    A task tells its handler, and :meth:`~jobboard.conductor.task.Task.call` calls it in the right context. One whose
    ``outcome`` is set already need not run. None of the methods may raise but ``start``.

    :param handlers: all that may ever be run.
    :param finish: is told the outcome of each task.
    """

    def __init__(self, handlers: Handlers, slots: int, finish: Finish) -> None:
        self._handlers = handlers
        self._slots = slots
        self._finish = finish

    @abc.abstractmethod
    def start(self) -> None:
        """Make ready to run; raises ``ValueError`` if a handler can't run here, and then leaves nothing behind."""

    @abc.abstractmethod
    def submit(self, task: Task) -> None:
        """Run a task in a free slot; returns at once."""

    @abc.abstractmethod
    def ask_to_end(self, task: Task) -> None:
        """Pass on that the job's cancel was asked for (``task.running.cancelled`` is set); returns at once."""

    @abc.abstractmethod
    def interrupt(self, task: Task) -> None:
        """End a run whose outcome is settled already, as far as this executor can; returns at once."""

    def replace(self, task: Task) -> bool:
        """Run further tasks in a new slot, since this one's handler is stuck; False if that can't be done.

        When the handler returns all the same, ``finish`` is called as usual, and there is one slot less again.
        """
        return False

    def stack_of(self, task: Task) -> str:
        """Return where the task's handler is now, for a log; never what is in its variables."""
        return "(unknown)"

    @property
    def fault(self) -> str | None:
        """Why no task can run here for now, or None; nothing is claimed while there is a fault."""
        return None

    @property
    def can_kill(self) -> bool:
        """Whether ``interrupt`` ends any handler, whatever it does."""
        return False

    @abc.abstractmethod
    def stop(self, timeout: float) -> None:
        """Let go of idle workers within ``timeout`` seconds, and of busy ones as far as possible."""
