"""Schedules that follow a program or a file: an apply removes what an earlier one of its source added, and no more."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from jobboard.board import JobBoard
from jobboard.errors import UnreadableSchedule
from jobboard.events import EventKind, JobEvent
from jobboard.schedules.changes import ScheduleChange
from jobboard.schedules.triggers import Every
from jobboard.testing.contract.case import Case
from jobboard.testing.contract.clockwork import fire, hourly, overdue, spoil, stored
from jobboard.testing.contract.races import at_once
from jobboard.testing.contract.schedules import each_fault
from jobboard.testing.deadline import eventually
from jobboard.testing.faults import Fault, LossyBackend
from jobboard.testing.harness import Harness


def told(changes: list[ScheduleChange]) -> list[tuple[str, str, list[str]]]:
    return [(change.kind, change.id, change.fields) for change in changes]


def ids_of(board: JobBoard) -> set[str]:
    return {schedule.id for schedule in board.schedules}


def rows_of(board: JobBoard) -> list[Any]:
    return [stored(board, id) for id in sorted(ids_of(board))]


class AppliedScheduleCases(Case):
    def test_the_board_follows_what_is_applied(self, board: JobBoard, other: JobBoard) -> None:
        by_hand = board.schedules.add(hourly("by hand"))
        other.schedules.apply([hourly("theirs")], "billing")
        wanted = [hourly("b", details={"to": ("me", 1), "at": datetime(2030, 1, 1, tzinfo=UTC)}), hourly("a")]
        both: list[tuple[str, str, list[str]]] = [("added", "b", []), ("added", "a", [])]
        assert (told(board.schedules.changes_to(wanted, "shop")), ids_of(board)) == (both, {"by hand", "theirs"})
        assert told(board.schedules.apply(wanted, "shop")) == both
        assert {schedule.id: schedule.source for schedule in other.schedules} == {
            "a": "shop", "b": "shop", "theirs": "billing", "by hand": None,
        }  # fmt: skip
        before = rows_of(board)
        assert (other.schedules.apply(wanted, "shop"), rows_of(board)) == ([], before)

        changed = [hourly("b", priority="high", details={"n": 1}), hourly("c")]
        expected = [("changed", "b", ["details", "priority"]), ("added", "c", []), ("removed", "a", [])]
        assert told(other.schedules.changes_to(changed, "shop")) == expected
        assert rows_of(board) == before
        assert told(other.schedules.apply(changed, "shop")) == expected
        assert told(board.schedules.apply([], "shop")) == [("removed", "b", []), ("removed", "c", [])]
        assert (ids_of(other), other.schedules.get("by hand")) == ({"by hand", "theirs"}, by_hand)

    def test_what_is_paused_stays_paused_and_what_is_due_stays_due(self, board: JobBoard, other: JobBoard) -> None:
        for id in ("paused", "due"):
            board.schedules.apply([hourly(id)], id)
        other.schedules.pause("paused", "no paper", by="ada")
        assert board.schedules.apply([hourly("paused")], "paused") == []
        [change] = board.schedules.apply([hourly("paused", job="mail")], "paused")
        seen = other.schedules.get("paused")
        assert (change.fields, seen.state, seen.job, seen.source) == (["job"], "paused", "mail", "paused")
        assert seen.progress is not None
        assert (seen.progress.note or "").startswith("no paper (by ada since ")
        times = overdue(board, hourly("late", coalesce="all", max_instances=None))
        assert told(board.schedules.apply([hourly("late", coalesce="all", max_instances=None)], "late")) == [
            ("changed", "late", ["source"])
        ]
        assert fire(board) == len(times)
        assert told(board.schedules.apply([], "paused")) == [("removed", "paused", [])]

    def test_a_schedule_keeps_its_source_whatever_becomes_of_it(self, board: JobBoard, other: JobBoard) -> None:
        board.schedules.apply([hourly()], "shop")
        for number in range(30):
            other.schedules.fire_now("report")
            other.schedules.modify("report", priority=("high", "low")[number % 2], by="ada")
        history = board.schedules.history("report")
        assert (len(history), history[0].reason, history[-1].reason) == (20, "applied from shop", "modified, by ada")
        assert told(board.schedules.apply([hourly()], "shop")) == [("changed", "report", ["priority"])]
        assert len(board.schedules.history("report")) == 20
        assert told(other.schedules.apply([], "shop")) == [("removed", "report", [])]

    def test_what_somebody_replaced_is_of_no_source(self, board: JobBoard, other: JobBoard) -> None:
        board.schedules.apply([hourly("a"), hourly("b"), hourly("c")], "shop")
        other.schedules.add(hourly("a"), "replace")
        other.schedules.remove("b")
        other.schedules.add(hourly("b"))
        other.schedules.add(hourly("c"), "keep")
        assert told(board.schedules.apply([], "shop")) == [("removed", "c", [])]
        assert ids_of(other) == {"a", "b"}

    def test_a_schedule_may_move_to_another_source(self, board: JobBoard, other: JobBoard) -> None:
        board.schedules.apply([hourly("a"), hourly("b")], "shop")
        assert told(other.schedules.apply([hourly("a")], "billing")) == [("changed", "a", ["source"])]
        assert told(board.schedules.apply([], "shop")) == [("removed", "b", [])]
        assert board.schedules.get("a").source == "billing"
        assert told(other.schedules.apply([], "billing")) == [("removed", "a", [])]

    def test_who_applied_is_told(self, board: JobBoard, other: JobBoard) -> None:
        events: list[JobEvent] = []
        other.subscribe(events.append, {EventKind.SCHEDULED, EventKind.UNSCHEDULED})
        for wanted in ([hourly()], [hourly(job="mail")], []):
            board.schedules.apply(wanted, "shop", by="ada", reason="release 7")
        eventually(lambda: len(events) == 3)
        assert [event.reason for event in events] == [
            "added, by ada: release 7", "replaced, by ada: release 7", "by ada: release 7",
        ]  # fmt: skip

    @each_fault
    def test_an_apply_that_is_sent_again_is_one(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault
    ) -> None:
        for wanted, kind in (([hourly()], "added"), ([hourly(job="mail")], "changed"), ([], "removed")):
            lossy.lose("schedules.step", fault)
            assert [change.kind for change in board.schedules.apply(wanted, "shop")] == [kind]
            assert [schedule.job for schedule in other.schedules] == [schedule.job for schedule in wanted]

    def test_many_share_requests_and_what_was_changed_meanwhile_is_decided_anew(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend
    ) -> None:
        wanted = [hourly(f"{number:02}") for number in range(12)]
        lossy.lose("schedules.step", "request", meanwhile=lambda: other.schedules.add(hourly("03", job="mail")))
        expected: list[tuple[str, str, list[str]]] = [("added", one.id, []) for one in wanted]
        expected[3] = ("changed", "03", ["job", "source"])
        assert told(board.schedules.apply(wanted, "shop")) == expected
        assert [(one.job, one.source) for one in other.schedules] == [("write", "shop")] * 12
        # The one that was lost, the same again, and that of 03.
        assert lossy.calls["schedules.step"] == 3
        large = [hourly(f"large {number}", details={"text": "x" * 300_000}) for number in range(3)]
        assert len(board.schedules.apply(large, "large")) == 3
        assert lossy.calls["schedules.step"] == 6, "a request of them all would be more than some stores take"

    def test_what_changes_hands_meanwhile_is_not_removed(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend
    ) -> None:
        board.schedules.apply([hourly()], "shop")
        lossy.lose("schedules.step", "request", meanwhile=lambda: other.schedules.add(hourly(), "replace"))
        assert (board.schedules.apply([], "shop"), ids_of(other)) == ([], {"report"})

    def test_many_may_apply_at_once(self, harness: Harness, board: JobBoard) -> None:
        old, new = [hourly(f"old {n}") for n in range(5)], [hourly(f"new {n}") for n in range(5)]
        board.schedules.apply(old, "shop")
        boards = [harness.board(board.name) for _ in range(4)]
        done: list[Any] = at_once(*[partial(each.schedules.apply, new, "shop") for each in boards])
        changes = told([change for changes in done for change in changes])
        # A store can't tell a deletion that is repeated from one of something that somebody else deleted just now.
        assert sorted(change for change in changes if change[0] == "added") == [("added", one.id, []) for one in new]
        assert {change[1] for change in changes if change[0] != "added"} == {schedule.id for schedule in old}
        assert {(schedule.id, schedule.source) for schedule in board.schedules} == {
            (schedule.id, "shop") for schedule in new
        }
        assert board.audit() == []

    @pytest.mark.parametrize(
        ("wrong", "fault"),
        [
            ([hourly("new"), hourly("new")], "two schedules 'new'"),
            ([hourly("new"), hourly("past", end=datetime(2020, 1, 1, tzinfo=UTC))], "'past' would never fire"),
            ([hourly("new"), hourly("often", trigger=Every(seconds=0.01))], "at least|least_interval"),
            ([hourly("new"), hourly("large", details={"text": "x" * 600_000})], "details"),
        ],
    )
    def test_if_one_is_wrong_nothing_is_changed(self, board: JobBoard, wrong: list[Any], fault: str) -> None:
        board.schedules.apply([hourly("old")], "shop")
        with pytest.raises(ValueError, match=fault):
            board.schedules.apply(wrong, "shop")
        assert ids_of(board) == {"old"}
        for source in ("", "a\nb", 7):
            with pytest.raises((TypeError, ValueError), match="source"):
                board.schedules.apply([], source)  # type: ignore[arg-type]

    def test_what_cannot_be_decoded_is_replaced_or_left(self, board: JobBoard, other: JobBoard) -> None:
        board.schedules.apply([hourly("a"), hourly("b"), hourly("c")], "shop")
        spoil(board, "a")
        spoil(board, "b")
        assert told(other.schedules.apply([hourly("a")], "shop")) == [("added", "a", []), ("removed", "c", [])]
        assert (ids_of(other), [broken.id for broken in other.schedules.unreadable()]) == ({"a"}, ["b"])
        spoil(board, "b", b"\x93\x63\x80\x90")
        with pytest.raises(UnreadableSchedule, match="upgrade this client"):
            other.schedules.apply([hourly("b")], "shop")
