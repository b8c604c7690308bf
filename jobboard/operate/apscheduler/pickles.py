"""Reads what APScheduler 3 pickled, and runs nothing of it.

It is a machine of its own for the opcodes, not Python's unpickler: it makes plain values, times, zones, and a
:class:`State` for each of APScheduler's own triggers. Every other name in a pickle is refused.
"""

from __future__ import annotations

import pickletools  # nosec B403
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from typing import Any, NamedTuple

from jobboard.backends.text import in_one_line
from jobboard.schedules.triggers.zones import zone_named

#: More than any job of APScheduler takes, but for one with large arguments; those are refused.
MAX_BYTES = 1024 * 1024
MAX_OPCODES = 50_000
_MAX_INT_BYTES = 9


class Refused(ValueError):
    """Why a job can't be imported."""


@dataclass(slots=True, eq=False)
class State:
    """An object of one of APScheduler's classes, as its pickle tells it; its class is never imported."""

    kind: str
    fields: dict[str, Any] = field(default_factory=dict)


class _Global(NamedTuple):
    """A class or function that a pickle names."""

    module: str
    name: str

    @property
    def text(self) -> str:
        return in_one_line(f"{self.module}.{self.name}")[:200]


@dataclass(slots=True, eq=False)
class PytzZone:
    """A zone of pytz, at one of its offsets; without an offset a zone as such."""

    name: str
    offset: timedelta | None = None


_TRIGGERS = "apscheduler.triggers."
#: APScheduler's own classes that become a :class:`State`, by their modules.
_CLASSES = {
    _TRIGGERS + "date": {"DateTrigger"},
    _TRIGGERS + "interval": {"IntervalTrigger"},
    _TRIGGERS + "calendarinterval": {"CalendarIntervalTrigger"},
    _TRIGGERS + "combining": {"AndTrigger", "OrTrigger"},
    _TRIGGERS + "cron": {"CronTrigger"},
    _TRIGGERS + "cron.fields": {"BaseField", "MonthField", "WeekField", "DayOfMonthField", "DayOfWeekField"},
    _TRIGGERS + "cron.expressions": {
        "AllExpression",
        "RangeExpression",
        "MonthRangeExpression",
        "WeekdayRangeExpression",
        "WeekdayPositionExpression",
        "LastDayOfMonthExpression",
    },
}


def read_pickle(data: bytes) -> Any:
    """Return what a pickle holds: plain values, and a :class:`State` for each of APScheduler's objects.

    :raises Refused: it is no pickle, larger than any job, or holds something else.
    """
    if len(data) > MAX_BYTES:
        raise Refused(f"its state is {len(data)} bytes; at most {MAX_BYTES} are read")
    try:
        return _Machine().run(data)
    except Refused:
        raise
    except Exception as error:
        # Whatever bytes do to the machine, one job must not stop the others.
        raise Refused(in_one_line(f"its state is no pickle that can be read: {error!r}")[:300]) from None


class _Machine:
    """The stack machine that pickles are programs for."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._outer: list[list[Any]] = []
        self._memo: dict[int, Any] = {}

    def run(self, data: bytes) -> Any:
        for number, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if number >= MAX_OPCODES:
                raise Refused(f"its state takes more than {MAX_OPCODES} steps to read")
            if opcode.name == "STOP":
                break
            if opcode.name in _CONSTANTS:
                self._stack.append(_CONSTANTS[opcode.name]())
            elif opcode.name in _VALUES:
                self._stack.append(_checked(argument))
            elif opcode.name in _STEPS:
                _STEPS[opcode.name](self, argument)
            elif opcode.name in ("EMPTY_SET", "FROZENSET"):
                raise Refused("its args or kwargs hold a set, which details can't; make it a list")
            elif opcode.name not in ("PROTO", "FRAME"):
                raise Refused(f"its state uses {opcode.name}, which no job of APScheduler needs")
        [result] = self._stack
        return result

    def mark(self, _: Any) -> None:
        self._outer.append(self._stack)
        self._stack = []

    def _since_mark(self) -> list[Any]:
        items = self._stack
        self._stack = self._outer.pop()
        return items

    def pop(self, _: Any) -> None:
        if self._stack:
            self._stack.pop()
        else:
            self._since_mark()

    def pop_mark(self, _: Any) -> None:
        self._since_mark()

    def dup(self, _: Any) -> None:
        self._stack.append(self._stack[-1])

    def put(self, index: Any) -> None:
        self._memo[int(index)] = self._stack[-1]

    def memoize(self, _: Any) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def get(self, index: Any) -> None:
        self._stack.append(self._memo[int(index)])

    def make_tuple(self, _: Any) -> None:
        items = self._since_mark()
        self._stack.append(tuple(items))

    def make_list(self, _: Any) -> None:
        items = self._since_mark()
        self._stack.append(items)

    def make_dict(self, _: Any) -> None:
        items = self._since_mark()
        self._stack.append({})
        self._set(items)

    def append(self, _: Any) -> None:
        value = self._stack.pop()
        self._extend([value])

    def appends(self, _: Any) -> None:
        self._extend(self._since_mark())

    def _extend(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is not list:
            raise Refused(f"it appends to a {type(target).__name__}")
        target.extend(items)

    def setitem(self, _: Any) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._set([key, value])

    def setitems(self, _: Any) -> None:
        self._set(self._since_mark())

    def _set(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is not dict:
            raise Refused(f"it sets an item of a {type(target).__name__}")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str):
                # Also since numbers can be chosen so that all of them meet in one place of a dict.
                raise Refused(f"it holds a dict with a key that is no str but {type(key).__name__}")
            target[key] = value

    def global_(self, argument: Any) -> None:
        self._stack.append(_known(*argument.split(" ", 1)))

    def stack_global(self, _: Any) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        self._stack.append(_known(module, name))

    def reduce(self, _: Any) -> None:
        arguments, function = self._stack.pop(), self._stack.pop()
        self._stack.append(_called(function, arguments))

    def newobj(self, _: Any) -> None:
        arguments, kind = self._stack.pop(), self._stack.pop()
        self._stack.append(_new(kind, arguments))

    def build(self, _: Any) -> None:
        state = self._stack.pop()
        target = self._stack[-1]
        if isinstance(state, tuple) and len(state) == 2:
            # From APScheduler 3.0, whose classes had slots.
            state = state[1]
        if not isinstance(target, State) or not isinstance(state, dict):
            raise Refused(f"it sets attributes of a {type(target).__name__}")
        target.fields.update(state)


_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
}
_VALUES = frozenset(
    {
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
        *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    }
)


def _tuple_of(size: int) -> Callable[[_Machine, Any], None]:
    def step(machine: _Machine, _: Any) -> None:
        stack = machine._stack
        if len(stack) < size:
            raise Refused("its state is no pickle: a tuple has too few items")
        stack[-size:] = [tuple(stack[-size:])]

    return step


_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    "MARK": _Machine.mark,
    "POP": _Machine.pop,
    "POP_MARK": _Machine.pop_mark,
    "DUP": _Machine.dup,
    "PUT": _Machine.put,
    "BINPUT": _Machine.put,
    "LONG_BINPUT": _Machine.put,
    "MEMOIZE": _Machine.memoize,
    "GET": _Machine.get,
    "BINGET": _Machine.get,
    "LONG_BINGET": _Machine.get,
    "TUPLE": _Machine.make_tuple,
    "TUPLE1": _tuple_of(1),
    "TUPLE2": _tuple_of(2),
    "TUPLE3": _tuple_of(3),
    "LIST": _Machine.make_list,
    "DICT": _Machine.make_dict,
    "APPEND": _Machine.append,
    "APPENDS": _Machine.appends,
    "SETITEM": _Machine.setitem,
    "SETITEMS": _Machine.setitems,
    "GLOBAL": _Machine.global_,
    "STACK_GLOBAL": _Machine.stack_global,
    "REDUCE": _Machine.reduce,
    "NEWOBJ": _Machine.newobj,
    "BUILD": _Machine.build,
}


def _checked(value: Any) -> Any:
    if isinstance(value, int) and value.bit_length() > 8 * _MAX_INT_BYTES:
        raise Refused("it holds a number of more than 64 bits")
    return value


# -- what a pickle may name ------------------------------------------------------------------------------------------


def _known(module: object, name: object) -> _Global:
    if not isinstance(module, str) or not isinstance(name, str):
        raise Refused("it names a class or function by something that is no str")
    named = _Global(module, name)
    if named not in _CALLS and name not in _CLASSES.get(module, ()) and named not in _NAMES:
        raise Refused(f"it holds {named.text}, which is no state of APScheduler's own and no plain data")
    return named


def _new(kind: object, arguments: object) -> State:
    if not isinstance(kind, _Global) or kind.name not in _CLASSES.get(kind.module, ()) or arguments != ():
        raise Refused(f"it makes an object of {kind.text if isinstance(kind, _Global) else type(kind).__name__}")
    return State(kind.name)


def _called(function: object, arguments: object) -> Any:
    if not isinstance(function, _Global) or function not in _CALLS or not isinstance(arguments, tuple):
        raise Refused(f"it calls {function.text if isinstance(function, _Global) else type(function).__name__}")
    return _CALLS[function](*arguments)


def _reconstruct(kind: object, base: object, state: object) -> State:
    if base not in _OBJECT or state is not None:
        raise Refused("it makes an object that is not one of APScheduler's")
    return _new(kind, ())


def _encode(text: str, encoding: str) -> bytes:
    """Bytes, as pickles of protocol 2 and older write them."""
    if encoding != "latin1":
        raise Refused(f"it encodes a text as {encoding!r:.50}")
    return text.encode("latin1")


def _raw(value: object, size: int) -> bytes:
    data = value.encode("latin1") if isinstance(value, str) else value
    if not isinstance(data, bytes) or len(data) != size:
        raise Refused("it holds a date or a time that is none")
    return data


def _datetime(raw: object, zone: object = None) -> datetime:
    made: datetime = datetime(_raw(raw, 10))  # type: ignore[call-arg, arg-type]  # noqa: DTZ001
    if isinstance(zone, PytzZone) and zone.offset is not None:
        return made.replace(tzinfo=timezone(zone.offset)).astimezone(zone_named(zone.name))
    return made.replace(tzinfo=None if zone is None else as_zone(zone))


def as_zone(zone: object) -> tzinfo:
    """Return the time zone that a pickle holds."""
    if isinstance(zone, PytzZone):
        return zone_named(zone.name)
    if isinstance(zone, tzinfo):
        return zone
    raise Refused(f"it has a time zone that is a {type(zone).__name__}")


def _date(raw: object) -> date:
    made: date = date(_raw(raw, 4))  # type: ignore[call-arg, arg-type]
    return made


def _time(raw: object) -> time:
    made: time = time(_raw(raw, 6))  # type: ignore[arg-type]
    return made


def _pytz(name: str, offset: int | None = None, _dst: int = 0, _abbreviation: str = "") -> PytzZone:
    zone_named(name)
    return PytzZone(name, None if offset is None else timedelta(seconds=offset))


def _pytz_utc() -> tzinfo:
    return zone_named("UTC")


def _pytz_offset(minutes: int) -> tzinfo:
    return timezone(timedelta(minutes=minutes))


def _zone_info(name: str, _from_cache: bool = True) -> tzinfo:
    return zone_named(name)


def _shimmed(zone: tzinfo, name: str | None = None) -> tzinfo:
    """The zones of tzlocal 3 and 4, which wrapped others."""
    return zone if name is None else zone_named(name)


def _attribute(owner: object, name: object) -> _Global:
    """Protocols before 4 name a method by ``getattr``."""
    if owner not in _ZONE_CLASSES or name != "_unpickle":
        raise Refused("it reads an attribute of something")
    return _Global("zoneinfo", "ZoneInfo._unpickle")


_OBJECT = frozenset({_Global("builtins", "object"), _Global("__builtin__", "object")})
_ZONE_CLASSES = frozenset({_Global("zoneinfo", "ZoneInfo"), _Global("backports.zoneinfo", "ZoneInfo")})
#: What may be named, but not called.
_NAMES = _OBJECT

#: What may be called, and what is done in its place.
_CALLS: dict[_Global, Callable[..., Any]] = {
    _Global("datetime", "datetime"): _datetime,
    _Global("datetime", "date"): _date,
    _Global("datetime", "time"): _time,
    _Global("datetime", "timedelta"): timedelta,
    _Global("datetime", "timezone"): timezone,
    _Global("zoneinfo", "ZoneInfo._unpickle"): _zone_info,
    _Global("backports.zoneinfo", "ZoneInfo._unpickle"): _zone_info,
    **dict.fromkeys(_ZONE_CLASSES, _zone_info),
    _Global("builtins", "getattr"): _attribute,
    _Global("__builtin__", "getattr"): _attribute,
    _Global("pytz", "_p"): _pytz,
    _Global("pytz", "_UTC"): _pytz_utc,
    _Global("pytz", "FixedOffset"): _pytz_offset,
    _Global("pytz_deprecation_shim._impl", "wrap_zone"): _shimmed,
    _Global("copy_reg", "_reconstructor"): _reconstruct,
    _Global("copyreg", "_reconstructor"): _reconstruct,
    _Global("_codecs", "encode"): _encode,
}
