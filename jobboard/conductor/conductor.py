"""The conductor: a process that loops over claim, run, end."""

from __future__ import annotations

import logging
import math
import os
import secrets
import socket
import threading

from jobboard.arguments import check_count, check_delay, check_expiry, check_text, check_timeout
from jobboard.board import JobBoard
from jobboard.conductor.executors.base import Executor
from jobboard.conductor.handlers import Handlers
from jobboard.conductor.shift import Shift
from jobboard.entity import Entity
from jobboard.errors import BoardUnavailable
from jobboard.plugins import load_plugin

logger = logging.getLogger("jobboard.conductor")

_NAMESPACE = "jobboard.executors"
#: A conductor that did not register for this many of its intervals counts as gone.
_MISSED_INTERVALS = 4


class Conductor:
    """Claims jobs from a board, runs their handlers, and ends their claims: consumed, put back, or trashed.

    Any number may work beside each other. What a dead one held is taken back by the others, or by whoever looks at
    the board next. A conductor that was stopped can be started again.

    :param name: what operators see; the owner's name in the store is made unique with host, pid and a random part.
    :param board: connected, and stays so; the conductor survives the store's absence.
    :param handlers: only jobs of their names are claimed.
    :param concurrency: how many handlers run at a time.
    :param executor: ``"thread"``, ``"process"``, ``"asyncio"``, or another entry point of ``jobboard.executors``.
    :param expiry: seconds that a claim lasts without renewal; it is renewed three times in that time.
    :param grace: seconds that a handler has to end after a cancel, before an executor that can kill does so.
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
        self._executor = check_text("executor", executor)
        self._executor_class = _load_executor(executor)
        self._who = _unique(name)
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

    def start(self) -> None:
        """Begin to work, in threads of its own; returns once it does. Nothing happens if it works already.

        :raises ValueError: a handler can't run in this executor.
        """
        with self._lock:
            if self._shift is not None:
                return
            shift = Shift(
                self._who, self._board, self._handlers, self._concurrency, self._expiry, self._grace,
                self._executor_class, self._register,
            )  # fmt: skip
            shift.start()
            self._shift = shift
            self._stopped.clear()
        self._register()

    def run(self) -> None:
        """Work until somebody calls :meth:`stop`."""
        self.start()
        self.wait()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until it has stopped; False after ``timeout`` seconds."""
        return self._stopped.wait(check_timeout(timeout))

    def stop(self, drain: bool = True, timeout: float | None = None) -> bool:
        """Claim no more, and come to an end; True if every handler finished and every end was sent.

        Not from within a handler or a signal handler: there, call it from a new thread.

        :param drain: let running handlers finish; else give their jobs back at once, with the attempt.
        :param timeout: seconds to drain; what still runs then is given back. None waits for all.
        """
        seconds = check_timeout(timeout)
        with self._lock:
            shift = self._shift
            if shift is None:
                return True
            finished = shift.stop(drain, seconds)
            self._shift = None
            self._unregister()
            self._stopped.set()
            return finished

    # -- being seen ------------------------------------------------------------------------------------------------

    def _entity(self) -> Entity:
        shift = self._shift
        metadata = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "executor": self._executor,
            "concurrency": self._concurrency,
            "running": shift.running if shift else 0,
            "names": sorted(self._handlers.names),
            "label": self._name,
        }
        interval = 10.0 if math.isinf(self._expiry) else min(self._expiry / 3, 10.0)
        return Entity("conductor", self._who, metadata, ttl=max(1.0, interval * _MISSED_INTERVALS))

    def _register(self) -> None:
        try:
            self._board.register_entity(self._entity())
        except BoardUnavailable as error:
            logger.debug("conductor %s can't register: %s", self._who, error)

    def _unregister(self) -> None:
        try:
            self._board.remove_entity(self._entity())
        except BoardUnavailable as error:
            logger.debug("conductor %s can't leave the register: %s", self._who, error)

    def __repr__(self) -> str:
        state = "stopped" if self._stopped.is_set() else "working"
        return f"<Conductor {self._who!r} on {self._board.name!r}, {state}>"


def _unique(name: str) -> str:
    """An owner that is only a name can be two processes; this one is one instance of one process."""
    tail = f"@{socket.gethostname()[:64]}:{os.getpid()}:{secrets.token_hex(4)}"
    return name.encode()[: 255 - len(tail.encode())].decode(errors="ignore") + tail


def _load_executor(name: str) -> type[Executor]:
    try:
        found = load_plugin(_NAMESPACE, name)
    except LookupError as error:
        raise ValueError(f"executor: {error}") from None
    if not (isinstance(found, type) and issubclass(found, Executor)):
        raise ValueError(f"the entry point {name!r} is no Executor")
    return found
