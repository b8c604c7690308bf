"""What is stored of a job: its record, and beside it the claim of whoever holds it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any

from jobboard.backends.base import RETRY_WINDOW
from jobboard.backends.etcd.keys import order_of
from jobboard.backends.etcd.values import (
    BYTES,
    BYTES_OR_NONE,
    FLAG,
    LIST,
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
)
from jobboard.backends.rows import JobRow, NewJob
from jobboard.backends.text import shortened
from jobboard.events import HISTORY_LENGTH, EventKind, HistoryEntry
from jobboard.states import LIVE, JobState
from jobboard.validation import moment

#: A line of the history as it is kept: kind, who, when, token, reason.
Note = tuple[str, str | None, float, int | None, str | None]

_entry_of = attrgetter(*(field.name for field in fields(JobRow)))

#: What is stored of a record, in this order.
_STORED = (
    "uuid", "name", "priority", "sequence", "created_on", "key", "run_at", "max_attempts", "attempts", "owner", "token",
    "last_modified", "last_error", "reason", "cancel_asked", "hidden_from", "forgotten_from",
)  # fmt: skip
_STORED_KINDS = (
    TEXT, TEXT, WHOLE, WHOLE, NUMBER, TEXT_OR_NONE, NUMBER_OR_NONE, WHOLE_OR_NONE, WHOLE, TEXT_OR_NONE, WHOLE,
    NUMBER, TEXT_OR_NONE, TEXT_OR_NONE, FLAG, NUMBER_OR_NONE, NUMBER_OR_NONE,
)  # fmt: skip
_BYTES = ("body", "checkpoint", "progress", "result")
_BYTES_KINDS = (BYTES, BYTES_OR_NONE, BYTES_OR_NONE, BYTES_OR_NONE)
_NOTE_KINDS = (TEXT, TEXT_OR_NONE, NUMBER, WHOLE_OR_NONE, TEXT_OR_NONE)
_scalars, _bytes = attrgetter(*_STORED), attrgetter(*_BYTES)

_FORMAT = 1

#: The format of the posting of a record that can't be read: one that no version of this code reads.
_NEWER = 127

_KNOWN_KINDS = frozenset(kind.value for kind in EventKind)

#: Bytes of texts that come from error messages, which can be of any length: a reason, one in the history, an error.
LONGEST_REASON, LONGEST_NOTE, LONGEST_ERROR = 4_000, 500, 400_000

#: Bytes of a record; the server takes 1.5 MiB in one request, and with it must go what stands beside the record.
_MOST_BYTES = 1_300_000


@dataclass(slots=True)
class Grant:
    """A claim of a job of this name as it is stored, without its token: that is the revision in which it was made."""

    name: str
    who: str
    claim_id: str
    at: float
    expires_at: float | None
    lease: int
    progress: bytes | None = None
    cancel_asked: bool = False
    modified: float = 0.0
    notes: tuple[Note, ...] = ()

    #: What a later version has appended, kept as it is.
    more: tuple[Any, ...] = ()

    def packed(self) -> bytes:
        return pack([*_grant_fields(self), *self.more])

    @classmethod
    def of(cls, data: bytes) -> Grant:
        """Read a stored claim; raises ``ValueError`` if it is none."""
        items, more = items_of(data, _GRANT_KINDS)
        grant = cls(*items)
        grant.more = tuple(more)
        grant.notes = _notes_of(grant.notes)
        return grant


_GRANT_KINDS = (TEXT, TEXT, TEXT, NUMBER, NUMBER_OR_NONE, WHOLE, BYTES_OR_NONE, FLAG, NUMBER, LIST)
_grant_fields = attrgetter(*(field.name for field in fields(Grant) if field.name != "more"))


@dataclass(slots=True)
class Row(JobRow):
    """A job's record, in which a claim leaves no trace until it ends; ``grant`` is the claim, ``granted`` its token.

    ``state`` is what the record says, so a claimed job's is UNCLAIMED. ``hidden_from`` and ``forgotten_from`` are the
    moments at which a completed record is shown no more, and goes. ``aliases`` are the uuids of the postings that
    replaced its content. ``is_wreck``: the record can't be read, and ``body`` is all of its bytes. ``newer``: all bytes
    of a record that only later versions can read, which stays as it is.
    """

    hidden_from: float | None = None
    forgotten_from: float | None = None
    notes: tuple[Note, ...] = ()
    aliases: tuple[str, ...] = ()
    grant: Grant | None = None
    granted: int = 0
    is_wreck: bool = False
    newer: bytes | None = None

    @property
    def order(self) -> bytes:
        return order_of(self.priority, self.sequence)

    @property
    def is_live(self) -> bool:
        return self.state in LIVE

    @property
    def due(self) -> float | None:
        """The moment at which somebody must look at it."""
        if self.grant is not None:
            return self.grant.expires_at
        return self.run_at if self.state is JobState.DELAYED else None

    def copy(self) -> Row:
        return replace(self)

    def view(self) -> JobRow:
        """Return what callers may have: the record and the claim in one, without the history."""
        row = JobRow(*_entry_of(self))
        grant = self.grant
        if grant is not None:
            row.state, row.attempts = JobState.CLAIMED, self.attempts + 1
            row.owner, row.token, row.claim_id = grant.who, self.granted, grant.claim_id
            row.expires_at, row.progress, row.cancel_asked = grant.expires_at, grant.progress, grant.cancel_asked
            row.last_modified = max(self.last_modified, grant.at, grant.modified)
        return row

    def told(self) -> list[HistoryEntry]:
        """Return the lines of the history, oldest first."""
        told = folded(self).notes if self.grant is not None else self.notes
        return [
            HistoryEntry(EventKind(kind), who, moment(at), token, reason)
            for kind, who, at, token, reason in told
            if kind in _KNOWN_KINDS
        ]

    def note(self, kind: EventKind, who: str | None, at: float, token: int | None, reason: str | None = None) -> None:
        """Add a line to the history."""
        self.last_modified = at
        self.notes = (*self.notes, (kind.value, who, at, token, shortened(reason, LONGEST_NOTE)))[-HISTORY_LENGTH:]

    def has_note(self, kinds: tuple[EventKind, ...], token: int | None = None, who: str | None = None) -> bool:
        """Whether the history knows of such a change: under this token, if given, and by this owner, if given."""
        wanted = {kind.value for kind in kinds}
        return any(
            kind in wanted and token in (None, its_token) and who in (None, its_who)
            for kind, its_who, _, its_token, _ in self.notes
        )

    def packed(self) -> bytes:
        """Return the record as it is stored, without the claim.

        One that would be too large to be written, so that its job could never end, leaves out what is worth least.
        """
        if self.newer is not None:
            return self.newer
        self.reason, self.last_error = shortened(self.reason, LONGEST_REASON), shortened(self.last_error, LONGEST_ERROR)
        data = self._packed()
        if len(data) > _MOST_BYTES:
            self.progress = None
            self.last_error = shortened(self.last_error, LONGEST_REASON)
            data = self._packed()
        if len(data) > _MOST_BYTES and self.state is JobState.COMPLETE:
            self.checkpoint = None
            data = self._packed()
        return data

    def _packed(self) -> bytes:
        return pack([_FORMAT, self.state.value, _scalars(self), _bytes(self), self.notes, self.aliases])

    # -- moves -----------------------------------------------------------------------------------------------------

    def put_back(self, run_at: float | None, now: float) -> None:
        """Let it be claimable again, now or later."""
        self.run_at = self.run_at if run_at is None else run_at
        self.state = state_at(self, now)

    def complete(self, now: float, retention: float) -> None:
        """Let it be done for good; shown for its retention, and remembered a while longer."""
        self.state = JobState.COMPLETE
        self.hidden_from = now + retention if retention > 0 else 0.0
        self.forgotten_from = now + retention + RETRY_WINDOW

    def take_off(self, now: float, who: str | None, token: int | None, reason: str | None = None) -> None:
        """Take a cancelled job off the board for good, and remember it for a while."""
        self.cancel_asked, self.owner = True, None
        self.complete(now, 0.0)
        self.note(EventKind.CANCELLED, who, now, token, reason)

    def discard(self, now: float, who: str | None, token: int | None, reason: str | None) -> None:
        """Set it aside in the trash."""
        self.state, self.owner = JobState.TRASHED, None
        self.note(EventKind.TRASHED, who, now, token, reason)


def row_of(data: bytes) -> Row:
    """Read a record.

    :raises NewerFormat: only later versions can read it.
    :raises ValueError: it is none.
    """
    state, scalars, blobs, notes, aliases = items_of_format(data, "a record", _FORMAT, (TEXT, LIST, LIST, LIST, LIST))
    check_kinds(scalars, _STORED_KINDS)
    check_kinds(blobs, _BYTES_KINDS)
    check_kinds(aliases, (TEXT,) * len(aliases))
    given = dict(zip(_STORED, scalars, strict=True)) | dict(zip(_BYTES, blobs, strict=True))
    return Row(**given, state=JobState(state), notes=_notes_of(notes), aliases=tuple(aliases))


def newer_row(hint: Hint, priority: int, sequence: int, data: bytes) -> Row:
    """Return what stands for a job whose record only later versions can read; its posting says so to those above."""
    row = Row(hint.uuid, hint.name, priority, sequence, hint.created_on, pack([_NEWER]))
    row.newer = data
    return row


def folded(row: Row) -> Row:
    """Return a claimed row as it is the moment its claim ends: the attempt and the claim stand in its record."""
    new = row.copy()
    grant = new.grant
    if grant is not None:
        new.grant, new.granted = None, 0
        new.attempts, new.token, new.progress = row.attempts + 1, row.granted, grant.progress
        new.cancel_asked = grant.cancel_asked
        new.notes = (*row.notes, (EventKind.CLAIMED.value, grant.who, grant.at, row.granted, None), *grant.notes)
        new.notes = new.notes[-HISTORY_LENGTH:]
    return new


def draft(new: NewJob, now: float, latest: float) -> Row:
    """Return the row that a posting becomes; it has no sequence yet."""
    row = Row(new.uuid, new.name, new.priority, 0, now, new.body, new.key)
    fill(row, new, now, latest)
    return row


def fill(row: Row, new: NewJob, now: float, latest: float) -> None:
    """Take over the content of a posting; its delay counts from the latest moment that it may be."""
    row.priority, row.body, row.max_attempts = new.priority, new.body, new.max_attempts
    row.run_at = latest + new.delay if new.delay else new.run_at
    row.state = state_at(row, now)


def state_at(row: Row, now: float) -> JobState:
    """Return where a row belongs that nobody holds: delayed until its moment has come."""
    return JobState.UNCLAIMED if row.run_at is None or row.run_at <= now else JobState.DELAYED


@dataclass(frozen=True, slots=True)
class Hint:
    """What an index says of a job: enough to claim it, and to name it if its record can't be read."""

    uuid: str
    name: str
    created_on: float

    def packed(self) -> bytes:
        return pack((self.uuid, self.name, self.created_on))

    @classmethod
    def of(cls, data: bytes) -> Hint | None:
        """Read a stored hint; None if it is none."""
        try:
            return cls(*items_of(data, (TEXT, TEXT, NUMBER))[0])
        except ValueError:
            return None


def hint_of(row: Row) -> Hint:
    return Hint(row.uuid, row.name, row.created_on)


def _notes_of(parts: Iterable[Any]) -> tuple[Note, ...]:
    notes = []
    for part in parts:
        check_kinds((part,), (LIST,))
        check_kinds(part, _NOTE_KINDS)
        notes.append(tuple(part))
    return tuple(notes)
