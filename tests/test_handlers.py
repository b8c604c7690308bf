"""Registering handlers, and the wait between attempts."""

from __future__ import annotations

import functools
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobboard import Backoff, Handlers, RunAgain, Task
from jobboard.testing import memory_board, run_due


def work(job: Any) -> None: ...


async def work_later(job: Any, _option: int = 0) -> None: ...


class Callee:
    async def __call__(self, job: Any) -> None: ...


class TestHandlers:
    def test_the_decorator_returns_a_task_and_registers_the_function(self) -> None:
        handlers = Handlers()
        task = handlers.handler("work", max_attempts=2, backoff=Backoff(first=3), timeout=4)(work)
        assert isinstance(task, Task)
        handler = handlers["work"]
        assert (handler.task, task.name, task.function) == (task, "work", work)
        assert (handler.function, handler.max_attempts, handler.backoff.first, handler.timeout) == (work, 2, 3, 4)
        assert (handlers.names, len(handlers), list(handlers)) == (frozenset({"work"}), 1, [handler])

    def test_the_defaults(self) -> None:
        handlers = Handlers()
        handlers.handler()(work)
        handler = handlers["work"]
        assert (handler.max_attempts, handler.backoff, handler.timeout) == (5, Backoff(), None)

    def test_the_guide_names_the_defaults(self) -> None:
        guide = (Path(__file__).parents[1] / "doc" / "guides" / "workers.rst").read_text()
        assert re.search(rf"^``max_attempts`` +{Handlers()._defaults.max_attempts} ", guide, re.MULTILINE)
        assert f"``{Backoff()!r}``" in guide

    def test_a_collection_has_defaults_of_its_own(self) -> None:
        handlers = Handlers(max_attempts=2, backoff=Backoff(first=3), timeout=4)
        handlers.add("plain", work)
        handlers.add("own", work, max_attempts=7, backoff=Backoff(first=8), timeout=math.inf)
        copied = handlers.copy()
        copied.add("later", work)
        options = {one.name: (one.max_attempts, one.backoff.first, one.timeout) for one in copied}
        assert options == {"plain": (2, 3, 4), "own": (7, 8, None), "later": (2, 3, 4)}

    def test_so_it_has_for_errors_and_for_giving_up(self) -> None:
        handlers = Handlers(backoff=lambda attempt, error: 7, broken_on=LookupError, give_up_after=60)
        handlers.add("plain", work)
        handlers.add("own", work, backoff=Backoff(first=3), broken_on=(OSError, ValueError), give_up_after=math.inf)
        handlers.add("none", work, broken_on=())
        copied = handlers.copy()
        copied.add("later", work)
        assert {
            one.name: (one.backoff, one.error_rules.delay, one.error_rules.broken_on, one.give_up_after)
            for one in copied
        } == {
            "plain": (Backoff(), delay := handlers["plain"].error_rules.delay, (LookupError,), 60),
            "own": (Backoff(first=3), None, (OSError, ValueError), None),
            "none": (Backoff(), delay, (), 60),
            "later": (Backoff(), delay, (LookupError,), 60),
        }

    def test_an_included_handler_keeps_its_options(self) -> None:
        handlers, others = Handlers(max_attempts=2, timeout=4), Handlers(max_attempts=3)
        others.add("work", work)
        handlers.include(others)
        assert (handlers["work"].max_attempts, handlers["work"].timeout) == (3, None)

    def test_a_name_has_one_handler(self) -> None:
        handlers = Handlers()
        handlers.add("work", work)
        with pytest.raises(ValueError, match=r"'work' already: test_handlers.work; test_handlers.work_later can't"):
            handlers.add("work", work_later)
        assert handlers["work"].function is work

    def test_others_are_included_wholly_or_not_at_all(self) -> None:
        handlers, others = Handlers(), Handlers()
        others.add("b", work)
        others.add("a", work)
        handlers.include(others)
        assert handlers.names == {"a", "b"}
        others.add("c", work)
        with pytest.raises(ValueError, match="'b' already"):
            handlers.include(others)
        assert handlers.names == {"a", "b"}

    def test_a_copy_stands_still(self) -> None:
        handlers = Handlers()
        handlers.add("a", work)
        copied = handlers.copy()
        handlers.add("b", work)
        assert copied.names == {"a"}

    def test_an_endless_timeout_is_none(self) -> None:
        handlers = Handlers()
        handlers.add("a", work, timeout=math.inf)
        assert handlers["a"].timeout is None

    @pytest.mark.parametrize(
        ("function", "is_async"),
        [(work, False), (work_later, True), (functools.partial(work_later, _option=1), True), (Callee(), True)],
    )
    def test_what_is_async_is_known(self, function: Callable[..., Any], is_async: bool) -> None:
        handlers = Handlers()
        handlers.add("a", function)
        assert handlers["a"].is_async is is_async

    @pytest.mark.parametrize(
        ("options", "error"),
        [
            ({"max_attempts": 0}, ValueError), ({"max_attempts": 1.0}, TypeError), ({"max_attempts": True}, TypeError),
            ({"timeout": 0}, ValueError), ({"timeout": -1}, ValueError), ({"timeout": math.nan}, ValueError),
            ({"timeout": "1"}, TypeError), ({"backoff": 3}, TypeError),
            ({"backoff": Backoff}, TypeError), ({"backoff": lambda attempt: 1}, TypeError),
            ({"backoff": lambda attempt, error, job: 1}, TypeError), ({"backoff": work_later}, TypeError),
            ({"broken_on": LookupError()}, TypeError), ({"broken_on": (KeyError, 5)}, TypeError),
            ({"broken_on": "KeyError"}, TypeError), ({"broken_on": (SystemExit,)}, TypeError),
            ({"give_up_after": 0}, ValueError), ({"give_up_after": -1}, ValueError),
            ({"give_up_after": math.nan}, ValueError), ({"give_up_after": "1"}, TypeError),
            ({"silent_for": 0}, ValueError), ({"silent_for": -1}, ValueError), ({"silent_for": "1"}, TypeError),
        ],
    )  # fmt: skip
    def test_a_bad_option_is_refused_and_nothing_registered(
        self, options: dict[str, Any], error: type[Exception]
    ) -> None:
        handlers = Handlers()
        with pytest.raises(error):
            handlers.add("work", work, **options)
        assert len(handlers) == 0
        with pytest.raises(error):
            Handlers(**options)

    @pytest.mark.parametrize(("name", "error"), [("", ValueError), ("a\nb", ValueError), ("x" * 256, ValueError)])
    def test_a_bad_name_is_refused(self, name: str, error: type[Exception]) -> None:
        with pytest.raises(error):
            Handlers().add(name, work)

    def test_the_decorator_without_parentheses_takes_the_functions_name(self) -> None:
        handlers = Handlers(max_attempts=2)
        assert handlers.handler(work).name == "work"
        assert handlers.handler(functools.wraps(work_later)(lambda job: None)).name == "work_later"
        assert handlers.names == {"work", "work_later"}
        assert handlers["work"].max_attempts == 2

    @pytest.mark.parametrize("wrong", [Callee, Callee(), functools.partial(work), 5])
    def test_what_is_no_function_with_a_name_is_refused_by_the_decorator(self, wrong: Any) -> None:
        handlers = Handlers()
        with pytest.raises(TypeError, match=r"Callee is a class|no name of its own|must be a str"):
            handlers.handler(wrong)
        with pytest.raises(TypeError, match=r"Callee is a class|no name of its own|must be callable"):
            handlers.handler()(wrong)
        assert len(handlers) == 0

    def test_only_what_can_be_called_is_a_handler(self) -> None:
        with pytest.raises(TypeError):
            Handlers().add("work", "work")  # type: ignore[arg-type]


class TestBackoff:
    def test_delays_grow_to_the_most(self) -> None:
        backoff = Backoff(first=1, factor=2, most=10, jitter=0)
        assert [backoff.delay(attempt) for attempt in range(1, 7)] == [1, 2, 4, 8, 10, 10]
        assert backoff.delay(1_000_000) == 10

    def test_jitter_spreads_within_its_share(self) -> None:
        delays = {Backoff(first=100, jitter=0.1).delay(1) for _ in range(200)}
        assert len(delays) > 100
        assert 90 <= min(delays) < 98
        assert 102 < max(delays) <= 110

    def test_jitter_never_goes_beyond_the_most(self) -> None:
        backoff = Backoff(first=1, most=100, jitter=0.5)
        delays = {backoff.delay(50) for _ in range(200)}
        assert len(delays) > 100
        assert max(delays) <= 100

    @pytest.mark.parametrize(
        "options",
        [
            {"first": -1},
            {"most": math.inf},
            {"factor": 0.5},
            {"factor": 1e300},
            {"jitter": 1.5},
            {"jitter": -0.1},
            {"first": math.nan},
        ],
    )
    def test_bad_numbers_are_refused(self, options: dict[str, float]) -> None:
        with pytest.raises(ValueError):
            Backoff(**options)


class TestRunAgain:
    def test_bad_times_are_refused_where_they_are_made(self) -> None:
        import datetime

        with pytest.raises(ValueError):
            RunAgain(after=-1)
        with pytest.raises(ValueError):
            RunAgain(at=datetime.datetime(2030, 1, 1))
        with pytest.raises(ValueError):
            RunAgain(at=datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC), after=1)
        with pytest.raises(ValueError):
            RunAgain(pause_lane=True)
        with pytest.raises(TypeError):
            RunAgain(after=1, pause_lane="stripe")  # type: ignore[arg-type]


#: Without postponed annotations, as most programs are. Earlier Pythons refuse these functions themselves.
_SEEN_BY_TYPE_CHECKERS = """
@handlers.handler("one")
def one(job: OnlyForTypeCheckers): return "one"

@handlers.handler("both")
def both(job, option: OnlyForTypeCheckers = None): return "both"

@handlers.batch("many")
def many(jobs: list[OnlyForTypeCheckers]): ...
"""


@pytest.mark.skipif(sys.version_info < (3, 14), reason="needs annotations that are evaluated later")
def test_an_annotation_may_name_what_only_type_checkers_see() -> None:
    handlers = Handlers()
    exec(compile(_SEEN_BY_TYPE_CHECKERS, "seen", "exec", dont_inherit=True), {"handlers": handlers, "__name__": "seen"})
    with memory_board("handlers") as board:
        for name in ("one", "both", "many"):
            board.post(name)
        assert {job.name for job in run_due(board, handlers)} == {"one", "both", "many"}


def test_its_repr_names_the_jobs() -> None:
    handlers = Handlers()
    assert repr(handlers) == "<Handlers of no names>"
    handlers.add("a", print)
    handlers.add("b", print)
    assert repr(handlers) == "<Handlers 'a', 'b'>"
