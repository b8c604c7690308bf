"""The interface of executors; a package adds its own by an entry point ``jobboard.executors``."""

from __future__ import annotations

import abc
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

from jobboard.conductor.execution import Execution
from jobboard.conductor.handlers import Handlers
from jobboard.conductor.log import logger
from jobboard.conductor.outcome import Outcome
from jobboard.converter import Converter
from jobboard.text import line_of

#: Seconds until the work of a thread begins again after an exception.
_RETRY_DELAY = 0.1

#: Is called once for each submitted execution, from any thread, when its handler has ended and its slot is free.
Finish = Callable[[Execution, Outcome], None]


class Executor(abc.ABC):
    """Runs handlers, at most ``slots`` at a time.

    :meth:`~jobboard.conductor.execution.Execution.call` calls the handler of an execution. Immediately before,
    :meth:`~jobboard.conductor.execution.Execution.refusal` is asked: if it returns an outcome, the handler must not be
    called, and the execution finishes with that outcome. No method may raise, but for ``start``.

    :param handlers: all that may be run.
    :param finish: is called with each execution and its outcome.
    """

    #: Whether handlers run in the conductor's own process, which then enters their plain lifespans.
    in_conductor: ClassVar[bool] = True
    #: Whether it has an event loop for all ``async`` handlers, on which it enters their ``async`` lifespans.
    has_loop: ClassVar[bool] = False
    #: After the stop: why resources that it has made by lifespans could not be closed, or None.
    close_fault: str | None = None

    def __init__(self, handlers: Handlers, slots: int, finish: Finish) -> None:
        self._handlers = handlers
        self._slots = slots
        self._finish = finish

    def check_converter(self, converter: Converter | None) -> None:
        """Raise ``ValueError`` if the board's converter can't be used where handlers run; called before the start."""
        return

    @abc.abstractmethod
    def start(self) -> None:
        """Get ready to run; whatever it raises, nothing is left running then.

        :raises ValueError: a handler can't run here.
        :raises LifespanFailed: what its handlers need can't be made here.
        """

    @abc.abstractmethod
    def submit(self, executions: Sequence[Execution]) -> None:
        """Run executions, each in a free slot; returns at once."""

    def run_claimer(self, turns: Iterator[bool]) -> None:
        """Take the claimer's turns, one after the other, until there are no more; called once, after the start.

        :param turns: each submits what it has claimed, and says whether that is a single job on an idle board: then the
            thread that took the turn may run its handler itself, without a wake-up of another, if that other takes the
            next turn. The turns may be taken in any threads. After an exception the next turn has to be taken.
        """
        threading.Thread(target=_exhaust, args=(turns,), name="jobboard-claimer", daemon=True).start()

    @abc.abstractmethod
    def request_cancel(self, execution: Execution) -> None:
        """Tell the handler that its job's cancel was asked for; returns at once.

        ``execution.cancelled`` is set already.
        """

    @abc.abstractmethod
    def interrupt(self, execution: Execution) -> None:
        """End the handler of an execution that has an outcome, as far as this executor can; returns at once."""

    def replace(self, execution: Execution) -> bool:
        """Add a slot in place of the one whose handler is stuck; False if that is not possible.

        If the handler returns later, ``finish`` is called as usual, and the added slot goes away.
        """
        return False

    def stack_of(self, execution: Execution) -> str:
        """Return the handler's stack for a log, without any variables."""
        return "(unknown)"

    @property
    def fault(self) -> str | None:
        """Why nothing can run here for now, or None; nothing is claimed while there is a fault."""
        return None

    @abc.abstractmethod
    def stop(self, timeout: float) -> None:
        """End idle workers within ``timeout`` seconds, and busy ones as far as possible."""


def _exhaust(turns: Iterator[bool]) -> None:
    go_on_until_done(lambda: deque(turns, maxlen=0), lambda error: None)


def go_on_until_done(work: Callable[[], object], recover: Callable[[BaseException], object]) -> None:
    """Do the work of a thread, and begin again after each exception, until it comes to its end.

    Libraries that limit the time of calls raise an exception in a thread from another one, and it may come when the
    handler that was meant has ended.

    :param recover: is called with the exception before the work begins again; once more if that is interrupted too.
    """
    raised: BaseException | None = None
    while True:
        try:
            if raised is not None:
                logger.warning("a thread of an executor goes on after what was raised in it: %s", line_of(raised))
                threading.Event().wait(_RETRY_DELAY)
                recover(raised)
                raised = None
            work()
            return
        except BaseException as error:
            raised = error
