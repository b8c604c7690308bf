"""Details as a dataclass, a TypedDict or a pydantic model: checked against its fields, and converted."""

from __future__ import annotations

import dataclasses
import sys
import types
from collections import abc
from collections.abc import Callable, Iterator
from datetime import date, datetime
from enum import Enum
from functools import lru_cache
from typing import Any, Literal, NotRequired, Required, TypeVar, Union, get_args, get_origin, get_type_hints

from jobboard.codec import decode, pack
from jobboard.conductor.outcome import Broken, current_converter
from jobboard.converter import STANDARD_FORMS


class InvalidDetails(Broken):
    """The details don't fit the type that the handler asks for; ``path`` names the field, and nothing its value."""

    def __init__(self, message: str, *, path: str | None = None) -> None:
        super().__init__(message)
        self.path = path


class Misfit(Exception):
    def __init__(self, path: str, fault: str) -> None:
        super().__init__(f"{path} {fault}")
        self.path = path


def is_record(kind: object) -> bool:
    """Whether details can be converted to this annotation: a dataclass, a TypedDict or a pydantic model."""
    return isinstance(kind, type) and (dataclasses.is_dataclass(kind) or is_typed_dict(kind) or is_model(kind))


def is_value(kind: object) -> bool:
    """Whether an annotation stands for what details consist of, such as ``int`` or ``list[str]``, never for a job."""
    kind = bare(kind)
    if get_origin(kind) in (Union, types.UnionType):
        return all(arm is type(None) or is_value(arm) for arm in get_args(kind))
    kind = get_origin(kind) or kind
    return isinstance(kind, type) and (kind in _VALUES or issubclass(kind, Enum))


def check_record(kind: type) -> None:
    """Raise an error if the annotations of a class, or of those in it, can't be resolved."""
    for _ in _types_in(kind):
        pass


def fit_details(kind: type, details: Any) -> Any:
    """Return a job's details as an instance of a class.

    What the class does not know is left out. Numbers and texts are not converted into each other, but a text becomes
    what has no form of its own on the board: a UUID, a date, a time, a datetime, a Decimal or a member of an Enum.

    :raises InvalidDetails: they don't fit.
    """
    converter = current_converter.get()
    if converter is not None and converter.is_converted(details):
        # What a job's details are as a whole, readers leave as a dict.
        details = decode(pack(details), converter=converter)
    try:
        return Fitting().fit(kind, details, "details")
    except Misfit as misfit:
        fault, path = str(misfit), misfit.path
    except RecursionError:
        fault, path = "details is nested too deep", "details"
    raise InvalidDetails(f"the details don't fit {kind.__qualname__}: {fault}", path=path)


def is_typed_dict(kind: type) -> bool:
    # Also one of typing_extensions.
    return issubclass(kind, dict) and hasattr(kind, "__required_keys__")


def is_model(kind: object) -> bool:
    # A program that has a model has imported pydantic.
    model = getattr(sys.modules.get("pydantic"), "BaseModel", None)
    return model is not None and isinstance(kind, type) and issubclass(kind, model) and hasattr(kind, "model_validate")


@lru_cache(maxsize=256)
def fields_of(kind: type) -> dict[str, tuple[Any, bool]]:
    """Return the type of each field, and whether it is required."""
    hints = get_type_hints(kind, include_extras=True)
    if is_typed_dict(kind):
        required: frozenset[str] = kind.__required_keys__  # type: ignore[attr-defined]
        # With postponed annotations the class itself does not see these two.
        marked = {Required: True, NotRequired: False}
        return {name: (hint, marked.get(get_origin(hint), name in required)) for name, hint in hints.items()}
    missing = dataclasses.MISSING
    return {
        field.name: (hints[field.name], field.default is missing and field.default_factory is missing)
        for field in dataclasses.fields(kind)
        if field.init
    }


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("it names no moment")
    return moment


#: What a value without a form of its own on the board is made from, and how.
FORMS: dict[type, tuple[tuple[type, ...], Callable[[Any], Any]]] = {
    datetime: ((str,), _moment),
    **{form.kind: (form.takes, form.decode) for form in STANDARD_FORMS},
}
SEQUENCES: dict[type, type] = {
    list: list, set: set, frozenset: frozenset, abc.Sequence: list, abc.MutableSequence: list, abc.Collection: list,
    abc.Iterable: list, abc.Set: frozenset, abc.MutableSet: set,
}  # fmt: skip
MAPPINGS = (dict, abc.Mapping, abc.MutableMapping)

#: What details consist of.
_VALUES = {bool, int, float, complex, str, bytes, bytearray, tuple, *SEQUENCES, *MAPPINGS, *FORMS}

#: How many fields of a model are named.
_MAX_FAULTS = 5


class Fitting:
    """Converts one payload."""

    def __init__(self) -> None:
        #: What became of each dict as each class. Unions in each other would try the inner ones again and again.
        self._known: dict[tuple[int, type], Any] = {}

    def fit(self, kind: Any, value: Any, path: str) -> Any:
        """Return the value as ``kind``, or raise :class:`Misfit`."""
        kind = bare(kind)
        origin, args = get_origin(kind), get_args(kind)
        if kind is Any or isinstance(kind, TypeVar):
            return value
        if origin in (Union, types.UnionType):
            return self._fit_union(args, value, path)
        if origin is Literal:
            if not any(type(value) is type(one) and value == one for one in args):
                raise Misfit(path, f"must be one of {', '.join(map(repr, args))}")
            return value
        if isinstance(origin or kind, type):
            return self._fit_class(origin or kind, args, value, path)
        raise Misfit(path, f"has an annotation that is not supported: {kind!r}")

    def _fit_union(self, kinds: tuple[Any, ...], value: Any, path: str) -> Any:
        if type(value) in kinds:
            return value
        misfit = None
        arms = [kind for kind in kinds if kind is not type(None)]
        for kind in arms:
            try:
                return self.fit(kind, value, path)
            except Misfit as error:
                misfit = error
        if misfit is not None and len(arms) == 1:
            raise misfit
        raise Misfit(path, "fits none of the types that it may have")

    def _fit_class(self, kind: type, args: tuple[Any, ...], value: Any, path: str) -> Any:
        if is_model(kind):
            return fit_model(kind, value, path)
        if is_record(kind):
            return self._fit_record(kind, value, path)
        if kind in MAPPINGS:
            inner = args[1] if args else Any
            return {key: self.fit(inner, item, f"{path}.*") for key, item in _checked(dict, value, path).items()}
        if kind is tuple:
            return self._fit_tuple(args, value, path)
        if kind in SEQUENCES:
            inner = args[0] if args else Any
            items = [self.fit(inner, item, f"{path}[{index}]") for index, item in enumerate(_items(value, path))]
            try:
                return SEQUENCES[kind](items)
            except TypeError:
                raise Misfit(path, "has items that no set can hold") from None
        return _fit_plain(kind, value, path)

    def _fit_tuple(self, args: tuple[Any, ...], value: Any, path: str) -> Any:
        items = _items(value, path)
        kinds = args[:1] * len(items) if args[1:] == (...,) else args or (Any,) * len(items)
        if len(kinds) != len(items):
            raise Misfit(path, f"must have {len(kinds)} items, not {len(items)}")
        return tuple(
            self.fit(kind, item, f"{path}[{index}]")
            for index, (kind, item) in enumerate(zip(kinds, items, strict=True))
        )

    def _fit_record(self, kind: type, value: Any, path: str) -> Any:
        if not is_typed_dict(kind) and isinstance(value, kind):
            return value
        given = _checked(dict, value, path)
        key = id(value), kind
        if key not in self._known:
            try:
                self._known[key] = self._make_record(kind, given, path)
            except Misfit as misfit:
                self._known[key] = misfit
        if isinstance(known := self._known[key], Misfit):
            raise known
        return known

    def _make_record(self, kind: type, given: dict[str, Any], path: str) -> Any:
        fields = fields_of(kind)
        for name, (_, is_required) in fields.items():
            if is_required and name not in given:
                raise Misfit(f"{path}.{name}", "is missing")
        values = {
            name: self.fit(hint, given[name], f"{path}.{name}") for name, (hint, _) in fields.items() if name in given
        }
        try:
            return kind(**values)
        except (TypeError, ValueError, AssertionError) as error:
            # Not its text, which may repeat the value.
            raise Misfit(path, f"was refused by {kind.__qualname__} with {type(error).__name__}") from None


def bare(kind: Any) -> Any:
    """Return an annotation without what says nothing about the type."""
    while True:
        if get_origin(kind) in (Required, NotRequired):
            kind = get_args(kind)[0]
        elif hasattr(kind, "__metadata__"):
            kind = kind.__origin__
        elif hasattr(kind, "__supertype__"):
            kind = kind.__supertype__
        else:
            return Any if kind is object else type(None) if kind is None else kind


def _checked(kind: type, value: Any, path: str) -> Any:
    if not isinstance(value, kind):
        raise Misfit(path, f"must be {kind.__qualname__}, not {type(value).__qualname__}")
    return value


def _items(value: Any, path: str) -> Any:
    return value if isinstance(value, (tuple, set, frozenset)) else _checked(list, value, path)


def _fit_plain(kind: type, value: Any, path: str) -> Any:
    if kind is float and type(value) is int:
        return float(value)
    # Both are subclasses, and mean something else.
    if isinstance(value, kind) and (type(value), kind) not in {(bool, int), (datetime, date)}:
        return value
    forms, make = ((object,), kind) if issubclass(kind, Enum) else FORMS.get(kind, ((), kind))
    if isinstance(value, forms) and (type(value) is not bool or issubclass(kind, Enum)):
        try:
            return make(value)
        except (ValueError, ArithmeticError):
            raise Misfit(path, f"is no {kind.__qualname__}") from None
    raise Misfit(path, f"must be {kind.__qualname__}, not {type(value).__qualname__}")


def fit_model(kind: Any, value: Any, path: str) -> Any:
    from pydantic import ValidationError

    try:
        return kind.model_validate(value)
    except ValidationError as error:
        # Not their messages, which may repeat a value.
        faults = [(fault["loc"], fault["type"]) for fault in error.errors()[:_MAX_FAULTS]]
    names = _names_in(kind)
    first, *others = [(_path_of(path, location, names), what) for location, what in faults]
    raise Misfit(first[0], f"({first[1]})" + "".join(f", {other} ({what})" for other, what in others))


def _path_of(path: str, location: tuple[int | str, ...], names: set[str]) -> str:
    """Name the fields of models only: a key of a dict is data."""
    return path + "".join(
        f"[{step}]" if isinstance(step, int) else f".{step if step in names else '*'}" for step in location
    )


def _names_in(kind: Any) -> set[str]:
    """Return the names and aliases of the fields of a model, and of the models in it."""
    names: set[str] = set()
    for one in _types_in(kind):
        if is_model(one):
            for name, field in one.model_fields.items():
                names |= {text for text in (name, field.alias, field.validation_alias) if isinstance(text, str)}
    return names


def _types_in(kind: Any) -> Iterator[Any]:
    """Iterate over an annotation and all that it is made of, through the fields of its records."""
    todo, seen = [kind], dict[int, Any]()
    while todo:
        one = bare(todo.pop())
        if id(one) not in seen:
            seen[id(one)] = one
            yield one
            todo += [*get_args(one), *_hints_of(one)]


def _hints_of(kind: Any) -> list[Any]:
    if not is_record(kind):
        return []
    if is_model(kind):
        return [field.annotation for field in kind.model_fields.values()]
    return [hint for hint, _ in fields_of(kind).values()]
