"""The keys of a board."""

from __future__ import annotations

import enum
import re
from urllib.parse import quote, unquote

from jobboard.backends.etcd.txn import Found
from jobboard.states import JobState

#: The last part of the key of the layout's number. A client makes it when it is opened, so it does not show that the
#: board is used.
LAYOUT = b"layout"

#: No sequence is as large as this: it is a time in microseconds, or a little more.
MAX_SEQUENCE = 10**18

#: What the last part of the timer of a lane, and of a mark, begins with; that of a job is its order.
_LANE, _MARK = b"@", b"="

_REVERSED = bytes.maketrans(b"0123456789", b"9876543210")


class LanePart(enum.Enum):
    """The live jobs of a lane, by what they are to its slots; ``DELAYED`` are those that were never claimed."""

    BLOCKED = b"b/"
    CLAIMABLE = b"u/"
    CLAIMED = b"c/"
    RETRYING = b"r/"
    DELAYED = b"d/"


_is_order = re.compile(rb"\d{22}(\.\d{20})?").fullmatch


def encoded(text: str) -> bytes:
    """Return a text as one part of a key."""
    return quote(text, safe="").encode()


def decoded(part: bytes) -> str:
    """Return the text of a part of a key; replace what is no text."""
    return unquote(part.decode(errors="replace"))


def order_of(priority: int, place: float, sequence: int) -> bytes:
    """Return where a job stands in the queue: the bytes sort as claims go, higher priority first, then due first.

    A sequence is the moment of the post, in microseconds, or a little more; a job that became due later needs both.
    """
    due = round(place * 1_000_000)
    if due <= sequence:
        return b"%02d%020d" % (99 - priority, sequence)
    return b"%02d%020d.%020d" % (99 - priority, due, sequence)


def is_order(part: bytes) -> bool:
    """Whether a part of a key, or what was found in its place, is a job's place in the queue."""
    return _is_order(part) is not None


def parts_of_order(order: bytes) -> tuple[int, float, int]:
    """Return the priority, the moment at which the job became due, and the sequence that are in an order."""
    due, _, sequence = order[2:].partition(b".")
    return 99 - int(order[:2]), int(due) / 1e6, int(sequence or due)


def reversed_order(order: bytes) -> bytes:
    """Return bytes that sort the other way round than orders; of those, the order again."""
    return order.translate(_REVERSED)


def moment_of(seconds: float) -> bytes:
    """Return a moment as a part of a key that sorts by time, to the microsecond."""
    return b"%018d" % min(max(0, round(seconds * 1_000_000)), 10**18 - 1)


def behind(cursor: object | None, start: bytes) -> bytes:
    """Return the first key of the page behind a cursor; ``start`` if there is no cursor."""
    if cursor is None:
        return start
    if not isinstance(cursor, bytes):
        raise TypeError(f"not a cursor of this backend: {cursor!r}")
    return cursor + b"\0"


class Keys:
    """The keys of one board, below ``/PREFIX/BOARD/``; ``order`` is what :func:`order_of` returns."""

    def __init__(self, prefix: str, board: str) -> None:
        self.board = board
        parts = [part for part in prefix.split("/") if part] or ["jobboard"]
        self.home = b"/" + b"/".join(encoded(part) for part in parts) + b"/"
        self.root = self.home + encoded(board) + b"/"
        root = self.root
        self.jobs, self.live = root + b"uuid/", root + b"live/"
        self.done, self.trashed = root + b"done/", root + b"trash/"
        self.ready_jobs, self.queues = root + b"ready/", root + b"line/"
        self.claims, self.timers, self.unique = root + b"claim/", root + b"timer/", root + b"key/"
        self.watched = root + b"watch/"
        self.sessions, self.events = self.watched + b"session/", self.watched + b"event/"
        self.lanes, self.guards = root + b"lane/", root + b"guard/"
        self.limits, self.lane_limits = root + b"limit/", root + b"limits"
        self.sequence = root + b"sequence"
        self.layout = root + LAYOUT
        self.paused, self.paused_board = root + b"paused/", root + b"paused/board"
        self.limited, self.paused_names = self.paused + b"limit/", self.paused + b"name/"
        self.waiting, self.running = self.paused + b"waiting/", root + b"running/"
        self.entities, self.books, self.entries = root + b"entity/", root + b"book/", root + b"entry/"
        self.schedules, self.due = root + b"schedule/", root + b"due/"
        self.edges, self.children, self.marks = root + b"edge/", root + b"child/", root + b"mark/"
        self.steps, self.signals, self.kept = root + b"step/", root + b"signal/", root + b"kept/"

    def kind_of(self, key: bytes) -> str:
        """Return the first part of a key of the board, which says what it is about."""
        return decoded(key[len(self.root) :].partition(b"/")[0])

    # -- a job ---------------------------------------------------------------------------------------------------------

    def job(self, uuid: str) -> bytes:
        """Holds the order of the job that was posted under this uuid."""
        return self.jobs + encoded(uuid)

    def ready(self, order: bytes) -> bytes:
        """Exists while the job can be claimed; the queue of all jobs."""
        return self.ready_jobs + order

    def queue(self, name: str, state: JobState) -> bytes:
        """The queue of all jobs of one name and state: delayed, blocked, unclaimed or trashed."""
        return self.queues + encoded(name) + b"/" + state.value[:1].lower().encode() + b"/"

    def claim(self, order: bytes) -> bytes:
        """The job's owner and lease; the revision that made this key is the token."""
        return self.claims + order

    def until(self, moment: float) -> bytes:
        """Return the key before which all timers of this moment and earlier ones stand."""
        return self.timers + moment_of(moment) + b"0"

    def timer(self, moment: float, order: bytes) -> bytes:
        """A moment at which a delay or a claim ends."""
        return self.timers + moment_of(moment) + b"/" + order

    def key(self, name: str, key: str) -> bytes:
        """Holds the order of the live job that has this key."""
        return self.unique + encoded(name) + b"/" + encoded(key)

    # -- lanes and limits ----------------------------------------------------------------------------------------------

    def lane(self, lane: str) -> bytes:
        """What the keys of a lane's live jobs begin with."""
        return self.lanes + encoded(lane) + b"/"

    def in_lane(self, lane: str, part: LanePart, order: bytes = b"") -> bytes:
        """Where a job stands in its lane; the claimable ones stand there in reverse, since the last is withdrawn first.

        etcd reads a range from its beginning.
        """
        return self.lane(lane) + part.value + (reversed_order(order) if part is LanePart.CLAIMABLE else order)

    def lane_of(self, key: bytes) -> str:
        """Return the lane that a key below ``lanes`` belongs to."""
        return decoded(key[len(self.lanes) :].partition(b"/")[0])

    def guard(self, lane: str) -> bytes:
        """Rewritten by each step that changes which jobs of a limited lane hold its slots, or wait."""
        return self.guards + encoded(lane)

    def look(self, moment: float, lane: str) -> bytes:
        """A moment at which a lane is to be looked at: a timer."""
        return self.timers + moment_of(moment) + b"/" + _LANE + encoded(lane)

    def looked_at(self, timer: bytes) -> str | None:
        """Return the lane that a timer is of; None if it is that of a job."""
        part = timer.rpartition(b"/")[2]
        return decoded(part[len(_LANE) :]) if part.startswith(_LANE) else None

    def limit(self, scope: str, pattern: str) -> bytes:
        """Holds a limit."""
        return self.limits + scope.encode() + b"/" + encoded(pattern)

    def limited_name(self, name: str) -> bytes:
        """What the key that tells claims of the limit of a name begins with; the number ends it."""
        return self.limited + encoded(name) + b"/"

    def running_of(self, name: str) -> bytes:
        """What the keys of the claimed jobs of a limited name begin with."""
        return self.running + encoded(name) + b"/"

    def waits(self, name: str) -> bytes:
        """Exists while jobs of a name are BLOCKED, and perhaps some time longer."""
        return self.waiting + encoded(name)

    # -- parents, steps and signals ------------------------------------------------------------------------------------

    def edges_of(self, child: str) -> bytes:
        """What the keys of the edges of a child begin with; the outcome's letter is the next part."""
        return self.edges + encoded(child) + b"/"

    def edge(self, child: str, letter: bytes, parent: str) -> bytes:
        """Holds what a child may know of a parent."""
        return self.edges_of(child) + letter + b"/" + encoded(parent)

    def children_of(self, parent: str) -> bytes:
        """What the keys of the children of a parent begin with."""
        return self.children + encoded(parent) + b"/"

    def child(self, parent: str, child: str) -> bytes:
        """Holds what the edge of these two says."""
        return self.children_of(parent) + encoded(child)

    def mark(self, parent: str) -> bytes:
        """Holds what the edges of a parent have to say."""
        return self.marks + encoded(parent)

    def due_mark(self, moment: float, parent: str) -> bytes:
        """A moment at which a mark is to be worked off: a timer."""
        return self.timers + moment_of(moment) + b"/" + _MARK + encoded(parent)

    def marked_at(self, timer: bytes) -> str | None:
        """Return the parent whose mark a timer is of; None if it is that of something else."""
        part = timer.rpartition(b"/")[2]
        return decoded(part[len(_MARK) :]) if part.startswith(_MARK) else None

    def steps_of(self, uuid: str) -> bytes:
        """What the keys of a job's steps begin with; its number ends each."""
        return self.steps + encoded(uuid) + b"/"

    def step(self, uuid: str, number: int) -> bytes:
        return self.steps_of(uuid) + b"%010d" % number

    def signals_of(self, uuid: str) -> bytes:
        """What the keys of a job's signals begin with."""
        return self.signals + encoded(uuid) + b"/"

    def signal(self, uuid: str, name: str) -> bytes:
        return self.signals_of(uuid) + encoded(name)

    def kept_of(self, uuid: str) -> bytes:
        """Exists while a job has edges to parents, steps or signals: so they are found when the job is forgotten."""
        return self.kept + encoded(uuid)

    # -- the rest ------------------------------------------------------------------------------------------------------

    def session(self, lease: int) -> bytes:
        """Exists as long as its lease: without it every claim under that lease is over."""
        return self.sessions + b"%x" % lease

    def lease_of(self, session: bytes) -> int | None:
        """Return the lease that a session is of; None for what is no session."""
        try:
            return int(session[len(self.sessions) :], 16)
        except ValueError:
            return None

    def leases_of(self, sessions: Found) -> frozenset[int]:
        """Return the leases under which claims hold."""
        leases = (self.lease_of(kv.key) for kv in sessions.kvs)
        return frozenset(lease for lease in leases if lease is not None)

    def event(self, slot: int) -> bytes:
        """Overwritten by each change; a change of many jobs has a slot for each."""
        return self.events + b"%03d" % slot

    def pause(self, name: str | None) -> bytes:
        return self.paused_board if name is None else self.paused_names + encoded(name)

    def entity(self, kind: str, name: str) -> bytes:
        return self.entities + encoded(kind) + b"/" + encoded(name)

    def book(self, uuid: str) -> bytes:
        return self.books + encoded(uuid)

    def entries_of(self, uuid: str) -> bytes:
        """What the keys of a book's entries begin with."""
        return self.entries + encoded(uuid) + b"/"

    def schedule(self, id: str) -> bytes:
        return self.schedules + encoded(id)

    def due_at(self, moment: float | None, id: str) -> bytes:
        """The queue of schedules, by the moment at which each is due next; those that are never due come last."""
        return self.due + (b"9" * 19 if moment is None else moment_of(moment)) + b"/" + id.encode()

    def due_until(self, moment: float) -> bytes:
        """Return the key before which all schedules stand that are due at this moment."""
        return self.due + moment_of(moment) + b"0"
