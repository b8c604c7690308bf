"""What a conductor keeps in memory of jobs that have ended."""

from __future__ import annotations

import gc
import uuid
from collections.abc import Iterator

import pytest
from helpers import work
from helpers.conducting import conducting

from jobboard import fetch


@pytest.fixture
def collected() -> Iterator[None]:
    """A handler of the test turns the garbage collection off, in the process where it runs."""
    yield
    gc.enable()


@pytest.mark.parametrize("executor", ["thread", "process", "asyncio"])
def test_a_job_that_has_ended_is_freed_without_a_garbage_collection(executor: str, collected: None) -> None:
    with fetch("work", f"memory://{uuid.uuid4().hex}") as board, conducting(board, work.handlers, executor):
        others = [board.post("count the others").get_result(30) for _ in range(20)]
    # The last one may still be on its way out of the thread that ran it.
    assert max(others) <= 1
