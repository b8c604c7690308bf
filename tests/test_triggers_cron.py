"""Cron: what clocks do to it, zone by zone, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from helpers.minute_walk import utc

from jobboard import Cron


def on_walls(trigger: Cron, start: datetime, count: int) -> list[str]:
    """Return the next fire times as clocks of the trigger's zone show them."""
    found, after = [], start
    for _ in range(count):
        time = trigger.next_fire_time(after)
        if time is None:
            break
        found.append(time.astimezone(ZoneInfo(trigger.tz)).strftime("%m-%d %H:%M %z"))
        after = time
    return found


def times(trigger: Cron, start: datetime, count: int) -> list[str]:
    return [text[:11] for text in on_walls(trigger, start, count)]


class TestSpring:
    def test_a_fixed_time_in_the_gap_is_at_the_first_moment_after_it(self) -> None:
        found = on_walls(Cron("30 2 * * *", "Europe/Berlin"), utc(2026, 3, 28), 3)
        assert found == ["03-28 02:30 +0100", "03-29 03:00 +0200", "03-30 02:30 +0200"]

    def test_skip_leaves_it_out(self) -> None:
        found = times(Cron("30 2 * * *", "Europe/Berlin", gap="skip"), utc(2026, 3, 28), 2)
        assert found == ["03-28 02:30", "03-30 02:30"]

    def test_several_in_the_gap_and_the_one_after_it_are_one(self) -> None:
        found = times(Cron("0,30 2,3 * * *", "Europe/Berlin"), utc(2026, 3, 29), 3)
        assert found == ["03-29 03:00", "03-29 03:30", "03-30 02:00"]

    @pytest.mark.parametrize("expression", ["*/20 * * * *", "*/20 */1 * * *", "0-59/20 * * * *"])
    def test_steps_go_on_through_it(self, expression) -> None:
        found = times(Cron(expression, "Europe/Berlin"), utc(2026, 3, 29, 0, 30), 4)
        assert found == ["03-29 01:40", "03-29 03:00", "03-29 03:20", "03-29 03:40"]

    def test_an_hourly_half_hour_is_not_shifted(self) -> None:
        found = times(Cron("30 * * * *", "Europe/Berlin"), utc(2026, 3, 29, 0, 0), 3)
        assert found == ["03-29 01:30", "03-29 03:30", "03-29 04:30"]

    @pytest.mark.parametrize(
        ("zone", "noon", "found"),
        [
            ("America/Sao_Paulo", utc(2018, 11, 3, 12), ["11-04 01:00", "11-05 00:00"]),
            ("Asia/Beirut", utc(2026, 3, 28, 12), ["03-29 01:00", "03-30 00:00"]),
            ("Africa/Cairo", utc(2026, 4, 23, 12), ["04-24 01:00", "04-25 00:00"]),
            ("America/Havana", utc(2026, 3, 7, 12), ["03-08 01:00", "03-09 00:00"]),
            ("Asia/Amman", utc(2021, 3, 25, 12), ["03-26 01:00", "03-27 00:00"]),
        ],
    )
    def test_a_midnight_that_is_skipped(self, zone, noon, found) -> None:
        assert times(Cron("@daily", zone), noon, 2) == found

    def test_a_gap_of_half_an_hour(self) -> None:
        found = on_walls(Cron("15 2 * * *", "Australia/Lord_Howe"), utc(2026, 10, 2, 18), 2)
        assert found == ["10-04 02:30 +1100", "10-05 02:15 +1100"]

    def test_the_end_of_a_date_that_is_skipped_is_due_when_the_next_begins(self) -> None:
        found = on_walls(Cron("30 23 * * *", "America/Nuuk"), utc(2026, 3, 28, 2), 3)
        assert found == ["03-29 00:00 -0100", "03-29 23:30 -0100", "03-30 23:30 -0100"]


class TestAutumn:
    @pytest.mark.parametrize(
        ("fold", "found"),
        [
            ("first", ["10-25 02:30 +0200", "10-26 02:30 +0100"]),
            ("second", ["10-25 02:30 +0100", "10-26 02:30 +0100"]),
            ("both", ["10-25 02:30 +0200", "10-25 02:30 +0100"]),
        ],
    )
    def test_a_fixed_time_that_is_there_twice(self, fold, found) -> None:
        assert on_walls(Cron("30 2 * * *", "Europe/Berlin", fold=fold), utc(2026, 10, 24, 12), 2) == found

    def test_steps_go_on_through_it(self) -> None:
        moments, after = [], utc(2026, 10, 24, 23, 59)
        for _ in range(8):
            after = Cron("*/30 * * * *", "Europe/Berlin").next_fire_time(after)
            moments.append(after)
        assert moments == [utc(2026, 10, 25) + timedelta(minutes=30) * step for step in range(8)]

    def test_hours_go_on_through_it(self) -> None:
        found = on_walls(Cron("0 * * * *", "Europe/Berlin"), utc(2026, 10, 24, 23), 4)
        assert found == ["10-25 02:00 +0200", "10-25 02:00 +0100", "10-25 03:00 +0100", "10-25 04:00 +0100"]

    def test_a_midnight_that_is_there_twice(self) -> None:
        found = on_walls(Cron("@daily", "America/Havana"), utc(2026, 10, 31, 12), 2)
        assert found == ["11-01 00:00 -0400", "11-02 00:00 -0500"]

    def test_an_hour_before_midnight_that_is_there_twice(self) -> None:
        found = on_walls(Cron("30 23 * * *", "America/Sao_Paulo"), utc(2018, 2, 17, 12), 3)
        assert found == ["02-17 23:30 -0200", "02-18 23:30 -0300", "02-19 23:30 -0300"]

    def test_a_fold_of_half_an_hour(self) -> None:
        found = on_walls(Cron("45 1 * * *", "Australia/Lord_Howe"), utc(2026, 4, 3, 20), 3)
        assert found == ["04-05 01:45 +1100", "04-06 01:45 +1030", "04-07 01:45 +1030"]


class TestOddDates:
    def test_a_date_that_never_was_has_no_fire_time(self) -> None:
        found = times(Cron("0 12 * * *", "Pacific/Apia"), utc(2011, 12, 29), 3)
        assert found == ["12-29 12:00", "12-31 12:00", "01-01 12:00"]
        assert times(Cron("@daily", "Pacific/Kwajalein"), utc(1993, 8, 20), 3) == [
            "08-20 00:00",
            "08-22 00:00",
            "08-23 00:00",
        ]

    def test_leap_days_and_fifth_mondays(self) -> None:
        found = [
            Cron("0 0 29 2 *").next_fire_time(utc(1999, 1, 1)),
            Cron("0 0 * 2 mon#5").next_fire_time(utc(2020, 1, 1)),
        ]
        assert found == [utc(2000, 2, 29), utc(2044, 2, 29)]

    def test_there_is_an_end_of_time(self) -> None:
        assert Cron("@daily").next_fire_time(utc(9999, 12, 31)) is None
        assert Cron("@daily").latest_fire_time(utc(1, 1, 1), utc(2, 1, 1)) is None
        assert Cron("@daily", "Asia/Tokyo").latest_fire_time(utc(1, 1, 1), utc(9999, 12, 31)) is not None


class TestFields:
    @pytest.mark.parametrize(
        ("expression", "after", "found"),
        [
            ("0 0 L * *", utc(2026, 2, 1), utc(2026, 2, 28)),
            ("0 0 LW * *", utc(2026, 5, 1), utc(2026, 5, 29)),
            ("0 0 * * mon#2", utc(2026, 6, 1), utc(2026, 6, 8)),
            ("0 0 * * 5L", utc(2026, 6, 1), utc(2026, 6, 26)),
            ("0 0 * * 7", utc(2026, 6, 1), utc(2026, 6, 7)),
            ("0 0 * * 0", utc(2026, 6, 1), utc(2026, 6, 7)),
            ("0 0 * * sat-sun", utc(2026, 6, 1), utc(2026, 6, 6)),
            ("0 0 13 * fri", utc(2026, 6, 1), utc(2026, 6, 5)),
            ("0 0 */13 * fri", utc(2026, 6, 1), utc(2026, 8, 14)),
            ("0 0 1 JAN *", utc(2026, 6, 1), utc(2027, 1, 1)),
            ("*/20 * * * * *", utc(2026, 6, 1, 0, 0, 20), utc(2026, 6, 1, 0, 0, 40)),
            ("30 15 10 * * *", utc(2026, 6, 1), utc(2026, 6, 1, 10, 15, 30)),
            ("@hourly", utc(2026, 6, 1), utc(2026, 6, 1, 1)),
            ("@Weekly", utc(2026, 6, 1), utc(2026, 6, 7)),
            ("@monthly", utc(2026, 6, 1), utc(2026, 7, 1)),
            ("@yearly", utc(2026, 6, 1), utc(2027, 1, 1)),
        ],
    )
    def test_what_a_field_may_hold(self, expression, after, found) -> None:
        assert Cron(expression).next_fire_time(after) == found
        assert Cron(expression).latest_fire_time(after, found) == found
        assert Cron(expression).latest_fire_time(after, found - timedelta(microseconds=1)) is None

    @pytest.mark.parametrize(
        ("expression", "fault"),
        [
            ("60 * * * *", r"minute '60': its values are 0-59"),
            ("* 24 * * *", r"hour '24': its values are 0-23"),
            ("* * 0 * *", r"day of month '0'"),
            ("* * * 13 *", r"month '13'.*jan-dec"),
            ("* * * * 8", r"day of week '8'.*Sunday"),
            ("61 * * * * *", r"second '61'"),
            ("* * * * fri-mon", r"day of week 'fri-mon'.*upwards"),
            ("? * * * *", r"write \*"),
            ("*/90 * * * *", r"minute '\*/90': a step of 90.*Every"),
            ("*/0 * * * *", r"minute '\*/0'"),
            ("* * * *", r"5 fields.*'\* \* \* \*' has 4"),
            ("* * * * * * 2026", r"5 fields.*has 7"),
            ("", r"5 fields.*'' has 0"),
            ("0 0 30 2 *", r"never due"),
            ("0 0 */31 2 mon", r"day of month"),
            ("@reboot", r"@reboot names no time"),
            ("@every 5m", r"Every\(minutes"),
            ("@fortnightly", r"unknown name '@fortnightly'.*@hourly"),
        ],
    )
    def test_a_fault_says_in_which_field_it_is(self, expression, fault) -> None:
        with pytest.raises(ValueError, match=fault):
            Cron(expression)

    @pytest.mark.parametrize(
        ("options", "error", "fault"),
        [
            ({"tz": "Europe/Berln"}, ValueError, "tz: there is no zone 'Europe/Berln'; did you mean 'Europe/Berlin'?"),
            ({"tz": "Europe"}, ValueError, "tz: there is no zone"),
            ({"tz": "../passwd"}, ValueError, "tz: there is no zone"),
            ({"tz": "localtime"}, ValueError, "same zone on every host"),
            ({"tz": 3}, TypeError, "tz must be the name of a zone"),
            ({"gap": "shove"}, ValueError, "gap must be 'shift' or 'skip'"),
            ({"fold": None}, ValueError, "fold must be 'first', 'second' or 'both'"),
        ],
    )
    def test_a_bad_option_is_refused(self, options, error, fault) -> None:
        with pytest.raises(error, match=fault):
            Cron("@daily", **options)

    def test_a_zone_may_be_a_zoneinfo(self) -> None:
        assert Cron("@daily", tz=ZoneInfo("Europe/Berlin")) == Cron("@daily", tz="Europe/Berlin")

    def test_naive_times_are_refused(self) -> None:
        with pytest.raises(ValueError, match="after must be an aware datetime"):
            Cron("@daily").next_fire_time(datetime(2026, 1, 1))
        with pytest.raises(TypeError, match="until must be a datetime"):
            Cron("@daily").latest_fire_time(utc(2026, 1, 1), "now")


def test_without_a_tz_database_there_is_utc() -> None:
    code = (
        "import sys; sys.modules['tzdata'] = None\nimport jobboard\nprint(jobboard.Cron('@daily').tz)\n"
        "try:\n    jobboard.Cron('@daily', 'Europe/Berlin')\nexcept ValueError as error:\n    print(error)"
    )
    environment = {**os.environ, "PYTHONTZPATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True, env=environment
    )
    said = "tz: there is no zone 'Europe/Berlin'; this host has no tz database: pip install 'jobboard[scheduler]'"
    assert done.stdout.splitlines() == ["UTC", said]


def test_without_cronsim_only_cron_is_missing() -> None:
    code = (
        "import sys; sys.modules['cronsim'] = None\nimport jobboard\njobboard.Every(minutes=5)\n"
        "try:\n    jobboard.Cron('@daily')\nexcept jobboard.errors.MissingExtra as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "Cron needs the Python package 'cronsim': pip install 'jobboard[scheduler]'\n"
