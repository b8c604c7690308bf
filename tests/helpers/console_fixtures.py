"""A pytest plugin for the tests of the console: a board in memory, or on an SQLite file where a test asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobboard import JobBoard, backend


@pytest.fixture
def board(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[JobBoard]:
    is_sqlite = getattr(request, "param", "memory") == "sqlite"
    uri = f"sqlite:///{tmp_path}/jobs.db?synchronous=OFF" if is_sqlite else "memory"
    with backend(request.node.name, uri) as board:
        yield board
