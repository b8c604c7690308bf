"""The ties of jobs, as records have them and as requests carry them: see ``lua/include/record.lua``."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from typing import Any

import msgpack

from jobboard.backends.redis.moments import micros
from jobboard.backends.rows import IfFailed, NewJob, Ties
from jobboard.codec import Packers

#: How bytes that are no UTF-8 are decoded.
LENIENT = "backslashreplace"

_pack = Packers(use_bin_type=False).pack
_NONE = Ties()

#: How many fields a record has before its ties: the lane, and the moment since which the job waits for it.
_LANE = 23
#: What begins a record with ties, a list of as many values as it has ties, and a text of as many bytes.
_TIED, _LIST, _TEXT = b"\xdc\x00\x1a", b"\x9b", b"\xab"
_NO, _YES = b"\xc2", b"\xc3"
#: How a record ends whose ties are nothing but flags, and what they are.
_FLAGS = {
    _TEXT + 8 * _NO + has_children + has_parents + has_keys: (
        Ties(has_children=has_children == _YES, has_parents=has_parents == _YES)
        if _YES in (has_children, has_parents)
        else None
    )
    for has_children in (_NO, _YES)
    for has_parents in (_NO, _YES)
    for has_keys in (_NO, _YES)
}
_FLAGS_LENGTH = 12


def has_ties(new: NewJob) -> bool:
    """Whether a posting has to do with other jobs, or with moments."""
    return (
        new.ties is not None
        or bool(new.parents)
        or new.graph is not None
        or new.key_for is not None
        or new.max_delay is not None
    )


def packed_ties(new: NewJob, delay: int | None) -> bytes:
    """Return what stands for the delay of a posting with ties."""
    return _packed(new.ties or _NONE, delay, new.max_delay, new.key_for, new.parents, new.graph)


@functools.lru_cache(maxsize=16)
def _packed(
    ties: Ties,
    delay: int | None,
    max_delay: float | None,
    key_for: float | None,
    parents: tuple[str, ...],
    graph: str | None,
) -> bytes:
    others: dict[str, Any] = {
        "start_by": _moment(ties.start_by),
        "latest": _moment(ties.latest),
        "signal": ties.signal,
        "if_failed": _failed(ties.if_failed),
        "has_children": ties.has_children or None,
        "has_parents": ties.has_parents or None,
        "on_trashed": ties.on_trashed,
        "on_complete": ties.on_complete,
        "max_delay": _moment(max_delay),
        "key_for": _moment(key_for),
        "parents": parents or None,
        "graph": graph,
    }
    parts: list[Any] = [delay or False, ties.lane or False]
    wanted = {name: value for name, value in others.items() if value is not None}
    return _pack([*parts, wanted] if wanted else parts)


def _moment(seconds: float | None) -> int | None:
    return None if seconds is None else micros(seconds)


def _failed(wish: IfFailed) -> str | None:
    return None if wish is IfFailed.WAIT else wish.value


def fields_of(record: bytes) -> Sequence[Any]:
    """Return the fields of a record, all bytes as texts; an empty one for ties that are nothing but flags.

    These are no UTF-8, and to decode them takes longer than all the rest.
    """
    if record[:3] == _TIED and record[-_FLAGS_LENGTH:] in _FLAGS:
        # A longer text that happens to end like this is cut too short then.
        with contextlib.suppress(ValueError):
            return _unpack(record[:-_FLAGS_LENGTH] + b"\xa0")
    return _unpack(record)


def _unpack(record: bytes) -> Sequence[Any]:
    fields: Sequence[Any] = msgpack.unpackb(record, use_list=False, unicode_errors=LENIENT)
    return fields


def ties_of(stored: Sequence[Any], record: bytes) -> Ties | None:
    """Return the ties in a record; those of a newer format can't be read.

    :param stored: what :func:`fields_of` returns.
    """
    if stored[_LANE:] == (False, False, ""):
        return _FLAGS[record[-_FLAGS_LENGTH:]]
    lane, since = (None if value is False else value for value in stored[_LANE : _LANE + 2])
    since = None if since is None else since / 1e6
    if len(stored) == _LANE + 2:
        return Ties(lane, since)
    if len(stored) != _LANE + 3:
        return None
    packed = msgpack.unpackb(record, raw=True)[-1]
    start_by, latest, _, signal, if_failed, _, on_trashed, on_complete, has_children, has_parents, _ = (
        None if value is False else value for value in msgpack.unpackb(_LIST + packed, raw=True)
    )
    ties = Ties(
        lane, since, bool(has_children), bool(has_parents),
        IfFailed.WAIT if if_failed is None else IfFailed(if_failed.decode()),
        None if signal is None else signal.decode(), None if latest is None else latest / 1e6,
        None if start_by is None else start_by / 1e6, on_trashed, on_complete,
    )  # fmt: skip
    return None if ties == Ties() else ties
