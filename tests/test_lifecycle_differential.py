"""The embedded stores are held to the rules of a job's life."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.embedded import MemoryHarness
from helpers.embedded_sqlite import SqliteHarness
from sqlalchemy import text

from jobboard.backends.memory.lanes import Lanes
from jobboard.backends.sql.sqlite import fast_path
from jobboard.backends.sql.statement import Statement
from jobboard.testing.differential import check_lifecycle


@pytest.mark.timeout(400)
def test_memory_follows_the_lifecycle() -> None:
    with MemoryHarness() as harness:
        check_lifecycle(harness, 80)


def test_a_store_that_admits_nothing_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lanes, "_look", lambda *_: None)
    with MemoryHarness() as harness, pytest.raises(AssertionError, match="BLOCKED"):
        check_lifecycle(harness, 0)


@pytest.mark.timeout(400)
def test_sqlite_follows_the_lifecycle(tmp_path: Path) -> None:
    with SqliteHarness(tmp_path) as harness:
        check_lifecycle(harness, 15)


@pytest.mark.timeout(400)
def test_ends_that_are_sent_together_follow_the_lifecycle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_path, "MIN_ALIKE", 1)
    with SqliteHarness(tmp_path) as harness:
        check_lifecycle(harness, 15)


def test_a_statement_that_writes_another_line_of_history_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    statement = str(fast_path.CONSUME_LINES.clause)
    assert "'CONSUMED'" in statement
    monkeypatch.setattr(fast_path, "CONSUME_LINES", Statement(text(statement.replace("'CONSUMED'", "'ABANDONED'"))))
    with SqliteHarness(tmp_path) as harness, pytest.raises(AssertionError, match="seed"):
        check_lifecycle(harness, 25)
