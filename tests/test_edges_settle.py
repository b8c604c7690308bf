"""What a job becomes, given how its parents stand: every combination, and the moments at which time changes a job."""

from __future__ import annotations

import itertools
from dataclasses import replace

import msgpack
import pytest

from jobboard.backends import follow_ups, lifecycle, waiting
from jobboard.backends.edge_rows import MAX_EDGE_RESULT, MAX_RESOLVED, MAX_RESOLVED_BYTES, Outcome, SignalOutcome
from jobboard.backends.edges import Ended, largest_part, link, may_wait, settle, takes_parents
from jobboard.backends.outcomes import edge_to, outcome_of
from jobboard.backends.reasons import GRAPH_DROPPED
from jobboard.backends.rows import Abandonment, ClaimRequest, Fence, IfFailed, JobRow, NewJob, Ties, Trashing, Verdict
from jobboard.events import EventKind
from jobboard.states import LIVE, JobState

NOW, LATER = 1000.0, 2000.0
DELAYED, BLOCKED, UNCLAIMED, CLAIMED, COMPLETE, TRASHED = JobState
#: The states of a job that nobody has claimed; it is complete if it was cancelled.
UNBEGUN = [state for state in JobState if state is not CLAIMED]


def child(if_failed: IfFailed = IfFailed.WAIT, **fields: object) -> JobRow:
    ties = Ties(has_parents=True, if_failed=if_failed)
    values: dict[str, object] = {"state": BLOCKED, "ties": ties, **fields}
    return JobRow("child", "n", 3, 1, NOW, b"", **values)  # type: ignore[arg-type]


def claimed(ties: Ties | None = None, **fields: object) -> JobRow:
    row = JobRow("u", "n", 3, 1, NOW, b"", ties=ties, **fields)  # type: ignore[arg-type]
    lifecycle.claim(row, ClaimRequest("alice", "c", 10.0), NOW, 7)
    return row


def expected(if_failed: IfFailed, ended: Ended) -> JobState:
    """Return what FLOW.md says, in other words than the rule: the state of a job that was BLOCKED."""
    if ended.is_dropped:
        return COMPLETE
    if if_failed is IfFailed.CANCEL and (ended.failed or ended.gone):
        return COMPLETE
    if if_failed is IfFailed.WAIT and ended.gone:
        return TRASHED
    is_held = ended.open is not None or (if_failed is IfFailed.WAIT and ended.failed is not None)
    return BLOCKED if is_held else UNCLAIMED


ENDS = [
    Ended(*each, is_dropped)
    for *each, is_dropped in itertools.product([None, "open"], [None, "failed"], [None, "gone"], [False, True])
]


@pytest.mark.parametrize("if_failed", IfFailed)
@pytest.mark.parametrize("ended", ENDS, ids=str)
def test_what_a_blocked_job_becomes(if_failed: IfFailed, ended: Ended) -> None:
    row = child(if_failed)
    change = settle(row, ended, NOW)
    assert row.state is expected(if_failed, ended)
    assert (change is None) is (row.state is BLOCKED)
    if change is not None:
        kinds = {COMPLETE: EventKind.CANCELLED, TRASHED: EventKind.TRASHED, UNCLAIMED: EventKind.RESOLVED}
        assert [note.kind for note in change.told] == [kinds[row.state]]
        assert row.state is COMPLETE or row.ties == Ties(if_failed=if_failed)
        assert row.state is COMPLETE or settle(row, ended, NOW) is None, "it is idempotent"
    named = [each for each in (ended.gone, ended.failed) if each is not None]
    if row.state is TRASHED:
        assert named[0] in (row.reason or "")


@pytest.mark.parametrize("if_failed", IfFailed)
@pytest.mark.parametrize("ended", ENDS, ids=str)
def test_what_a_job_in_the_trash_becomes(if_failed: IfFailed, ended: Ended) -> None:
    row = child(if_failed, state=TRASHED, reason="broken")
    settle(row, ended, NOW)
    assert (row.state, row.reason) == ((COMPLETE, GRAPH_DROPPED) if ended.is_dropped else (TRASHED, "broken"))


@pytest.mark.parametrize("if_failed", IfFailed)
@pytest.mark.parametrize("ended", [ended for ended in ENDS if not ended.is_dropped], ids=str)
def test_what_a_claimed_job_becomes_and_then_once_its_claim_has_ended(if_failed: IfFailed, ended: Ended) -> None:
    """Whatever has become of its parents, its claim holds; and once that has ended nothing is left to settle."""
    row = claimed(Ties("lane", if_failed=if_failed), state=UNCLAIMED)
    fence = Fence("u", "alice", 7)
    assert takes_parents(row, fence)
    assert not takes_parents(row, None)
    assert not takes_parents(row, replace(fence, token=6))
    for began in (Ended(open="open"), ended):
        link(row, began, NOW)
        settle(row, began, NOW)
        assert row.state is CLAIMED
        assert settle(replace(row), began, NOW) is None, "it is idempotent"
    assert row.ties is not None
    assert row.ties.has_parents is (expected(row.ties.if_failed, ended) is BLOCKED)
    is_free = not row.ties.has_parents
    lifecycle.abandon(row, Abandonment(fence, counted=False), LATER)
    assert (row.state, row.joined_lane) == ((UNCLAIMED, "lane") if is_free else (BLOCKED, None))
    assert settle(row, ended, LATER) is None


def test_who_does_not_wait_for_parents_stays_as_it_is() -> None:
    rows = [child(state=state, ties=Ties()) for state in JobState] + [child(state=COMPLETE)]
    for row in (*rows, child(ties=None)):
        before = replace(row)
        assert all(settle(row, ended, NOW) is None for ended in ENDS)
        assert row == before


@pytest.mark.parametrize("if_failed", IfFailed)
@pytest.mark.parametrize(("state", "token"), [*((state, 7) for state in JobState), *((state, 0) for state in UNBEGUN)])
def test_who_was_let_go_waits_again_if_nobody_has_claimed_it(if_failed: IfFailed, state: JobState, token: int) -> None:
    ties = Ties("lane", since=NOW, if_failed=if_failed)
    row, held = child(state=state, ties=ties, token=token, place=LATER), [ended for ended in ENDS if ended.open]
    can = if_failed is IfFailed.RUN and token == 0 and state is not COMPLETE
    before = replace(row)
    assert all(settle(row, ended, NOW) is None for ended in ENDS if not ended.open or not can)
    assert row == before
    assert may_wait(row) is can
    for ended in held if can else ():
        row = replace(before)
        change = settle(row, ended, NOW)
        assert change is not None
        assert [(note.kind, note.reason) for note in change.told] == [
            (EventKind.BLOCKED, "a parent of it was restored")
        ]
        assert row.ties is not None
        assert row.ties.has_parents
        stays = state in (DELAYED, TRASHED)
        expected_of_it = (state, LATER, "lane") if stays else (BLOCKED, LATER, None)
        assert (row.state, row.place, row.joined_lane) == expected_of_it


def test_a_delayed_job_waits_on_and_one_of_a_lane_joins_it() -> None:
    row = child(state=DELAYED, run_at=LATER, place=LATER)
    assert settle(row, Ended(), NOW) is not None
    assert (row.state, row.run_at) == (DELAYED, LATER)
    row = child(ties=Ties("lane", has_parents=True))
    change = settle(row, Ended(), NOW)
    assert change is not None
    assert (row.state, row.joined_lane, [each.lane for each in change.follow]) == (BLOCKED, "lane", ["lane"])
    assert child(ties=Ties("lane", has_parents=True)).joined_lane is None


@pytest.mark.parametrize(
    ("row", "outcome"),
    [
        (None, Outcome.GONE),
        (claimed(), Outcome.OPEN),
        (child(), Outcome.OPEN),
        (child(state=TRASHED), Outcome.FAILED),
        (child(state=COMPLETE, owner="alice"), Outcome.DONE),
        (child(state=COMPLETE, owner="alice", cancel_asked=True), Outcome.DONE),
        (child(state=COMPLETE, cancel_asked=True), Outcome.GONE),
    ],
)
def test_how_a_job_stands_as_a_parent(row: JobRow | None, outcome: Outcome) -> None:
    assert outcome_of(row) is outcome


def test_an_edge_has_a_result_that_is_not_too_long() -> None:
    for size, is_cut in ((0, False), (MAX_EDGE_RESULT, False), (MAX_EDGE_RESULT + 1, True)):
        edge = edge_to("c", child(state=COMPLETE, owner="alice", result=b"x" * size))
        assert (edge.is_cut, len(edge.result or b"")) == (is_cut, 0 if is_cut else size)
    assert edge_to("c", child(state=TRASHED, result=b"x")).result is None
    for size in (0, 1, 10_000, MAX_EDGE_RESULT, 10 * MAX_RESOLVED_BYTES):
        assert 1 <= largest_part(b"x" * size) <= MAX_RESOLVED
        assert largest_part(b"x" * size) * size <= max(size, MAX_RESOLVED_BYTES)


@pytest.mark.parametrize(
    ("row", "due"),
    [
        (child(), None),
        (child(state=DELAYED, run_at=LATER), LATER),
        (child(ties=Ties(signal="go"), run_at=LATER), LATER),
        (child(ties=Ties(signal="go")), None),
        (child(ties=Ties(start_by=1500.0)), 1500.0),
        (child(ties=Ties(start_by=1500.0), state=DELAYED, run_at=LATER), 1500.0),
        (child(ties=Ties(start_by=1500.0), state=DELAYED, run_at=1200.0), 1200.0),
        (child(ties=Ties(start_by=1500.0), token=7), None),
        (child(ties=Ties(start_by=1500.0), state=TRASHED), None),
        (child(ties=Ties(start_by=1500.0), state=COMPLETE), None),
        (child(ties=Ties(start_by=1.0), state=CLAIMED, expires_at=LATER, token=7), LATER),
        (child(state=CLAIMED, expires_at=None, token=7), None),
    ],
)
def test_the_moment_at_which_time_changes_a_job(row: JobRow, due: float | None) -> None:
    assert lifecycle.due_at(row) == due
    assert lifecycle.is_due(row, LATER + 1) is (due is not None)
    for _ in range(3 * (due is not None)):
        if lifecycle.is_due(row, LATER + 1):
            before = lifecycle.due_at(row)
            lifecycle.expire_or_promote(row, LATER + 1)
            assert lifecycle.due_at(row) != before, "what is due is over with it"
    assert not lifecycle.is_due(row, LATER + 1)


@pytest.mark.parametrize(
    ("until", "has_signal", "state"),
    [(None, False, BLOCKED), (LATER, False, BLOCKED), (NOW, False, UNCLAIMED), (LATER, True, UNCLAIMED)],
)
def test_a_wait_for_a_signal(until: float | None, has_signal: bool, state: JobState) -> None:
    row = claimed(max_attempts=1)
    end = Abandonment(Fence("u", "alice", 7), run_at=until, counted=False, signal="go")
    assert lifecycle.abandon(row, end, NOW, has_signal=has_signal).answer is Verdict.DONE
    assert (row.state, row.attempts, row.owner, row.expires_at) == (state, 0, None, None)
    assert row.run_at == (until if state is BLOCKED else None)
    if state is not BLOCKED:
        return
    assert waiting.signal(replace(row), "another", None, NOW).answer is SignalOutcome.DONE
    told = waiting.signal(row, "go", "ada", NOW).told
    assert [(note.kind, note.who, note.reason) for note in told] == [(EventKind.SIGNALLED, "ada", "go")]
    assert (row.state, row.run_at, row.ties) == (UNCLAIMED, None, Ties())


@pytest.mark.parametrize("state", JobState)
def test_only_live_jobs_take_signals(state: JobState) -> None:
    row = child(state=state)
    change = waiting.signal(row, "go", None, NOW)
    assert (change.answer is SignalOutcome.DONE) is bool(change.told) is (state in LIVE)
    assert row.state is state


def test_what_an_operator_restores_begins() -> None:
    row = child(state=TRASHED, ties=Ties(start_by=1.0, signal="go", latest=5.0), token=7, run_at=LATER)
    lifecycle.restore(row, NOW, lambda _: False)
    assert (row.state, row.ties, row.run_at) == (UNCLAIMED, Ties(latest=5.0), None)


@pytest.mark.parametrize("ties", [None, Ties("größe")])
@pytest.mark.parametrize(("key", "delay", "most"), [(None, None, None), ("größe", 0.25, 3)])
def test_a_follow_up_comes_back_as_it_was(
    ties: Ties | None, key: str | None, delay: float | None, most: int | None
) -> None:
    new = NewJob("u", "größe", 5, b"\x00\xff body", key, delay=delay, max_attempts=most, ties=ties)
    data = follow_ups.pack(new)
    found = follow_ups.unpack(data, "job", 7)
    assert (found.name, found.priority, found.body, found.key) == ("größe", 5, b"\x00\xff body", key)
    assert (found.delay, found.max_attempts, found.ties) == (delay, most, ties)
    others = [follow_ups.unpack(data, job, token).uuid for job, token in (("job", 8), ("bob", 7))]
    assert found.uuid == follow_ups.unpack(data, "job", 7).uuid
    assert found.uuid not in others


_NONE = False, False, False, False
_OTHERS = [["n", 3, *_NONE, 7], ["n", 99, *_NONE, ""], ["n", "3", *_NONE, ""], ["n", 3, False, 0.5, False, False, ""]]


@pytest.mark.parametrize(
    "data",
    [b"", b"\xc1", b"\x80", b"\x97" + b"\xc0" * 7, b"\xdd\xff\xff\xff\xff", *map(msgpack.packb, _OTHERS)],
)
def test_a_follow_up_that_cannot_be_read_follows_nothing(data: bytes) -> None:
    with pytest.raises(ValueError, match="follow-up"):
        follow_ups.unpack(data, "child", 1)
    row = child(ties=Ties(on_trashed=data))
    assert lifecycle.trash(row, Trashing("child", None), NOW).posts == ()
    assert row.state is TRASHED
