"""What postings cost that jobs on the board are to wait for (``before=``), in requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from helpers.graphs import count_requests

from jobboard import JobBoard, Posting
from jobboard.testing import memory_board


@pytest.fixture
def board() -> Iterator[JobBoard]:
    with memory_board() as board:
        yield board


def test_postings_before_one_job_are_linked_by_the_fifty(board: JobBoard) -> None:
    """So a handler that finds a thousand parts doesn't hold up its conductor for seconds."""
    root = board.post("root")
    reports = [board.post("report", after=[root]) for _ in range(3)]
    requests = count_requests(board)
    for number in (10, 100, 1000):
        requests.clear()
        board.post_many([Posting("part", before=reports) for _ in range(number)])
        assert requests.count("link") == 3 * -(-number // 50)
        assert len(requests) <= 12 + 0.1 * number


def test_what_goes_before_is_searched_for_circles_by_the_hundred(board: JobBoard) -> None:
    roots = [board.post("root") for _ in range(250)]
    middle = [board.post("middle", after=[each]) for each in roots]
    report = board.post("report", after=roots[:1])
    requests = count_requests(board)
    board.post("last", after=middle, before=[report])
    assert requests.count("first_parents") <= 2 * 3
    assert len(requests) <= 30
