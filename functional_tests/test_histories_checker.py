"""The checker of histories finds what is planted, and nothing in a sound store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from histories import rest
from histories.checks import CHECKS, check
from histories.history import History, Rules
from histories.plan import steps_of
from histories.planted import PLANTED, Planted
from histories.planted_in_conductors import PLANTED_IN_CONDUCTORS
from histories.records import Fault, Op
from histories.rest import Rest, nothing_lost
from histories.run import Report, Wish, judge_again, run
from histories.run_checks import RUN_CHECKS

from jobboard import Job, Posting
from jobboard.backends.address import Address
from jobboard.backends.memory import MemoryBackend
from jobboard.board import JobBoard
from jobboard.client.paging import FIRST_PAGE

WISH = Wish(
    "memory", 1.0, seed=7, processes=("w0", "w1", "w2", "w3"), rate=200.0, least_calls=1000, forgotten_within=1.0
)  # fmt: skip
#: What conductors do takes longer; nobody cancels or releases all of their jobs before.
WITH_CONDUCTORS = replace(
    WISH, seconds=4.0, processes=("w0", "w1", "c0"), rate=40.0, least_calls=0, rules=Rules(ended_within=2.0)
)  # fmt: skip


def history_on(kind: type[Planted] | None, folder: Path, wish: Wish = WISH) -> Report:
    def make_board(name: str) -> JobBoard:
        backend = MemoryBackend(name, Address("memory"))
        return JobBoard(name, backend if kind is None else kind(backend), retention=1.0)

    return run(wish, folder, make_board=make_board)


@pytest.mark.parametrize(("kind", "promise"), PLANTED.items(), ids=[kind.__name__ for kind in PLANTED])
def test_what_is_planted_is_found(kind: type[Planted], promise: str, tmp_path: Path) -> None:
    found = {violation.promise for violation in history_on(kind, tmp_path).violations}
    assert promise in found


@pytest.mark.parametrize(
    ("kind", "promises"), PLANTED_IN_CONDUCTORS.items(), ids=lambda each: getattr(each, "__name__", "")
)
def test_what_is_planted_in_conductors_is_found(
    kind: Any, promises: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind.plant(monkeypatch)
    found = {violation.promise for violation in history_on(kind, tmp_path, WITH_CONDUCTORS).violations}
    assert promises <= found


def test_a_sound_conductor_shows_no_violation(tmp_path: Path) -> None:
    report = history_on(None, tmp_path, WITH_CONDUCTORS)
    assert report.violations == []
    runs = [op for op in report.ops if op.op == "run" and op.is_ok]
    renewals = [op for op in report.ops if op.op == "extend_many" and op.is_ok]
    assert len(runs) > 5
    assert renewals


def test_a_call_that_fails_beside_a_locked_row_of_another_job_is_found(tmp_path: Path) -> None:
    def failed(uuid: str, start: float) -> Op:
        return Op(f"w0.0.{uuid}", "w0.0", "consume", {"uuid": uuid, "token": 1}, start, start + 3, "unavailable")

    row = Fault("lock a row of a worker", 10.0, 35.0, "a")
    ops = [failed("a", 12.0), failed("b", 12.0), failed("c", 25.0), failed("d", 50.0)]
    faults = [row, Fault("cut the lines", 22.0, 22.0)]
    found = [str(each) for each in check(History(ops, faults), RUN_CHECKS)]
    assert len(found) == 1
    assert "w0.0.b consume" in found[0]


@pytest.mark.parametrize(("seconds", "is_found"), [(0.5, True), (7.0, False)])
def test_a_stop_that_has_sent_too_little_is_found_unless_the_store_was_far_too_slow(
    seconds: float, is_found: bool
) -> None:
    call = Op("c0.0.2", "c0.0", "abandon", {"uuid": "a", "token": 1}, 11.0, 11.0 + seconds, "ok")
    stop = Op("c0.0.1", "c0.0", "stop", {}, 10.0, 20.4, "ok", False)
    found = {each.promise for each in check(History([stop, call]), RUN_CHECKS)}
    assert ("a stop in good order ends all" in found) is is_found


def test_a_delay_that_a_restore_has_ended_binds_no_claim_after_a_repeated_post() -> None:
    post: dict[str, Any] = {"uuid": "a", "name": "mail", "delay": 2.0}
    shown = {"uuid": "a", "name": "mail", "token": 1, "sequence": 1, "attempts": 1, "max_attempts": None}

    def done(op: str, start: float, args: dict[str, Any], answer: Any = None) -> Op:
        return Op(f"w0.0.{start}", "w0.0", op, args, start, start + 0.1, "ok", answer)

    first, again = (done("post", start, post, shown | {"token": 0}) for start in (10.0, 10.6))
    ended = [done("trash_by_force", 10.2, {"uuid": "a"}, True), done("restore", 10.4, {"uuid": "a"}, True)]
    claimed = done("claim", 10.8, {"uuid": "a", "who": "w0", "expiry": 2.0}, shown)
    early = "no job is claimed before it is due"
    assert early not in {found.promise for found in check(History([first, *ended, again, claimed]), CHECKS)}
    assert early in {found.promise for found in check(History([first, again, claimed]), CHECKS)}


@pytest.mark.parametrize(("kind", "is_early"), [("swallow requests", False), ("drop replies", True)])
def test_a_claim_that_ends_with_its_session_is_not_taken_too_early(kind: str, is_early: bool) -> None:
    def claimed(process: str, start: float, token: int) -> Op:
        answer = {"uuid": "a", "name": "mail", "token": token, "sequence": 1, "attempts": token, "max_attempts": None}
        return Op(
            f"{process}.{token}", process, "claim", {"uuid": "a", "expiry": 4.0}, start, start + 0.1, "ok", answer
        )

    ops = [claimed("w0.0", 10.0, 1), claimed("w1.0", 12.0, 2)]
    history = History(ops, [Fault(kind, 10.5, 10.8)], Rules(session=6.0, late=None))
    early = "no claim is taken before its expiry"
    assert (early in {found.promise for found in check(history, CHECKS)}) is is_early


@pytest.mark.parametrize("sequence", [1, 2])
def test_a_post_after_a_purge_is_of_a_new_job_if_its_place_is_new(sequence: int) -> None:
    shown = {"uuid": "a", "name": "mail", "token": 0, "sequence": 1}
    ops = [
        Op("w0.0.1", "w0.0", "post", {"uuid": "a", "name": "mail"}, 1.0, 1.1, "ok", shown),
        Op("w0.0.2", "w0.0", "consume", {"uuid": "a", "who": "w0", "token": 1}, 2.0, 2.1, "ok"),
        Op("w0.0.3", "w0.0", "purge", {"uuid": "a"}, 3.0, 3.1, "ok"),
        Op("w0.0.4", "w0.0", "post", {"uuid": "a", "name": "mail"}, 4.0, 4.1, "ok", shown | {"sequence": sequence}),
    ]
    assert len(list(nothing_lost(History(ops), Rest([], {}, 0, [])))) == (sequence == 2)


def test_what_moves_while_it_is_listed_breaks_no_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last claim ends between two pages, and a job that is listed already takes its slot."""
    board = JobBoard("moving", MemoryBackend("moving", Address("memory")))
    pages, show = iter([lambda: board.release(held.uuid, reason="the test")]), rest._shown

    def shown(job: Job) -> dict[str, Any]:
        for end_claim in pages:
            end_claim()
        return show(job)

    monkeypatch.setattr(rest, "_shown", shown)
    with board:
        board.limits.set(lane="order:1", running=1)
        held = board.post("mail", lane="order:1", priority="very_low")
        board.claim(held, "w0", 600.0)
        board.post("mail", lane="order:1", priority="very_high")
        board.post_many([Posting("report") for _ in range(FIRST_PAGE)])
        found = rest.look(board)
        rest.drain(board, found)
    assert [*rest.counts_agree(History([]), found), *rest.drained_in_order(History([]), found)] == []


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
