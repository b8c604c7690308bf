"""The shelf: all that one board name has in this process, and the moves that keep its indexes right."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Iterator

from jobboard.backends.attempts import expired, is_used_up, used_up
from jobboard.backends.base import RETRY_WINDOW
from jobboard.backends.listeners import Listener
from jobboard.backends.memory.row import Row, end_claim, state_at
from jobboard.backends.ordered import PriorityIndex, SortedKeys
from jobboard.backends.rows import ClaimRequest, EntityRow, ScheduleRow
from jobboard.backends.waiter import ConditionWaiter
from jobboard.events import EventKind, JobEvent
from jobboard.states import JobState
from jobboard.validation import moment

_FIRST_MOMENT = time.time() - time.monotonic()


def steady_now() -> float:
    """Return the wall clock's time at the start plus what has passed since: seconds since the epoch, without jumps."""
    return _FIRST_MOMENT + time.monotonic()


class Shelf:
    """Everything here is called, and every attribute is touched, under :attr:`lock`.

    The lock can be taken again by its holder: a signal handler may interrupt a waiter while its thread is in here.
    """

    def __init__(self, clock: Callable[[], float] = steady_now) -> None:
        self.clock = clock
        self.lock = threading.RLock()
        self.rows: dict[str, Row] = {}
        self.by_sequence: dict[int, Row] = {}
        #: (name, key) -> the live row that has it.
        self.keys: dict[tuple[str, str], Row] = {}
        #: The uuid of a posting that replaced the content of a row -> that row.
        self.aliases: dict[str, Row] = {}
        self.delayed, self.unclaimed, self.claimed, self.complete, self.trashed = (
            PriorityIndex[int]() for _ in range(5)
        )
        #: (moment, sequence) of every row that is due some time: delayed, or under a claim that ends.
        self.timers: PriorityIndex[tuple[float, int]] = PriorityIndex()
        #: Heaps of (moment, sequence): when a completed record is hidden, and when what is hidden is forgotten.
        self.retained: list[tuple[float, int]] = []
        self.remembered: list[tuple[float, int]] = []
        self.paused: set[str | None] = set()
        self.entities: dict[tuple[str, str], EntityRow] = {}
        self.books: dict[str, tuple[bytes, str]] = {}
        self.schedules: dict[str, ScheduleRow] = {}
        #: (next due time, id) of every schedule.
        self.schedule_order: SortedKeys[tuple[float, str]] = SortedKeys()
        self.listeners: list[Listener] = []
        self.waiters: set[ConditionWaiter] = set()
        self.last_sequence = 0
        #: Of all jobs: a job may be posted again under the uuid of one that was forgotten.
        self.last_token = 0

    def lines(self) -> Iterator[tuple[JobState, PriorityIndex[int]]]:
        """Iterate over the states and where the rows of each stand."""
        yield JobState.DELAYED, self.delayed
        yield JobState.UNCLAIMED, self.unclaimed
        yield JobState.CLAIMED, self.claimed
        yield JobState.COMPLETE, self.complete
        yield JobState.TRASHED, self.trashed

    # -- moves -----------------------------------------------------------------------------------------------------

    def enter(self, row: Row, now: float) -> None:
        """Put a new row on the board."""
        self.last_sequence += 1
        row.sequence = self.last_sequence
        row.rank()
        self.rows[row.uuid] = self.by_sequence[row.sequence] = row
        self.put(row)
        self.write(row, EventKind.POSTED, now)

    def put(self, row: Row) -> None:
        """Let a row stand where it is claimable, or delayed, as its state says."""
        self.move(row, self.delayed if row.state is JobState.DELAYED else self.unclaimed)

    def move(self, row: Row, line: PriorityIndex[int] | None) -> None:
        """Let a row stand in another line; every index follows, and who waits learns of it."""
        if row.line is not None:
            row.line.remove(row.place, row.name)
        if row.due is not None:
            self.timers.remove((row.due, row.sequence), row.name)
        row.line = line
        row.due = due = self.due_of(row)
        if line is not None:
            line.add(row.place, row.name)
        if due is not None:
            self.timers.add((due, row.sequence), row.name)
        if row.key is not None:
            self._hold_key(row, row.key)
        if self.waiters and (due is not None or line is self.unclaimed):
            self.stir(row.name, due or 0.0)

    def reschedule(self, row: Row) -> None:
        """Follow a row whose moment has changed."""
        if row.due is not None:
            self.timers.remove((row.due, row.sequence), row.name)
        row.due = due = self.due_of(row)
        if due is not None:
            self.timers.add((due, row.sequence), row.name)
            self.stir(row.name, due)

    def due_of(self, row: Row) -> float | None:
        """Return the moment at which a row that stands where it does must be looked at."""
        if row.line is self.claimed:
            return row.expires_at
        return row.run_at if row.line is self.delayed else None

    def is_live(self, row: Row) -> bool:
        return row.line is self.unclaimed or row.line is self.claimed or row.line is self.delayed

    def _hold_key(self, row: Row, key: str) -> None:
        place = (row.name, key)
        if self.is_live(row):
            self.keys[place] = row
        elif self.keys.get(place) is row:
            del self.keys[place]

    def grant(self, row: Row, claim: ClaimRequest, now: float) -> None:
        """Give an unclaimed row to an owner."""
        row.state = JobState.CLAIMED
        row.attempts += 1
        self.last_token += 1
        row.token = self.last_token
        row.owner, row.claim_id = claim.who, claim.claim_id
        row.expires_at = end_of_claim(claim.expiry, now)
        row.progress = None
        self.move(row, self.claimed)
        self.write(row, EventKind.CLAIMED, now, claim.who, row.token)

    def put_back(self, row: Row, kind: EventKind, now: float, reason: str | None, run_at: float | None = None) -> None:
        """End a claim so that the job can be claimed again, now or later."""
        who = row.owner
        end_claim(row)
        row.run_at = row.run_at if run_at is None else run_at
        row.state = state_at(row, now)
        self.put(row)
        self.write(row, kind, now, who, row.token, reason)

    def discard(self, row: Row, now: float, who: str | None, token: int | None, reason: str | None) -> None:
        """Set a row aside in the trash; a claim of it ends."""
        end_claim(row)
        row.state = JobState.TRASHED
        self.move(row, self.trashed)
        self.write(row, EventKind.TRASHED, now, who, token, reason)

    def take_off(
        self, row: Row, now: float, who: str | None = None, token: int | None = None, reason: str | None = None
    ) -> None:
        """Take a cancelled row off the board for good, and remember it for a while."""
        end_claim(row)
        row.state, row.cancel_asked = JobState.COMPLETE, True
        self.hide(row, now)
        self.write(row, EventKind.CANCELLED, now, who, token, reason)

    def complete_with(self, row: Row, result: bytes | None, retention: float, now: float) -> None:
        """Let a claimed row be done for good; its record stays readable for a while."""
        row.state, row.result = JobState.COMPLETE, result
        row.claim_id = row.expires_at = None
        if retention > 0:
            self.move(row, self.complete)
            heapq.heappush(self.retained, (now + retention, row.sequence))
        else:
            self.hide(row, now)
        self.write(row, EventKind.CONSUMED, now, row.owner, row.token)

    def hide(self, row: Row, since: float) -> None:
        """Show a row to nobody any more, and remember it for the retry window."""
        self.move(row, None)
        heapq.heappush(self.remembered, (since + RETRY_WINDOW, row.sequence))

    def forget(self, limit: int, now: float) -> int:
        """Delete up to ``limit`` rows whose time to be remembered is over, and return how many."""
        count = 0
        while count < limit and self.remembered and self.remembered[0][0] <= now:
            self.drop(self.by_sequence[heapq.heappop(self.remembered)[1]])
            count += 1
        return count

    def drop(self, row: Row) -> None:
        """Delete a row without a trace."""
        self.move(row, None)
        del self.rows[row.uuid], self.by_sequence[row.sequence]
        for alias in row.aliases:
            self.aliases.pop(alias, None)

    # -- time ------------------------------------------------------------------------------------------------------

    def settle(self) -> float:
        """Bring the shelf up to this moment, which is returned."""
        now = self.clock()
        timers = self.timers.whole
        while (first := timers.first()) is not None and first[0] <= now:
            row = self.by_sequence[first[1]]
            if row.state is JobState.DELAYED:
                row.state = JobState.UNCLAIMED
                self.move(row, self.unclaimed)
                self.write(row, EventKind.DUE, now)
            else:
                self._take_back(row, now)
        while self.retained and self.retained[0][0] <= now:
            over, sequence = heapq.heappop(self.retained)
            self.hide(self.by_sequence[sequence], over)
        return now

    def _take_back(self, row: Row, now: float) -> None:
        """End a claim whose time is over, so that the job is where it belongs."""
        who, token = row.owner, row.token
        row.reason = expired(who)
        if not row.cancel_asked and not is_used_up(row):
            self.put_back(row, EventKind.EXPIRED, now, row.reason)
            return
        self.write(row, EventKind.EXPIRED, now, who, token, row.reason)
        if row.cancel_asked:
            self.take_off(row, now, None, token)
        else:
            row.reason = row.last_error = used_up(row, row.reason)
            self.discard(row, now, None, token, row.reason)

    def next_ready(self, names: frozenset[str] | None, now: float) -> float | None:
        """Return the moment at which a job of these names can be claimed, or may be; None if none is in sight."""
        if None in self.paused:
            return None
        if self.unclaimed.first(names, self.paused) is not None:
            return now
        first = self.timers.first(names, self.paused)
        return None if first is None else first[0]

    # -- telling ---------------------------------------------------------------------------------------------------

    def write(
        self,
        row: Row,
        kind: EventKind,
        now: float,
        who: str | None = None,
        token: int | None = None,
        reason: str | None = None,
    ) -> None:
        """Write a line of a row's history, and tell of it."""
        row.note(kind, who, now, token, reason)
        if self.listeners:
            self.tell(JobEvent(kind, row.uuid, row.name, who, token, moment(now), reason))

    def tell(self, event: JobEvent) -> None:
        """Tell everybody who listens; under the lock, which keeps the order of each job."""
        for listener in list(self.listeners):
            listener.hear(event)

    def stir(self, name: str | None, at: float) -> None:
        """Tell those who wait that a job of this name (None: any) may be ready at that moment."""
        for waiter in self.waiters:
            waiter.stir(name, at)


def end_of_claim(expiry: float, now: float) -> float | None:
    """Return when a claim ends that lasts ``expiry`` seconds from now; None if never."""
    end = now + expiry
    return None if end == float("inf") else end
