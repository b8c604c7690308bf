"""What a look at a board costs at most, as ``jobboard status`` and its docs say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from helpers.counted_requests import count_requests

from jobboard import Entity, Every, JobBoard, Posting, Schedule
from jobboard.operate.status import status
from jobboard.testing import clock_of, memory_board

#: More of each kind than is looked at.
_MANY = 25


def _post_all_that_costs(board: JobBoard) -> None:
    board.register_entity(Entity("conductor", "gone", {"names": ["a"]}, ttl=1))
    clock_of(board).move(60)
    board.claim(board.post("claimed"), "gone")
    board.post_many([Posting(f"name {number}") for number in range(_MANY)])
    board.limits.set(lane="idle:*", running=1)
    board.limits.set(lane="hook:*", running=1, order="strict")
    for number in range(8):
        board.post_many([Posting("idle", lane=f"idle:{number}") for _ in range(3)])
        first, *_ = board.post_many([Posting("hook", lane=f"hook:{number}") for _ in range(3)])
        board.claim(first, "w")
        board.abandon(first, "w", delay=3600)
    for number in range(_MANY):
        parent = board.post("parent", key=str(number))
        board.post("child", after=[parent])
        board.trash(parent)
    for name in ("slow", "late"):
        slow = board.post(name)
        board.post("late", after=[slow], start_by=datetime.now(UTC) + timedelta(seconds=1))
    clock_of(board).move(2)
    for number in range(501):
        board.schedules.add(Schedule(f"s{number}", Every(hours=1), "a"))


def test_all_that_a_status_can_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    with memory_board() as board:
        _post_all_that_costs(board)
        sent = count_requests(board, monkeypatch)
        assert status(board)["verdict"] == "ATTENTION"
        costs = {kind: sent.count(kind) for kind in sorted(set(sent))}
        assert costs == {
            "stats": 1, "pauses": 1, "all": 2, "now": 1, "page": 25, "holders": 1, "shortages": 1, "longest": 1,
            "lane": 10, "children": 5, "read": 6, "find": 5, "first_children": 1, "first_parents": 1,
        }  # fmt: skip
        assert len(sent) == 61
