"""Jitter is a function: the same for every scheduler, spread evenly over schedules."""

from __future__ import annotations

from datetime import timedelta, timezone

import pytest
from helpers.minute_walk import utc

from jobboard.schedules.planning import jitter_of

NOON = utc(2026, 12, 1, 12)


def test_it_never_changes_since_others_have_computed_it_already() -> None:
    assert jitter_of("nightly", NOON, 60) == timedelta(seconds=56, microseconds=315_696)
    assert jitter_of("nightly", NOON.astimezone(timezone(timedelta(hours=5))), 60) == jitter_of("nightly", NOON, 60)


def test_it_differs_by_schedule_and_by_fire_time() -> None:
    assert jitter_of("a", NOON, 60) != jitter_of("b", NOON, 60)
    assert jitter_of("a", NOON, 60) != jitter_of("a", NOON + timedelta(days=1), 60)


def test_it_spreads_evenly_from_0_to_less_than_what_was_asked_for() -> None:
    seconds = [jitter_of(f"schedule-{number}", NOON, 10).total_seconds() for number in range(5000)]
    assert min(seconds) >= 0
    assert max(seconds) < 10
    for tenth in range(10):
        assert 400 < sum(tenth <= second < tenth + 1 for second in seconds) < 600


def test_no_jitter_is_none() -> None:
    assert jitter_of("nightly", NOON, 0) == timedelta(0)


@pytest.mark.parametrize(("jitter", "error"), [(-1, ValueError), (float("nan"), ValueError), ("5", TypeError)])
def test_a_bad_jitter_is_refused(jitter, error) -> None:
    with pytest.raises(error, match="jitter"):
        jitter_of("nightly", NOON, jitter)
