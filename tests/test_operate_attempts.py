"""The attempts of a job as its history tells of them, and where their bars stand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from jobboard.console.timeline import WIDTH, rows_of
from jobboard.events import EventKind, HistoryEntry
from jobboard.operate.attempts import attempts_of
from jobboard.states import JobState

START = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)
SIGNAL = "it waits for the signal 'approved'"


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def line(seconds: float, kind: str, reason: str | None = None) -> HistoryEntry:
    return HistoryEntry(EventKind(kind), "worker" if kind == "CLAIMED" else None, after(seconds), None, reason)


def told(*lines: HistoryEntry, state: str = "COMPLETE", now: float = 100) -> list[list[str]]:
    """Return the phases of each attempt with their seconds."""
    attempts = attempts_of(lines, JobState(state))
    return [[f"{phase.kind} {phase.seconds(after(now)):g}" for phase in attempt.phases] for attempt in attempts]


POSTED, CLAIMED = line(0, "POSTED"), line(10, "CLAIMED")
FAILED, TRASHED = line(15, "ABANDONED", "OSError"), line(15, "TRASHED")


@pytest.mark.parametrize(
    ("lines", "state", "found"),
    [
        ([], "UNCLAIMED", []),
        ([POSTED], "UNCLAIMED", [["queued 100"]]),
        ([POSTED], "DELAYED", [["delayed 100"]]),
        ([POSTED], "BLOCKED", [["blocked 100"]]),
        ([POSTED, CLAIMED], "CLAIMED", [["queued 10", "running 90"]]),
        ([POSTED, line(4, "RESOLVED"), CLAIMED], "CLAIMED", [["blocked 4", "queued 6", "running 90"]]),
        (
            [POSTED, line(1, "RESOLVED"), line(3, "BLOCKED"), line(7, "RESOLVED"), CLAIMED],
            "CLAIMED",
            [["blocked 1", "queued 2", "blocked 4", "queued 3", "running 90"]],
        ),
        (
            [POSTED, line(2, "TRASHED"), line(5, "BLOCKED"), line(9, "RESTORED")],
            "BLOCKED",
            [["queued 2", "in the trash 3", "in the trash 4", "blocked 91"]],
        ),
        ([POSTED, line(4, "DUE"), CLAIMED], "CLAIMED", [["delayed 4", "queued 6", "running 90"]]),
        ([POSTED, line(3, "REPRIORITIZED"), CLAIMED], "CLAIMED", [["queued 10", "running 90"]]),
        (
            [POSTED, CLAIMED, FAILED, line(35, "DUE"), line(36, "CLAIMED"), line(40, "CONSUMED")],
            "COMPLETE",
            [["queued 10", "running 5"], ["waiting for retry 20", "queued 1", "running 4"]],
        ),
        (
            [POSTED, CLAIMED, FAILED],
            "DELAYED",
            [["queued 10", "running 5"], ["waiting for retry 85"]],
        ),
        (
            [POSTED, CLAIMED, FAILED, TRASHED, line(50, "RESTORED"), line(60, "CLAIMED")],
            "CLAIMED",
            [["queued 10", "running 5"], ["in the trash 35", "queued 10", "running 40"]],
        ),
        (
            [POSTED, CLAIMED, line(12, "SIGNALLED"), line(15, "ABANDONED", SIGNAL), line(45, "SIGNALLED", "approved")],
            "UNCLAIMED",
            [["queued 10", "running 5"], ["waiting for signal 30", "queued 55"]],
        ),
        (
            [POSTED, CLAIMED, line(15, "ABANDONED", SIGNAL)],
            "BLOCKED",
            [["queued 10", "running 5"], ["waiting for signal 85"]],
        ),
        (
            [POSTED, CLAIMED, line(15, "ABANDONED", SIGNAL), line(45, "DUE")],
            "UNCLAIMED",
            [["queued 10", "running 5"], ["waiting for signal 30", "queued 55"]],
        ),
        ([CLAIMED, line(20, "EXPIRED")], "UNCLAIMED", [["running 10"], ["queued 80"]]),
        ([line(5, "CANCEL_ASKED"), line(20, "EXPIRED"), line(30, "CLAIMED")], "CLAIMED", [["queued 10", "running 70"]]),
    ],
)  # fmt: skip
def test_attempts_have_what_a_job_waited_for_and_how_long_it_ran(
    lines: list[HistoryEntry], state: str, found: list[list[str]]
) -> None:
    assert told(*lines, state=state) == found


def test_a_run_is_good_bad_or_goes_on() -> None:
    def tone(kind: str, reason: str | None = None) -> str:
        return attempts_of([POSTED, CLAIMED, line(15, kind, reason)], JobState.COMPLETE)[0].tone

    assert [tone("CONSUMED"), tone("ABANDONED", "OSError"), tone("EXPIRED")] == ["good", "bad", "bad"]
    assert [tone("ABANDONED", "it sleeps for 5 s"), tone("ABANDONED", "runs again")] == ["", ""]


def test_a_run_that_goes_on_later_has_no_number() -> None:
    slept, failed = line(15, "ABANDONED", "it sleeps for 5 s"), line(40, "ABANDONED", "x")
    lines = [POSTED, CLAIMED, slept, line(20, "DUE"), line(30, "CLAIMED"), failed, line(50, "DUE"), line(60, "CLAIMED")]
    rows = rows_of(attempts_of(lines, JobState.CLAIMED), True, after(100))
    assert [row.number for row in rows] == [None, 1, 2]


def test_bars_stand_on_one_axis_which_the_trash_does_not_stretch() -> None:
    failed = line(40, "ABANDONED", "x")
    lines = [POSTED, CLAIMED, line(20, "ABANDONED", "x"), line(30, "CLAIMED"), failed, line(40, "TRASHED")]
    first, second, third = rows_of(attempts_of(lines, JobState.TRASHED), True, after(1e6))
    assert [(bar.x, bar.width, bar.look) for bar in first.bars] == [(0, 250, "queued"), (250, 250, "running bad")]
    assert [(bar.x, bar.width) for bar in second.bars] == [(500, 250), (750, 250)]
    assert (first.number, first.waited, first.ran) == (1, "queued 10s", "10s")
    assert (third.number, third.bars, third.waited) == (None, (), "in the trash 11d13h so far")
    (short,) = rows_of(attempts_of([POSTED, line(1e5, "CLAIMED")], JobState.CLAIMED), False, after(1e5))
    assert short.number is None
    assert short.bars[1].x + short.bars[1].width <= WIDTH
    assert rows_of([], True, START) == []


@pytest.mark.parametrize(
    ("kind", "reason", "word"),
    [
        ("ABANDONED", "OSError", "failed"),
        ("ABANDONED", None, "failed"),
        ("ABANDONED", SIGNAL, "waits for signal"),
        ("ABANDONED", "it sleeps for 5 s", "sleeps"),
        ("ABANDONED", "runs again", "runs again"),
        ("ABANDONED", "its conductor stopped", "given back"),
        ("CONSUMED", None, "consumed"),
        ("EXPIRED", "the claim of 'worker' expired", "expired"),
        ("TRASHED", "OSError", "trashed"),
    ],
)
def test_it_says_how_a_run_ended(kind: str, reason: str | None, word: str) -> None:
    attempts = attempts_of([POSTED, CLAIMED, line(15, kind, reason)], JobState.DELAYED)
    assert attempts[0].ended_as == word
    assert attempts_of([POSTED, CLAIMED], JobState.CLAIMED)[0].ended_as is None
