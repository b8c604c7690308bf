"""Values of types that msgpack has no form for, such as a UUID: as plain data on the board, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeVar
from uuid import UUID

from jobboard.interrupts import is_of_signal_handler
from jobboard.validation import check_text

T = TypeVar("T")

#: The keys of a converted value on the board.
_TYPE, _VALUE = "$type", "$value"

#: What msgpack carries; a subclass arrives as one of these.
_CARRIED = (type(None), bool, int, float, str, bytes, bytearray, memoryview, list, tuple, dict, datetime)


@dataclass(frozen=True, slots=True)
class Form:
    """How the values of one type become plain data, and are made from it.

    ``takes`` are the types of plain data that ``decode`` is called with when a typed payload asks for the type.
    """

    name: str
    kind: type
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]
    takes: tuple[type, ...] = (str,)


def _seconds(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


#: What every converter has.
STANDARD_FORMS = (
    Form("uuid", UUID, str, UUID),
    Form("date", date, date.isoformat, date.fromisoformat),
    Form("time", time, time.isoformat, time.fromisoformat),
    Form("timedelta", timedelta, timedelta.total_seconds, _seconds, (int, float)),
    Form("decimal", Decimal, str, Decimal, (str, int)),
)


class TypedData(dict[str, Any]):
    """Details of a task, or a record in them, as plain data for a board without a converter.

    Whoever made it did not know the board. ``encode`` makes it once more, as it is where a converter is used.
    """

    __slots__ = ("encode",)

    def __init__(self, plain: dict[str, Any], encode: Callable[[Converter], Any]) -> None:
        super().__init__(plain)
        self.encode = encode


class Converter:
    """Lets a board carry further types: ``fetch(name, uri, converter=Converter())``.

    UUID, date, time, timedelta and Decimal are known from the beginning. On the board a value is plain data,
    ``{"$type": "uuid", "$value": "..."}``, and that is also what those read who have no converter, or whose converter
    does not know the name. Only functions that were added here are called; what is on the board only names them.
    """

    def __init__(self) -> None:
        self._added: list[Form] = []
        self._by_kind: dict[type, Form] = {}
        self._by_name: dict[str, Form] = {}
        for form in STANDARD_FORMS:
            self._know(form)

    def add(self, name: str, kind: type[T], encode: Callable[[T], Any], decode: Callable[[Any], T]) -> Converter:
        """Carry the values of a type and of its subclasses, which arrive as that type; do so before the board is used.

        Typed details ask for it before they look at the fields of a dataclass or a model.
        Both functions should be quick and depend on nothing else: any thread that reads or writes a job calls them.

        :param name: says on the board what the value is; every reader has to know it by the same name.
        :param encode: returns plain data for a value.
        :param decode: makes the value of that. If it raises an exception, readers get what is on the board.
        :returns: this converter.
        :raises ValueError: the name or the type is known already, or the board carries the type itself.
        :raises TypeError: an argument is of another type.
        """
        check_text("name", name)
        if not isinstance(kind, type):
            raise TypeError(f"kind must be a class, not {type(kind).__name__}")
        if not callable(encode) or not callable(decode):
            raise TypeError("encode and decode must be callable")
        if name in self._by_name or kind in self._by_kind:
            raise ValueError(f"{name!r} or {kind.__qualname__} is known already")
        if issubclass(kind, _CARRIED):
            raise ValueError(f"{kind.__qualname__} is carried as it is, without a converter")
        form = Form(name, kind, encode, decode)
        self._added.append(form)
        self._know(form)
        return self

    def _know(self, form: Form) -> None:
        self._by_kind[form.kind] = self._by_name[form.name] = form

    def form_of(self, value: object) -> Form | None:
        """Return how a value is converted; None if it is not."""
        # A datetime is a date as well, but never one of these: without a time zone it names no moment.
        kinds = () if isinstance(value, _CARRIED) else type(value).__mro__
        return next((self._by_kind[kind] for kind in kinds if kind in self._by_kind), None)

    def has_added(self, value: object) -> bool:
        """Whether a type that was added carries a value: typed details have forms of their own for all others."""
        form = self.form_of(value) if self._added else None
        return form is not None and form not in STANDARD_FORMS

    def is_converted(self, value: dict[str, Any]) -> bool:
        """Whether :meth:`from_plain` may make something else of this dict."""
        return len(value) == 2 and _VALUE in value and value.get(_TYPE) in self._by_name

    def in_its_forms(self, value: Any) -> Any:
        """Return a value in which all :class:`TypedData` is as this converter lets it be; what has none, as it is."""
        if not self._added:
            return value
        if isinstance(value, TypedData) and value == value.encode(NO_CONVERTER):
            return value.encode(self)
        # Something was added to it, or it is in data of somebody's own.
        if isinstance(value, dict):
            changed = {key: self.in_its_forms(item) for key, item in value.items()}
            return changed if any(changed[key] is not item for key, item in value.items()) else value
        if isinstance(value, list | tuple):
            items = [self.in_its_forms(item) for item in value]
            return items if any(new is not item for new, item in zip(items, value, strict=True)) else value
        return value

    def to_plain(self, value: object) -> dict[str, Any]:
        """Return a value as plain data.

        :raises TypeError: it has no form, or that can't be made; says nothing of the value.
        """
        form = self.form_of(value)
        if form is None:
            raise TypeError(f"{type(value).__qualname__} is not supported")
        try:
            return {_TYPE: form.name, _VALUE: form.encode(value)}
        except Exception as error:
            if is_of_signal_handler(error):
                raise
            raise TypeError(f"its converter {form.name!r} raised {type(error).__name__}") from None

    def from_plain(self, value: dict[str, Any]) -> Any:
        """Return the value that was converted to this dict; the dict itself if it is another one."""
        name = value.get(_TYPE) if len(value) == 2 and _VALUE in value else None
        form = self._by_name.get(name) if isinstance(name, str) else None
        if form is None:
            return value
        try:
            return form.decode(value[_VALUE])
        except Exception as error:
            if is_of_signal_handler(error):
                raise
            # A program that only looks at the board must be able to see it all the same.
            return value

    def __reduce__(self) -> tuple[object, ...]:
        return _converter_of, (tuple(self._added),)


#: Typed details of a board without one are encoded as with one that nothing was added to.
NO_CONVERTER = Converter()


def _converter_of(forms: tuple[Form, ...]) -> Converter:
    converter = Converter()
    for form in forms:
        converter.add(form.name, form.kind, form.encode, form.decode)
    return converter


def check_converter(value: object) -> Converter | None:
    """Return a board's option ``converter``."""
    if value is not None and not isinstance(value, Converter):
        raise TypeError(f"it must be a Converter, not {type(value).__name__}")
    return value
