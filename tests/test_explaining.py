"""Triggers in words, and ``jobboard schedule explain``."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from helpers.command_line import Run, as_json, process
from helpers.minute_walk import utc

from jobboard import AllOf, AnyOf, At, Calendar, Cron, Every, Excluding
from jobboard.operate.explaining import distance, explain, upcoming

pytest_plugins = ("helpers.command_fixtures",)


@pytest.mark.parametrize(
    ("trigger", "words"),
    [
        (Cron("0 3 * * 1-5", tz="Europe/Berlin"), "at 03:00 on Monday to Friday, Europe/Berlin"),
        (Cron("*/15 9-17 * * *"), "every 15th minute from 09:00 to 17:59, UTC"),
        (Cron("0 0 22 * fri"), "at 00:00 on the 22nd day of the month or on Friday, UTC"),
        (Cron("0 0 13 * *"), "at 00:00 on the 13th day of every month, UTC"),
        (Cron("@daily", gap="skip"), "at 00:00 every day, UTC; left out when clocks skip it"),
        (Cron("@daily", fold="both"), "at 00:00 every day, UTC; both when clocks show it twice"),
        (Cron("@daily", fold="second"), "at 00:00 every day, UTC; the second one when clocks show it twice"),
        (Cron("@hourly", gap="skip"), "at the start of every hour, UTC"),
        (Every(minutes=5), "every 5 minutes"),
        (Every(hours=1), "every hour"),
        (Every(minutes=90, start=utc(2026, 1, 1)), "every 1 hour 30 minutes, from 2026-01-01 00:00:00 UTC"),
        (Every(seconds=0.5), "every 0.5 seconds"),
        (Calendar(months=1, at="09:00", tz="Asia/Tokyo"), "every month at 09:00, Asia/Tokyo"),
        (Calendar(weeks=2, start=date(2026, 1, 5)), "every 2 weeks at 00:00, from 2026-01-05, UTC"),
        (Calendar(days=1, start=utc(2026, 1, 5)), "every day at 00:00, from 2026-01-05 00:00:00 UTC, UTC"),
        (At(utc(2026, 12, 1, 9)), "once, at 2026-12-01 09:00:00 UTC"),
        (AnyOf(Every(hours=1), Every(minutes=7)), "every hour; or every 7 minutes"),
        (AllOf(Every(hours=1), Every(hours=2)), "when these are at the same moment: every hour; and every 2 hours"),
        (
            Excluding(Every(hours=1), date(2026, 12, 25), Every(hours=3)),
            "every hour, except on 2026-12-25 and when it is due every 3 hours",
        ),
        (
            Excluding(Every(hours=1), *[date(2026, 1, 1) + timedelta(days=day) for day in range(10)]),
            "every hour, except on 10 dates from 2026-01-01 to 2026-01-10",
        ),
    ],
)  # fmt: skip
def test_every_trigger_has_words(trigger, words) -> None:
    assert explain(trigger) == words


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "in 0 s"), (5, "in 5 s"), (3725, "in 1 h 2 min"), (-90, "1 min 30 s ago"), (1_000_000, "in 11 d 13 h")],
)
def test_distances(seconds, text) -> None:
    assert distance(seconds) == text


def test_upcoming_times_tell_what_clocks_did_to_them() -> None:
    nightly = Cron("30 2 * * *", tz="Europe/Berlin")
    notes = [time.note for time in upcoming(nightly, utc(2026, 3, 28, 12), 2)]
    assert notes == ["clocks skip its time, from 02:00 to 03:00", None]
    assert upcoming(nightly, utc(2026, 10, 24, 12), 1)[0].note == "clocks show this time twice; the first"
    second = Calendar(days=1, at="02:30", tz="Europe/Berlin", fold="second")
    assert upcoming(second, utc(2026, 10, 24, 12), 1)[0].note == "clocks show this time twice; the second"
    at_three = Cron("0 3 * * *", tz="Europe/Berlin")
    assert upcoming(at_three, utc(2026, 3, 28, 12), 1)[0].note is None, "that is its own time"


def test_times_of_several_zones_are_shown_in_utc() -> None:
    both = AnyOf(Cron("@daily", tz="Asia/Tokyo"), Cron("@daily", tz="Asia/Kathmandu"))
    assert upcoming(both, utc(2026, 1, 1), 1)[0].line() == "Thu 2026-01-01 15:00:00 +00:00  in 15 h"
    one = AnyOf(Cron("@daily", tz="Asia/Kathmandu"), Calendar(days=1, tz="Asia/Kathmandu"))
    assert upcoming(one, utc(2026, 1, 1), 1)[0].line() == "Fri 2026-01-02 00:00:00 +05:45  in 18 h 15 min"


def test_fewer_times_if_there_are_no_more() -> None:
    assert len(upcoming(At(utc(2026, 1, 1)), utc(2020, 1, 1), 5)) == 1


def test_the_command_needs_no_board() -> None:
    done = process(
        "schedule",
        "explain",
        "0 3 * * 1-5",
        "--tz",
        "Europe/Berlin",
        "--after",
        "2026-11-20T12:00+01:00",
        "--count",
        "2",
    )
    assert done.stdout.splitlines() == [
        "at 03:00 on Monday to Friday, Europe/Berlin",
        "  Mon 2026-11-23 03:00:00 +01:00  in 2 d 15 h",
        "  Tue 2026-11-24 03:00:00 +01:00  in 3 d 15 h",
    ]


def test_the_command_as_json(jobboard: Run) -> None:
    said = as_json(jobboard("schedule", "explain", "@daily", "--after", "2026-01-01T06:00Z", "--count", "1", "--json"))
    assert said == {
        "trigger": {"kind": "cron", "expression": "@daily", "tz": "UTC", "gap": "shift", "fold": "first"},
        "words": "at 00:00 every day, UTC",
        "next": [
            {
                "fire_time": "2026-01-02T00:00:00+00:00",
                "local": "2026-01-02T00:00:00+00:00",
                "weekday": "Friday",
                "seconds": 64800.0,
                "note": None,
            }
        ],
    }


def test_the_command_refuses_what_cron_refuses(jobboard: Run) -> None:
    assert "minute '61'" in jobboard("schedule", "explain", "61 * * * *", status=2)
    assert "did you mean 'Europe/Berlin'?" in jobboard("schedule", "explain", "@daily", "--tz", "Berlin", status=2)
    assert "--after needs an offset" in jobboard("schedule", "explain", "@daily", "--after", "2026-01-01", status=2)
    assert "no ISO 8601 time" in jobboard("schedule", "explain", "@daily", "--after", "soon", status=2)
