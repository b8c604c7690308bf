"""A clock that tests move: for boards in memory, which have no other time than their store's."""

from __future__ import annotations

import math
from datetime import datetime

from jobboard.backends.memory import MemoryBackend
from jobboard.backends.memory.store import MemoryStore, steady_now
from jobboard.board import JobBoard, client_of
from jobboard.errors import NotSupported
from jobboard.testing.checks import check_board
from jobboard.types import Seconds
from jobboard.validation import check_moment, check_seconds, moment


class Clock:
    """The time of one board: it goes on by itself, and a test moves it forward.

    Delays, claims, retention and schedules of that board go by it, and waiting clients look again when it
    is moved. Threads that sleep by themselves don't see it: a :class:`~jobboard.Scheduler` looks every 5 seconds, and
    a conductor's renewals and time-outs go by the machine's clock.
    """

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._moved = 0.0

    def __call__(self) -> float:
        return steady_now() + self._moved

    def now(self) -> datetime:
        """Return the board's time."""
        return moment(self())

    def move(self, seconds: Seconds) -> datetime:
        """Let so much time pass at once, and return the board's time then.

        :param seconds: 0 or more; a number, or a timedelta.
        :raises ValueError: it is negative or not finite: time only goes forward.
        :raises TypeError: it is neither.
        """
        step = check_seconds("seconds", seconds)
        if not 0 <= step < math.inf:
            raise ValueError(f"a clock is moved by 0 seconds or more; got {seconds!r}")
        with self._store.lock:
            self._moved += step
            self._store.expire_and_promote()
            self._store.notify(None, -math.inf)
        return self.now()

    def move_to(self, at: datetime) -> datetime:
        """Let time pass until this moment, and return it.

        :param at: an aware datetime that is not in the board's past; :func:`memory_board` begins at any moment.
        :raises ValueError: it has no time zone, or is in the past.
        """
        left = check_moment("at", at) - self()
        if left < 0:
            raise ValueError(f"the clock is past {at.isoformat()} already; memory_board(now=...) begins where you say")
        return self.move(left)

    def begin_at(self, at: datetime) -> None:
        """Begin at this moment, before the board is used: from then on time goes forward only."""
        self._moved = check_moment("now", at) - steady_now()

    def __repr__(self) -> str:
        return f"<Clock {self.now().isoformat()}, moved by {self._moved:g} s>"


def clock_of(board: JobBoard) -> Clock:
    """Return the clock of a board in memory; all boards on the same store share it.

    :raises NotSupported: the board is on another store, whose clock no test can move.
    """
    backend = client_of(check_board(board)).backend
    if not isinstance(backend, MemoryBackend):
        reason = "goes by time.time()" if board.capabilities.clock == "client" else "goes by its server's clock"
        raise NotSupported(f"a {board.store} board {reason}, which can't be moved here; use a board in memory")
    store = backend.store
    with store.lock:
        if not isinstance(store.clock, Clock):
            store.clock = Clock(store)
        return store.clock
