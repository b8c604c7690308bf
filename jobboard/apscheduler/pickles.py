"""Reads what APScheduler 3 pickled, and runs nothing of it.

It is a machine of its own for the opcodes, not Python's unpickler. What a pickle may name, and what that becomes, is in
:mod:`~jobboard.apscheduler.pickled_names`.
"""

from __future__ import annotations

import pickletools  # nosec B403
from collections.abc import Callable
from typing import Any

from jobboard.apscheduler.pickled_names import Refused, State, call, known, make
from jobboard.text import in_one_line

#: More than any job of APScheduler takes, but for one with large arguments; those are refused.
MAX_BYTES = 1024 * 1024
MAX_OPCODES = 50_000
_MAX_INT_BYTES = 9


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
        self._stack.append(known(*argument.split(" ", 1)))

    def stack_global(self, _: Any) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        self._stack.append(known(module, name))

    def reduce(self, _: Any) -> None:
        arguments, function = self._stack.pop(), self._stack.pop()
        self._stack.append(call(function, arguments))

    def newobj(self, _: Any) -> None:
        arguments, kind = self._stack.pop(), self._stack.pop()
        self._stack.append(make(kind, arguments))

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
