"""The keys of a board."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from jobboard.backends.etcd.txn import Found, KeyValue
from jobboard.states import JobState

#: The last part of the key of the layout's number. A client makes it when it is opened, so it does not show that the
#: board is used.
LAYOUT = b"layout"

#: No sequence is as large as this: it is a time in microseconds, or a little more.
MAX_SEQUENCE = 10**18

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
        self.lanes, self.slots = root + b"lane/", root + b"slot/"
        self.sequence = root + b"sequence"
        self.layout = root + LAYOUT
        self.paused, self.paused_board = root + b"paused/", root + b"paused/board"
        self.entities, self.books, self.entries = root + b"entity/", root + b"book/", root + b"entry/"
        self.schedules, self.due = root + b"schedule/", root + b"due/"

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

    def lane(self, lane: str) -> bytes:
        """The queue of the BLOCKED jobs of a lane."""
        return self.lanes + encoded(lane) + b"/"

    def slot(self, lane: str) -> bytes:
        """Holds the uuid of the job of a lane that is unclaimed or claimed; exists while there is one."""
        return self.slots + encoded(lane)

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
        return self.paused_board if name is None else self.paused + b"name/" + encoded(name)

    def paused_names(self, paused: Found) -> frozenset[str | None]:
        """Return the paused names, and None among them if the whole board is paused."""
        return frozenset(map(self.paused_name, paused.kvs))

    def paused_name(self, pause: KeyValue) -> str | None:
        """Return what a key pauses; None: the whole board."""
        return None if pause.key == self.paused_board else decoded(pause.last_part)

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
