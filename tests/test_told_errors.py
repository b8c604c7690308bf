"""What is told of an exception takes no more room or work than its text does, however many lines that has."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from jobboard import Broken
from jobboard.conductor.outcome import Failed, outcome_of_call

#: Two characters each; as a list they take thirty times as much.
LINES = 500_000


def with_note(text: str) -> BaseException:
    error = ValueError("short")
    error.add_note(text)
    return error


def with_cause(text: str) -> BaseException:
    error = ValueError("short")
    error.__cause__ = ValueError(text)
    return error


def of_syntax(text: str) -> BaseException:
    return ExceptionGroup("group", [SyntaxError(text, ("file", 1, 1, text))])


ERRORS: dict[str, Callable[[str], BaseException]] = {
    "plain": ValueError,
    "broken": Broken,
    "key": KeyError,
    "note": with_note,
    "cause": with_cause,
    "group": lambda text: ExceptionGroup(text, [ValueError(text)]),
    "group in a group": lambda text: ExceptionGroup("group", [ExceptionGroup("inner", [with_note(text)])]),
    "syntax": of_syntax,
}


@pytest.mark.parametrize("kind", ERRORS)
def test_a_text_of_many_lines_is_not_split_whole(kind: str) -> None:
    text = "x\n" * LINES
    error = ERRORS[kind](text)

    def fail() -> None:
        raise error

    tracemalloc.start()
    outcome = outcome_of_call(fail)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * len(text)
    assert isinstance(outcome, Failed)
    assert len(outcome.reason) < 5_000
    assert outcome.error is not None
    assert len(outcome.error) < 20_000


def test_a_long_text_hides_neither_the_frames_nor_the_name() -> None:
    def fail() -> None:
        raise ValueError("x\n" * LINES)

    outcome: Any = outcome_of_call(fail)
    assert outcome.reason == "ValueError: x"
    assert "in fail\n" in outcome.error
    assert "\nValueError: x\nx\n" in outcome.error


def test_a_deep_recursion_is_told_with_where_it_began() -> None:
    def descend() -> None:
        descend()

    outcome: Any = outcome_of_call(descend)
    assert outcome.reason.startswith("RecursionError: ")
    assert "in descend\n" in outcome.error
    assert "more times]" in outcome.error
