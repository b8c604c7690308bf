"""How a logbook is stored: a head, and entries by name, each of plain data.

The entries of the store are ``m`` (the book's meta), ``j`` and a number (some entries of its journal, in their order)
and ``e`` and a name (its entry of that name). A book that an earlier version saved is all in the head.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgpack

from jobboard.backends.book_rows import BookRow
from jobboard.codec import decode, encode, pack
from jobboard.converter import Converter
from jobboard.errors import InvalidPosting
from jobboard.logbook import BookInfo, LogBook
from jobboard.validation import check_text, moment

#: The entries of the store that one book may have, and that one save may write or remove.
MAX_ENTRIES, MAX_CHANGES = 10_000, 100

#: Entries of the journal share an entry of the store until it has this many bytes.
_CHUNK = 16 * 1024

#: The longest name of an entry, in bytes of UTF-8.
_MAX_NAME = 250

_FORMAT = 2
_HEAD = {"form", "name", "owner", "saved_at", "entries"}
_FIRST_HEAD = {"name", "meta", "entries"}


@dataclass(slots=True)
class StoredEntry:
    """What one entry of the store is to hold, and the values in it, by the paths under which errors name them."""

    name: str
    data: bytes
    values: list[tuple[str, Any]]


def digest_of(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


# -- out ---------------------------------------------------------------------------------------------------------------


def pack_head(book: LogBook, owner: str | None, saved_at: float) -> bytes:
    count = len(book.entries) + len(book.named)
    head = {"form": _FORMAT, "name": book.name, "owner": owner, "saved_at": saved_at, "entries": count}
    return encode("book", head).data


def pack_entries(book: LogBook, converter: Converter | None) -> Iterator[StoredEntry]:
    """Iterate over the entries of the store for a book, as far as msgpack can tell whether they can be stored.

    :raises InvalidPosting: names the path of what can't be stored.
    """
    if book.meta:
        yield StoredEntry("m", _packed("book.meta", book.meta, converter), [("book.meta", book.meta)])
    yield from _chunks_of(book.entries, converter)
    for name, value in book.named.items():
        if len(check_text("an entry's name", name).encode()) > _MAX_NAME:
            raise ValueError(f"an entry's name must be at most {_MAX_NAME} bytes of UTF-8; got {len(name.encode())}")
        path = f"book.named[{name!r}]"
        yield StoredEntry(f"e{name}", _packed(path, value, converter), [(path, value)])


def _chunks_of(entries: list[dict[str, Any]], converter: Converter | None) -> Iterator[StoredEntry]:
    """Cut the journal where each chunk is full, so that what is added to its end changes none but the last."""
    packed: list[bytes] = []
    values: list[tuple[str, Any]] = []
    number = size = 0
    for at, entry in enumerate(entries):
        path = f"book.entries[{at}]"
        if not isinstance(entry, dict):
            raise InvalidPosting(f"{path} must be a dict, not {type(entry).__name__}", path=path)
        packed.append(_packed(path, entry, converter))
        values.append((path, entry))
        size += len(packed[-1])
        if size >= _CHUNK or at == len(entries) - 1:
            data = msgpack.Packer().pack_array_header(len(packed)) + b"".join(packed)
            yield StoredEntry(f"j{number:010}", data, values)
            packed, values, number, size = [], [], number + 1, 0


def _packed(path: str, value: Any, converter: Converter | None) -> bytes:
    try:
        return pack(value, converter)
    except (TypeError, ValueError, OverflowError, RecursionError):
        # It names what is at fault.
        return encode(path, value, converter=converter).data


# -- in ----------------------------------------------------------------------------------------------------------------


def info_of(row: BookRow, converter: Converter | None) -> BookInfo:
    """Return what a list shows of a book, also of one that can't be decoded."""
    try:
        head = _head_of(row.body, converter)
        count = len(head["entries"]) if "meta" in head else head["entries"]
        saved_at = head.get("saved_at")
        return BookInfo(
            row.uuid, head["name"], head.get("owner"), count, None if saved_at is None else moment(saved_at)
        )
    except (ValueError, TypeError) as error:
        return BookInfo(row.uuid, None, fault=str(error))


def unpack_book(row: BookRow, entries: dict[str, bytes], converter: Converter | None) -> LogBook:
    """Return a book that was read whole.

    :raises ValueError: it is none, or is not whole.
    :raises TypeError: something in it is of another type.
    """
    head = _head_of(row.body, converter)
    book = LogBook(head["name"], row.uuid)
    book.version = row.version
    if "meta" in head:
        book.meta, book.entries = head["meta"], head["entries"]
    else:
        book.owner = head["owner"]
        book.owned = book.owner is not None
        for name, data in sorted(entries.items()):
            _take(book, name, decode(data, converter=converter))
            book._stored[name] = digest_of(data)
        if head["entries"] != len(book.entries) + len(book.named):
            raise ValueError(f"it has {len(book.entries) + len(book.named)} of its {head['entries']} entries")
    are_dicts = isinstance(book.entries, list) and all(isinstance(entry, dict) for entry in book.entries)
    if not isinstance(book.meta, dict) or not are_dicts:
        raise TypeError("its meta is no dict, or its entries are no list of dicts")
    return book


def _take(book: LogBook, name: str, value: Any) -> None:
    if name == "m":
        book.meta = value
    elif name[:1] == "j" and isinstance(value, list):
        book.entries += value
    elif name[:1] == "e":
        book.named[name[1:]] = value
    else:
        raise ValueError(f"it has an entry {name!r}, which this version does not write")


def _head_of(body: bytes, converter: Converter | None) -> dict[str, Any]:
    """Refuse other fields than ours: a newer jobboard wrote them, and saving the book would lose them."""
    head: dict[str, Any] = decode(body, converter=converter)
    is_first = isinstance(head, dict) and set(head) == _FIRST_HEAD
    if not is_first and not (isinstance(head, dict) and set(head) == _HEAD and head["form"] == _FORMAT):
        raise ValueError("it has other fields than this version writes")
    check_text("a book's name", head["name"])
    owner, saved_at = head.get("owner"), head.get("saved_at")
    if not isinstance(owner, (str, type(None))) or not isinstance(saved_at, (int, float, type(None))):
        raise TypeError("its owner is no text, or its time is no number")
    if not isinstance(head["entries"], list if is_first else int):
        raise TypeError("its entries are of another type")
    return head
