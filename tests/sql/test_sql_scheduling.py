"""The schedules' primitives on SQLite: what one step does and leaves alone, what is due, and what that reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.sql_seam import claimed, opened, post, posting, run_sql

from jobboard.backends.rows import IfExists, Verdict
from jobboard.backends.schedule_rows import ScheduleEvent, ScheduleRow, ScheduleStep
from jobboard.backends.sql import SqliteBackend
from jobboard.events import EventKind


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[SqliteBackend]:
    with opened(tmp_path / "jobs.db") as backend:
        yield backend


def step(id: str, after: str | None, version: str | None, next_at: float | None = None, **more: Any) -> ScheduleStep:
    row = None if version is None else ScheduleRow(id, version, next_at, b"body")
    return ScheduleStep(id, after, row, **more)


def test_a_step_posts_tells_and_moves_on_once(backend: SqliteBackend, tmp_path: Path) -> None:
    fired = posting(key="nightly", if_exists=IfExists.KEEP)
    told = ScheduleEvent(EventKind.POSTED, fired.uuid, "resize", "nightly", "late")
    first = step("nightly", None, "a", 7.0, postings=(fired,), events=(told,))
    assert backend.schedules.step([first]) == [Verdict.DONE]
    assert backend.schedules.step([first]) == [Verdict.REPEATED]
    assert (backend.jobs.count(), backend.schedules.read(["nightly", "none"])) == (1, [first.row, None])
    loose = "SELECT uuid, who, reason FROM jobboard_journal WHERE job IS NULL"
    assert run_sql(tmp_path / "jobs.db", loose) == [(fired.uuid, "nightly", "late")]


def test_a_step_from_a_version_that_is_not_there_changes_nothing(backend: SqliteBackend) -> None:
    backend.schedules.step([step("nightly", None, "a")])
    late = [step("nightly", "z", "b", postings=(posting(),)), step("nightly", None, "c"), step("none", "a", "b")]
    assert backend.schedules.step(late) == [Verdict.LOST] * 3
    assert (backend.jobs.count(), backend.schedules.read(["nightly"])[0]) == (0, step("nightly", None, "a").row)


def test_a_deletion_is_repeated_harmlessly(backend: SqliteBackend) -> None:
    backend.schedules.step([step("nightly", None, "a")])
    gone = step("nightly", "a", None)
    assert backend.schedules.step([gone, gone]) == [Verdict.DONE, Verdict.REPEATED]
    assert backend.schedules.read(["nightly"]) == [None]


def test_a_job_that_cannot_be_replaced_does_not_hold_up_the_step(backend: SqliteBackend) -> None:
    post(backend, key="k")
    claimed(backend)
    fired = (posting(), posting(key="k", if_exists=IfExists.REPLACE))
    assert backend.schedules.step([step("nightly", None, "a", postings=fired)]) == [Verdict.DONE]
    assert backend.jobs.count() == 1


def test_what_is_due_comes_in_order_with_the_time_until_the_next(backend: SqliteBackend) -> None:
    now = backend.now()
    steps = [step("c", None, "1", 5.0), step("b", None, "1", 5.0), step("a", None, "1", 9.0), step("off", None, "1")]
    backend.schedules.step([*steps, step("later", None, "1", now + 60)])
    due = backend.schedules.due(10)
    assert [row.id for row in due.rows] == ["b", "c", "a"]
    assert 50 < (due.next_in or 0) <= 60
    assert due.now >= now
    few = backend.schedules.due(2)
    assert ([row.id for row in few.rows], (few.next_in or 0) < 0) == (["b", "c"], True)
    backend.schedules.step([step(id, "1", None) for id in ("a", "b", "c", "later")])
    assert (backend.schedules.due(1).rows, backend.schedules.due(1).next_in) == ([], None)


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_pages_go_by_time_then_id_and_those_without_a_time_come_last(backend: SqliteBackend, size: int) -> None:
    places = [(-1.0, "z"), (5.0, "b"), (5.0, "c"), (5.0, "d"), (9.0, "a"), (None, "a1"), (None, "b1"), (None, "c1")]
    backend.schedules.step([step(id, None, "1", at) for at, id in reversed(places)])
    seen: list[Any] = []
    cursor: object | None = None
    while True:
        page = backend.schedules.page(cursor, size)
        seen += [(row.next_at, row.id) for row in page.rows]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == places
