"""What a schedule's bytes hold, so that the versions before this one can read, fire and change it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgpack
import pytest

import jobboard
from jobboard.board import JobBoard
from jobboard.schedules.triggers import Every
from jobboard.testing.contract.clockwork import overwrite, stored

#: The fields that format 1 has always had, how many parts its progress and a line of its history have, and their kinds.
FIELDS = {
    "id", "trigger", "job", "details", "priority", "coalesce", "misfire_grace", "max_instances", "overlap", "jitter",
    "start", "end", "max_runs", "paused", "max_attempts",
}  # fmt: skip
PROGRESS, LINE, KINDS = 11, 6, {"FIRED", "MISSED", "SKIPPED", "FAILED", "SCHEDULED"}


@pytest.fixture
def board() -> Iterator[JobBoard]:
    with jobboard.open("formats", f"memory://{uuid.uuid4()}") as board:
        yield board


def check_format_1(board: JobBoard, id: str) -> list[Any]:
    """Return the lines of its history."""
    form, plain, progress = msgpack.unpackb(stored(board, id).body, timestamp=3)
    assert (form, set(plain), len(progress)) == (1, FIELDS, PROGRESS)
    *_, note, fault, lines = progress
    assert all(text is None or isinstance(text, str) for text in (note, fault))
    for line in lines:
        kind, at, fire_time, job, reason, count = line
        assert (len(line), kind in KINDS, type(at), type(count)) == (LINE, True, float, int)
        assert isinstance(fire_time, float | None)
        assert all(text is None or isinstance(text, str) for text in (job, reason))
    return list(lines)


def test_who_changed_a_schedule_is_text_that_every_version_reads(board: JobBoard) -> None:
    board.schedules.add(jobboard.Schedule("nightly", Every(hours=1), "report"))
    board.schedules.pause("nightly", "no paper", by="ada")
    assert len(check_format_1(board, "nightly")) == 1
    board.schedules.resume("nightly", by="ada")
    board.schedules.modify("nightly", job="mail", by="ada", reason="moved")
    board.schedules.fire_now("nightly", by="ada")
    assert len(check_format_1(board, "nightly")) == 4


def test_a_long_reason_does_not_make_the_schedule_too_large(board: JobBoard) -> None:
    board.schedules.add(jobboard.Schedule("nightly", Every(hours=1), "report"))
    for _ in range(30):
        board.schedules.modify("nightly", by="ada", reason="x" * 400_000)
        board.schedules.fire_now("nightly", by="ada", reason="x" * 400_000)
    assert len(board.schedules.history("nightly")) == 20
    assert len(stored(board, "nightly").body) < 30_000


def test_the_source_of_a_schedule_is_text_that_every_version_reads(board: JobBoard) -> None:
    nightly = jobboard.Schedule("nightly", Every(hours=1), "report")
    board.schedules.apply([nightly], "shop", by="ada")
    board.schedules.fire_now("nightly")
    assert len(check_format_1(board, "nightly")) == 3
    # A scheduler that knows no sources drives that line out: then an apply removes nothing, and marks it anew.
    row = stored(board, "nightly")
    form, plain, progress = msgpack.unpackb(row.body, timestamp=3)
    progress[-1] = progress[-1][1:]
    overwrite(board, replace(row, body=msgpack.packb([form, plain, progress], datetime=True)))
    assert (board.schedules.get("nightly").source, board.schedules.apply([], "shop")) == (None, [])
    assert [change.fields for change in board.schedules.apply([nightly], "shop")] == [["source"]]
    assert [change.kind for change in board.schedules.apply([], "shop")] == ["removed"]
