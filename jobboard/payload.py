"""What is inside a posting's bytes: the details, and what the job points at. Stores never look into it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgpack

from jobboard.codec import MAX_DETAILS, check_format, decode, encode, refuse_extension
from jobboard.converter import Converter
from jobboard.errors import InvalidPosting
from jobboard.validation import is_moment

#: Raise it with whatever an older reader would misread; such a reader leaves the job to others (see ``NewerFormat``).
#: A posting of any format begins with a list whose first item is this number, below 128.
_FORMAT = 1
#: The format with a trace, which only postings that have one are of.
_TRACED_FORMAT = 2
#: More bytes than a head with the longest names can have.
_MAX_HEAD = 4096
#: The head of most postings: no book, no schedule; what begins with it needs no second look.
_PLAIN_HEAD = bytes(msgpack.packb([_FORMAT, None, None, None, None]))
_EMPTY = b"\x80"
#: The posting of a job without details.
EMPTY_PAYLOAD = _PLAIN_HEAD + _EMPTY


@dataclass(slots=True)
class Payload:
    """The content of a posting. ``schedule_id`` and ``fire_time`` are set on what a schedule posted.

    ``trace`` is the context of the trace that it was posted in, such as ``{"traceparent": ...}``.
    """

    details: dict[str, Any] = field(default_factory=dict, repr=False)
    book_uuid: str | None = None
    book_name: str | None = None
    schedule_id: str | None = None
    fire_time: float | None = None
    trace: dict[str, str] | None = None


def pack_payload(
    payload: Payload, *, largest: int = MAX_DETAILS, converter: Converter | None = None
) -> tuple[bytes, Payload]:
    """Return the bytes, and the payload as it arrives.

    :raises InvalidPosting: names the path of what can't be stored.
    """
    if not isinstance(payload.details, dict):
        raise InvalidPosting(f"details must be a dict, not {type(payload.details).__name__}", path="details")
    details, arrived = _EMPTY, dict[str, Any]()
    if payload.details:
        details, arrived = encode("details", payload.details, largest=largest, converter=converter)
        if not isinstance(arrived, dict):
            arrived = _details_of(details, None)
    head = payload.book_uuid, payload.book_name, payload.schedule_id, payload.fire_time
    if payload.trace is not None:
        return msgpack.packb([_TRACED_FORMAT, *head, payload.trace]) + details, Payload(arrived, *head, payload.trace)
    if head == (None, None, None, None):
        return _PLAIN_HEAD + details, Payload(arrived)
    return msgpack.packb([_FORMAT, *head]) + details, Payload(arrived, *head)


def unpack_payload(data: bytes, converter: Converter | None = None) -> Payload:
    """Return what :func:`pack_payload` was given.

    :raises NewerFormat: a newer jobboard packed it.
    :raises ValueError: it is anything else.
    """
    if data == EMPTY_PAYLOAD:
        return Payload()
    if data.startswith(_PLAIN_HEAD):
        return Payload(_details_of(data[len(_PLAIN_HEAD) :], converter))
    (book_uuid, book_name, schedule_id, fire_time, trace), details = _split(data)
    for text in (book_uuid, book_name, schedule_id):
        if text is not None and not isinstance(text, str):
            raise ValueError("not a posting: its head holds something else than texts")
    if fire_time is not None and not is_moment(fire_time):
        raise ValueError("not a posting: its fire time is no moment")
    _check_trace(trace)
    return Payload(_details_of(details, converter), book_uuid, book_name, schedule_id, fire_time, trace)


def trace_of(data: bytes) -> dict[str, str]:
    """Return the trace of a posting, {} if it has none; its details are not decoded.

    :raises ValueError: as :func:`unpack_payload`.
    """
    if data.startswith(_PLAIN_HEAD):
        return {}
    trace = _split(data)[0][-1]
    _check_trace(trace)
    return trace or {}


def _check_trace(trace: Any) -> None:
    if trace is not None and not (isinstance(trace, dict) and all(isinstance(text, str) for text in trace.values())):
        raise ValueError("not a posting: its trace holds something else than texts")


def _split(data: bytes) -> tuple[list[Any], bytes]:
    """Return the five fields of the head, the last of which few have, and the details as they are."""
    unpacker = msgpack.Unpacker(raw=False, strict_map_key=True, ext_hook=refuse_extension, max_buffer_size=_MAX_HEAD)
    unpacker.feed(data[:_MAX_HEAD])
    try:
        length = unpacker.read_array_header()
        form = unpacker.unpack()
    except Exception as error:
        raise ValueError(f"not a posting: {error or 'it is cut short'}") from None
    check_format("a posting", form, _FORMAT if form == _FORMAT else _TRACED_FORMAT)
    is_traced = form == _TRACED_FORMAT
    wanted = 5 if is_traced else 4
    try:
        fields = [unpacker.unpack() for _ in range(wanted)]
    except Exception as error:
        raise ValueError(f"not a posting: {error or 'it is cut short'}") from None
    if length != 1 + wanted:
        raise ValueError("not a posting: its head has other fields")
    return fields if is_traced else [*fields, None], data[unpacker.tell() :]


def _details_of(data: bytes, converter: Converter | None) -> dict[str, Any]:
    try:
        details = decode(data, converter=converter)
    except ValueError as error:
        raise ValueError(f"not a posting: {error}") from None
    if not isinstance(details, dict):
        if converter is not None:
            # All of them may look like one converted value.
            return _details_of(data, None)
        raise ValueError("not a posting: its details are no dict")
    return details
