"""What operators do with schedules: who did it, since when and why, is kept where others look."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobboard.board import JobBoard
from jobboard.events import EventKind, JobEvent
from jobboard.schedules.collection import Schedules
from jobboard.testing.contract.case import Case
from jobboard.testing.contract.clockwork import FULL_HOURS, fire, hourly, overdue
from jobboard.testing.contract.schedules import each_fault
from jobboard.testing.deadline import eventually
from jobboard.testing.faults import Fault, LossyBackend

FIRED, MISSED = EventKind.FIRED, EventKind.MISSED
SCHEDULED, UNSCHEDULED = EventKind.SCHEDULED, EventKind.UNSCHEDULED
SPAN = [datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 1, tzinfo=UTC)]


def lines_of(board: JobBoard, id: str = "report") -> list[tuple[EventKind, str | None]]:
    return [(line.kind, line.reason) for line in board.schedules.history(id)]


def note_of(board: JobBoard, id: str = "report") -> str | None:
    progress = board.schedules.get(id).progress
    assert progress is not None
    return progress.note


class ScheduleVerbCases(Case):
    def test_a_paused_schedule_says_who_paused_it_since_when_and_why(self, board: JobBoard, other: JobBoard) -> None:
        pauses: dict[str, Callable[[str], Any]] = {
            "paused": lambda id: other.schedules.pause(id, "no paper", by="ada"),
            "modified": lambda id: other.schedules.modify(id, paused=True, by="ada", reason="no paper"),
        }
        for id, pause in pauses.items():
            board.schedules.add(hourly(id))
            seen = pause(id)
            note = note_of(board, id) or ""
            assert (seen.state, note.startswith("no paper (by ada since 20"), note.endswith(" UTC)")) == (
                "paused", True, True,
            )  # fmt: skip
            since = datetime.strptime(note[-21:-1], "%Y-%m-%d %H:%M %Z").replace(tzinfo=UTC)
            assert abs(since - datetime.now(UTC)) < timedelta(minutes=5)
            assert lines_of(board, id) == [(SCHEDULED, f"{id}, by ada: no paper")]
            board.schedules.resume(id, by="bob", reason="a ream")
            assert (lines_of(other, id)[1:], note_of(other, id)) == ([(SCHEDULED, "resumed, by bob: a ream")], None)

    def test_a_pause_that_is_repeated_changes_nothing(self, board: JobBoard, other: JobBoard) -> None:
        board.schedules.add(hourly())
        events: list[JobEvent] = []
        other.subscribe(events.append, {SCHEDULED})
        for note, by in ((None, "ada"), (None, "ada"), ("no paper", "ada"), ("no paper", "ada"), ("no paper", None)):
            board.schedules.pause("report", note, by=by)
        assert lines_of(other) == [(SCHEDULED, "paused, by ada"), (SCHEDULED, "paused, by ada: no paper")]
        assert note_of(other) == "no paper"
        eventually(lambda: len(events) == 3)
        assert [event.reason for event in events] == [
            "paused, by ada", "paused, by ada: no paper", "paused: no paper",
        ]  # fmt: skip

    @each_fault
    def test_a_change_that_is_sent_again_is_one_line(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault
    ) -> None:
        board.schedules.add(hourly())
        lossy.lose("schedules.step", fault)
        board.schedules.pause("report", by="ada")
        assert lines_of(other) == [(SCHEDULED, "paused, by ada")]

    @pytest.mark.parametrize(
        ("verb", "kind", "said"),
        [
            (lambda schedules, **by: schedules.modify("report", priority="high", **by), SCHEDULED, "modified"),
            (lambda schedules, **by: schedules.fire_now("report", **by), FIRED, "by hand"),
            (lambda schedules, **by: schedules.backfill("report", *SPAN, **by), FIRED, "backfill"),
        ],
    )
    def test_each_change_is_told_with_who_made_it_and_why(
        self, board: JobBoard, other: JobBoard, verb: Callable[..., Any], kind: EventKind, said: str
    ) -> None:
        board.schedules.add(hourly(trigger=FULL_HOURS))
        events: list[JobEvent] = []
        other.subscribe(events.append, {kind})
        verb(board.schedules, by="ada", reason="the auditors came")
        assert lines_of(other) == [(kind, f"{said}, by ada: the auditors came")]
        eventually(lambda: len(events) == 1)
        assert (events[0].reason or "").endswith(f"{said}, by ada: the auditors came")
        # Who names nobody leaves no line of a change, or such programs would drive out what was fired.
        verb(board.schedules, reason="again")
        assert lines_of(other)[1:] == ([] if kind is SCHEDULED else [(kind, f"{said}: again")])

    @pytest.mark.parametrize(
        "verb",
        [
            lambda schedules: schedules.remove("report", by="ada", reason="it moved"),
            lambda schedules: schedules.remove_all(by="ada", reason="it moved"),
        ],
    )
    def test_a_removal_is_told_with_who_made_it_and_why(
        self, board: JobBoard, other: JobBoard, verb: Callable[[Schedules], Any]
    ) -> None:
        board.schedules.add(hourly())
        events: list[JobEvent] = []
        other.subscribe(events.append, {UNSCHEDULED})
        verb(board.schedules)
        eventually(lambda: len(events) == 1)
        assert (events[0].who, events[0].reason, list(other.schedules)) == ("report", "by ada: it moved", [])

    def test_the_pause_of_all_says_who_made_it(self, board: JobBoard, other: JobBoard) -> None:
        events: list[JobEvent] = []
        other.subscribe(events.append, {SCHEDULED})
        board.schedules.pause_all("the database moves", by="ada")
        seen = other.schedules.all_paused()
        assert seen is not None
        assert seen.note == "the database moves (by ada)"
        other.schedules.resume_all(by="bob", reason="it has moved")
        eventually(lambda: len(events) == 2)
        assert [event.reason for event in events] == [
            "all paused, by ada: the database moves", "all resumed, by bob: it has moved",
        ]  # fmt: skip

    def test_a_long_pause_that_ends_is_one_line_before_what_was_due(self, board: JobBoard, other: JobBoard) -> None:
        large = {"text": "x" * 100_000}
        times = overdue(board, hourly(coalesce="all", max_instances=None, details=large), hours=12)
        board.schedules.pause("report", by="ada")
        other.schedules.resume("report", by="bob")
        told = [line for line in lines_of(other) if line[0] is SCHEDULED]
        assert told == [(SCHEDULED, "paused, by ada"), (SCHEDULED, "resumed, by bob")]
        assert (len(lines_of(other)), fire(board)) == (len(times) + 2, 0)

    def test_what_was_missed_is_told_also_after_a_change(self, board: JobBoard) -> None:
        overdue(board, hourly(misfire_grace=60))
        assert fire(board) == 0
        board.schedules.modify("report", priority="high", by="ada")
        progress = board.schedules.get("report").progress
        assert progress is not None
        assert progress.last_missed is not None
        assert (progress.last_missed[0], progress.last_missed[1].kind) == (3, MISSED)

    @pytest.mark.parametrize("by", ["", 7, "a\nb"])
    def test_who_it_was_must_be_a_name(self, board: JobBoard, by: Any) -> None:
        board.schedules.add(hourly())
        for verb in (board.schedules.pause, board.schedules.resume, board.schedules.remove, board.schedules.fire_now):
            with pytest.raises((TypeError, ValueError), match="by"):
                verb("report", by=by)
        assert (board.schedules.get("report").state, board.job_count) == ("active", 0)
