"""The record of a job, as its znode holds it: msgpack."""

from __future__ import annotations

import logging
import zlib
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from jobboard.backends.kv.codec import (
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
    Kind,
    check_kinds,
    pack,
    pack_ties,
    ties_of,
    unpack,
)
from jobboard.backends.warn_once import warn_once
from jobboard.backends.zookeeper.codec import check_ids, check_moments
from jobboard.backends.zookeeper.requests import Data, Stat
from jobboard.backends.zookeeper.stored_job import (
    LONG_FIELDS,
    PLACE_BITS,
    THIS,
    StoredJob,
    sequence_of,
)
from jobboard.events import EventKind
from jobboard.states import JobState

logger = logging.getLogger("jobboard.zookeeper")

_STATES = {state.value: state for state in JobState}
_KINDS = {kind.value: kind for kind in EventKind}

#: The formats of a job's record, without and with ties; a client leaves jobs of later formats alone.
_ALIAS, _JOB, _TIED = "alias", 1, 2

#: The fields of a job that a record has in this order, after its format, and what each may be.
_FIELDS: dict[str, Kind] = {
    "name": TEXT,
    "priority": WHOLE,
    "index": WHOLE,
    "key": TEXT_OR_NONE,
    "run_at": NUMBER_OR_NONE,
    "max_attempts": WHOLE_OR_NONE,
    "state": TEXT,
    "attempts": WHOLE,
    "owner": TEXT_OR_NONE,
    "token": WHOLE,
    "claim_id": TEXT_OR_NONE,
    "expires_at": NUMBER_OR_NONE,
    "reason": TEXT_OR_NONE,
    "cancel_asked": FLAG,
    "presence": TEXT_OR_NONE,
    "until": NUMBER_OR_NONE,
}
#: Then come the history, the aliases, which of the long fields are in znodes of their own, the long fields, and the
#: place, which records of layout 1 lack, and a map of the ties of a job that has some, and of :data:`_EXTRAS`.
_PARTS = [WHOLE, *_FIELDS.values(), LIST, LIST, LIST | {type(None)}, LIST, NUMBER]
#: The fields that stand in that map only if they are set, and what each may be.
_EXTRAS: dict[str, Kind] = {"key_until": NUMBER_OR_NONE, "has_folders": FLAG}
_LINE_KINDS: list[Kind] = [TEXT, TEXT_OR_NONE, WHOLE, WHOLE_OR_NONE, TEXT_OR_NONE]
#: What each of the long fields may be.
_LONG_KINDS: dict[str, Kind] = {
    "body": BYTES,
    "checkpoint": BYTES_OR_NONE,
    "progress": BYTES_OR_NONE,
    "result": BYTES_OR_NONE,
    "last_error": TEXT_OR_NONE,
}
_STORED_FIELDS = (*_FIELDS, *LONG_FIELDS)

_plain_values = attrgetter(*_FIELDS)
_long_values = attrgetter(*LONG_FIELDS)


def encode(job: StoredJob) -> bytes:
    is_blob = [field in job.blobs for field in LONG_FIELDS]
    more = {} if job.ties is None else pack_ties(job.ties)
    more |= {field: value for field in _EXTRAS if (value := getattr(job, field))}
    return pack(
        [
            _TIED if more or job.ties is not None else _JOB,
            *_plain_values(job),
            [(kind.value, who, at, token, why) for kind, who, at, token, why in job.lines],
            job.aliases,
            is_blob if any(is_blob) else None,
            [job.blobs.get(field, getattr(job, field)) for field in LONG_FIELDS],
            job.place,
            *([more] if more or job.ties is not None else []),
        ]
    )


def encode_alias(uuid: str) -> bytes:
    """Return what stands under the uuid of a posting that replaced the content of a job."""
    return pack([_ALIAS, uuid])


@dataclass(frozen=True)
class Newer:
    """A record of a newer format, which only newer clients can read."""

    format: int


def decode(uuid: str, data: bytes, stat: Stat) -> StoredJob | Newer | str:
    """Return a job, or the uuid that an alias leads to, or that the record is of a newer format.

    What can't be decoded is a job without a name, whose posting is the raw bytes: a client that claims or lists it
    finds that it can't be read, and moves it to the trash.
    """
    try:
        parts = unpack(data)
        if parts[0] == _ALIAS:
            check_ids(parts[1:2])
            return str(parts[1])
        if type(parts[0]) is int and parts[0] > _TIED:
            warn_once(
                logger,
                "jobs of format %s are left to newer clients, since this one reads format %s: upgrade it",
                parts[0],
                _TIED,
            )
            return Newer(parts[0])
        return _decoded(uuid, parts, stat)
    except (ValueError, TypeError, IndexError, KeyError, AttributeError):
        return _unreadable(uuid, data, stat)


def decode_read(uuid: str, found: Data | None, deletions: int) -> StoredJob | Newer | str | None:
    """Return what was read under a uuid; None if nothing was there.

    :param deletions: how many times jobs had been deleted by then, or before.
    """
    if found is None:
        return None
    job = decode(uuid, found.data, found.stat)
    if isinstance(job, StoredJob):
        job.deletions = deletions
    return job


def _decoded(uuid: str, parts: list[Any], stat: Stat) -> StoredJob:
    if len(parts) == len(_PARTS) - 1:
        run_at = parts[1 + list(_FIELDS).index("run_at")]
        parts = [*parts, THIS if run_at is None else run_at]
    more: dict[str, Any] = parts.pop() if parts[0] == _TIED else {}
    check_kinds(parts, _PARTS)
    extras = {field: more.pop(field) for field in _EXTRAS if field in more}
    check_kinds(extras.values(), (_EXTRAS[field] for field in extras))
    ties = ties_of(more) if more or (parts[0] == _TIED and not extras) else None
    format, *plain, lines, aliases, is_blob, longs, place = parts
    job = StoredJob(uuid, "", 0, b"")
    for field, value in (*zip(_STORED_FIELDS, (*plain, *longs), strict=True), *extras.items()):
        setattr(job, field, value)
    if is_blob:
        job.name_blobs(is_blob)
    check_kinds(_long_values(job), map(_LONG_KINDS.__getitem__, LONG_FIELDS))
    job.state = _STATES[job.state]
    check_moments(job.run_at, job.expires_at, job.until, place, job.key_until)
    if ties is not None:
        check_moments(ties.since, ties.latest, ties.start_by)
    check_ids(aliases)
    for line in lines:
        check_kinds(line, _LINE_KINDS)
    if format not in (_JOB, _TIED) or not 0 <= job.index < 1 << PLACE_BITS:
        raise ValueError("not a job")
    job.sequence, job.created_on = sequence_of(stat.czxid, job.index), stat.ctime / 1000
    job.place, job.ties = place, ties
    job.aliases, job.lines = aliases, [(_KINDS[kind], *rest) for kind, *rest in lines]
    job.learn_write(stat)
    return job


def _unreadable(uuid: str, data: bytes, stat: Stat) -> StoredJob:
    # Its place in its batch can't be known; two of one batch must not have the same place.
    job = StoredJob(uuid, "?", -1 - zlib.crc32(uuid.encode()), data)
    job.learn_write(stat)
    job.sequence, job.created_on = sequence_of(stat.czxid, 0), stat.ctime / 1000
    return job
