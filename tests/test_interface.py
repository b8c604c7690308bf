"""What ``import jobboard`` shows, and how its calls name themselves."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import anyio
import pytest

import jobboard
from jobboard import (
    Backoff,
    Conductor,
    Entity,
    Handlers,
    Job,
    JobBoard,
    Posting,
    RunAgain,
    Schedule,
    Scheduler,
    Schedules,
    aio,
    fetch,
)
from jobboard.backends.address import Address
from jobboard.backends.memory import MemoryBackend


def test_what_is_shown_is_what_is_there() -> None:
    assert dir(jobboard) == sorted([*jobboard.__all__, "open"]) == sorted(jobboard._MODULES)
    for name in dir(jobboard):
        assert getattr(jobboard, name) is getattr(import_module(jobboard._MODULES[name]), name)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        jobboard.Nothing  # noqa: B018


@pytest.mark.parametrize("package", ["jobboard", "jobboard.aio"])
def test_who_imports_all_names_keeps_the_open_of_python(package: str) -> None:
    names = dict[str, object]()
    exec(f"from {package} import *", names)
    assert "open" not in names
    assert names["fetch"] is import_module(package).fetch


@pytest.mark.parametrize("name", sorted(jobboard._MOVED))
def test_a_name_that_was_moved_is_found_with_a_warning(name: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"import it from {jobboard._MOVED[name]}") as caught:
        found = getattr(jobboard, name)
    assert found is getattr(import_module(jobboard._MOVED[name]), name)
    assert caught[0].filename == __file__
    assert name not in dir(jobboard)


def test_an_import_imports_nothing_else() -> None:
    code = "import sys, jobboard; print([name for name in sys.modules if name.startswith('jobboard.')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.fixture
def board() -> Iterator[JobBoard]:
    with fetch("interface", f"memory://{uuid.uuid4().hex}") as board:
        yield board


def handlers() -> Handlers:
    made = Handlers()
    made.add("never", print)
    return made


#: Each public class, and how a test gets one.
MAKERS: dict[type, Any] = {
    JobBoard: lambda board: board,
    Job: lambda board: board.post("a"),
    Schedules: lambda board: board.schedules,
    Conductor: lambda board: Conductor("c", board, handlers()),
    Scheduler: Scheduler,
    Handlers: lambda board: handlers(),
    aio.AsyncJobBoard: aio.AsyncJobBoard,
    aio.AsyncJob: lambda board: anyio.run(aio.AsyncJobBoard(board).post, "a"),
    aio.AsyncSchedules: lambda board: aio.AsyncJobBoard(board).schedules,
}
#: They take any keyword, and say by themselves which of them there are.
OPEN = {"Schedules.modify", "AsyncSchedules.modify"}

METHODS = [
    (kind, name)
    for kind in MAKERS
    for name, method in inspect.getmembers(kind, inspect.isfunction)
    if not name.startswith("_") and f"{kind.__name__}.{name}" not in OPEN
]


@pytest.mark.parametrize(("kind", "name"), METHODS, ids=[f"{kind.__name__}.{name}" for kind, name in METHODS])
def test_a_bad_keyword_is_told_with_the_name_of_the_public_class(board: JobBoard, kind: type, name: str) -> None:
    method = getattr(MAKERS[kind](board), name)
    with pytest.raises(TypeError) as raised:
        anyio.run(call, method)
    told = re.fullmatch(r"(\w+)\.(\w+)\(\) got an unexpected keyword argument 'no_such_keyword'.*", str(raised.value))
    assert told, raised.value
    assert (told[1].removeprefix("Async"), told[2]) == (kind.__name__.removeprefix("Async"), name)


async def call(method: Any) -> None:
    """Call it, as far as it goes: a coroutine is awaited, and an iterator takes its first step."""
    answer = method(no_such_keyword=1)
    if inspect.isawaitable(answer):
        await answer
    else:
        await anext(answer)


@pytest.mark.parametrize(
    "kind", [*MAKERS, Posting, Schedule, Entity, Backoff, RunAgain], ids=lambda kind: kind.__name__
)
def test_so_is_one_for_a_constructor(kind: Any) -> None:
    with pytest.raises(TypeError) as raised:
        kind(no_such_keyword=1)
    assert re.match(rf"{kind.__name__}\.__init__\(\) (got|missing)", str(raised.value))


def test_a_bad_option_of_a_board_names_the_board() -> None:
    with pytest.raises(TypeError, match=r"^JobBoard\.__init__\(\) got an unexpected keyword argument 'no_such_option'"):
        JobBoard("a", MemoryBackend("a", Address("memory")), no_such_option=1)
