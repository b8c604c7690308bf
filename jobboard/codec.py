"""msgpack in and out: what a job carries is plain data, never code, and checked by a round trip before it is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from datetime import datetime
from typing import Any, NamedTuple

import msgpack

from jobboard.converter import Converter
from jobboard.errors import InvalidPosting

#: A packer keeps a buffer as large as what it has packed; after more bytes than this it is dropped.
_MAX_KEPT = 128 * 1024


class Packers:
    """Each packs for one call at a time, since a packer is not thread-safe; there are as many as calls at a time.

    :param options: of :class:`msgpack.Packer`.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._idle: list[Any] = []

    def pack(self, value: Any) -> bytes:
        """Return the value as msgpack; raises whatever that does."""
        try:
            packer = self._idle.pop()
        except IndexError:
            packer = msgpack.Packer(**self._options)
        # One that fails is not used again.
        data: bytes = packer.pack(value)
        if len(data) <= _MAX_KEPT:
            self._idle.append(packer)
        return data


#: The most that details, a result or a checkpoint may take once encoded, in bytes.
MAX_DETAILS = 512 * 1024

#: What no client writes and none reads: more bytes than this, and lists and dicts in each other deeper than this.
MAX_ENCODED, MAX_DEPTH = 8 * 1024 * 1024, 200

#: How many lists and dicts one value may have. An empty list is one byte once encoded, and takes 64 in memory.
MAX_CONTAINERS = 250_000
#: What is read has some more: a schedule its progress, a part of a journal its other entries.
_MAX_READ_CONTAINERS = MAX_CONTAINERS + 50_000

#: The bytes that begin msgpack's lists and dicts, and those that begin its byte strings; texts may hold them as well.
_CONTAINERS = bytes([*range(0x80, 0xA0), *range(0xDC, 0xE0)])
_BYTE_STRINGS = bytes([0xC4, 0xC5, 0xC6])
_NO_CONTAINERS = bytes(set(range(256)) - set(_CONTAINERS))
_NO_BYTE_STRINGS = bytes(set(range(256)) - set(_BYTE_STRINGS))
_pack_plain = Packers(datetime=True).pack
_MIN_INT, _MAX_INT = -(2**63), 2**64 - 1


#: What decoders raise on garbage, and no more: for what a signal's handler raises while a good entry is decoded, that
#: would be moved to the trash.
DECODING_ERRORS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
    msgpack.UnpackException,
)


class NewerFormat(ValueError):
    """Bytes that a newer jobboard has written; they are left alone, for those who can read them."""


class Encoded(NamedTuple):
    """The bytes of a value, and the value as its readers will decode it."""

    data: bytes
    value: Any


def encode(what: str, value: Any, *, largest: int = MAX_DETAILS, converter: Converter | None = None) -> Encoded:
    """Return ``value`` as msgpack, and as it arrives.

    Tuples arrive as lists and aware datetimes as UTC; everything else arrives as it was sent.

    :param what: how errors name the value, such as ``details``.
    :param largest: the limit in bytes.
    :param converter: makes plain data of what msgpack does not carry, and that of it again.
    :raises InvalidPosting: names the path of what can't be stored.
    """
    try:
        if converter is not None:
            value = converter.in_its_forms(value)
        data = _pack(value, converter)
        arrived = _unpack(data, converter, MAX_CONTAINERS)
    except InvalidPosting:
        # Of typed details, and says where.
        raise
    except (TypeError, ValueError, OverflowError, RecursionError, UnicodeError) as error:
        path, fault = _find_fault(what, value, 0, converter) or (what, str(error))
        raise InvalidPosting(f"{path} can't be stored: {fault}", path=path) from None
    if len(data) > largest:
        raise InvalidPosting(
            f"{what} is {len(data)} bytes once encoded; at most {largest} are allowed. "
            "Store large data elsewhere and post a reference to it",
            path=what,
        )
    return Encoded(data, arrived)


def pack(value: Any, converter: Converter | None = None) -> bytes:
    """Return the bytes that :func:`encode` would, without its checks; raises whatever msgpack does."""
    return _pack(value if converter is None else converter.in_its_forms(value), converter)


def _pack(value: Any, converter: Converter | None) -> bytes:
    if converter is None:
        return _pack_plain(value)
    data: bytes = msgpack.packb(value, datetime=True, default=converter.to_plain)
    return data


def decode(data: bytes, *, largest: int = MAX_ENCODED, converter: Converter | None = None) -> Any:
    """Return what :func:`encode` was given; raises ``ValueError`` on bytes that it can't have made."""
    if len(data) > largest:
        raise ValueError(f"it is {len(data)} bytes; no more than {largest} are read")
    try:
        return _unpack(data, converter, _MAX_READ_CONTAINERS)
    except ValueError:
        raise
    except DECODING_ERRORS as error:
        # A moment outside of the calendar is an OverflowError, and so on; callers shall know of one error only.
        raise ValueError(f"{type(error).__name__}: {error}") from None


def check_format(what: str, form: object, known: int) -> None:
    """Raise :class:`NewerFormat` for a format number that is yet to come, ``ValueError`` for what is none."""
    if type(form) is int and known < form < 128:
        raise NewerFormat(f"{what} of format {form}; this version reads {known}")
    if form != known or type(form) is not int:
        raise ValueError(f"not {what}: it begins with no format number")


def refuse_extension(code: int, data: bytes) -> Any:
    raise ValueError(f"it holds an extension of type {code}, which nobody writes")


def _unpack(data: bytes, converter: Converter | None, most: int) -> Any:
    """Unpack what is plain data: text for keys, no extensions but moments, nested no deeper than :data:`MAX_DEPTH`.

    Only data that holds the bytes in question is looked at a second time, or counted.

    :param most: lists and dicts that it may have.
    """
    hook: Callable[[dict[Any, Any]], Any] | None = None
    if data.translate(None, _NO_BYTE_STRINGS):
        hook = (
            _refuse_other_keys if converter is None else lambda value: converter.from_plain(_refuse_other_keys(value))
        )
    elif converter is not None:
        hook = converter.from_plain
    # No list or dict is without one of these bytes.
    at_most = len(data.translate(None, _NO_CONTAINERS)) if len(data) > MAX_DEPTH else 0
    count = _Count(most) if at_most > most else None
    value = msgpack.unpackb(
        data,
        raw=False,
        strict_map_key=True,
        timestamp=3,
        list_hook=count,
        object_hook=hook if count is None else count.before(hook),
        ext_hook=refuse_extension,
    )
    if at_most > MAX_DEPTH:
        _check_depth(value)
    return value


class _Count:
    """Counts lists and dicts while they are made, since too many would take the memory of all."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most

    def __call__(self, value: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"it has more than {self._most} lists and dicts")
        return value

    def before(self, hook: Callable[[dict[Any, Any]], Any] | None) -> Callable[[dict[Any, Any]], Any]:
        return self if hook is None else lambda value: hook(self(value))


def _refuse_other_keys(value: dict[Any, Any]) -> dict[str, Any]:
    """msgpack carries keys of bytes too, which no JSON reader could ever show."""
    for key in value:
        if not isinstance(key, str):
            raise ValueError(f"the key {key!r} is no str")
    return value


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [child for item in level if isinstance(item, (list, dict)) for child in _children_of(item)]
        if not level:
            return
    raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")


def _children_of(item: list[Any] | dict[str, Any]) -> Iterable[Any]:
    return item.values() if isinstance(item, dict) else item


def _find_fault(path: str, value: Any, depth: int, converter: Converter | None) -> tuple[str, str] | None:
    """Walk to the first value that msgpack refuses; None when every single value is fine."""
    if depth > MAX_DEPTH:
        return path.split(".")[0], f"it is nested deeper than {MAX_DEPTH} levels, or contains itself"
    if converter is not None and converter.form_of(value) is not None:
        try:
            return _find_fault(path, converter.to_plain(value), depth + 1, converter)
        except TypeError as error:
            return path, str(error)
    if isinstance(value, Mapping):
        return _find_fault_in_mapping(path, value, depth, converter)
    if isinstance(value, (list, tuple)):
        items = ((f"{path}[{index}]", item) for index, item in enumerate(value))
        return _first_fault(items, depth, converter)
    fault = _fault_of_leaf(value)
    return (path, fault) if fault else None


def _find_fault_in_mapping(
    path: str, value: Mapping[Any, Any], depth: int, converter: Converter | None
) -> tuple[str, str] | None:
    if not isinstance(value, dict):
        return path, f"{_name_of(type(value))} is not supported; convert it to dict"
    for key in value:
        if not isinstance(key, str):
            return path, f"the key {key!r} must be a str"
        fault = _fault_of_leaf(key)
        if fault:
            return path, f"the key {key!r}: {fault}"
    return _first_fault(((f"{path}.{key}", item) for key, item in value.items()), depth, converter)


def _first_fault(items: Iterable[tuple[str, Any]], depth: int, converter: Converter | None) -> tuple[str, str] | None:
    for path, item in items:
        found = _find_fault(path, item, depth + 1, converter)
        if found:
            return found
    return None


def _fault_of_leaf(value: Any) -> str | None:
    if value is None or isinstance(value, (bool, float, bytes, bytearray, memoryview)):
        return None
    for kind, fault_of in _LEAVES:
        if isinstance(value, kind):
            return fault_of(value)
    return f"{_name_of(type(value))} is not supported; convert it to str"


def _fault_of_text(value: str) -> str | None:
    try:
        value.encode()
    except UnicodeEncodeError:
        return "it holds a lone surrogate, which is not UTF-8; convert it to bytes (os.fsencode for a file name)"
    return None


_LEAVES: list[tuple[type, Callable[[Any], str | None]]] = [
    (int, lambda value: None if _MIN_INT <= value <= _MAX_INT else "an int must fit 64 bits"),
    (str, _fault_of_text),
    (datetime, lambda value: None if value.tzinfo else "a naive datetime names no moment; add a tzinfo"),
    (Sequence, lambda value: f"{_name_of(type(value))} is not supported; convert it to list"),
    (Set, lambda value: f"{_name_of(type(value))} is not supported; convert it to list"),
    (Iterator, lambda value: f"{_name_of(type(value))} is not supported; convert it to list"),
]


def _name_of(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
