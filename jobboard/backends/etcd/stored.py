"""The stored form of a job: its record, and the claim of its owner, which has a key of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any

from jobboard.backends import lifecycle
from jobboard.backends.base import RETRY_WINDOW
from jobboard.backends.etcd.keys import order_of, parts_of_order
from jobboard.backends.etcd.txn import Compare, KeyValue
from jobboard.backends.kv.codec import (
    BYTES,
    BYTES_OR_NONE,
    FLAG,
    LIST,
    MAP,
    MAX_ERROR,
    MAX_HISTORY_REASON,
    MAX_REASON,
    NUMBER,
    NUMBER_OR_NONE,
    TEXT,
    TEXT_OR_NONE,
    WHOLE,
    WHOLE_OR_NONE,
    check_kinds,
    items_of,
    items_of_format,
    pack,
    pack_ties,
    ties_of,
)
from jobboard.backends.rows import JobRow
from jobboard.backends.transition import Note, Transition, is_among
from jobboard.events import HISTORY_LENGTH, EventKind, HistoryEntry
from jobboard.states import LIVE, JobState
from jobboard.text import shortened
from jobboard.validation import moment

#: A line of the history as it is kept: kind, who, when, token, reason.
HistoryLine = tuple[str, str | None, float, int | None, str | None]

_LINE_KINDS = (TEXT, TEXT_OR_NONE, NUMBER, WHOLE_OR_NONE, TEXT_OR_NONE)

#: The fields of a stored record in their order, and the kind of each; first the small ones.
_SCALARS = {
    "uuid": TEXT,
    "name": TEXT,
    "priority": WHOLE,
    "sequence": WHOLE,
    "created_on": NUMBER,
    "key": TEXT_OR_NONE,
    "run_at": NUMBER_OR_NONE,
    "max_attempts": WHOLE_OR_NONE,
    "attempts": WHOLE,
    "owner": TEXT_OR_NONE,
    "token": WHOLE,
    "last_modified": NUMBER,
    "last_error": TEXT_OR_NONE,
    "reason": TEXT_OR_NONE,
    "cancel_asked": FLAG,
    "hidden_from": NUMBER_OR_NONE,
    "forgotten_from": NUMBER_OR_NONE,
    "place": NUMBER,
}
_BLOBS = {"body": BYTES, "checkpoint": BYTES_OR_NONE, "progress": BYTES_OR_NONE, "result": BYTES_OR_NONE}

_row_fields = attrgetter(*(field.name for field in fields(JobRow)))
_scalars, _blobs = attrgetter(*_SCALARS), attrgetter(*_BLOBS)

#: Records of format 1 are those of jobs without a lane, from before there were any.
_FORMAT = 2
_EARLIER_FORMATS = (1,)

#: What stands beside the ties of a job that keeps its key after its end.
_KEY_UNTIL = "key_until"

#: The format in the body of a job whose record only later versions can read: no version of this code has it.
_NEWER = 127

_KNOWN_KINDS = frozenset(kind.value for kind in EventKind)

#: Bytes of a record at most: a request may have 1.5 MiB, and holds the other keys of the job, too.
_MAX_BYTES = 1_300_000


@dataclass(slots=True)
class StoredClaim:
    """A stored claim of a job of this name; its token is not in it, but is the revision in which its key was made.

    ``is_counted``: the name has a limit, so the claim has a key more, by which it is counted.
    """

    name: str
    who: str
    claim_id: str
    at: float
    expires_at: float | None
    lease: int
    progress: bytes | None = None
    cancel_asked: bool = False
    modified: float = 0.0
    notes: tuple[HistoryLine, ...] = ()
    is_counted: bool = False

    #: What a later version has appended, kept as it is.
    more: tuple[Any, ...] = ()

    def packed(self) -> bytes:
        rest = [self.is_counted, *self.more] if self.is_counted or self.more else []
        return pack([*_claim_fields(self), *rest])

    @classmethod
    def of(cls, data: bytes) -> StoredClaim:
        """Read a stored claim; raises ``ValueError`` if it is none."""
        items, more = items_of(data, _CLAIM_KINDS)
        claim = cls(*items)
        check_kinds(more[:1], (FLAG,) * len(more[:1]))
        claim.is_counted, claim.more = more[:1] == [True], tuple(more[1:])
        claim.notes = _notes_of(claim.notes)
        return claim


def readable_claim(data: bytes) -> StoredClaim | None:
    """Read a stored claim; None if it is none."""
    try:
        return StoredClaim.of(data)
    except ValueError:
        return None


def is_of_job(kv: KeyValue, sequence: int) -> bool:
    """Whether a step or a signal is not that of an earlier job of its uuid; earlier versions did not say of which."""
    try:
        _, items = items_of(kv.value, ())
    except ValueError:
        return True
    return len(items) < 4 or type(items[3]) is not int or items[3] == sequence


def claims_in(kvs: Iterable[KeyValue]) -> Iterator[tuple[bytes, StoredClaim]]:
    """Iterate over the orders of claimed jobs and their claims, without those that can't be read."""
    for kv in kvs:
        claim = readable_claim(kv.value)
        if claim is not None:
            yield kv.last_part, claim


_CLAIM_KINDS = (TEXT, TEXT, TEXT, NUMBER, NUMBER_OR_NONE, WHOLE, BYTES_OR_NONE, FLAG, NUMBER, LIST)
_claim_fields = attrgetter(*(field.name for field in fields(StoredClaim) if field.name not in ("is_counted", "more")))


@dataclass(slots=True)
class StoredJob(JobRow):
    """A job's record and its claim; of the record, only the ties and the checkpoint change before the claim ends.

    ``claim_token`` is the token of ``claim``. ``hidden_from`` and ``forgotten_from`` are the moments at which a
    completed record is shown no more, and goes. The second one is for those who look at the store: the lease of the
    record deletes it, and every version expects its place in the record. ``aliases`` are the uuids of the postings that
    replaced its content. ``is_unreadable``: the record can't be read, and ``body`` is all of its bytes. ``newer``: all
    bytes of a record that only later versions can read, which stays as it is.
    """

    hidden_from: float | None = None
    forgotten_from: float | None = None
    notes: tuple[HistoryLine, ...] = ()
    aliases: tuple[str, ...] = ()
    claim: StoredClaim | None = None
    claim_token: int = 0
    is_unreadable: bool = False
    newer: bytes | None = None
    #: The moment until which it keeps its key, also when it has ended.
    key_until: float | None = None
    #: The lease of its claim, in a job as callers see it.
    lease: int = 0
    #: Further comparisons that must hold when this is written.
    conditions: tuple[Compare, ...] = ()

    @property
    def order(self) -> bytes:
        return order_of(self.priority, self.place, self.sequence)

    @property
    def is_live(self) -> bool:
        return self.state in LIVE

    @property
    def may_have_edges(self) -> bool:
        """Whether it may have edges to parents: of one that keeps its key, ties that say nothing more read as none."""
        return self.ties is not None or self.key_until is not None

    @property
    def due(self) -> float | None:
        """The moment at which time changes it: its claim or its delay ends, or it should have begun."""
        return lifecycle.due_at(self) if self.claim is None else self.claim.expires_at

    def keeps_key_for(self, now: float) -> float:
        """Return for how many seconds from now its key is taken even if it has ended; a cancelled one gives it back."""
        is_cancelled = self.state is JobState.COMPLETE and self.cancel_asked and self.owner is None
        return 0.0 if self.key_until is None or is_cancelled else max(0.0, self.key_until - now)

    def seen(self) -> StoredJob:
        """Return a copy as callers and the lifecycle see it: with the values of the claim."""
        row, claim = replace(self, conditions=()), self.claim
        if claim is not None:
            row.claim, row.claim_token = None, 0
            row.state, row.attempts = JobState.CLAIMED, self.attempts + 1
            row.owner, row.token, row.claim_id = claim.who, self.claim_token, claim.claim_id
            row.expires_at, row.progress, row.cancel_asked = claim.expires_at, claim.progress, claim.cancel_asked
            row.last_modified, row.lease = max(self.last_modified, claim.at, claim.modified), claim.lease
        return row

    def view(self) -> JobRow:
        """Return the row for callers of the backend."""
        return JobRow(*_row_fields(self if self.claim is None else self.seen()))

    def lines(self) -> tuple[HistoryLine, ...]:
        """Return the lines of the history, oldest first: those of the record, then those of the claim."""
        claim = self.claim
        if claim is None:
            return self.notes
        claimed = (EventKind.CLAIMED.value, claim.who, claim.at, self.claim_token, None)
        return (*self.notes, claimed, *claim.notes)[-HISTORY_LENGTH:]

    def history_entries(self) -> list[HistoryEntry]:
        return [
            HistoryEntry(EventKind(kind), who, moment(at), token, reason)
            for kind, who, at, token, reason in self.lines()
            if kind in _KNOWN_KINDS
        ]

    def has_note(self, kinds: tuple[EventKind, ...], token: int | None = None, who: str | None = None) -> bool:
        return is_among(self.notes, kinds, token, who)

    def add_history(self, notes: Iterable[Note]) -> None:
        self.notes = (*self.notes, *map(_line_of, notes))[-HISTORY_LENGTH:]

    def after(self, row: StoredJob, change: Transition[Any], retention: float) -> StoredJob:
        """Return what to store of this job when a transition has changed the copy that callers see to ``row``.

        :param retention: for how many seconds it is shown, if it is complete.
        """
        if row.state is JobState.CLAIMED and self.claim is not None:
            new = replace(self, conditions=row.conditions, ties=row.ties)
            if row.checkpoint is not self.checkpoint:
                new.checkpoint, new.last_modified = row.checkpoint, row.last_modified
            new.claim = replace(
                self.claim,
                lease=row.lease,
                expires_at=row.expires_at,
                progress=row.progress,
                cancel_asked=row.cancel_asked,
                modified=row.last_modified,
                notes=(*self.claim.notes, *map(_line_of, change.history)),
            )
            return new
        row.notes = self.lines()
        row.add_history(change.history)
        row.end(row.last_modified, retention)
        return row

    def end(self, now: float, retention: float) -> None:
        """Note for how long it is shown, if it is complete."""
        if self.state is JobState.COMPLETE:
            self.hidden_from = now + retention if retention > 0 else 0.0
            self.forgotten_from = now + retention + RETRY_WINDOW

    def packed(self) -> bytes:
        """Return the record as it is stored, without the claim.

        Leaves out what matters least if it would be too large to be written, since its job could never end then.
        """
        if self.newer is not None:
            return self.newer
        self.reason, self.last_error = shortened(self.reason, MAX_REASON), shortened(self.last_error, MAX_ERROR)
        data = self._packed()
        if len(data) > _MAX_BYTES:
            self.progress = None
            self.last_error = shortened(self.last_error, MAX_REASON)
            data = self._packed()
        if len(data) > _MAX_BYTES and self.state is JobState.COMPLETE:
            self.checkpoint = None
            data = self._packed()
        return data

    def _packed(self) -> bytes:
        parts = [_FORMAT, self.state.value, _scalars(self), _blobs(self), self.notes, self.aliases]
        tied = {} if self.ties is None else pack_ties(self.ties)
        if self.key_until is not None:
            tied[_KEY_UNTIL] = self.key_until
        return pack(parts if self.ties is None and not tied else [*parts, tied])


def stored_job_of(data: bytes) -> StoredJob:
    """Read a record.

    :raises NewerFormat: only later versions can read it.
    :raises ValueError: it is none.
    """
    state, scalars, blobs, notes, aliases, *ties = items_of_format(
        data, "a record", _FORMAT, (TEXT, LIST, LIST, LIST, LIST), (MAP,), _EARLIER_FORMATS
    )
    if len(scalars) == len(_SCALARS) - 1:
        # Of layout 1: it stands where it was posted.
        scalars = [*scalars, 0.0]
    check_kinds(scalars, _SCALARS.values())
    check_kinds(blobs, _BLOBS.values())
    check_kinds(aliases, (TEXT,) * len(aliases))
    given = dict(zip((*_SCALARS, *_BLOBS), (*scalars, *blobs), strict=True))
    row = StoredJob(**given, state=JobState(state), notes=_notes_of(notes), aliases=tuple(aliases))
    if ties:
        row.key_until = ties[0].pop(_KEY_UNTIL, None)
        check_kinds([row.key_until], [NUMBER_OR_NONE])
        row.ties = None if row.key_until is not None and not ties[0] else ties_of(ties[0])
    return row


def newer_job(hint: Hint, order: bytes, data: bytes) -> StoredJob:
    """Return a row for a job whose record only later versions can read; its body tells callers so."""
    priority, place, sequence = parts_of_order(order)
    row = StoredJob(hint.uuid, hint.name, priority, sequence, hint.created_on, pack([_NEWER]), place=place)
    row.newer = data
    return row


@dataclass(frozen=True, slots=True)
class Hint:
    """What queues and timers store of a job: enough to claim it, and to name it if its record can't be read.

    ``due``: the moment of the timer that a job has which can be claimed.
    """

    uuid: str
    name: str
    created_on: float
    lane: str | None = None
    due: float | None = None

    def packed(self) -> bytes:
        ties = (self.lane, self.due) if self.due is not None else (self.lane,) if self.lane is not None else ()
        return pack((self.uuid, self.name, self.created_on, *ties))

    @classmethod
    def of(cls, data: bytes) -> Hint | None:
        """Read a stored hint; None if it is none."""
        try:
            known, more = items_of(data, (TEXT, TEXT, NUMBER))
        except ValueError:
            return None
        lane, due = (*more, None, None)[:2]
        uuid, name, created_on = known
        return cls(uuid, name, created_on, lane if type(lane) is str else None, due if type(due) in NUMBER else None)


def hint_of(row: StoredJob) -> Hint:
    due = row.due if row.claim is None and row.state is JobState.UNCLAIMED else None
    return Hint(row.uuid, row.name, row.created_on, row.joined_lane, due)


def _line_of(note: Note) -> HistoryLine:
    return note.kind.value, note.who, note.at, note.token, shortened(note.reason, MAX_HISTORY_REASON)


def _notes_of(parts: Iterable[Any]) -> tuple[HistoryLine, ...]:
    notes = []
    for part in parts:
        check_kinds((part,), (LIST,))
        check_kinds(part, _LINE_KINDS)
        notes.append(tuple(part))
    return tuple(notes)
