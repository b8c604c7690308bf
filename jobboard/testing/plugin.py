"""The pytest plug-in: fixtures for tests of code that posts jobs.

pytest imports this module in every run, so it imports nothing of the package before a fixture is used, and registers
nothing but these fixtures and one option.
"""

from __future__ import annotations

import uuid as uuids
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from jobboard import Handlers, Job, JobBoard
    from jobboard.testing import Clock


def pytest_addoption(parser: pytest.Parser) -> None:
    said = "the store of the fixture jobboard_board, such as redis://localhost/9; in memory by default"
    parser.getgroup("jobboard").addoption("--jobboard-uri", metavar="URI", help=said)
    parser.addini("jobboard_uri", said)


@pytest.fixture
def jobboard_board(request: pytest.FixtureRequest) -> Iterator[JobBoard]:
    """A connected board of this test's own, empty; in memory, or in the store of --jobboard-uri."""
    uri = request.config.getoption("--jobboard-uri") or request.config.getini("jobboard_uri")
    if uri:
        from jobboard import backend

        with backend(f"test-{uuids.uuid4().hex}", uri) as board:
            yield board
    else:
        from jobboard.testing import memory_board

        with memory_board() as board:
            yield board


@pytest.fixture
def jobboard_clock(jobboard_board: JobBoard) -> Clock:
    """The clock of a board in memory, which tests move: ``jobboard_clock.move(3600)``."""
    from jobboard.testing import clock_of

    return clock_of(jobboard_board)


@pytest.fixture
def jobboard_handlers() -> Handlers:
    """The handlers that are run; override it in conftest.py to return those of the application."""
    raise pytest.UsageError(
        "define a fixture jobboard_handlers in conftest.py that returns your application's jobboard.Handlers"
    )


@pytest.fixture
def drain(request: pytest.FixtureRequest, jobboard_board: JobBoard) -> Callable[..., list[Job]]:
    """Post what schedules owe, run what can be claimed, and return the jobs that ran: ``drain()``.

    Raises what a handler raises; ``drain(handlers)`` runs others than those of ``jobboard_handlers``.
    """
    from jobboard.testing import fire_due, run_due

    def drain(handlers: Handlers | None = None, **options: Any) -> list[Job]:
        fire_due(jobboard_board)
        found = request.getfixturevalue("jobboard_handlers") if handlers is None else handlers
        return run_due(jobboard_board, found, **options)

    return drain


@pytest.fixture
def posted(jobboard_board: JobBoard) -> Callable[..., Job]:
    """Assert that a job was posted, and return it: ``posted("mail", details={"to": "ann"})``."""
    from jobboard.testing import posted

    return partial(posted, jobboard_board)


@pytest.fixture
def refuse(jobboard_board: JobBoard) -> Callable[..., None]:
    """Assert that no such job was posted: ``refuse("mail", details={"to": "ann"})``."""
    from jobboard.testing import refuse

    return partial(refuse, jobboard_board)


@pytest.fixture
def jobboard_inline(jobboard_board: JobBoard, jobboard_handlers: Handlers) -> Iterator[None]:
    """Run the handler of each job at its post: ``@pytest.mark.usefixtures("jobboard_inline")``."""
    from jobboard.testing import inline

    with inline(jobboard_board, jobboard_handlers):
        yield
