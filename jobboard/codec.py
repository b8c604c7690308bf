"""msgpack in and out: what a job carries is plain data, never code, and checked by a round trip before it travels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgpack

from jobboard.errors import InvalidPosting

#: The most that details, a result or a checkpoint may take once encoded, in bytes.
LARGEST_DETAILS = 512 * 1024

_DEEPEST = 200
_MOST_SIGNED, _MOST_UNSIGNED = -(2**63), 2**64 - 1


def encode(what: str, value: Any, *, largest: int = LARGEST_DETAILS) -> bytes:
    """Return ``value`` as msgpack.

    Tuples arrive as lists and aware datetimes as UTC; everything else arrives as it was sent.

    :param what: how errors name the value, such as ``details``.
    :param largest: the limit in bytes.
    :raises InvalidPosting: names the path of what can't travel.
    """
    try:
        data = msgpack.packb(value, datetime=True)
        msgpack.unpackb(data, raw=False, strict_map_key=True, timestamp=3, object_hook=_refuse_other_keys)
    except (TypeError, ValueError, OverflowError, RecursionError, UnicodeError) as error:
        path, fault = _find_fault(what, value, 0) or (what, str(error))
        raise InvalidPosting(f"{path} can't travel: {fault}", path=path) from None
    if len(data) > largest:
        raise InvalidPosting(
            f"{what} is {len(data)} bytes once encoded; at most {largest} are allowed. "
            "Store large data elsewhere and post a reference to it",
            path=what,
        )
    return bytes(data)


def decode(data: bytes) -> Any:
    """Return what :func:`encode` was given; raises ``ValueError`` on anything that it can't have made."""
    return msgpack.unpackb(data, raw=False, strict_map_key=True, timestamp=3)


def _refuse_other_keys(value: dict[Any, Any]) -> dict[Any, Any]:
    """msgpack carries keys of bytes too, which no JSON reader could ever show."""
    for key in value:
        if not isinstance(key, str):
            raise TypeError(f"the key {key!r} is no str")
    return value


def _find_fault(path: str, value: Any, depth: int) -> tuple[str, str] | None:
    """Walk to the first value that msgpack refuses; None when every single value is fine."""
    if depth > _DEEPEST:
        return path.split(".")[0], f"it is nested deeper than {_DEEPEST} levels, or contains itself"
    if isinstance(value, Mapping):
        return _find_fault_in_mapping(path, value, depth)
    if isinstance(value, (list, tuple)):
        return _first_fault(((f"{path}[{index}]", item) for index, item in enumerate(value)), depth)
    fault = _fault_of_leaf(value)
    return (path, fault) if fault else None


def _find_fault_in_mapping(path: str, value: Mapping[Any, Any], depth: int) -> tuple[str, str] | None:
    if not isinstance(value, dict):
        return path, f"a {type(value).__name__} is no dict; send dict(...)"
    for key in value:
        if not isinstance(key, str):
            return path, f"the key {key!r} is no str"
        fault = _fault_of_leaf(key)
        if fault:
            return path, f"the key {key!r}: {fault}"
    return _first_fault(((f"{path}.{key}", item) for key, item in value.items()), depth)


def _first_fault(items: Any, depth: int) -> tuple[str, str] | None:
    for path, item in items:
        found = _find_fault(path, item, depth + 1)
        if found:
            return found
    return None


def _fault_of_leaf(value: Any) -> str | None:
    if value is None or isinstance(value, (bool, float, bytes, bytearray, memoryview, msgpack.ExtType)):
        return None
    if isinstance(value, int):
        return None if _MOST_SIGNED <= value <= _MOST_UNSIGNED else "it needs more than 64 bits"
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return "it holds a lone surrogate, which is not UTF-8; send bytes (os.fsencode for a file name)"
        return None
    if isinstance(value, datetime):
        return None if value.tzinfo is not None else "it is a naive datetime; add a tzinfo"
    if isinstance(value, Sequence):
        return f"a {type(value).__name__} is no list"
    return f"a {type(value).__module__}.{type(value).__qualname__} is no plain data"
