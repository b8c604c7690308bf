"""What a handler puts into a ContextVar is gone when the next job begins, on every executor."""

from __future__ import annotations

import uuid

import pytest
from helpers import contexts
from helpers.conducting import conducting

from jobboard import fetch


@pytest.mark.parametrize("executor", ["thread", "process", "asyncio"])
def test_each_job_begins_with_a_context_of_its_own(executor: str) -> None:
    with (
        fetch("work", f"memory://{uuid.uuid4().hex}") as board,
        conducting(board, contexts.handlers, executor, concurrency=2),
    ):
        for _ in range(3):
            board.post("raise", max_attempts=1)
            later, plain = [[board.post(name) for _ in range(3)] for name in ("later", "plain")]
            assert [job.get_result(30) for job in plain] == [["nobody", 28]] * 3
            assert [job.get_result(30) for job in later] == [["nobody", 28, "secret of", 3]] * 3
