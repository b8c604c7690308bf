"""Stored values: lists of msgpack whose items are of known kinds; everything else is refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgpack

from jobboard.backends.rows import IfFailed, Ties
from jobboard.codec import DECODING_ERRORS, check_format

_NONE = type(None)

#: The types that an item may have; exactly these, since a bool is no number here.
Kind = frozenset[type]

TEXT, BYTES, WHOLE, FLAG, LIST, MAP = (Kind({kind}) for kind in (str, bytes, int, bool, list, dict))
NUMBER = Kind({int, float})
TEXT_OR_NONE, BYTES_OR_NONE, WHOLE_OR_NONE, NUMBER_OR_NONE = (kind | {_NONE} for kind in (TEXT, BYTES, WHOLE, NUMBER))

#: How many bytes are kept of texts that may have any length, such as those of exceptions: of a job's reason, of one in
#: its history, of its last error. A job must stay small enough to be written.
MAX_REASON, MAX_HISTORY_REASON, MAX_ERROR = 4_000, 500, 400_000


def pack(value: Any) -> bytes:
    data: bytes = msgpack.packb(value)
    return data


def unpack(data: bytes) -> Any:
    """Return what was packed.

    :raises ValueError: these bytes are no msgpack. The library raises many kinds of errors on garbage.
    """
    try:
        return msgpack.unpackb(data)
    except DECODING_ERRORS as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None


def items_of(data: bytes, kinds: Sequence[Kind]) -> tuple[list[Any], list[Any]]:
    """Read a list; return the items of these kinds, and those that a later version has appended.

    :raises ValueError: it is anything else.
    """
    items = _list_of(data)
    known, more = items[: len(kinds)], items[len(kinds) :]
    check_kinds(known, kinds)
    return known, more


def items_of_format(
    data: bytes,
    what: str,
    known: int,
    kinds: Sequence[Kind],
    optional: Sequence[Kind] = (),
    earlier: Sequence[int] = (),
) -> list[Any]:
    """Read a list that begins with the number of its format; return what follows that.

    :param earlier: formats that are read in the same way.
    :param optional: the kinds of items that may follow those of ``kinds``.
    :raises NewerFormat: it is of a later format.
    :raises ValueError: it is anything else.
    """
    items = _list_of(data)
    if not items or type(items[0]) is not int or items[0] not in earlier:
        check_format(what, items[0] if items else None, known)
    check_kinds(items[1:], (*kinds, *optional)[: max(len(kinds), len(items) - 1)])
    return items[1:]


def check_kinds(items: Iterable[Any], kinds: Iterable[Kind]) -> None:
    """Raise ``ValueError`` if an item is not of its kind, is no number, or is one too many or too few."""
    for item, kind in zip(items, kinds, strict=True):
        if type(item) not in kind or item != item:
            raise ValueError(f"it holds {type(item).__name__} where something else belongs")


#: The fields of ties as a part of a record, and the kind of each; those that are as in ``Ties()`` are left out.
_TIES = {
    "lane": TEXT_OR_NONE,
    "since": NUMBER_OR_NONE,
    "has_children": FLAG,
    "has_parents": FLAG,
    "if_failed": TEXT,
    "signal": TEXT_OR_NONE,
    "latest": NUMBER_OR_NONE,
    "start_by": NUMBER_OR_NONE,
    "on_trashed": BYTES_OR_NONE,
    "on_complete": BYTES_OR_NONE,
}
_NO_TIES = {name: getattr(Ties(), name) for name in _TIES}


def pack_ties(ties: Ties) -> dict[str, Any]:
    """Return ties as a part of a record."""
    part = {name: value for name, default in _NO_TIES.items() if (value := getattr(ties, name)) != default}
    if "if_failed" in part:
        part["if_failed"] = ties.if_failed.value
    return part


def ties_of(part: dict[str, Any]) -> Ties:
    """Read ties; raises ``ValueError`` if they are none."""
    given = {name: value for name, value in part.items() if name in _TIES}
    check_kinds(given.values(), (_TIES[name] for name in given))
    if "if_failed" in given:
        given["if_failed"] = IfFailed.convert(given["if_failed"])
    return Ties(**given)


def _list_of(data: bytes) -> list[Any]:
    items = unpack(data)
    if type(items) is not list:
        raise ValueError(f"it is no list, but {type(items).__name__}")
    return items
