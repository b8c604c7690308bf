"""What the end of a parent costs: the same beside thousands of other parents, children and graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.sql_seam import backend_of
from test_sql_plans import steps_of

from jobboard import JobBoard, Posting
from jobboard.testing.contract.edge_case import end_next, fan_in


@pytest.fixture
def board(tmp_path: Path) -> Iterator[JobBoard]:
    with JobBoard("board", backend_of(tmp_path / "jobs.db")) as board:
        yield board


def _fan_out(board: JobBoard, count: int, name: str) -> None:
    parent = Posting(name)
    board.post_many([parent, *(Posting("part", after=[parent]) for _ in range(count))])


CALLS: dict[str, Callable[[JobBoard], Any]] = {
    "the end of one of many parents": lambda board: end_next(board, "many"),
    "the end of one of three parents": lambda board: end_next(board, "three"),
    "the end of a parent of three": lambda board: end_next(board, "out"),
    "a graph of four": lambda board: fan_in(board, 3, "new"),
}


def test_no_end_of_a_parent_takes_more_steps_beside_more_edges(board: JobBoard) -> None:
    def costs() -> dict[str, int]:
        fan_in(board, 3, "three")
        _fan_out(board, 3, "out")
        # The statements of a board run on one connection.
        connection = board._backend.database._writer.get()  # type: ignore[attr-defined]
        return {what: steps_of(connection, lambda call=call: call(board)) for what, call in CALLS.items()}

    fan_in(board, 200, "many")
    few = costs()
    fan_in(board, 1000, "many")
    _fan_out(board, 1000, "others")
    many = costs()
    assert {what: (few[what], many[what]) for what in many if many[what] > 1.3 * few[what] + 100} == {}
