"""The conductor: a process that loops over claim, run, end."""

from __future__ import annotations

import math
import os
import queue
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from jobboard.board import JobBoard
from jobboard.conductor.executors.base import Executor
from jobboard.conductor.executors.thread import stack_of_thread
from jobboard.conductor.handlers import Handlers
from jobboard.conductor.keeper import interval_for
from jobboard.conductor.log import logger
from jobboard.conductor.shift import Shift
from jobboard.conductor.slots import Slots
from jobboard.conductor.task import Task
from jobboard.heartbeat import Heartbeat, worker_id
from jobboard.plugins import load_plugin
from jobboard.validation import check_count, check_delay, check_expiry, check_text, check_timeout

_NAMESPACE = "jobboard.executors"

#: Who waits looks up this often, in seconds: a signal that another thread got (as it happens after a SIGCONT) wakes
#: nobody, and its handler runs only once the main thread does something.
_GLANCE = 0.5

#: For how long a conductor that ends itself lets handlers finish, in seconds.
_STUCK_DRAIN = 30.0

_Value = TypeVar("_Value")


class Conductor:
    """Claims jobs from a board, runs their handlers, and ends their claims: consumed, put back, or trashed.

    Any number may work beside each other. What a dead one held is taken back by the others, or by whoever looks at
    the board next. A conductor that was stopped can be started again.

    :param name: what operators see; the owner's name in the store is made unique with host, pid and a random part.
    :param board: connected, and stays so; the conductor survives the store's absence.
    :param handlers: those registered at the start are run; only jobs of their names are claimed.
    :param concurrency: how many handlers run at a time.
    :param executor: ``"thread"``, ``"process"``, ``"asyncio"``, or another entry point of ``jobboard.executors``.
    :param expiry: seconds that a claim lasts without renewal; it is renewed three times in that time.
    :param grace: seconds that a handler has to end after a cancel, before its claim ends and an executor that can kill
        does so; and to return once its claim is over (lost, timed out), before its slot counts as stuck.
    :param max_stuck: how many stuck slots get a new one in their place; None: as many as ``concurrency``. When more are
        stuck, jobs of their names are claimed no more, and the conductor is not ``healthy``.
    :param on_stuck: what it does then: ``"stay"`` at work for the other names, or ``"exit"``: stop, with up to 30 s for
        what runs, so that a supervisor can start it anew.
    """

    def __init__(
        self,
        name: str,
        board: JobBoard,
        handlers: Handlers,
        *,
        concurrency: int = 1,
        executor: str = "thread",
        expiry: float = 30.0,
        grace: float = 5.0,
        max_stuck: int | None = None,
        on_stuck: str = "stay",
    ) -> None:
        self._name = check_text("a conductor's name", name)
        if not isinstance(board, JobBoard):
            raise TypeError(f"board must be a JobBoard, not {type(board).__name__}")
        if not isinstance(handlers, Handlers):
            raise TypeError(f"handlers must be Handlers, not {type(handlers).__name__}")
        if not handlers.names:
            raise ValueError("there are no handlers; register one with @handlers.handler(name)")
        self._board = board
        self._handlers = handlers
        self._concurrency = check_count("concurrency", concurrency)
        self._expiry = check_expiry(expiry)
        self._grace = check_delay(grace, "grace")
        self._max_stuck = self._concurrency if max_stuck is None else check_count("max_stuck", max_stuck, 0)
        if on_stuck not in ("stay", "exit"):
            raise ValueError(f'on_stuck must be "stay" or "exit"; got {on_stuck!r}')
        self._on_stuck = on_stuck
        self._gave_up = False
        self._executor = check_text("executor", executor)
        self._executor_class = _load_executor(executor)
        self._who = worker_id(name)
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._stopped.set()
        self._shift: Shift | None = None

    @property
    def name(self) -> str:
        return self._name

    @property
    def who(self) -> str:
        """The owner's name of this conductor's claims."""
        return self._who

    @property
    def healthy(self) -> bool:
        """False while too many slots are stuck or its executor can't run anything; also once that ended it."""
        shift = self._shift
        return not self._gave_up and (shift is None or shift.health()["healthy"])

    def describe(self) -> str:
        """Return what each slot does and where every thread is, as text for a log; never what is in variables."""
        shift = self._shift
        slots = [] if shift is None else shift.describe()
        threads = [f"thread {thread.name}:\n{stack_of_thread(thread)}" for thread in threading.enumerate()]
        return "\n\n".join([f"{self!r}", *slots, *threads])

    def start(self) -> None:
        """Begin to work, in threads of its own; returns once it does. Nothing happens if it works already.

        :raises ValueError: a handler can't run in this executor.
        """
        if self._is_called_by_handler() and self._is_stopping():
            raise RuntimeError("a handler can't start its own conductor again, which waits for that handler to end")
        _apart(self._start)

    def run(self) -> None:
        """Work until somebody calls :meth:`stop`; an exception such as Ctrl-C's gives all jobs back first."""
        try:
            self.start()
            self.wait()
        except BaseException:
            self.stop(drain=False)
            raise

    def wait(self, timeout: float | None = None) -> bool:
        """Block until it has stopped; False after ``timeout`` seconds."""
        seconds = check_timeout(timeout)
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        while not self._stopped.wait(max(0.0, min(deadline - time.monotonic(), _GLANCE))):
            if time.monotonic() >= deadline:
                return False
        return True

    def stop(self, drain: bool = True, timeout: float | None = None) -> bool:
        """Claim no more, and come to an end; True if every handler finished and every end was sent.

        From any thread and from a signal handler too. A second call can hurry the first one. Called by one of its own
        handlers it returns False at once, since that handler has not finished; the rest goes on without it.

        :param drain: let running handlers finish; else give their jobs back at once, with the attempt.
        :param timeout: seconds to drain; what still runs then is given back, in 10 seconds more at most. None waits for
            all. Without ``drain``: seconds to give all back, 10 by default. What could not be given back in time, since
            the store did not answer, runs out with its claim.
        """
        seconds = check_timeout(timeout)

        def stop() -> bool:
            return self._stop(bool(drain), seconds)

        if self._is_called_by_handler():
            if self._shift is not None:
                self._shift.claim_no_more()
            threading.Thread(target=stop, name="jobboard-stop", daemon=True).start()
            return False
        return _apart(stop)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        while True:
            with self._lock:
                shift = self._shift
                if shift is None:
                    self._begin(self._new_shift())
                    return
                if not shift.stopping:
                    return
            shift.wait()
            self._forget(shift)

    def _begin(self, shift: Shift) -> None:
        # It is known before it starts, since a handler may want to stop it while this goes on.
        self._shift = shift
        self._gave_up = False
        self._stopped.clear()
        try:
            shift.start()
        except BaseException:
            self._shift = None
            self._stopped.set()
            raise

    def _stop(self, drain: bool, timeout: float | None) -> bool:
        with self._lock:
            shift = self._shift
        if shift is None:
            return True
        finished = shift.stop(drain, timeout)
        self._forget(shift)
        return finished

    def _forget(self, shift: Shift) -> None:
        with self._lock:
            if self._shift is shift:
                self._shift = None
                self._stopped.set()

    def _new_shift(self) -> Shift:
        slots = Slots(self._concurrency)
        handlers = self._handlers.copy()

        def metadata() -> dict[str, Any]:
            return {
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "executor": self._executor,
                "concurrency": self._concurrency,
                "max_stuck": self._max_stuck,
                "names": sorted(handlers.names),
                "label": self._name,
                **shift.health(),
            }

        presence = Heartbeat(self._board, "conductor", self._who, metadata, max(1.0, interval_for(self._expiry)))
        shift = Shift(
            self._who, self._board, handlers, slots, self._expiry, self._grace, self._max_stuck, self._unhealthy,
            lambda handlers, finish: self._executor_class(handlers, self._concurrency, finish), presence,
        )  # fmt: skip
        return shift

    def _unhealthy(self) -> None:
        if self._on_stuck == "exit" and not self._gave_up:
            self._gave_up = True
            logger.error("conductor %s ends, since too many of its slots are stuck", self._who)
            threading.Thread(target=self._stop, args=(True, _STUCK_DRAIN), name="jobboard-stop", daemon=True).start()

    def _is_called_by_handler(self) -> bool:
        task = Task.present()
        return task is not None and task.facts.owner == self._who

    def _is_stopping(self) -> bool:
        shift = self._shift
        return shift is not None and shift.stopping

    def __repr__(self) -> str:
        state = "stopped" if self._stopped.is_set() else "working"
        return f"<Conductor {self._who!r} on {self._board.name!r}, {state}>"


def _apart(function: Callable[[], _Value]) -> _Value:
    """Call a function in a thread of its own, and return or raise what it does.

    A signal handler runs in between any two steps of the main thread. If it is to stop a conductor, then the main
    thread must never hold a lock that stopping needs; so it only ever waits here, on a queue that bears this.
    """
    answers: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()

    def call() -> None:
        try:
            answers.put((True, function()))
        except BaseException as error:
            answers.put((False, error))

    try:
        threading.Thread(target=call, name="jobboard-lifecycle", daemon=True).start()
    except RuntimeError:
        # Too late for new threads: the interpreter is on its way out.
        call()
    while True:
        try:
            went_well, value = answers.get(timeout=_GLANCE)
            break
        except queue.Empty:
            continue
    if not went_well:
        raise value
    answer: _Value = value
    return answer


def _load_executor(name: str) -> type[Executor]:
    try:
        found = load_plugin(_NAMESPACE, name)
    except LookupError as error:
        raise ValueError(f"executor: {error}") from None
    if not (isinstance(found, type) and issubclass(found, Executor)):
        raise ValueError(f"the entry point {name!r} is no Executor")
    return found
