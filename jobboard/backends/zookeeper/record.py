"""What stands in a job's znode, and what the znode's stat adds to it."""

from __future__ import annotations

import logging
import zlib
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

from jobboard.backends.rows import JobRow, NewJob
from jobboard.backends.text import shortened
from jobboard.backends.zookeeper.checks import BYTES, COUNT, MOMENT, TEXT, check_ids, check_moments, check_types
from jobboard.backends.zookeeper.requests import Stat
from jobboard.backends.zookeeper.wire import pack, unpack
from jobboard.events import HISTORY_LENGTH, EventKind, HistoryEntry
from jobboard.states import LIVE, JobState
from jobboard.validation import moment

logger = logging.getLogger("jobboard.zookeeper")

_all_fields = attrgetter(*(field.name for field in fields(JobRow)))

_STATES = {state.value: state for state in JobState}
_KINDS = {kind.value: kind for kind in EventKind}

#: Stands for the number of the very transaction that writes it, or for its moment; only the stat tells them.
THIS = -1

#: A posting's place in its batch takes so many bits; those above are the transaction that posted it.
_PLACE_BITS = 10
#: The format of a job's record; a client that reads less than it finds leaves the job alone.
_ALIAS, _JOB = "alias", 1

#: The longest that stands in the job's own znode; what is longer gets one for itself.
LONGEST_INLINE = 1024
#: The fields that can be long.
LONG_FIELDS = ("body", "checkpoint", "progress", "result", "last_error")

#: The longest reason that a record keeps, the longest in a line of the history, and the longest error; in bytes.
#: Reasons come from error messages, which can be of any length, and a job must stay small enough to be written.
LONGEST_REASON, LONGEST_NOTE, LONGEST_ERROR = 4_000, 500, 400_000

#: A line of the history: kind, who, when (milliseconds), token, reason.
Note = tuple[EventKind, str | None, int, int | None, str | None]


class Record(JobRow):
    """An entry, and all else that its znode knows; callers get copies.

    ``version`` and ``zxid`` are the znode's when it was read. ``presence`` is the client under which it is claimed.
    ``until`` is the moment from which a COMPLETE job is hidden. ``aliases`` are the uuids of the postings that replaced
    its content; ``forgotten_aliases`` are those that the next write deletes. ``blobs`` names the znodes of fields
    that are long, ``orphans`` those that the next write leaves, ``fresh`` those that it makes, with what is in them, or
    None if they were written ahead. ``told`` is what the next write tells as events.
    ``deletions`` is how many times jobs had been deleted when it was read, at least: a job that is deleted and posted
    again under the same uuid begins with the same versions, so that a version alone is no fence.
    """

    __slots__ = (
        "aliases", "blobs", "deletions", "forgotten_aliases", "fresh", "index", "notes", "orphans", "presence", "told",
        "until", "version", "zxid",
    )  # fmt: skip

    version: int
    zxid: int
    index: int
    presence: str | None
    until: float | None
    notes: list[Note]
    aliases: list[str]
    forgotten_aliases: list[str]
    blobs: dict[str, str]
    orphans: list[str]
    fresh: list[tuple[str, bytes | None]]
    told: list[Note]
    deletions: int

    def copy(self) -> JobRow:
        """Return what callers may have."""
        return JobRow(*_all_fields(self))

    @property
    def is_live(self) -> bool:
        return self.state in LIVE

    def note(self, kind: EventKind, who: str | None, token: int | None, reason: str | None) -> None:
        """Add a line to the history, and tell of it."""
        line = (kind, who, THIS, token, shortened(reason, LONGEST_NOTE))
        self.notes.append(line)
        if len(self.notes) > HISTORY_LENGTH:
            del self.notes[0]
        self.told.append(line)

    def tell(self, kind: EventKind) -> None:
        """Tell of what is not written into the history."""
        self.told.append((kind, self.owner, THIS, self.token, None))

    def lines(self) -> list[HistoryEntry]:
        return [HistoryEntry(kind, who, moment(at / 1000), token, why) for kind, who, at, token, why in self.notes]

    def has_note(self, kinds: tuple[EventKind, ...], token: int | None = None, who: str | None = None) -> bool:
        """Whether the history knows of such a change: under this token, if given, and by this owner, if given."""
        return any(
            kind in kinds and token in (None, its_token) and who in (None, its_who)
            for kind, its_who, _, its_token, _ in self.notes
        )

    def explain(self, reason: str | None) -> None:
        """Say why the job is where it is."""
        self.reason = shortened(reason, LONGEST_REASON)

    def put(self, field: str, value: Any) -> None:
        """Replace a field that can be long."""
        setattr(self, field, shortened(value, LONGEST_ERROR) if field == "last_error" else value)
        blob = self.blobs.pop(field, None)
        if blob is not None:
            self.orphans.append(blob)

    def written(self, stat: Stat, *, is_new: bool = False) -> None:
        """Learn what the write that has just succeeded made of it."""
        if is_new:
            self.sequence = sequence_of(stat.mzxid, self.index)
            self.created_on = stat.mtime / 1000
        self.version, self.zxid, self.last_modified = stat.version, stat.mzxid, stat.mtime / 1000
        self.token = stat.mzxid if self.token == THIS else self.token
        self.notes = [
            (kind, who, stat.mtime if at == THIS else at, stat.mzxid if token == THIS else token, reason)
            for kind, who, at, token, reason in self.notes
        ]
        self.told, self.orphans, self.fresh, self.forgotten_aliases = [], [], [], []


def size_of(record: Record) -> int:
    """Return about how many bytes a record and its line of the log take in a transaction."""
    longs = (getattr(record, field) for field in LONG_FIELDS if field not in record.blobs)
    texts = (record.reason, *(note[4] for note in record.notes))
    return 800 + sum(len(value) for value in longs if value) + 2 * sum(len(text) for text in texts if text)


def sequence_of(zxid: int, index: int) -> int:
    """Return the sequence of a posting: the transaction that posted it, then its place in the batch."""
    return zxid << _PLACE_BITS | index


def draft(new: NewJob, index: int) -> Record:
    """Return the record that a posting becomes."""
    record = Record(new.uuid, new.name, new.priority, 0, 0.0, new.body, new.key)
    record.version, record.zxid, record.index = 0, 0, index
    record.presence = record.until = None
    record.notes, record.aliases, record.blobs, record.orphans, record.told = [], [], {}, [], []
    record.fresh, record.forgotten_aliases = [], []
    return record


def encode(record: Record) -> bytes:
    values = [getattr(record, field) if field not in record.blobs else record.blobs[field] for field in LONG_FIELDS]
    flags = [field in record.blobs for field in LONG_FIELDS]
    return pack(
        [
            _JOB, record.name, record.priority, record.index, record.key, record.run_at, record.max_attempts,
            record.state.value, record.attempts, record.owner, record.token, record.claim_id,
            record.expires_at, record.reason, record.cancel_asked, record.presence, record.until,
            [(kind.value, who, at, token, why) for kind, who, at, token, why in record.notes],
            record.aliases, flags if any(flags) else None, values,
        ]
    )  # fmt: skip


def encode_alias(uuid: str) -> bytes:
    """Return what stands under the uuid of a posting that replaced the content of a job."""
    return pack([_ALIAS, uuid])


@dataclass(frozen=True)
class Newer:
    """A record of a newer format, which is for those who can read it."""

    format: int


def decode(uuid: str, data: bytes, stat: Stat) -> Record | Newer | str:
    """Return a job's record, or the uuid that an alias leads to, or that it is of a newer format.

    What can't be decoded is a job without a name, whose posting is the raw bytes: whoever claims or lists it finds that
    it can't be read, and moves it to the trash.
    """
    try:
        parts = unpack(data)
        if parts[0] == _ALIAS:
            check_ids(parts[1:2])
            return str(parts[1])
        if type(parts[0]) is int and parts[0] > _JOB:
            _say_once(parts[0])
            return Newer(parts[0])
        return _decoded(uuid, parts, stat)
    except (ValueError, TypeError, IndexError, KeyError, AttributeError):
        return _unreadable(uuid, data, stat)


_said: set[int] = set()


def _say_once(format: int) -> None:
    if format not in _said:
        _said.add(format)
        logger.warning(
            "jobs of format %s are left to newer clients, since this one reads format %s: upgrade it", format, _JOB
        )


_FIELDS: list[tuple[type, ...]] = [
    COUNT, (str,), COUNT, COUNT, TEXT, MOMENT, (int, type(None)),
    (str,), COUNT, TEXT, COUNT, TEXT,
    MOMENT, TEXT, (bool,), TEXT, MOMENT,
    (list,), (list,), (list, type(None)), (list,),
]  # fmt: skip
_NOTE: list[tuple[type, ...]] = [(str,), TEXT, COUNT, (int, type(None)), TEXT]
#: Those of the fields that can be long, in their order; the name of its blob instead.
_LONG: list[tuple[type, ...]] = [(bytes,), BYTES, BYTES, BYTES, TEXT]


def _decoded(uuid: str, parts: list[Any], stat: Stat) -> Record:
    check_types(parts, _FIELDS)
    (
        format, name, priority, index, key, run_at, max_attempts, state, attempts, owner, token, claim_id, expires_at,
        reason, cancel_asked, presence, until, notes, aliases, flags, values,
    ) = parts  # fmt: skip
    flags = flags or [False] * len(LONG_FIELDS)
    check_types(values, [(str,) if flag else types for flag, types in zip(flags, _LONG, strict=True)])
    check_moments(run_at, expires_at, until)
    check_ids(aliases)
    for note in notes:
        check_types(note, _NOTE)
    if format != _JOB or not 0 <= index < 1 << _PLACE_BITS:
        raise ValueError("not a job")
    body, checkpoint, progress, result, last_error = values
    record = Record(
        uuid, name, priority, stat.czxid << _PLACE_BITS | index, stat.ctime / 1000, body, key, run_at, max_attempts,
        _STATES[state], attempts, owner, stat.mzxid if token == THIS else token, claim_id, expires_at,
        stat.mtime / 1000, last_error, reason, checkpoint, progress, result, cancel_asked,
    )  # fmt: skip
    record.version, record.zxid, record.index = stat.version, stat.mzxid, index
    record.presence, record.until, record.aliases = presence, until, aliases
    record.notes = [
        (_KINDS[kind], who, stat.mtime if at == THIS else at, stat.mzxid if its_token == THIS else its_token, why)
        for kind, who, at, its_token, why in notes
    ]
    record.orphans, record.fresh, record.told, record.blobs, record.forgotten_aliases = [], [], [], {}, []
    for field, flag, value in zip(LONG_FIELDS, flags, values, strict=True):
        if flag:
            check_ids([value])
            record.blobs[field] = value
            setattr(record, field, b"" if field == "body" else None)
    return record


def _unreadable(uuid: str, data: bytes, stat: Stat) -> Record:
    # Its place in its batch can't be known; two of one batch must not have the same place.
    record = draft(NewJob(uuid, "?", -1 - zlib.crc32(uuid.encode()), data), 0)
    record.written(stat)
    record.sequence, record.created_on = sequence_of(stat.czxid, 0), stat.ctime / 1000
    return record
