"""A pytest plugin for the tests of SQLite below the board: a file, a backend open on it, and threads."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from helpers.sql_seam import elsewhere, opened
from jobboard.backends.sql import SqliteBackend


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def backend(path: Path) -> Iterator[SqliteBackend]:
    with opened(path) as backend:
        yield backend


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as threads:
        yield threads


@pytest.fixture
def folder(path: Path) -> Path:
    """Where claim requests stand."""
    return path.with_name("jobs.db-waiting")


@pytest.fixture
def poster(path: Path) -> Iterator[SqliteBackend]:
    """Somebody else's backend on the same file."""
    with elsewhere(path) as backend:
        yield backend
