"""A pytest plugin for the tests of conductor processes: a board in a file that they share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobboard import JobBoard, fetch


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def board(uri: str) -> Iterator[JobBoard]:
    with fetch("crew", uri) as board:
        yield board
