"""Claims jobs for the free slots, and waits on the board while there are none to claim."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from jobboard.backends.base import Waiter
from jobboard.board import JobBoard
from jobboard.conductor.log import logger
from jobboard.conductor.slots import Slots
from jobboard.errors import BoardUnavailable, ClaimLost
from jobboard.job import Job
from jobboard.states import JobState

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
#: Until the next look for a job that is said to be ready, but wasn't there to claim, in seconds.
_BREATH = 0.01
#: Between two looks whether there is a name to claim again, in seconds.
_NAMELESS = 0.5


class Claimer:
    """One thread that claims as many jobs as there are free slots.

    :param names: returns what may be claimed now; tell of a change by :meth:`look_again`.
    :param on_claimed: takes each claimed job, and when its claim was sent; returns at once.
    """

    def __init__(
        self,
        board: JobBoard,
        who: str,
        names: Callable[[], frozenset[str]],
        expiry: float,
        slots: Slots,
        on_claimed: Callable[[Job, float], None],
    ) -> None:
        self._board = board
        self._who = who
        self._names = names
        self._expiry = expiry
        self._slots = slots
        self._on_claimed = on_claimed
        self._known: Callable[[], set[str]] = set
        #: The names of a claim without an answer.
        self._unsure: frozenset[str] = frozenset()
        self._stale = False
        self._pause = _FIRST_PAUSE
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._waiter: Waiter | None = None
        self._thread = threading.Thread(target=self._run, name="jobboard-claimer", daemon=True)

    def start(self, known: Callable[[], set[str]]) -> None:
        """Begin to claim; ``known`` returns the uuids of the jobs whose claims are known."""
        self._known = known
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Claim no more; what a request that is under way brings is still handed on."""
        self.ask_to_stop()
        self._thread.join(timeout)

    def ask_to_stop(self) -> None:
        """Let the thread come to its end; returns at once."""
        self._stopping.set()
        self._slots.interrupt()
        self._interrupt_waiter()

    def _interrupt_waiter(self) -> None:
        with self._lock:
            if self._waiter is not None:
                self._waiter.interrupt()

    def look_again(self) -> None:
        """The names may be others now."""
        self._stale = True
        self._interrupt_waiter()

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._stale = False
            names = self._names()
            if not names:
                self._slots.idle(True)
                self._stopping.wait(_NAMELESS)
                self._slots.idle(False)
                continue
            try:
                with self._board.waiter(names) as waiter:
                    with self._lock:
                        self._waiter = waiter
                    self._claim_until_stopped(waiter, names)
            except Exception as error:
                self._bear(error)
            finally:
                with self._lock:
                    self._waiter = None

    def _bear(self, error: Exception) -> None:
        """Whatever it is, a conductor that claims no more helps nobody: try again, less and less often."""
        if not isinstance(error, BoardUnavailable):
            logger.error("conductor %s met a fault while claiming", self._who, exc_info=error)
        elif self._pause == _FIRST_PAUSE:
            logger.warning("conductor %s waits for its store: %s", self._who, error)
        else:
            logger.debug("conductor %s still waits for its store: %s", self._who, error)
        self._slots.idle(True)
        self._stopping.wait(self._pause)
        self._slots.idle(False)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)

    def _claim_until_stopped(self, waiter: Waiter, names: frozenset[str]) -> None:
        """Claim until there is a stop, or the names are others."""
        while (free := self._slots.wait_for_some()) and not self._stopping.is_set():
            if self._stale or self._names() != names:
                return
            jobs = self._claim(free, names)
            if not jobs and not self._stopping.is_set():
                due = waiter.ready_in()
                if due is None or due > 0 or not self._stopping.wait(_BREATH):
                    self._slots.idle(True)
                    waiter.wait(due)
                    self._slots.idle(False)

    def _claim(self, free: int, names: frozenset[str]) -> list[Job]:
        if self._unsure:
            self._give_back_unknown(self._unsure)
        self._unsure = names
        sent = time.monotonic()
        jobs = self._board.claim_next(self._who, names, free, self._expiry)
        self._unsure = frozenset()
        self._pause = _FIRST_PAUSE
        for job in jobs:
            self._on_claimed(job, sent)
        return jobs

    def _give_back_unknown(self, names: frozenset[str]) -> None:
        """A request without an answer may have claimed jobs, which nobody here knows of; such a claim may never end."""
        known = self._known()
        for job in self._board.iterjobs(states={JobState.CLAIMED}, names=names):
            record = job.record
            if record.owner == self._who and job.uuid not in known:
                try:
                    self._board.abandon(
                        job, self._who, token=record.token, counted=False, reason="its conductor didn't get the answer"
                    )
                except ClaimLost:
                    pass
