"""A task's details as what a board carries, of which :func:`fit_details` makes equal details again."""

from __future__ import annotations

import types
from collections import abc
from datetime import date, datetime
from enum import Enum
from functools import partial
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from jobboard.codec import MAX_ENCODED, encode
from jobboard.conductor.dumped_models import dump_model
from jobboard.conductor.typed_details import (
    MAPPINGS,
    SEQUENCES,
    Fitting,
    Misfit,
    bare,
    fields_of,
    is_model,
    is_record,
    is_typed_dict,
)
from jobboard.converter import NO_CONVERTER, STANDARD_FORMS, Converter, TypedData
from jobboard.errors import InvalidPosting

#: The types that arrive as they are, and the classes of which they are; another subclass of these arrives as its base.
_ARRIVING = (type(None), bool, int, float, str, bytes, datetime)
_CARRIED = (*_ARRIVING, bytearray, memoryview, list, tuple, dict)
_FORMS = {form.kind: form for form in STANDARD_FORMS}
#: What may be given where the annotation is no class of its own.
_GIVEN: dict[type, tuple[type, ...]] = {
    abc.Sequence: (list, tuple), abc.Collection: (list, tuple), abc.Iterable: (list, tuple),
    abc.MutableSequence: (list,), abc.Set: (set, frozenset), abc.MutableSet: (set,),
}  # fmt: skip


def encode_details(kind: type, details: Any, converter: Converter | None = None) -> dict[str, Any]:
    """Return details as plain data; what the board's converter carries, or may carry, stays as it is.

    Without the converter, what classes are encoded to is encoded again by a board that has one (:class:`TypedData`).

    :raises InvalidPosting: a field has a value of another type, or one that would not come back; ``path`` names it.
    """
    encoded = _encode(kind, "details", details, converter)
    return encoded if isinstance(encoded, dict) or converter is None else converter.to_plain(encoded)


def _encode(kind: type, at: str, value: Any, converter: Converter | None) -> Any:
    try:
        return _Encoding(converter).encode(kind, value, at)
    except Misfit as misfit:
        fault, path = str(misfit), misfit.path
    except RecursionError:
        fault, path = f"{at} is nested too deep, or contains itself", at
    raise InvalidPosting(f"the details don't fit {kind.__qualname__}: {fault}", path=path)


class _Encoding:
    """Encodes one payload."""

    def __init__(self, converter: Converter | None) -> None:
        self._converter = converter
        #: What became of each dict as each class. Unions in each other would try the inner ones again and again.
        self._known: dict[tuple[int, type], dict[str, Any] | Misfit] = {}

    def encode(self, kind: Any, value: Any, path: str) -> Any:
        """Return a value of the type ``kind`` as plain data, or raise :class:`Misfit`."""
        kind = bare(kind)
        origin, args = get_origin(kind), get_args(kind)
        if kind is Any or isinstance(kind, TypeVar):
            return value
        if self._converter is not None and self._converter.has_added(value):
            return self._check_converted(self._converter, kind, value, path)
        if origin in (Union, types.UnionType):
            return self._encode_union(kind, args, value, path)
        if origin is Literal:
            return _encode_literal(args, value, path)
        if isinstance(origin or kind, type):
            return self._encode_class(origin or kind, args, value, path)
        raise Misfit(path, f"has an annotation that is not supported: {kind!r}")

    def _check_converted(self, converter: Converter, kind: Any, value: Any, path: str) -> Any:
        arrived = encode(path, value, largest=MAX_ENCODED, converter=converter).value
        form = converter.form_of(value)
        if form is None or not isinstance(arrived, form.kind):
            raise Misfit(path, f"would not come back as {_name_of(value)}")
        Fitting().fit(kind, arrived, path)
        return value

    def _encode_union(self, union: Any, kinds: tuple[Any, ...], value: Any, path: str) -> Any:
        if value is None and type(None) in kinds:
            return None
        arms = [kind for kind in kinds if kind is not type(None)]
        if len(arms) == 1:
            return self.encode(arms[0], value, path)
        for arm in arms:
            try:
                encoded = self.encode(arm, value, path)
            except Misfit:
                continue
            # As text, a UUID may be taken for a str.
            if _is_same(Fitting().fit(union, encoded, path), value):
                return encoded
        raise Misfit(path, "fits none of the types that it may have, or would come back as another one of them")

    def _encode_class(self, kind: type, args: tuple[Any, ...], value: Any, path: str) -> Any:
        if is_model(kind):
            dump = dump_model(kind, _exactly(kind, value, path), path, self._converter or NO_CONVERTER)
            return self._decided(kind, value, dump, path) if isinstance(dump, dict) else dump
        if is_record(kind):
            return self._encode_record(kind, value, path)
        if kind in MAPPINGS:
            inner = args[1] if args else Any
            items = _instance_of((dict,), value, path).items()
            if not all(isinstance(key, str) for key, _ in items):
                raise Misfit(path, "has a key that is no str")
            return {key: self.encode(inner, item, f"{path}.*") for key, item in items}
        if kind is tuple:
            return self._encode_tuple(args, value, path)
        if kind in SEQUENCES:
            inner = args[0] if args else Any
            given = _instance_of(_GIVEN.get(kind, (kind,)), value, path)
            return [self.encode(inner, item, f"{path}[{index}]") for index, item in enumerate(given)]
        return _encode_leaf(kind, value, path)

    def _encode_tuple(self, args: tuple[Any, ...], value: Any, path: str) -> list[Any]:
        items = _instance_of((tuple,), value, path)
        kinds = args[:1] * len(items) if args[1:] == (...,) else args or (Any,) * len(items)
        if len(kinds) != len(items):
            raise Misfit(path, f"must have {len(kinds)} items, not {len(items)}")
        pairs = enumerate(zip(kinds, items, strict=True))
        return [self.encode(kind, item, f"{path}[{index}]") for index, (kind, item) in pairs]

    def _encode_record(self, kind: type, value: Any, path: str) -> dict[str, Any]:
        if not is_typed_dict(kind):
            given = _exactly(kind, value, path)
            named = {name: getattr(given, name) for name in fields_of(kind) if hasattr(given, name)}
            return self._decided(kind, value, self._encode_fields(kind, named, path), path)
        given, key = _instance_of((dict,), value, path), (id(value), kind)
        if key not in self._known:
            try:
                self._known[key] = self._decided(kind, value, self._encode_fields(kind, given, path), path)
            except Misfit as misfit:
                self._known[key] = misfit
        if isinstance(known := self._known[key], Misfit):
            raise known
        return known

    def _decided(self, kind: type, value: Any, plain: dict[str, Any], path: str) -> dict[str, Any]:
        """Return a record as plain data; if nobody knows its board yet, with what it was made of."""
        return plain if self._converter is not None else TypedData(plain, partial(_encode, kind, path, value))

    def _encode_fields(self, kind: type, given: dict[str, Any], path: str) -> dict[str, Any]:
        fields = fields_of(kind)
        for name in given:
            if name not in fields:
                raise Misfit(f"{path}.{name}", f"is no field of {kind.__qualname__}")
        for name, (_, is_required) in fields.items():
            if is_required and name not in given:
                raise Misfit(f"{path}.{name}", "is missing")
        return {name: self.encode(fields[name][0], item, f"{path}.{name}") for name, item in given.items()}


def _is_same(back: Any, value: Any) -> bool:
    compares_identity = vars(type(value)).get("__eq__", object.__eq__) is object.__eq__
    return bool(back == value) or (type(back) is type(value) and compares_identity)


def _instance_of(kinds: tuple[type, ...], value: Any, path: str) -> Any:
    if not isinstance(value, kinds):
        raise Misfit(path, f"must be {' or '.join(kind.__qualname__ for kind in kinds)}, not {_name_of(value)}")
    return value


def _exactly(kind: type, value: Any, path: str) -> Any:
    # An instance of a subclass would come back without what that has added.
    if type(value) is not kind:
        raise Misfit(path, f"must be {kind.__qualname__}, not {_name_of(value)}")
    return value


def _name_of(value: object) -> str:
    return type(value).__qualname__


def _encode_literal(allowed: tuple[Any, ...], value: Any, path: str) -> Any:
    if not any(type(value) is type(one) and value == one for one in allowed):
        raise Misfit(path, f"must be one of {', '.join(map(repr, allowed))}")
    if type(value) not in _ARRIVING:
        raise Misfit(path, f"would not come back as {_name_of(value)}")
    return value


def _encode_leaf(kind: type, value: Any, path: str) -> Any:
    if kind is float and type(value) is int:
        return value
    if not isinstance(value, kind) or _means_something_else(kind, value):
        raise Misfit(path, f"must be {kind.__qualname__}, not {_name_of(value)}")
    if isinstance(value, Enum):
        value, kind = value.value, type(value.value)
        if kind not in _ARRIVING:
            raise Misfit(path, f"has a member whose value would not come back as {kind.__qualname__}")
        return value
    if kind in _FORMS:
        encoded = _FORMS[kind].encode(value)
        # A float has not all microseconds of a long timedelta.
        if _FORMS[kind].decode(encoded) != value and value == value:
            raise Misfit(path, f"has a value of {kind.__qualname__} that would not come back as it is")
        return encoded
    if issubclass(kind, _CARRIED) and kind not in _ARRIVING:
        raise Misfit(path, f"would not come back as {kind.__qualname__}")
    return value


def _means_something_else(kind: type, value: object) -> bool:
    return (kind is int and type(value) is bool) or (kind is date and isinstance(value, datetime))
