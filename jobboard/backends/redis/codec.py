"""The wire format: moments in microseconds, requests in msgpack, and what scripts return: jobs, history, events."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import msgpack

from jobboard.backends import admission, lifecycle
from jobboard.backends.redis.moments import micros, span
from jobboard.backends.redis.ties import LENIENT, fields_of, has_ties, packed_ties, ties_of
from jobboard.backends.rows import ClaimRequest, Fence, JobRow, NewJob, Pause
from jobboard.codec import Packers
from jobboard.events import EventKind, HistoryEntry, JobEvent
from jobboard.states import JobState
from jobboard.validation import moment

logger = logging.getLogger("jobboard.redis")

_STATES = {state.value: state for state in JobState}
_KINDS = {kind.value: kind for kind in EventKind}

#: A job's place is its moment since this one, plus a number for its priority: see ``lua/include/places.lua``.
_PLACES_OF_PRIORITY, _FIRST_MOMENT = 2**51, 1577836800000000

#: Where a record has its lane, if it has ties; the moment since which the job waits for it follows, and other ties.
_LANE = 23

#: A token that a caller gives may be any number; msgpack can't hold all of them.
MAX_TOKEN = 2**62


#: Returns msgpack as the server's Lua library reads it: that has no separate type for bytes.
pack = Packers(use_bin_type=False).pack


def pack_each(values: Sequence[Any]) -> bytes:
    """Return the msgpack of fewer than 65,536 values, one after the other; the server makes no table of them."""
    return pack(values)[1 if len(values) < 16 else 3 :]


def fence_parts(fence: Fence) -> list[Any]:
    """Return a fence as the scripts take it."""
    return [fence.uuid, fence.who, min(fence.token, MAX_TOKEN)]


def claim_parts(claim: ClaimRequest, limit: int, names: frozenset[str] | None, exchanged: int = 0) -> list[Any]:
    """Return a claim request as the scripts take it.

    :param exchanged: where the last search for exchanges ended.
    """
    parts = [claim.who, claim.claim_id, span(claim.expiry), limit, None if names is None else list(names)]
    return [*parts, exchanged] if exchanged else parts


def posting_parts(new: NewJob) -> list[Any]:
    """Return a posting as ``post.lua`` takes it."""
    delay = micros(new.delay) if new.delay else None
    return [
        new.uuid,
        new.name,
        new.priority,
        new.key,
        # A str; its attribute `value` is looked up by two functions of Python.
        new.if_exists,
        None if new.run_at is None else micros(new.run_at),
        delay if not has_ties(new) else packed_ties(new, delay),
        new.max_attempts,
    ]


def posted_row(new: NewJob, sequence: int, now: int) -> JobRow:
    """Return the row of a job that was posted just as it was sent, which the server does not send back.

    :param sequence: negative if the job is BLOCKED.
    :param now: microseconds, in which the server has added the delay: a sum of seconds would be rounded.
    """
    if new.delay:
        new = replace(new, run_at=(now + micros(new.delay)) / 1e6, delay=None)
    elif new.run_at is not None:
        new = replace(new, run_at=micros(new.run_at) / 1e6)
    row = lifecycle.posted(new, now / 1e6, abs(sequence))
    if row.state is JobState.BLOCKED and sequence > 0:
        admission.admit_at_once(row)
    return row


def rows_of(parts: Sequence[Any]) -> list[JobRow]:
    """Return the jobs that a script returned, as ``lua/include/job_rows.lua`` makes them."""
    rows = []
    for head, tail, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        rows.append(row_of(head + tail, body) if isinstance(body, bytes) else row_of(head + tail, *body))
    return rows


def row_of(
    record: bytes,
    body: bytes,
    checkpoint: bytes | None = None,
    progress: bytes | None = None,
    result: bytes | None = None,
) -> JobRow:
    """Return a job; the fields of its record are those of ``lua/include/record.lua``, in that order."""
    stored = fields_of(record)
    uuid, name, priority, sequence, place, created, modified, state, attempts, token, _ = stored[:11]
    key, max_attempts, run_at, owner, claim_id, expires, cancel, reason, error = stored[11:20]
    place = run_at if state == "DELAYED" else float(place) % _PLACES_OF_PRIORITY + _FIRST_MOMENT
    # False stands for a missing value; an empty text is one that is there. Naming the arguments doubles the time.
    return JobRow(
        uuid, name, priority, sequence, created / 1e6, body,
        None if key is False else key, None if run_at is False else run_at / 1e6,
        None if max_attempts is False else max_attempts, _STATES[state], attempts, None if owner is False else owner,
        token, None if claim_id is False else claim_id, None if expires is False else expires / 1e6, modified / 1e6,
        None if error is False else error, None if reason is False else reason, checkpoint, progress, result, cancel,
        (), place / 1e6, None if len(stored) <= _LANE else ties_of(stored, record),
    )  # fmt: skip


def history_of(packed: bytes) -> list[HistoryEntry]:
    """Return the entries up to the first that can't be read, without those of kinds that only newer versions know."""
    found = []
    try:
        for kind, at, who, token, reason in zip(*[_objects(packed)] * 5, strict=True):
            if kind in _KINDS:
                found.append(HistoryEntry(_KINDS[kind], who or None, moment(at / 1e6), token or None, _text(reason)))
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        logger.debug("a history can't be read to its end: %r", error)
    return found


def pause_of(name: str | None, entry: bytes) -> Pause:
    """Return a pause; of one that an earlier version made, or that can't be read, only the name is known."""
    for line in history_of(entry):
        return Pause(name, line.who, line.reason, line.at)
    return Pause(name)


def events_of(message: bytes) -> Iterable[JobEvent]:
    """Return the events of one message: uuid, name and history entry of each."""
    parts = _objects(message)
    for uuid, name, kind, at, who, token, reason in zip(*[parts] * 7, strict=True):
        if kind in _KINDS:
            yield JobEvent(
                _KINDS[kind], uuid or None, name or None, who or None, token or None, moment(at / 1e6), _text(reason)
            )


def wake_up_of(message: bytes) -> tuple[bytes, str, list[JobRow]]:
    """Return whom a message wakes that armed with a claim request, the claim id, and the jobs claimed under it."""
    waiter, claim_id, *parts = msgpack.unpackb(message, raw=True)
    return waiter, claim_id.decode(), rows_of(parts)


def is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def text_of(data: bytes) -> str:
    """Return a stored text, also if it is damaged."""
    return data.decode("utf-8", LENIENT)


def _text(value: Any) -> str | None:
    """False stands for a missing value, because Lua's arrays can't hold nil; an empty text is one that is there."""
    return None if value is False else str(value)


def _objects(data: bytes) -> Any:
    unpacker = msgpack.Unpacker(max_buffer_size=0, unicode_errors=LENIENT)
    unpacker.feed(data)
    return iter(unpacker)
