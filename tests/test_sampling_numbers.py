"""The numbers of a board's history: events that are counted, durations, and buckets that are put together."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from helpers.memory_seam import fresh_name

from jobboard import JobBoard, fetch
from jobboard.conductor.outcome import Suspended
from jobboard.events import EventKind, JobEvent
from jobboard.operate.sampling import Bucket, Figures, counting
from jobboard.operate.sampling.buckets import Histogram, merged
from jobboard.operate.sampling.counting import EventCounts
from jobboard.testing import eventually


@pytest.fixture
def board() -> Iterator[JobBoard]:
    with fetch(fresh_name(), "memory://") as board:
        yield board


def event(kind: EventKind, uuid: str, at: float, name: str = "mail", reason: str | None = None) -> JobEvent:
    token = None if kind is EventKind.POSTED else 1
    return JobEvent(kind, uuid, name, "me", token, datetime.fromtimestamp(at, UTC), reason)


def test_events_are_counted_by_name_and_waits_and_runs_are_timed(board: JobBoard) -> None:
    counts = EventCounts()
    ended = counts.listen(board)
    board.post("mail", max_attempts=2)
    board.post("other", delay=3600.0)
    (job,) = board.claim_next("me", {"mail"})
    board.abandon(job, "me", reason="runs again", counted=False)
    (job,) = board.claim_next("me", {"mail"})
    board.abandon(job, "me", reason="ValueError: x")
    (job,) = board.claim_next("me", {"mail"})
    board.consume(job, "me")
    eventually(lambda: counts._total.finished == 1, 20)
    ended()
    total, names = counts.take()
    assert (total.posted, total.finished, total.failed) == (2, 1, 1)
    assert (len(total.wait), len(total.run)) == (3, 3)
    assert (names["mail"].posted, names["other"].posted, len(names["other"].wait)) == (1, 1, 0)
    assert counts.take()[0].to_plain() == Figures().to_plain()


def test_a_job_waits_from_its_admission_on() -> None:
    counts = EventCounts()
    kinds = (EventKind.POSTED, EventKind.BLOCKED, EventKind.ADMITTED, EventKind.CLAIMED)
    for kind, at in zip(kinds, (0.0, 0.0, 1000.0, 1001.0), strict=True):
        counts.count(event(kind, "u", at))
    waited = counts.take()[0].wait.percentile(1.0)
    assert waited is not None
    assert waited < 2


@pytest.mark.parametrize(
    ("reason", "failed"),
    [
        (Suspended(3600.0, None).reason, 0),
        (Suspended(None, "approved").reason, 0),
        ("runs again", 0),
        ("its conductor stopped", 0),
        ("OSError: no disk", 1),
        (None, 1),
    ],
)
def test_only_a_run_that_failed_is_a_failure(reason: str | None, failed: int) -> None:
    counts = EventCounts()
    counts.count(event(EventKind.ABANDONED, "u", 1.0, reason=reason))
    assert counts.take()[0].failed == failed


def test_an_operator_who_trashes_a_waiting_job_is_no_failure() -> None:
    counts = EventCounts()
    trashed = event(EventKind.TRASHED, "u", 1.0)
    counts.count(JobEvent(trashed.kind, "u", "mail", "me", None, trashed.at))
    assert counts.take()[0].failed == 0


def test_a_large_backlog_is_followed_by_a_fair_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MAX_FOLLOWED", 500)
    counts = EventCounts()
    uuids = [f"{number:x}" for number in range(15_000)]
    for number, uuid in enumerate(uuids):
        counts.count(event(EventKind.POSTED, uuid, number))
        assert len(counts.waiting) <= 500
    # The oldest is claimed first, after a wait that grows with the backlog.
    for number, uuid in enumerate(uuids):
        counts.count(event(EventKind.CLAIMED, uuid, 15_000 + 2 * number))
        assert len(counts.running) <= 500
    waits = counts.take()[0].wait
    assert len(waits) > 500 // 8
    median = waits.percentile(0.5)
    assert median is not None
    # The first one waited 15,000 seconds, the last one 30,000.
    assert 22_500 / 1.4 < median < 22_500 * 1.4


def test_names_without_end_are_counted_in_the_total() -> None:
    counts = EventCounts()
    for number in range(5000):
        counts.count(event(EventKind.POSTED, str(number), 1.0, name=str(number)))
    total, names = counts.take()
    assert total.posted == 5000
    assert len(names) == 1000


def test_percentiles_are_right_within_a_fifth_and_add_up() -> None:
    chance = random.Random(7)
    values = [chance.lognormvariate(0.0, 3.0) for _ in range(5000)]
    values = [min(max(value, 0.001), 1e6) for value in values]
    halves = Histogram(), Histogram()
    for number, value in enumerate(values):
        halves[number % 2].add(value)
    whole = Histogram.from_plain(halves[0].to_plain())
    whole.merge(halves[1])
    assert len(whole) == len(values)
    for share in (0.0, 0.5, 0.95, 0.99, 1.0):
        exact = sorted(values)[max(0, int(len(values) * share) - 1)]
        found = whole.percentile(share)
        assert found is not None
        assert 1 / 1.2 <= found / exact <= 1.2
    assert Histogram().percentile(0.5) is None


def test_durations_out_of_all_bounds_take_no_more_room() -> None:
    histogram = Histogram()
    for value in (-1.0, 0.0, 1e-9, 1e12, float("inf")):
        histogram.add(value)
    assert len(histogram.to_plain()) == 4
    assert len(Histogram.from_plain([10**9, 1, -5, 1]).to_plain()) == 4


def test_buckets_can_be_put_together_in_any_order() -> None:
    buckets = [Bucket(0, Figures(waiting=n, posted=n), {"a": Figures(oldest=n), str(n): Figures()}) for n in range(5)]
    expected = merged(0, buckets).to_plain()
    assert merged(0, [merged(0, buckets[3:]), merged(0, buckets[:3])]).to_plain() == expected
    assert Bucket.from_plain(expected).to_plain() == expected
    assert expected["total"][:1] == [4]


def test_a_history_from_before_there_were_lanes_or_pauses_is_read() -> None:
    known = Bucket(60, Figures(waiting=3, oldest=7, failed=2, blocked=5, paused=1)).to_plain()
    assert (Bucket.from_plain(known).total.blocked, Bucket.from_plain(known).total.paused) == (5, 1)
    *numbers, blocked, _paused, wait, run = known["total"]
    for kept in ([], [blocked]):
        read = Bucket.from_plain(known | {"total": [*numbers, *kept, wait, run]}).total
        assert (read.waiting, read.oldest, read.failed, read.blocked) == (3, 7, 2, sum(kept))
    for damaged in ([*numbers, 5, 1, 5, wait, run], [*numbers[:-1], wait, run], [wait, run]):
        with pytest.raises(ValueError, match="no bucket"):
            Bucket.from_plain(known | {"total": damaged})
