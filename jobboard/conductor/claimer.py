"""Claims jobs for the free slots, and waits on the board while there are none to claim."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from jobboard.backend import Waiter
from jobboard.board import JobBoard
from jobboard.conductor.slots import Slots
from jobboard.entry import JobState
from jobboard.errors import BoardUnavailable, ClaimLost
from jobboard.job import Job

logger = logging.getLogger("jobboard.conductor")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
#: Until the next look for a job that is said to be ready, but wasn't there to claim, in seconds.
_BREATH = 0.01


class Claimer:
    """One thread that claims as many jobs as there are free slots.

    :param on_claimed: takes each claimed job, and when its claim was sent; returns at once.
    """

    def __init__(
        self,
        board: JobBoard,
        who: str,
        names: frozenset[str],
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
        self._unsure = False
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
        with self._lock:
            if self._waiter is not None:
                self._waiter.interrupt()

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with self._board.waiter(self._names) as waiter:
                    with self._lock:
                        self._waiter = waiter
                    self._claim_until_stopped(waiter)
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

    def _claim_until_stopped(self, waiter: Waiter) -> None:
        while (free := self._slots.wait_for_some()) and not self._stopping.is_set():
            jobs = self._claim(free)
            if not jobs and not self._stopping.is_set():
                due = waiter.ready_in()
                if due is None or due > 0 or not self._stopping.wait(_BREATH):
                    self._slots.idle(True)
                    waiter.wait(due)
                    self._slots.idle(False)

    def _claim(self, free: int) -> list[Job]:
        if self._unsure:
            self._give_back_unknown()
        self._unsure = True
        sent = time.monotonic()
        jobs = self._board.claim_next(self._who, self._names, free, self._expiry)
        self._unsure = False
        self._pause = _FIRST_PAUSE
        for job in jobs:
            self._on_claimed(job, sent)
        return jobs

    def _give_back_unknown(self) -> None:
        """A request without an answer may have claimed jobs, which nobody here knows of; such a claim may never end."""
        known = self._known()
        for job in self._board.iterjobs(states={JobState.CLAIMED}, names=self._names):
            record = job.record
            if record.owner == self._who and job.uuid not in known:
                try:
                    self._board.abandon(
                        job, self._who, token=record.token, counted=False, reason="its conductor didn't get the answer"
                    )
                except ClaimLost:
                    pass
