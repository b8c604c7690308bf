"""Errors that can't be shown, and results that can't be read."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

from jobboard import BoardUnavailable, Broken, Cancelled, ClaimLost, Handlers, InvalidPosting, RunAgain


class RaisingText(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


class ExitingText(BaseException):
    def __str__(self) -> str:
        raise SystemExit(3)


class BrokenWithoutText(Broken):
    def __str__(self) -> str:
        raise ValueError("no text")


class RaisingNotes(Exception):
    @property
    def __notes__(self) -> list[str]:
        raise ValueError("no notes")


class RaisingCause(Exception):
    @property
    def __cause__(self) -> BaseException | None:  # type: ignore[override]
        raise ValueError("no cause")


class RaisingClass(Exception):
    @property
    def __class__(self) -> type:  # type: ignore[override]
        raise ValueError("no class")


class OddText(str):
    """A text that answers nothing."""

    __slots__ = ()

    def splitlines(self, keepends: bool = False) -> list[str]:
        raise ValueError("no lines")

    def __reduce__(self) -> Any:
        raise ValueError("no pickle")


class TextOfItsOwnClass(Exception):
    def __str__(self) -> str:
        return OddText("odd text")


class Nameless(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise ValueError("no name")


class RaisingName(Exception, metaclass=Nameless):
    pass


class AgainForNoMoment(RunAgain):
    def __init__(self) -> None:
        super().__init__()
        self.at = object()  # type: ignore[assignment]


def group() -> BaseException:
    return ExceptionGroup("a group", [RaisingText(), ValueError("plain")])


#: What makes each of them, and what its reason names.
ODD_ERRORS: dict[str, Callable[[], BaseException]] = {
    made.__name__: made
    for made in (
        RaisingText, ExitingText, BrokenWithoutText, RaisingNotes, RaisingCause, RaisingClass, TextOfItsOwnClass,
        AgainForNoMoment,
    )
}  # fmt: skip
ODD_ERRORS |= {"RaisingName": lambda: type.__call__(RaisingName), "ExceptionGroup": group}


class RaisingDict(dict[str, Any]):
    def items(self) -> Any:
        raise ZeroDivisionError


class ExitingDict(dict[str, Any]):
    def items(self) -> Any:
        raise SystemExit(3)


class RaisingResult:
    @property
    def __class__(self) -> type:  # type: ignore[override]
        raise ZeroDivisionError


ODD_RESULTS: dict[str, Callable[[], object]] = {
    "raising dict": lambda: RaisingDict(a=1),
    "exiting dict": lambda: ExitingDict(a=1),
    "exiting dict inside": lambda: {"a": {"b": ExitingDict(c=1)}},
    "object": object,
    "function": lambda: lambda: None,
    "raising class": RaisingResult,
}
#: All that a handler raises and returns, on each executor.
ERRORS: dict[str, Callable[[], BaseException]] = ODD_ERRORS | {
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "BaseException": lambda: type("Odd", (BaseException,), {})("odd"),
    "StopIteration": lambda: StopIteration(1),
    "StopAsyncIteration": StopAsyncIteration,
    "CancelledError": asyncio.CancelledError,
    "MemoryError": MemoryError,
    "Broken": lambda: Broken("odd"),
    "Cancelled": Cancelled,
    "ClaimLost": lambda: ClaimLost("not so"),
    "BoardUnavailable": lambda: BoardUnavailable("not so"),
    "InvalidPosting": lambda: InvalidPosting("not so"),
    "EOFError": EOFError,
    "BrokenPipeError": BrokenPipeError,
    "huge text": lambda: ValueError("x" * 5_000_000),
    "surrogates": lambda: ValueError("\ud800\x00\x9b"),
    "UnicodeDecodeError": lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "odd"),
}
RESULTS: dict[str, Callable[[], object]] = ODD_RESULTS | {
    "huge": lambda: "x" * 5_000_000,
    "nested": lambda: functools.reduce(lambda inner, _: [inner], range(150), []),
    "big integer": lambda: 2**100,
    "surrogate": lambda: "\ud800",
    "odd keys": lambda: {1: 2, None: 3},
    "set": lambda: {1, 2},
    "generator": lambda: (number for number in range(3)),
    "exception": lambda: SystemExit(3),
    "handlers": Handlers,
}
