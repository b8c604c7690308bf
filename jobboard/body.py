"""What is inside a posting's bytes: the details, and what the job points at. Stores never look into it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgpack

from jobboard.codec import LARGEST_DETAILS, encode
from jobboard.errors import InvalidPosting

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Body:
    """The immutable content of a posting. ``schedule_id`` and ``fire_time`` are set on what a schedule posted."""

    details: dict[str, Any] = field(default_factory=dict, repr=False)
    book_uuid: str | None = None
    book_name: str | None = None
    schedule_id: str | None = None
    fire_time: float | None = None


def pack_body(body: Body, *, largest: int = LARGEST_DETAILS) -> bytes:
    """Return the bytes; raises :class:`InvalidPosting` with the path of what can't travel."""
    if not isinstance(body.details, dict):
        raise InvalidPosting(f"details must be a dict, not {type(body.details).__name__}", path="details")
    details = encode("details", body.details, largest=largest)
    rest = [_FORMAT, body.book_uuid, body.book_name, body.schedule_id, body.fire_time]
    return bytes(msgpack.packb(rest)) + details


def unpack_body(data: bytes) -> Body:
    """Return what :func:`pack_body` was given; raises ``ValueError`` on anything else."""
    unpacker = msgpack.Unpacker(raw=False, strict_map_key=True, timestamp=3, max_buffer_size=0)
    unpacker.feed(data)
    try:
        head, details = unpacker.unpack(), unpacker.unpack()
        form, book_uuid, book_name, schedule_id, fire_time = head
    except (msgpack.OutOfData, TypeError, ValueError) as error:
        raise ValueError(f"not a posting: {error or 'it is cut short'}") from None
    if form != _FORMAT:
        raise ValueError(f"a posting of format {form!r}; this version reads {_FORMAT}")
    if unpacker.tell() != len(data) or not isinstance(details, dict):
        raise ValueError("not a posting: something follows it, or its details are no dict")
    return Body(details, book_uuid, book_name, schedule_id, fire_time)
