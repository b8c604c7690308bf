"""What crosses the wire: moments in microseconds, requests in msgpack for the scripts, jobs as they show them."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgpack

from jobboard.backends.rows import Fence, JobRow
from jobboard.events import EventKind, HistoryEntry, JobEvent
from jobboard.states import JobState
from jobboard.validation import moment

logger = logging.getLogger("jobboard.redis")

_STATES = {state.value: state for state in JobState}
_KINDS = {kind.value: kind for kind in EventKind}

#: How bytes that are no text are shown.
_LENIENT = "backslashreplace"

#: Above this, in microseconds, an expiry or a retention is as good as none: it is beyond what a double holds exactly.
_FOREVER = 2**52


def pack(value: Any) -> bytes:
    """Return msgpack as the server's Lua library reads it, which knows no separate type for bytes."""
    data: bytes = msgpack.packb(value, use_bin_type=False)
    return data


def micros(seconds: float) -> int:
    return round(seconds * 1_000_000)


def span(seconds: float) -> int | None:
    """Return a time that passes in microseconds, at least one; None for ever."""
    return None if math.isinf(seconds) or seconds * 1_000_000 > _FOREVER else max(1, micros(seconds))


def hold_of(fence: Fence) -> list[Any]:
    """Return a hold's three parts; a number that no token can be must not break the packing."""
    return [fence.uuid, fence.who, min(fence.token, 2**62)]


def entries_of(parts: Sequence[Any]) -> list[JobRow]:
    """Return the jobs that a script shows: five parts each."""
    return [entry_of(*parts[at : at + 5]) for at in range(0, len(parts), 5)]


def entry_of(
    record: bytes, body: bytes, checkpoint: bytes | None, progress: bytes | None, result: bytes | None
) -> JobRow:
    (
        uuid, name, priority, sequence, _place, created, modified, state, attempts, token, _lines, key, max_attempts,
        run_at, owner, claim_id, expires, cancel, reason, error, _has_checkpoint, _has_progress, _retained,
    ) = msgpack.unpackb(record, use_list=False, unicode_errors=_LENIENT)  # fmt: skip
    # False stands for what there is not, and an empty text is one.
    return JobRow(
        uuid, name, priority, sequence, created / 1e6, body,
        None if key is False else key,
        None if run_at is False else run_at / 1e6,
        max_attempts or None,
        _STATES[state],
        attempts,
        None if owner is False else owner,
        token,
        None if claim_id is False else claim_id,
        None if expires is False else expires / 1e6,
        modified / 1e6,
        None if error is False else error,
        None if reason is False else reason,
        checkpoint, progress, result,
        cancel,
    )  # fmt: skip


def history_of(lines: bytes) -> list[HistoryEntry]:
    """Return the lines up to the first one that can't be read; those of kinds that newer versions tell are left out."""
    found = []
    try:
        for kind, at, who, token, reason in zip(*[_objects(lines)] * 5, strict=True):
            if kind in _KINDS:
                found.append(HistoryEntry(_KINDS[kind], who or None, moment(at / 1e6), token or None, _text(reason)))
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        logger.debug("a history can't be read to its end: %r", error)
    return found


def events_of(message: bytes) -> Iterable[JobEvent]:
    """Return the events of one message: uuid, name and line of each."""
    parts = _objects(message)
    for uuid, name, kind, at, who, token, reason in zip(*[parts] * 7, strict=True):
        if kind in _KINDS:
            yield JobEvent(
                _KINDS[kind], uuid or None, name or None, who or None, token or None, moment(at / 1e6), _text(reason)
            )


def is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def text_of(data: bytes) -> str:
    """Return a text of the store's, whatever has become of it."""
    return data.decode("utf-8", _LENIENT)


def _text(value: Any) -> str | None:
    """Lua's msgpack has no room for nil in an array, so false stands for it; an empty text is one."""
    return None if value is False else str(value)


def _objects(data: bytes) -> Any:
    unpacker = msgpack.Unpacker(max_buffer_size=0, unicode_errors=_LENIENT)
    unpacker.feed(data)
    return iter(unpacker)
