"""The sampler: a thread that looks at a board for all who want to see it, beside any number of others that wait."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from jobboard.backends.thread_end import wait_for_thread
from jobboard.board import JobBoard, client_of
from jobboard.errors import BoardUnavailable, JobBoardError, NotFound
from jobboard.heartbeat import worker_id
from jobboard.operate.failing import Attempts
from jobboard.operate.sampling.attempts import attempts_in
from jobboard.operate.sampling.buckets import Bucket, merged
from jobboard.operate.sampling.counting import EventCounts
from jobboard.operate.sampling.history import History, Period, levels
from jobboard.operate.sampling.lease import Lease
from jobboard.operate.sampling.samples import bounded, gauges_of
from jobboard.operate.status import status, status_without
from jobboard.operate.verdict import Limits
from jobboard.validation import check_count, check_timeout

logger = logging.getLogger("jobboard.sampling")

#: Seconds between two looks, and the longest pause after one.
INTERVAL, _MAX_PAUSE = 10.0, 20.0
#: A look may take this share of the time, so that a board whose jobs take long to count is looked at less often.
_SHARE = 0.05
#: From how many seconds the share of attempts that failed is told.
_JUDGED = 900.0
#: A holder that saved nothing for this many seconds has lost the lease: more than a pause and a long look.
PATIENCE = 40.0


class Sampler:
    """Knows how a board is and was; costs the store the same however many ask it.

    One sampler of a board holds its lease: it makes the status every 10 seconds and saves it in a logbook, and each
    minute what it saw, in another. The others read the first logbook every 10 seconds. If the holder dies, another
    goes on within a minute.

    :param board: connected or not; the sampler connects it, and leaves it so. Its thread ends when somebody closes it.
    :param days: for how long ten minutes each are kept; minutes are kept for a day.
    :param listen: whether to listen to events while it holds the lease, for the numbers of posted, finished and failed
        jobs and how long they took.
    :param limits: what a board may do and still be well; those of the one that holds the lease count.
    """

    def __init__(
        self,
        board: JobBoard,
        *,
        days: int = 14,
        listen: bool = True,
        limits: Limits | None = None,
        interval: float = INTERVAL,
        patience: float = PATIENCE,
    ) -> None:
        self._board = board
        self._interval = interval
        self._listens, self._limits = listen, limits
        self._lease = Lease(board, worker_id("sampler"), patience)
        self._minutes, self._tens = (History(board, level) for level in levels(check_count("days", days)))
        self._counts = EventCounts()
        self._unlisten: Callable[[], None] | None = None
        #: Until when the counts have been taken; None while nobody listens.
        self._heard_until: float | None = None
        self._status: dict[str, Any] | None = None
        #: Whether the newest status is of its own look, as the holder's is, and any one's while the store takes no
        #: changes and so nobody can hold the lease.
        self.looked_itself = False
        #: How often it has looked, also in vain.
        self.looks = 0
        #: The minute that is not over yet; only a holder has one.
        self._current: Bucket | None = None
        self._loaded_at: int | None = None
        self._is_opened = False
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._has_looked = threading.Event()
        self._thread: threading.Thread | None = None

    # -- what it knows -------------------------------------------------------------------------------------------------

    @property
    def newest(self) -> dict[str, Any] | None:
        """The newest status; None before the first look."""
        return self._status

    def status(self, timeout: float = 10.0) -> dict[str, Any]:
        """Return the newest status, as :func:`jobboard.operate.status.status` does, with ``totals``; no request.

        Of too many names, findings and others it has the first ones, and ``left_out`` says how many more there are.

        :param timeout: seconds to wait for the first one.
        :raises BoardUnavailable: there is none by then.
        """
        self.start()
        self._has_looked.wait(check_timeout(timeout))
        if self._status is None:
            text = f"board {self._board.name!r} on {self._board.store} has not answered for {timeout:g} s; try again"
            raise BoardUnavailable(text)
        return self._status

    def minutes(self, since: float) -> list[Bucket]:
        """Return the minutes since a moment in seconds since the epoch, a day at most, with the present one last."""
        current = self._current
        over = self._minutes.since(since)
        return over if current is None else [each for each in over if each.at != current.at] + [current]

    def ten_minutes(self, since: float) -> list[Bucket]:
        """Return what was in each ten minutes since a moment, without those that are not over."""
        return self._tens.since(since)

    @property
    def is_holder(self) -> bool:
        """Whether this one looks for all."""
        return self._lease.is_held

    # -- the thread ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin, in a thread of its own. Idempotent."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._stopping = threading.Event()
                self._thread = threading.Thread(
                    target=self._work, args=(self._stopping,), name="jobboard-sampler", daemon=True
                )
                self._thread.start()

    def stop(self, timeout: float = 10.0) -> None:
        """End the thread, and let another sampler go on at once. Idempotent.

        :param timeout: seconds to wait for the end of a look.
        """
        self._stopping.set()
        with self._lock:
            thread, self._thread = self._thread, None
        wait_for_thread(thread, timeout)
        if thread is None or not thread.is_alive():
            self._leave()

    def _work(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            began = time.monotonic()
            self.look()
            if self._is_closed():
                return
            took = time.monotonic() - began
            stopping.wait(max(self._interval - took, min(took / _SHARE - took, _MAX_PAUSE)))

    def look(self) -> None:
        """Look at the board if this one has the lease or can take it, otherwise see what the holder saw."""
        try:
            self._open()
            if not self._lease.is_held:
                self._lease.look()
            self.looked_itself = (self._lease.is_held or self._lease.is_free) and self._look_for_all()
            if not self.looked_itself:
                self._look_at_others()
        except JobBoardError as error:
            logger.debug("the sampler of board %r goes on: %s", self._board.name, error)
            self._status = status_without(self._board, error)
        except Exception:
            logger.exception("the sampler of board %r goes on after a fault", self._board.name)
        finally:
            self.looks += 1
            self._has_looked.set()

    def _open(self) -> None:
        """Connect the board, once: a board that is closed later must not be opened again."""
        if self._is_opened:
            client_of(self._board).check_open()
        self._board.connect()
        self._is_opened = True

    def _is_closed(self) -> bool:
        try:
            client_of(self._board).check_open()
        except BoardUnavailable:
            return self._is_opened
        return False

    def _look_for_all(self) -> bool:
        """Look at the board; False if another was first to take the lease."""
        seen = status(self._board, self._limits, self._attempts())
        if "at" not in seen:
            self._status = seen
            return True
        known, now = bounded(seen), seen["at"].timestamp()
        try:
            if not self._keep(known, now):
                self._end_counting()
                return False
            self._begin_counting()
            self._note(Bucket(int(now // 60) * 60, *gauges_of(seen)))
        except JobBoardError as error:
            logger.warning("the history of board %r is not saved: %s", self._board.name, error)
        self._status = known
        return True

    def _attempts(self) -> dict[str, Attempts]:
        """Return what became of the attempts of the last minutes, as far as this one has counted them."""
        return {} if self._current is None else attempts_in(self.minutes(self._current.at - _JUDGED))

    def _keep(self, known: dict[str, Any], now: float) -> bool:
        periods, both = self._periods(), (self._minutes, self._tens)
        if not self._lease.is_held:
            self._load(periods, now)
        # The present minute may be one from before a long sleep of this machine, and is yet to be saved.
        written = [now] if self._current is None else [now, self._current.at]
        needed = {history.period(moment) for history in both for moment in written}
        periods |= needed
        over = {period for period in periods - needed if any(history.is_over(period, now) for history in both)}
        kept = [[period.bucket, period.start] for period in sorted(periods - over)]
        # Which logbooks there are is saved before they are, so that none is forgotten on the board.
        if not self._lease.hold({"status": known, "books": kept}):
            return False
        for period in over:
            self._destroy(period)
        return True

    def _look_at_others(self) -> None:
        self._lease.look()
        seen = self._lease.content.get("status")
        if not isinstance(seen, dict) or not isinstance(seen.get("at"), datetime):
            raise BoardUnavailable("the sampler of another process has seen nothing yet")
        self._status = seen
        now = seen["at"].timestamp()
        minute = int(now // 60)
        if self._loaded_at is None:
            self._load(self._periods(), now)
        elif self._loaded_at != minute:
            self._load({history.period(now - 60) for history in (self._minutes, self._tens)}, now)
        self._loaded_at = minute

    def _note(self, seen: Bucket) -> None:
        """Put a sample into the present minute; save the minute, and the ten minutes, that are over."""
        before = self._current
        if before is not None and before.at != seen.at:
            self._minutes.add(before)
            self._current = before = None
            self._add_tens(seen.at)
        seen.merge(Bucket(seen.at, *self._counts.take(), self._heard()))
        self._current = merged(seen.at, [seen] if before is None else [before, seen])

    def _heard(self) -> float:
        """Return for how many seconds events were listened to since this was asked."""
        if self._heard_until is None:
            return 0.0
        before, self._heard_until = self._heard_until, time.monotonic()
        return self._heard_until - before

    def _add_tens(self, now: int) -> None:
        """Save each ten minutes that are over, also those that nobody could save in time."""
        saved = {bucket.at for bucket in self._tens.since(0)} | {now // 600 * 600}
        minutes = self._minutes.since(0)
        for ten in sorted({each.at // 600 * 600 for each in minutes} - saved):
            self._tens.add(merged(ten, [each for each in minutes if each.at // 600 * 600 == ten]))

    def _periods(self) -> set[Period]:
        """Return which logbooks there are, as far as the holder's can be read."""
        books = self._lease.content.get("books")
        pairs = [book for book in books if isinstance(book, list)] if isinstance(books, list) else []
        return {Period(*pair) for pair in pairs if len(pair) == 2 and all(type(part) is int for part in pair)}

    def _load(self, periods: set[Period], now: float) -> None:
        for history in (self._minutes, self._tens):
            history.load(periods, now)

    def _destroy(self, period: Period) -> None:
        try:
            self._board.destroy_book(period.uuid)
        except NotFound:
            pass

    def _begin_counting(self) -> None:
        if self._listens and self._unlisten is None:
            self._counts.take()
            self._unlisten = self._counts.listen(self._board)
            self._heard_until = time.monotonic()

    def _end_counting(self) -> None:
        """Another looks for all now; what this one counted of the present minute is left out."""
        self._current, self._loaded_at = None, None
        if self._unlisten is not None:
            self._unlisten()
            self._unlisten = self._heard_until = None

    close = stop

    def _leave(self) -> None:
        current, is_holder = self._current, self._lease.is_held
        self._end_counting()
        try:
            if is_holder and current is not None:
                self._minutes.add(current)
            self._lease.release()
        except JobBoardError as error:
            logger.debug("the sampler of board %r can't release its lease: %s", self._board.name, error)
