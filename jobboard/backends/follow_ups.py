"""Postings that follow the end of a job, as they lie in its record: lists of msgpack that Lua reads too."""

from __future__ import annotations

import hashlib
import uuid as uuids

import msgpack

from jobboard.backends.rows import IfExists, NewJob, Ties
from jobboard.states import JobPriority


def pack(new: NewJob) -> bytes:
    """Return a posting as a part of a record; it has no parents, and no moment but a delay (microseconds)."""
    lane = None if new.ties is None else new.ties.lane
    delay = None if new.delay is None else round(new.delay * 1e6)
    limits = [delay or False, new.max_attempts or False, lane or False]
    items = [new.name, new.priority, new.key or False, *limits, new.body]
    data: bytes = msgpack.packb(items, use_bin_type=False)
    return data


def unpack(data: bytes, job: str, token: int) -> NewJob:
    """Return the posting that follows the end of a job after this claim; it keeps a live job that has its key.

    :raises ValueError: these bytes hold something else.
    """
    try:
        name, priority, key, delay, attempts, lane, body = msgpack.unpackb(data, raw=True)
        if not (isinstance(body, bytes) and isinstance(delay, int) and isinstance(attempts, int)):
            raise TypeError("it has a field of another type")
        ties = None if lane is False else Ties(lane.decode())
        return NewJob(
            uuid_of(job, token, name.decode()), name.decode(), JobPriority(priority).value, body,
            key.decode() if key else None, IfExists.KEEP, None, delay / 1e6 if delay else None, attempts or None, ties,
        )  # fmt: skip
    except (ValueError, TypeError, AttributeError, msgpack.UnpackException) as error:
        raise ValueError(f"no follow-up: {error}") from None


def uuid_of(job: str, token: int, name: str) -> str:
    """Return the uuid of what follows a job's end; a repeat finds the same, a second end after a restore another."""
    return str(uuids.UUID(hashlib.sha1(f"{job} {token} {name}".encode(), usedforsecurity=False).hexdigest()[:32]))
