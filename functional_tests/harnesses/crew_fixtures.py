"""A pytest plugin for the tests of conductor processes: a board in a file that they share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jobboard import JobBoard, fetch


@pytest.fixture
def board(uri: str) -> Iterator[JobBoard]:
    with fetch("crew", uri) as board:
        yield board
