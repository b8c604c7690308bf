"""What is inside a posting's bytes: the details, and what the job points at. Stores never look into it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgpack

from jobboard.codec import LARGEST_DETAILS, decode, encode
from jobboard.errors import InvalidPosting

_FORMAT = 1
#: The head of most postings: no book, no schedule; what begins with it needs no second look.
_PLAIN_HEAD = bytes(msgpack.packb([_FORMAT, None, None, None, None]))
_EMPTY = b"\x80"
#: The posting of a job without details.
EMPTY_BODY = _PLAIN_HEAD + _EMPTY


@dataclass(slots=True)
class Body:
    """The content of a posting. ``schedule_id`` and ``fire_time`` are set on what a schedule posted."""

    details: dict[str, Any] = field(default_factory=dict, repr=False)
    book_uuid: str | None = None
    book_name: str | None = None
    schedule_id: str | None = None
    fire_time: float | None = None


def pack_body(body: Body, *, largest: int = LARGEST_DETAILS) -> bytes:
    """Return the bytes; raises :class:`InvalidPosting` with the path of what can't travel."""
    if not isinstance(body.details, dict):
        raise InvalidPosting(f"details must be a dict, not {type(body.details).__name__}", path="details")
    details = encode("details", body.details, largest=largest) if body.details else _EMPTY
    if body.book_uuid is None and body.book_name is None and body.schedule_id is None and body.fire_time is None:
        return _PLAIN_HEAD + details
    rest = [_FORMAT, body.book_uuid, body.book_name, body.schedule_id, body.fire_time]
    return bytes(msgpack.packb(rest)) + details


def unpack_body(data: bytes) -> Body:
    """Return what :func:`pack_body` was given; raises ``ValueError`` on anything else."""
    if data == EMPTY_BODY:
        return Body()
    if data.startswith(_PLAIN_HEAD):
        try:
            details = decode(data[len(_PLAIN_HEAD) :])
        except (TypeError, ValueError) as error:
            raise ValueError(f"not a posting: {error}") from None
        return Body(_checked(details))
    unpacker = msgpack.Unpacker(raw=False, strict_map_key=True, timestamp=3, max_buffer_size=0)
    unpacker.feed(data)
    try:
        head, details = unpacker.unpack(), unpacker.unpack()
        form, book_uuid, book_name, schedule_id, fire_time = head
    except (msgpack.OutOfData, TypeError, ValueError) as error:
        raise ValueError(f"not a posting: {error or 'it is cut short'}") from None
    if form != _FORMAT:
        raise ValueError(f"a posting of format {form!r}; this version reads {_FORMAT}")
    if unpacker.tell() != len(data):
        raise ValueError("not a posting: something follows it")
    return Body(_checked(details), book_uuid, book_name, schedule_id, fire_time)


def _checked(details: Any) -> dict[str, Any]:
    if not isinstance(details, dict):
        raise ValueError("not a posting: its details are no dict")
    return details
