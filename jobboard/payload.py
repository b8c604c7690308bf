"""What is inside a posting's bytes: the details, and what the job points at. Stores never look into it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgpack

from jobboard.codec import DECODING_ERRORS, MAX_DETAILS, check_format, decode, encode, pack, refuse_extension
from jobboard.converter import Converter
from jobboard.errors import InvalidPosting
from jobboard.logbook import BookRef
from jobboard.validation import is_moment

#: Raise it with whatever an older reader would misread; such a reader leaves the job to others (see ``NewerFormat``).
#: A posting of any format begins with a list whose first item is this number, below 128.
_FORMAT = 1
#: How many fields the head of each format has. A trace comes in the second, which only postings that have one are of;
#: where the book is comes in the third, which only those are of whose book is elsewhere.
_FIELDS = {_FORMAT: 4, 2: 5, 3: 7}
_MAX_FORMAT = max(_FIELDS)
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

    ``trace`` is the context of the trace that it was posted in, such as ``{"traceparent": ...}``. ``book_kind`` and
    ``book_address`` are set if the book is elsewhere. ``details`` are None where only the head was read.
    """

    details: dict[str, Any] | None = field(default_factory=dict, repr=False)
    book_uuid: str | None = None
    book_name: str | None = None
    schedule_id: str | None = None
    fire_time: float | None = None
    trace: dict[str, str] | None = None
    book_kind: str | None = None
    book_address: str | None = None

    @property
    def book_ref(self) -> BookRef | None:
        """Where its book is; None if that is on the board, or can't be read."""
        if self.book_kind is None:
            return None
        try:
            return BookRef(self.book_kind, str(self.book_address), str(self.book_name), self.book_uuid)
        except ValueError:
            return None


def pack_payload(
    payload: Payload, *, largest: int = MAX_DETAILS, converter: Converter | None = None
) -> tuple[bytes, dict[str, Any]]:
    """Return the bytes, and the details as they arrive.

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
    if payload.book_kind is not None:
        longer = *head, payload.trace, payload.book_kind, payload.book_address
        return pack([_MAX_FORMAT, *longer]) + details, arrived
    if payload.trace is not None:
        return pack([2, *head, payload.trace]) + details, arrived
    if head == (None, None, None, None):
        return _PLAIN_HEAD + details, arrived
    return pack([_FORMAT, *head]) + details, arrived


def unpack_payload(data: bytes, converter: Converter | None = None) -> Payload:
    """Return what :func:`pack_payload` was given.

    :raises NewerFormat: a newer jobboard packed it.
    :raises ValueError: it is anything else.
    """
    if data == EMPTY_PAYLOAD:
        return Payload()
    if data.startswith(_PLAIN_HEAD):
        return Payload(_details_of(data[len(_PLAIN_HEAD) :], converter))
    fields, details = _split(data)
    return _with_head(_details_of(details, converter), fields)


def unpack_head(data: bytes) -> Payload:
    """Return the same without its details, which may be as large as ten thousand heads and more when decoded.

    :raises NewerFormat: a newer jobboard packed it.
    :raises ValueError: its head can't be read.
    """
    return Payload(None) if data.startswith(_PLAIN_HEAD) else _with_head(None, _split(data)[0])


def _with_head(details: dict[str, Any] | None, fields: list[Any]) -> Payload:
    book_uuid, book_name, schedule_id, fire_time, trace, *elsewhere = fields
    for text in (book_uuid, book_name, schedule_id, *elsewhere):
        if text is not None and not isinstance(text, str):
            raise ValueError("not a posting: its head holds something else than texts")
    if fire_time is not None and not is_moment(fire_time):
        raise ValueError("not a posting: its fire time is no moment")
    _check_trace(trace)
    return Payload(details, book_uuid, book_name, schedule_id, fire_time, trace, *elsewhere)


def trace_of(data: bytes) -> dict[str, str]:
    """Return the trace of a posting, {} if it has none; its details are not decoded.

    :raises ValueError: as :func:`unpack_payload`.
    """
    if data.startswith(_PLAIN_HEAD):
        return {}
    trace = _split(data)[0][4]
    _check_trace(trace)
    return trace or {}


def _check_trace(trace: Any) -> None:
    if trace is not None and not (isinstance(trace, dict) and all(isinstance(text, str) for text in trace.values())):
        raise ValueError("not a posting: its trace holds something else than texts")


def _split(data: bytes) -> tuple[list[Any], bytes]:
    """Return the seven fields of the head, the last of which few have, and the details as they are."""
    unpacker = msgpack.Unpacker(raw=False, strict_map_key=True, ext_hook=refuse_extension, max_buffer_size=_MAX_HEAD)
    unpacker.feed(data[:_MAX_HEAD])
    try:
        length = unpacker.read_array_header()
        form = unpacker.unpack()
    except DECODING_ERRORS as error:
        raise ValueError(f"not a posting: {error or 'it is cut short'}") from None
    check_format("a posting", form, form if type(form) is int and form in _FIELDS else _MAX_FORMAT)
    wanted = _FIELDS[form]
    try:
        fields = [unpacker.unpack() for _ in range(wanted)]
    except DECODING_ERRORS as error:
        raise ValueError(f"not a posting: {error or 'it is cut short'}") from None
    if length != 1 + wanted:
        raise ValueError("not a posting: its head has other fields")
    return fields + [None] * (_FIELDS[_MAX_FORMAT] - wanted), data[unpacker.tell() :]


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
