"""The conductor: what users start and stop."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Self, TypeVar

from jobboard.board import JobBoard
from jobboard.conductor.execution import Execution
from jobboard.conductor.executors.by_handler import load_executor
from jobboard.conductor.executors.thread import stack_of_thread
from jobboard.conductor.handlers import Handlers
from jobboard.conductor.log import logger
from jobboard.conductor.options import ConductorOptions
from jobboard.conductor.run import ConductorRun
from jobboard.forks import watch_forks
from jobboard.heartbeat import worker_id
from jobboard.interrupts import SIGNAL_POLL
from jobboard.types import ExecutorName, OnStuck, Seconds
from jobboard.validation import check_count, check_delay, check_expiry, check_text, check_timeout

#: Seconds that handlers have to finish when a conductor with ``on_stuck="exit"`` stops itself.
_STUCK_DRAIN = 30.0

_Value = TypeVar("_Value")


class Conductor:
    """Claims jobs from a board, runs their handlers, and ends their claims: it consumes, abandons or trashes the jobs.

    Any number of conductors may work on one board. The claims of one that died expire, and others claim its jobs.
    A conductor that was stopped can be started again. As a context manager it works for the time of the block, and then
    lets the running handlers finish; after an exception in the block it gives their jobs back at once.

    :param name: what operators see; the owner in the store is this name with host, pid and a random part.
    :param board: connected, and stays connected; the conductor survives the store's absence.
    :param handlers: what is registered when the conductor starts; only jobs of these names are claimed.
    :param concurrency: how many handlers run at a time, which is the number of its slots.
    :param executor: ``"thread"``, ``"process"``, ``"asyncio"``, or another entry point of ``jobboard.executors``; for
        the handlers that name none of their own.
    :param expiry: seconds that a claim lasts without renewal; it is renewed three times in that time.
    :param grace: seconds that a handler has to end after a cancel, before its claim ends and an executor that can kill
        it does so; and to return once its claim is over (lost, timed out), before its slot counts as stuck.
    :param prefetch: while all slots are busy and the board has more jobs, claim one job ahead for each handler that,
        by the durations of its name, ends within 50 ms; so requests and handlers overlap. What has not begun after half
        a second is given back with its attempt uncounted, and at a stop all that has not begun. False: claim only for
        free slots.
    :param max_stuck: how many stuck slots are replaced by new ones; None: as many as ``concurrency``. When more are
        stuck, jobs of their names are claimed no more, and the conductor is not ``healthy``.
    :param on_stuck: what it does then: ``"stay"`` keeps it at work for the other names; ``"exit"`` stops it, after 30 s
        for the running handlers at most, so that a supervisor can start it again.
    :raises ValueError: an argument is out of its range, ``handlers`` is empty, or there is no such executor.
    :raises TypeError: an argument is of another type.
    """

    def __init__(
        self,
        name: str,
        board: JobBoard,
        handlers: Handlers,
        *,
        concurrency: int = 1,
        executor: ExecutorName = "thread",
        expiry: Seconds = 30.0,
        grace: Seconds = 5.0,
        prefetch: bool = True,
        max_stuck: int | None = None,
        on_stuck: OnStuck = "stay",
    ) -> None:
        check_text("a conductor's name", name)
        if not isinstance(board, JobBoard):
            raise TypeError(f"board must be a JobBoard, not {type(board).__name__}")
        if not isinstance(handlers, Handlers):
            raise TypeError(f"handlers must be Handlers, not {type(handlers).__name__}")
        if not handlers.names:
            raise ValueError("there are no handlers; register one with @handlers.handler(name)")
        if not isinstance(prefetch, bool):
            raise TypeError(f"prefetch must be True or False, not {prefetch!r}")
        self._board = board
        self._handlers = handlers
        self._options = ConductorOptions(
            name=name,
            concurrency=check_count("concurrency", concurrency),
            expiry=check_expiry(expiry),
            grace=check_delay(grace, "grace"),
            max_stuck=concurrency if max_stuck is None else check_count("max_stuck", max_stuck, 0),
            prefetch=prefetch,
            executor=check_text("executor", executor),
        )
        for each in {executor, *(handler.executor for handler in handlers if handler.executor is not None)}:
            load_executor(each)
        if on_stuck not in ("stay", "exit"):
            raise ValueError(f'on_stuck must be "stay" or "exit"; got {on_stuck!r}')
        self._exits_when_stuck = on_stuck == "exit"
        #: Whether it does not work though nobody has stopped it: too many slots were stuck, or it worked before a fork.
        self._has_broken_off = False
        self._begin_anew()
        watch_forks(self)

    def _begin_anew(self) -> None:
        self._who = worker_id(self.name)
        self._unclosed: str | None = None
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._stopped.set()
        self._run: ConductorRun | None = None

    def _begin_anew_in_child(self) -> None:
        """In a forked child: it does not work here until it is started, and then under a name of its own."""
        self._has_broken_off |= self._run is not None
        self._begin_anew()

    @property
    def name(self) -> str:
        """Its label: the beginning of :attr:`who`."""
        return self._options.name

    @property
    def who(self) -> str:
        """The owner's name of this conductor's claims."""
        return self._who

    @property
    def healthy(self) -> bool:
        """False while too many slots are stuck or its executor can run nothing; also after that stopped it.

        In a forked child it is False until the child starts it, if it worked in the parent.
        """
        run = self._run
        return not self._has_broken_off and (run is None or run.health()["healthy"])

    @property
    def unsent(self) -> list[str]:
        """The uuids of jobs whose handlers have returned, and whose ends the store refuses though it answers others."""
        run = self._run
        return [] if run is None else [end["uuid"] for end in run.health()["unsent"]]

    @property
    def unclosed(self) -> str | None:
        """Why the last stop could not close what a lifespan has made (:meth:`Handlers.lifespan`); None if it did."""
        return self._unclosed

    @property
    def handled(self) -> int:
        """How many of its handlers have ended since its start, whatever their outcome; 0 when it is stopped."""
        run = self._run
        return 0 if run is None else run.handled

    def describe(self) -> str:
        """Return the state of each slot and the stack of each thread, as text for a log; without any variables."""
        run = self._run
        slots = [] if run is None else run.describe()
        threads = [f"thread {thread.name}:\n{stack_of_thread(thread)}" for thread in threading.enumerate()]
        return "\n\n".join([f"{self!r}", *slots, *threads])

    def start(self) -> None:
        """Begin to work in threads of its own, and return; nothing happens if it works already.

        A conductor that is being stopped is started again after its stop. In a forked child it does not work until it
        is started there; connect the board first.

        :raises ValueError: a handler can't run in this executor, or its lifespan can't.
        :raises LifespanFailed: a lifespan raised an error, or did not yield in time.
        :raises SystemExit: worker processes import this program, which starts a conductor when it is imported.
        :raises RuntimeError: one of its own handlers calls this during the stop, which waits for that handler.
        """
        if self._is_called_by_handler() and self._is_stopping():
            raise RuntimeError("a handler can't start its own conductor again, which waits for that handler to end")
        _call_in_thread(self._start)

    def run(self) -> None:
        """Start, and block until somebody calls :meth:`stop`.

        An exception such as KeyboardInterrupt stops it without a drain, and is raised again.

        :raises ValueError: a handler can't run in this executor, or its lifespan can't.
        :raises LifespanFailed: a lifespan raised an error, or did not yield in time.
        :raises SystemExit: worker processes import this program, which starts a conductor when it is imported.
        """
        try:
            self.start()
            self.wait()
        except BaseException:
            self.stop(drain=False)
            raise

    def wait(self, timeout: Seconds | None = None) -> bool:
        """Block until it has stopped; False after ``timeout`` seconds (None: no limit)."""
        seconds = check_timeout(timeout)
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        while not self._stopped.wait(max(0.0, min(deadline - time.monotonic(), SIGNAL_POLL))):
            if time.monotonic() >= deadline:
                return False
        return True

    def stop(self, drain: bool = True, timeout: Seconds | None = None) -> bool:
        """Claim no more, and stop; True if every handler finished, every end was sent, and lifespans closed theirs.

        Any thread and any signal handler may call it. A second call can make the first one faster. If one of its own
        handlers calls it, it returns False at once, since that handler has not finished; the stop goes on without it.

        What can't be given back in time, since the store does not answer, is claimable again when its claim expires.

        :param drain: let running handlers finish; False gives their jobs back at once, with the attempt uncounted.
        :param timeout: seconds to drain, None for no limit. Jobs that still run then are given back, in 10 more seconds
            at most; ends that the store refused so far are waited for no longer. Without ``drain``: seconds to give the
            jobs back, None for 10. Lifespans have 10 seconds more to close what they have made.
        """
        seconds = check_timeout(timeout)

        def stop() -> bool:
            return self._stop(bool(drain), seconds)

        if self._is_called_by_handler():
            if (run := self._run) is not None:
                run.stop_claiming()
            threading.Thread(target=stop, name="jobboard-stop", daemon=True).start()
            return False
        return _call_in_thread(stop)

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Stop it: with a drain at the end of the block, without one for an exception, as :meth:`run` does."""
        self.stop(drain=error is None)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        while True:
            with self._lock:
                run = self._run
                if run is None:
                    self._start_run()
                    return
                if not run.stopping:
                    return
            run.wait()
            self._forget(run)

    def _start_run(self) -> None:
        run = ConductorRun(self._who, self._board, self._handlers.copy(), self._options, self._on_unhealthy)
        # Set before the start, since a handler may call stop() while this goes on.
        self._run = run
        self._has_broken_off = False
        self._stopped.clear()
        try:
            run.start()
        except BaseException:
            self._run = None
            self._stopped.set()
            raise

    def _stop(self, drain: bool, timeout: float | None) -> bool:
        with self._lock:
            run = self._run
        if run is None:
            return True
        finished = run.stop(drain, timeout)
        self._unclosed = run.unclosed
        self._forget(run)
        return finished

    def _forget(self, run: ConductorRun) -> None:
        with self._lock:
            if self._run is run:
                self._run = None
                self._stopped.set()

    def _on_unhealthy(self) -> None:
        if self._exits_when_stuck and not self._has_broken_off:
            self._has_broken_off = True
            logger.error("conductor %s stops, since too many of its slots are stuck", self._who)
            threading.Thread(target=self._stop, args=(True, _STUCK_DRAIN), name="jobboard-stop", daemon=True).start()

    def _is_called_by_handler(self) -> bool:
        execution = Execution.current()
        return execution is not None and execution.snapshot.owner == self._who

    def _is_stopping(self) -> bool:
        run = self._run
        return run is not None and run.stopping

    def __repr__(self) -> str:
        state = "stopped" if self._stopped.is_set() else "working"
        return f"<Conductor {self._who!r} on {self._board.name!r}, {state}>"


def _call_in_thread(function: Callable[[], _Value]) -> _Value:
    """Call a function in a thread of its own, and return or raise what it does.

    A signal handler may interrupt the main thread anywhere, and call ``stop``. So the main thread must never hold a
    lock that ``stop`` needs; here it only waits on a queue whose ``get`` may be interrupted and called again.
    """
    answers: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()

    def call() -> None:
        try:
            answers.put((True, function()))
        except BaseException as error:
            answers.put((False, error))

    try:
        threading.Thread(target=call, name="jobboard-start-stop", daemon=True).start()
    except RuntimeError:
        # The interpreter is exiting, and starts no more threads.
        call()
    while True:
        try:
            is_value, answer = answers.get(timeout=SIGNAL_POLL)
        except queue.Empty:
            continue
        if not is_value:
            raise answer
        value: _Value = answer
        return value
