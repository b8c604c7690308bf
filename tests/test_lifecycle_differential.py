"""The embedded stores are held to the rules of a job's life."""

from __future__ import annotations

from pathlib import Path

from helpers.embedded import MemoryHarness
from helpers.embedded_sqlite import SqliteHarness

from jobboard.testing.differential import check_lifecycle


def test_memory_follows_the_lifecycle() -> None:
    with MemoryHarness() as harness:
        check_lifecycle(harness, 200)


def test_sqlite_follows_the_lifecycle(tmp_path: Path) -> None:
    with SqliteHarness(tmp_path) as harness:
        check_lifecycle(harness, 25)
