"""What all clients of one memory board share: its jobs, and the steps from state to state."""

from __future__ import annotations

import heapq
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from jobboard.arguments import moment
from jobboard.backend import RETRY_WINDOW
from jobboard.backends.memory.order import DueOrder, Listing, Place, ReadyOrder
from jobboard.entry import LIVE, EntityEntry, Entry, JobState
from jobboard.events import HISTORY_LENGTH, UNRECORDED, EventKind, HistoryEntry, JobEvent

Line = tuple[EventKind, str | None, float, int | None, str | None]

# Wall time at the start and steady from there on, so that a clock that jumps ends no claim.
_START = time.time() - time.monotonic()


def clock() -> float:
    """Return the seconds since the epoch, by a clock that never jumps."""
    return _START + time.monotonic()


@dataclass(slots=True)
class Row:
    """A job on the shelf. ``due`` is when it changes by itself; ``retain_until`` when its record is over."""

    entry: Entry
    lines: deque[Line] = field(default_factory=lambda: deque(maxlen=HISTORY_LENGTH))
    due: float | None = None
    retain_until: float | None = None

    @property
    def place(self) -> Place:
        return -self.entry.priority, self.entry.sequence

    def history(self) -> list[HistoryEntry]:
        return [HistoryEntry(kind, who, moment(at), token, reason) for kind, who, at, token, reason in self.lines]

    def copy(self) -> Entry:
        """Return what may leave the shelf."""
        one = self.entry
        return Entry(
            one.uuid, one.name, one.priority, one.sequence, one.created_on, one.body, one.key, one.run_at,
            one.max_attempts, one.state, one.attempts, one.owner, one.token, one.claim_id, one.expires_at,
            one.last_modified, one.last_error, one.reason, one.checkpoint, one.progress, one.result, one.cancel_asked,
        )  # fmt: skip


class Shelf:
    """The jobs of one board. Every method wants :attr:`lock` held."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        #: Counts whatever may let a waiter go sooner than it thought.
        self.changes = 0
        self.rows: dict[str, Row] = {}
        self.keys: dict[tuple[str, str], str] = {}
        self.ready = ReadyOrder(self._is_ready)
        self.due = DueOrder(self._is_due)
        self.listing = Listing()
        self.counts: Counter[tuple[str, JobState]] = Counter()
        self.over: list[tuple[float, str]] = []
        self.paused: set[str | None] = set()
        self.entities: dict[tuple[str, str], EntityEntry] = {}
        self.books: dict[str, tuple[bytes, str]] = {}
        self.listeners: list[tuple[Callable[[JobEvent], None], frozenset[EventKind]]] = []
        self.last_sequence = 0

    # -- telling ---------------------------------------------------------------------------------------------------

    def tell(self, row: Row, kind: EventKind, now: float, who: str | None = None, reason: str | None = None) -> None:
        """Write a line of history, and hand the event to those who listen; they only enqueue it."""
        entry = row.entry
        token = entry.token or None
        entry.last_modified = now
        if kind not in UNRECORDED:
            row.lines.append((kind, who, now, token, reason))
        if self.listeners:
            self.broadcast(kind, entry.uuid, entry.name, who, token, now, reason)

    def broadcast(
        self, kind: EventKind, uuid: str | None, name: str | None, who: str | None, token: int | None, at: float,
        reason: str | None = None,
    ) -> None:  # fmt: skip
        for tell, kinds in self.listeners:
            if kind in kinds:
                tell(JobEvent(kind, uuid, name, who, token, moment(at), reason))

    def wake(self) -> None:
        self.changes += 1
        self.changed.notify_all()

    # -- steps -----------------------------------------------------------------------------------------------------

    def add(self, row: Row) -> None:
        """Put a new row on the shelf; its state is entered afterwards."""
        entry = row.entry
        self.rows[entry.uuid] = row
        self.listing.add(row.place, entry.uuid)
        self.counts[entry.name, entry.state] += 1
        if entry.key is not None:
            self.keys[entry.name, entry.key] = entry.uuid

    def remove(self, row: Row) -> None:
        self._leave_board(row)
        del self.rows[row.entry.uuid]
        self.listing.remove(row.place)
        self.counts[row.entry.name, row.entry.state] -= 1

    def enter(self, row: Row, state: JobState, due: float | None = None) -> None:
        """Change the state, and whatever follows from it."""
        entry = row.entry
        self.counts[entry.name, entry.state] -= 1
        self.counts[entry.name, state] += 1
        entry.state = state
        if state is not JobState.CLAIMED:
            entry.claim_id = entry.expires_at = None
            if state is not JobState.COMPLETE:
                entry.owner = None
        if state not in LIVE:
            self._leave_board(row)
        if state is JobState.UNCLAIMED:
            self.ready.add(entry.name, row.place, entry.uuid)
            self.wake()
        self.set_due(row, due)

    def set_due(self, row: Row, due: float | None) -> None:
        row.due = due
        if due is None:
            return
        soonest = self.due.next()
        self.due.add(due, row.entry.uuid)
        if soonest is None or due < soonest:
            self.wake()

    def place_again(self, row: Row, priority: int) -> None:
        """Move a job to its place under another priority."""
        self.listing.remove(row.place)
        row.entry.priority = priority
        self.listing.add(row.place, row.entry.uuid)

    def complete(self, row: Row, retain_until: float) -> None:
        """Take a job off the board, and remember it for a while."""
        row.retain_until = retain_until
        self.enter(row, JobState.COMPLETE)
        heapq.heappush(self.over, (retain_until + RETRY_WINDOW, row.entry.uuid))

    def put_aside(self, row: Row, now: float, who: str | None, reason: str | None, error: str | None) -> None:
        entry = row.entry
        entry.reason, entry.last_error = reason, error or reason or entry.last_error
        self.enter(row, JobState.TRASHED)
        self.tell(row, EventKind.TRASHED, now, who, reason)

    def put_back(self, row: Row, now: float, due: float | None) -> None:
        """Let a job be claimable from ``due`` on; now if that is None or over."""
        if due is not None and due > now:
            row.entry.run_at = due
            self.enter(row, JobState.DELAYED, due)
        else:
            self.enter(row, JobState.UNCLAIMED)

    def take_back(self, row: Row, now: float, kind: EventKind, reason: str) -> None:
        """End a claim without its owner: onto the board, into the trash, or off the board."""
        entry = row.entry
        self.tell(row, kind, now, entry.owner, reason)
        entry.reason = reason
        if self.is_cancelled(row, now):
            return
        if kind is EventKind.EXPIRED and self.is_used_up(row):
            self.put_aside(row, now, None, used_up(entry, reason), None)
        else:
            self.put_back(row, now, None)

    def is_cancelled(self, row: Row, now: float) -> bool:
        """Take the job off the board if that was asked for."""
        if not row.entry.cancel_asked:
            return False
        self.complete(row, now)
        row.entry.owner = None
        self.tell(row, EventKind.CANCELLED, now)
        return True

    def is_used_up(self, row: Row) -> bool:
        return row.entry.max_attempts is not None and row.entry.attempts >= row.entry.max_attempts

    def settle(self, now: float) -> None:
        """Take back what expired, and let go what has become due."""
        while (uuid := self.due.take(now)) is not None:
            row = self.rows[uuid]
            if row.entry.state is JobState.DELAYED:
                self.enter(row, JobState.UNCLAIMED)
                self.tell(row, EventKind.DUE, now)
            else:
                self.take_back(row, now, EventKind.EXPIRED, f"the claim of {row.entry.owner!r} expired")

    def visible(self, uuid: str, now: float) -> Row | None:
        """Return a row that readers may see."""
        row = self.rows.get(uuid)
        if row is None or (row.retain_until is not None and row.retain_until <= now):
            return None
        return row

    def claimable_names(self, names: frozenset[str] | None) -> list[str]:
        """Return the names that may be claimed from, without looking at any job."""
        if None in self.paused:
            return []
        wanted = self.ready.names() if names is None else names
        return [name for name in wanted if name not in self.paused]

    def _leave_board(self, row: Row) -> None:
        entry = row.entry
        if entry.key is not None and self.keys.get((entry.name, entry.key)) == entry.uuid:
            del self.keys[entry.name, entry.key]

    def _is_ready(self, place: Place, uuid: str) -> bool:
        row = self.rows.get(uuid)
        return row is not None and row.entry.state is JobState.UNCLAIMED and row.place == place

    def _is_due(self, due: float, uuid: str) -> bool:
        row = self.rows.get(uuid)
        return row is not None and row.due == due


def used_up(entry: Entry, reason: str | None) -> str:
    """Say why a job goes to the trash by itself."""
    said = f"all {entry.max_attempts} attempts are used up"
    return f"{said}; the last: {reason}" if reason else said
