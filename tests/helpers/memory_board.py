"""A board in memory that is a test's own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from jobboard import JobBoard, fetch


@pytest.fixture
def board() -> Iterator[JobBoard]:
    with fetch("work", f"memory://{uuid.uuid4().hex}") as board:
        yield board
