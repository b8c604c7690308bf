"""The checker of histories finds what is planted, and nothing in a sound store."""

from __future__ import annotations

from pathlib import Path

import pytest
from histories.plan import steps_of
from histories.planted import PLANTED, Planted
from histories.run import Report, Wish, judge_again, run

from jobboard.backends.address import Address
from jobboard.backends.memory import MemoryBackend
from jobboard.board import JobBoard

WISH = Wish("memory", seconds=1.0, seed=7, rate=200.0, least_calls=1000, forgotten_within=1.0)


def history_on(kind: type[Planted] | None, folder: Path) -> Report:
    def make_board(name: str) -> JobBoard:
        backend = MemoryBackend(name, Address("memory"))
        return JobBoard(name, backend if kind is None else kind(backend), retention=1.0)

    return run(WISH, folder, make_board=make_board)


@pytest.mark.parametrize(("kind", "promise"), PLANTED.items(), ids=[kind.__name__ for kind in PLANTED])
def test_what_is_planted_is_found(kind: type[Planted], promise: str, tmp_path: Path) -> None:
    found = {violation.promise for violation in history_on(kind, tmp_path).violations}
    assert promise in found


def test_a_sound_store_shows_no_violation_also_when_its_records_are_read_again(tmp_path: Path) -> None:
    report = history_on(None, tmp_path)
    assert report.violations == []
    assert sum(op.is_ok for op in report.ops) > 200
    assert {op.op for op in report.ops} >= {"post", "claim_next", "claim", "consume", "abandon", "trash", "restore"}
    assert judge_again(tmp_path).violations == []


def test_a_seed_gives_the_same_plan_again() -> None:
    def beginning(seed: int, process: str) -> list[object]:
        return [step for step, _ in zip(steps_of(seed, process, 10.0), range(50), strict=False)]

    assert beginning(7, "w0.0") == beginning(7, "w0.0")
    assert beginning(7, "w0.0") != beginning(7, "w0.1")
    assert beginning(7, "w0.0") != beginning(8, "w0.0")
