"""Claims jobs for the free slots, and waits on the board while there are none to claim."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

from jobboard.backends.base import Waiter
from jobboard.backends.timelimit import lock_wait
from jobboard.board import JobBoard, claims_for, client_of, handles_of
from jobboard.conductor.log import logger
from jobboard.conductor.slots import Slots
from jobboard.errors import BoardUnavailable, ClaimLost
from jobboard.job import Job
from jobboard.states import JobState

_MIN_PAUSE, _MAX_PAUSE = 0.1, 5.0
#: Seconds until the next try when a job was said to be ready and could not be claimed.
_RETRY_DELAY = 0.01
#: Seconds between two looks whether there is a name to claim again.
_NO_NAMES_POLL = 0.5
#: How many requests in a row must get what they ask for before one claims ahead.
_FULL_CLAIMS = 2


class _Turns(Iterator[bool]):
    """The turns of a claimer, also after one that an exception has ended."""

    def __init__(
        self, begin: Callable[[], Iterator[bool]], is_over: Callable[[], bool], end: Callable[[], None]
    ) -> None:
        self._begin, self._is_over, self._end = begin, is_over, end
        self._turns = begin()

    def __next__(self) -> bool:
        while True:
            try:
                return next(self._turns)
            except StopIteration:
                if self._is_over():
                    self._end()
                    raise
                self._turns = self._begin()


class Claimer:
    """Claims as many jobs as there are free slots, in turns that one thread at a time takes.

    :param prefetch: claim also for slots that will soon be free, while the board has jobs enough.
    :param names: returns the names that may be claimed now; :meth:`refresh_names` says that they have changed.
    :param held: returns the uuids of the jobs whose claims this conductor knows of.
    :param on_claimed: gets the claimed jobs, and the monotonic time before the request was sent; returns at once.
    """

    def __init__(
        self,
        board: JobBoard,
        who: str,
        expiry: float,
        slots: Slots,
        prefetch: bool,
        names: Callable[[], frozenset[str]],
        held: Callable[[], set[str]],
        on_claimed: Callable[[list[Job], float], None],
    ) -> None:
        self._board = board
        self._who = who
        self._expiry = expiry
        self._slots = slots
        self._prefetch = prefetch
        #: How many requests in a row got as many jobs as they asked for.
        self._full_claims = 0
        self._names = names
        self._held = held
        self._on_claimed = on_claimed
        #: The names of a claim request that got no answer.
        self._unanswered: frozenset[str] = frozenset()
        #: The names of the jobs that such a request may have claimed, and when to look for them.
        self._unknown: frozenset[str] = frozenset()
        self._others_unknown: deque[str] = deque()
        self._abandon_at = 0.0
        self._names_changed = False
        self._pause = _MIN_PAUSE
        #: Whether it was said that the store is away.
        self._is_away = False
        self._stopping = threading.Event()
        #: Whether it was told to stop.
        self.stopping = False
        self._lock = threading.Lock()
        self._waiter: Waiter | None = None
        self._ended = threading.Event()

    def stop(self, timeout: float) -> None:
        """Claim no more, and wait up to ``timeout`` seconds; ``on_claimed`` still gets what is being claimed."""
        self.request_stop()
        self._ended.wait(timeout)

    def request_stop(self) -> None:
        """Let the turns end; returns at once."""
        self.stopping = True
        self._stopping.set()
        self._slots.close()
        self._interrupt_waiter()

    def refresh_names(self) -> None:
        """The names may have changed."""
        self._names_changed = True
        self._interrupt_waiter()

    def look_for(self, name: str) -> None:
        """Another request may have claimed jobs of this name unknowingly."""
        self._others_unknown.append(name)

    def _interrupt_waiter(self) -> None:
        with self._lock:
            if self._waiter is not None:
                self._waiter.interrupt()

    def turns(self) -> Iterator[bool]:
        """Claim until there is a stop; yields after each claim whether it got a single job that this had waited for.

        What another thread raises in the one that takes a turn ends that turn, and the next one begins anew.
        """
        return _Turns(self._turns, self._stopping.is_set, self._ended.set)

    def _turns(self) -> Iterator[bool]:
        while not self._stopping.is_set():
            self._names_changed = False
            names = self._names()
            if not names:
                self._idle_for(_NO_NAMES_POLL)
                continue
            try:
                with client_of(self._board).waiter(names) as waiter:
                    waiter.claim_ahead(self._who, self._expiry)
                    with self._lock:
                        self._waiter = waiter
                    yield from self._claim_until_stopped(waiter, names)
            except Exception as error:
                # What was submitted before the fault must not wait for the end of the pause.
                yield False
                self._pause_after(error)
            finally:
                with self._lock:
                    self._waiter = None

    def _idle_for(self, seconds: float) -> None:
        self._slots.set_idle(True)
        self._stopping.wait(seconds)
        self._slots.set_idle(False)

    def _pause_after(self, error: Exception) -> None:
        """Pause longer after each failure; no error may end the turns, or the conductor would claim no more."""
        if not isinstance(error, BoardUnavailable):
            logger.error("conductor %s met a fault while claiming", self._who, exc_info=error)
        else:
            level = logging.DEBUG if self._is_away else logging.WARNING
            logger.log(level, "conductor %s waits for its store: %s", self._who, error)
            self._is_away = True
        self._idle_for(self._pause)
        self._pause = min(self._pause * 2, _MAX_PAUSE)

    def _go_on(self) -> None:
        """The store answers: the next pause is short, and the end of an outage is told once."""
        self._pause = _MIN_PAUSE
        if self._is_away:
            self._is_away = False
            logger.info("conductor %s goes on: its store is back", self._who)

    def _claim_until_stopped(self, waiter: Waiter, names: frozenset[str]) -> Iterator[bool]:
        """Claim until there is a stop, or the names have changed."""
        try:
            yield from self._take_turns(waiter, names)
        finally:
            self._take_claimed(waiter, names)

    def _take_turns(self, waiter: Waiter, names: frozenset[str]) -> Iterator[bool]:
        claim_next = claims_for(self._board, self._who, names, self._expiry)
        has_waited = False
        while (free := self._slots.wait_for_free(ahead=self._may_prefetch())) and not self._stopping.is_set():
            if self._names_changed or self._names() != names:
                return
            jobs = self._claim(free, names, claim_next)
            yield has_waited and len(jobs) == 1
            has_waited = False
            if not jobs and not self._stopping.is_set() and self._slots.has_free():
                due = self._until_due(waiter)
                # Not after a claim that finds nothing: that may work in a store whose indexes are damaged.
                self._go_on()
                if due is None or due > 0 or not self._stopping.wait(_RETRY_DELAY):
                    self._slots.set_idle(True)
                    waiter.wait(due)
                    jobs = self._take_claimed(waiter, names)
                    self._slots.set_idle(False)
                    if jobs:
                        yield len(jobs) == 1
                    has_waited = not jobs

    def _until_due(self, waiter: Waiter) -> float | None:
        """Return the seconds until there may be something to do; None: until somebody notifies the waiter."""
        due = waiter.ready_in()
        if not self._unknown:
            return due
        return max(0.0, min(math.inf if due is None else due, self._abandon_at - time.monotonic()))

    def _take_claimed(self, waiter: Waiter, names: frozenset[str]) -> list[Job]:
        """Return what the store has claimed while this waited, if it has."""
        unanswered, self._unanswered = self._unanswered, names
        rows, sent = waiter.claimed()
        # This process may have been stopped for longer than the claim held.
        is_held = time.monotonic() < sent + self._expiry
        jobs = handles_of(self._board).claimed(rows, sent + self._expiry)[0] if rows and is_held else []
        self._unanswered = unanswered if is_held else names
        if jobs:
            self._on_claimed(jobs, sent)
        return jobs

    def _may_prefetch(self) -> bool:
        """Whether the board probably has more jobs.

        After a request that got fewer than it asked for, a slot must be free before the next one. For then this thread
        waits on the board, and who is woken for a new job must have a slot for it.
        """
        return self._prefetch and self._full_claims >= _FULL_CLAIMS

    def _claim(self, free: int, names: frozenset[str], claim_next: Callable[[int], list[Job]]) -> list[Job]:
        self._unknown |= self._unanswered
        while self._others_unknown:
            self._unknown |= {self._others_unknown.popleft()}
        self._unanswered = frozenset()
        if self._unknown and time.monotonic() >= self._abandon_at:
            self._abandon_unknown()
        self._unanswered = names
        sent = time.monotonic()
        jobs = claim_next(free)
        self._unanswered = frozenset()
        self._full_claims = self._full_claims + 1 if len(jobs) == free else 0
        if jobs:
            self._go_on()
            self._on_claimed(jobs, sent)
        return jobs

    def _abandon_unknown(self) -> None:
        """Abandon what a request without an answer has claimed: nobody runs it, and its claim may never expire.

        What the store refuses while it answers others is tried again later, and keeps nobody from claiming.
        """
        held, refused = self._held(), set[str]()
        for job in self._board.iterjobs(states={JobState.CLAIMED}, names=self._unknown):
            if job.record.owner == self._who and job.uuid not in held and not self._abandon(job):
                refused.add(job.name)
        self._unknown = frozenset(refused)
        self._abandon_at = time.monotonic() + _MAX_PAUSE if refused else 0.0

    def _abandon(self, job: Job) -> bool:
        """Abandon a job; False if the store refuses that.

        :raises BoardUnavailable: the store is away.
        """
        reason = "its conductor didn't get the answer"
        try:
            with lock_wait(0.0):
                self._board.abandon(job, self._who, token=job.record.token, counted=False, reason=reason)
        except ClaimLost:
            pass
        except BoardUnavailable as error:
            if client_of(self._board).is_away(error):
                raise
            text = "conductor %s can't give job %s back, which it has claimed unknowingly; it tries on: %s"
            logger.warning(text, self._who, job.uuid, error)
            return False
        return True
