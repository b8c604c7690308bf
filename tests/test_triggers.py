"""Every trigger but Cron: Every, Calendar, At, AnyOf, AllOf, Excluding; and plain data."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

import msgpack
import pytest
from helpers.minute_walk import utc

from jobboard import AllOf, AnyOf, At, Calendar, Cron, Every, Excluding
from jobboard.errors import SearchEnded
from jobboard.schedules.triggers import Trigger, trigger_from_plain

BERLIN = ZoneInfo("Europe/Berlin")


def chain(trigger: Trigger, after: datetime, count: int) -> list[datetime]:
    found = []
    for _ in range(count):
        time = trigger.next_fire_time(after)
        if time is None:
            break
        found.append(time)
        after = time
    return found


class TestEvery:
    def test_it_counts_from_its_start_which_is_the_first(self) -> None:
        trigger = Every(minutes=7, start=utc(2026, 1, 1, 0, 3))
        assert trigger.next_fire_time(utc(2020, 1, 1)) == utc(2026, 1, 1, 0, 3)
        assert trigger.next_fire_time(utc(2026, 1, 1, 0, 3)) == utc(2026, 1, 1, 0, 10)
        assert trigger.latest_fire_time(utc(2020, 1, 1), utc(2026, 1, 1, 0, 9)) == utc(2026, 1, 1, 0, 3)
        assert trigger.latest_fire_time(utc(2020, 1, 1), utc(2026, 1, 1)) is None

    def test_without_a_start_it_is_aligned_and_the_same_after_a_restart(self) -> None:
        assert chain(Every(minutes=5), utc(2026, 1, 1, 0, 1), 2) == [utc(2026, 1, 1, 0, 5), utc(2026, 1, 1, 0, 10)]
        monday = Every(weeks=1).next_fire_time(utc(2026, 1, 1))
        assert monday == utc(2026, 1, 5)
        assert monday.isoweekday() == 1

    def test_a_day_of_it_is_24_hours(self) -> None:
        start = datetime(2026, 3, 28, 12, tzinfo=BERLIN)
        found = Every(days=1, start=start).next_fire_time(start)
        assert found.astimezone(BERLIN) == datetime(2026, 3, 29, 13, tzinfo=BERLIN)

    def test_units_add_up_and_fractions_are_exact(self) -> None:
        assert Every(hours=1, minutes=30) == Every(seconds=5400)
        found = chain(Every(seconds=0.1, start=utc(2026, 1, 1)), utc(2026, 1, 1), 20_000)
        assert found[-1] == utc(2026, 1, 1) + timedelta(seconds=2000), "no drift"

    @pytest.mark.parametrize(
        ("options", "error", "fault"),
        [
            ({}, ValueError, "needs a time span"),
            ({"seconds": 0}, ValueError, "needs a time span"),
            ({"minutes": -5}, ValueError, "minutes must be from 0"),
            ({"hours": "1"}, TypeError, "hours must be a number"),
            ({"hours": float("inf")}, ValueError, "hours must be from 0"),
            ({"days": 1, "start": datetime(2026, 1, 1)}, ValueError, "start must be an aware datetime"),
            ({"days": 1, "start": "2026-01-01"}, TypeError, "start must be a datetime"),
        ],
    )
    def test_a_bad_argument_is_refused(self, options, error, fault) -> None:
        with pytest.raises(error, match=fault):
            Every(**options)


class TestCalendar:
    def test_months_keep_their_day_and_short_ones_have_their_last(self) -> None:
        trigger = Calendar(months=1, at="09:00", tz=BERLIN, start=date(2026, 1, 31))
        found = [moment.astimezone(BERLIN) for moment in chain(trigger, utc(2020, 1, 1), 4)]
        assert [f"{moment:%m-%d %H:%M}" for moment in found] == [
            "01-31 09:00",
            "02-28 09:00",
            "03-31 09:00",
            "04-30 09:00",
        ]

    def test_years_from_a_leap_day(self) -> None:
        trigger = Calendar(years=1, start=date(2024, 2, 29))
        assert chain(trigger, utc(2024, 3, 1), 4) == [
            utc(2025, 2, 28),
            utc(2026, 2, 28),
            utc(2027, 2, 28),
            utc(2028, 2, 29),
        ]

    def test_weeks_and_days_are_counted_in_dates_not_in_hours(self) -> None:
        trigger = Calendar(days=2, at="12:00", tz=BERLIN, start=date(2026, 3, 27))
        found = [moment.astimezone(BERLIN) for moment in chain(trigger, utc(2026, 3, 27), 3)]
        assert [f"{moment:%m-%d %H:%M}" for moment in found] == ["03-27 12:00", "03-29 12:00", "03-31 12:00"]
        assert Calendar(weeks=2, start=date(2026, 1, 5)).next_fire_time(utc(2026, 1, 5)) == utc(2026, 1, 19)

    def test_without_a_start_months_are_due_on_the_first_and_weeks_on_mondays(self) -> None:
        assert Calendar(months=3).next_fire_time(utc(2026, 1, 15)) == utc(2026, 4, 1)
        assert Calendar(weeks=1).next_fire_time(utc(2026, 1, 1)) == utc(2026, 1, 5)
        assert Calendar(months=1).latest_fire_time(utc(1950, 1, 1), utc(1960, 5, 5)) == utc(1960, 5, 1)

    def test_a_moment_as_start_gives_its_date_and_nothing_before_it_is_due(self) -> None:
        start = datetime(2026, 5, 4, 10, tzinfo=BERLIN)
        trigger = Calendar(weeks=1, at="09:00", tz=BERLIN, start=start)
        assert trigger.next_fire_time(utc(2020, 1, 1)) == datetime(2026, 5, 11, 9, tzinfo=BERLIN)
        assert trigger.latest_fire_time(utc(2020, 1, 1), start) is None
        assert trigger.start == start

    def test_a_time_of_the_day_may_be_a_time(self) -> None:
        assert Calendar(days=1, at=time(9, 30)) == Calendar(days=1, at="09:30") == Calendar(days=1, at="09:30:00")
        assert Calendar(days=1, at="00:00:01").next_fire_time(utc(2026, 1, 1)) == utc(2026, 1, 1, 0, 0, 1)

    def test_its_clocks_change_as_those_of_cron(self) -> None:
        daily = Calendar(days=1, at="02:30", tz=BERLIN)
        assert daily.next_fire_time(utc(2026, 3, 28, 12)) == datetime(2026, 3, 29, 3, tzinfo=BERLIN)
        skipping = Calendar(days=1, at="02:30", tz=BERLIN, gap="skip")
        assert skipping.next_fire_time(utc(2026, 3, 28, 12)) == datetime(2026, 3, 30, 2, 30, tzinfo=BERLIN)

    @pytest.mark.parametrize(
        ("options", "error", "fault"),
        [
            ({}, ValueError, "one of years, months, weeks and days; got none"),
            ({"months": 1, "days": 1}, ValueError, "got months and days"),
            ({"months": -1}, ValueError, "months must be 0 or more"),
            ({"months": 1.5}, TypeError, "months must be an int"),
            ({"months": 1201}, ValueError, "months must be 1200 at most"),
            ({"days": 1, "at": "9:00"}, ValueError, "at must be a time from 00:00"),
            ({"days": 1, "at": "24:00"}, ValueError, "at must be a time from 00:00"),
            ({"days": 1, "at": 9}, TypeError, "at must be a str"),
            ({"days": 1, "at": time(9, tzinfo=UTC)}, ValueError, "naive time"),
            ({"days": 1, "tz": "Mars"}, ValueError, "tz: there is no zone 'Mars'"),
            ({"days": 1, "start": datetime(2026, 1, 1)}, ValueError, "start must be an aware datetime"),
            ({"days": 1, "start": "2026-01-01"}, TypeError, "start must be a date"),
            ({"days": 1, "gap": "no"}, ValueError, "gap must be"),
        ],
    )
    def test_a_bad_argument_is_refused(self, options, error, fault) -> None:
        with pytest.raises(error, match=fault):
            Calendar(**options)


class TestAt:
    def test_it_is_due_once(self) -> None:
        moment = datetime(2026, 12, 1, 9, tzinfo=BERLIN)
        assert chain(At(moment), utc(2020, 1, 1), 3) == [moment]
        assert At(moment).latest_fire_time(moment, utc(2030, 1, 1)) is None
        assert At(moment) == At(moment.astimezone(timezone(timedelta(hours=7))))
        assert At(moment).moment.tzinfo is UTC

    def test_a_naive_moment_is_refused(self) -> None:
        with pytest.raises(ValueError, match="moment must be an aware datetime"):
            At(datetime(2026, 1, 1))


class TestAnyOf:
    def test_it_is_due_whenever_one_is_and_once_if_several_are(self) -> None:
        trigger = AnyOf(Every(minutes=20), Every(minutes=30), At(utc(2026, 1, 1, 0, 7)))
        found = [moment.minute for moment in chain(trigger, utc(2026, 1, 1), 6)]
        assert found == [7, 20, 30, 40, 0, 20]
        assert trigger.latest_fire_time(utc(2025, 12, 31), utc(2026, 1, 1, 0, 39)) == utc(2026, 1, 1, 0, 30)

    @pytest.mark.parametrize("kind", [AnyOf, AllOf])
    def test_it_needs_triggers(self, kind) -> None:
        with pytest.raises(ValueError, match=f"{kind.__name__} needs triggers"):
            kind()
        with pytest.raises(TypeError, match=f"trigger 2 of {kind.__name__} must be a trigger"):
            kind(Every(hours=1), "0 3 * * *")


class TestAllOf:
    def test_it_is_due_when_all_are(self) -> None:
        trigger = AllOf(Cron("0 9 * * mon"), Calendar(months=1, at="09:00"))
        assert chain(trigger, utc(2026, 1, 1), 2) == [utc(2026, 6, 1, 9), utc(2027, 2, 1, 9)]
        assert trigger.latest_fire_time(utc(2020, 1, 1), utc(2027, 1, 1)) == utc(2026, 6, 1, 9)
        assert trigger.latest_fire_time(utc(2026, 6, 1, 9), utc(2027, 1, 1)) is None

    def test_it_ends_with_the_first_of_them_that_ends(self) -> None:
        assert AllOf(At(utc(2026, 1, 1)), Every(hours=1)).next_fire_time(utc(2026, 1, 1)) is None

    def test_a_search_without_hope_is_bounded(self) -> None:
        never = AllOf(Every(minutes=2, start=utc(2026, 1, 1)), Every(minutes=2, start=utc(2026, 1, 1, 0, 1)))
        with pytest.raises(SearchEnded, match="AllOf found no moment after 2026-01-01.*never are together"):
            never.next_fire_time(utc(2026, 1, 1))
        with pytest.raises(SearchEnded, match="until 2027"):
            never.latest_fire_time(utc(2026, 1, 1), utc(2027, 1, 1))


class TestExcluding:
    def test_dates_are_those_of_the_triggers_zone(self) -> None:
        trigger = Excluding(Cron("30 0 * * *", tz="Europe/Berlin"), date(2026, 12, 25))
        found = [moment.astimezone(BERLIN).day for moment in chain(trigger, utc(2026, 12, 23), 3)]
        assert found == [24, 26, 27]
        assert trigger.latest_fire_time(utc(2026, 1, 1), utc(2026, 12, 25, 12)) == datetime(
            2026, 12, 24, 0, 30, tzinfo=BERLIN
        )

    def test_a_date_may_be_meant_on_other_clocks(self) -> None:
        trigger = Excluding(Every(hours=1), date(2026, 12, 25), tz="America/New_York")
        assert trigger.next_fire_time(utc(2026, 12, 25, 4)) == utc(2026, 12, 26, 5)

    def test_the_zone_of_dates_is_never_guessed(self) -> None:
        daily = Cron("30 0 * * *", tz="Europe/Berlin")
        assert Excluding(AnyOf(daily, Every(hours=5)), date(2026, 12, 25)).tz == "Europe/Berlin"
        both = AnyOf(daily, Calendar(days=1, tz="Asia/Tokyo"))
        with pytest.raises(ValueError, match="tz must be given: .* in Asia/Tokyo or in Europe/Berlin"):
            Excluding(both, date(2026, 12, 25))
        assert Excluding(both, date(2026, 12, 25), tz="Asia/Tokyo").tz == "Asia/Tokyo"
        assert Excluding(both, Every(hours=1)).tz == "UTC"

    def test_moments_and_triggers_are_excluded_where_they_are_due(self) -> None:
        trigger = Excluding(Every(minutes=15), At(utc(2026, 1, 1, 0, 15)), utc(2026, 1, 1, 0, 30), Cron("0 1 * * *"))
        assert chain(trigger, utc(2026, 1, 1), 2) == [utc(2026, 1, 1, 0, 45), utc(2026, 1, 1, 1, 15)]

    def test_a_long_holiday_costs_a_look_a_day(self) -> None:
        dates = [date(2026, 1, 1) + timedelta(days=day) for day in range(300)]
        trigger = Excluding(Every(seconds=1), *dates)
        assert trigger.next_fire_time(utc(2026, 1, 1)) == utc(2026, 10, 28)
        assert trigger.latest_fire_time(utc(2025, 1, 1), utc(2026, 10, 1)) == utc(2025, 12, 31, 23, 59, 59)

    def test_a_search_of_rare_moments_is_bounded_by_years(self) -> None:
        yearly = Cron("0 0 29 2 *")
        with pytest.raises(SearchEnded, match="a hundred years"):
            Excluding(yearly, yearly).next_fire_time(utc(2026, 1, 1))
        with pytest.raises(SearchEnded, match="a hundred years"):
            Excluding(yearly, yearly).latest_fire_time(utc(1, 1, 1), utc(2026, 1, 1))
        with pytest.raises(SearchEnded, match="a hundred years"):
            AllOf(yearly, Cron("0 0 1 3 *")).next_fire_time(utc(2026, 1, 1))
        far = At(utc(2500, 1, 1))
        assert AllOf(far, Every(hours=1)).next_fire_time(utc(2026, 1, 1)) == far.moment

    def test_a_search_without_hope_is_bounded(self) -> None:
        with pytest.raises(SearchEnded, match="Excluding found nothing after.*times in a row"):
            Excluding(Every(hours=1), Every(minutes=30)).next_fire_time(utc(2026, 1, 1))

    @pytest.mark.parametrize(
        ("arguments", "error", "fault"),
        [
            ((Every(hours=1),), ValueError, "what it excludes"),
            (("0 3 * * *", date(2026, 1, 1)), TypeError, "the trigger of Excluding must be a trigger"),
            ((Every(hours=1), "2026-01-01"), TypeError, "exclusion 1 of Excluding must be a date"),
            ((Every(hours=1), datetime(2026, 1, 1)), ValueError, "aware"),
        ],
    )
    def test_a_bad_argument_is_refused(self, arguments, error, fault) -> None:
        with pytest.raises(error, match=fault):
            Excluding(*arguments)


TRIGGERS = [
    Cron("0 3 * * mon-fri", tz="Europe/Berlin", gap="skip", fold="both"),
    Every(weeks=1, start=utc(2026, 1, 1)),
    Every(seconds=0.25),
    Calendar(months=2, at="09:00", tz="Asia/Tokyo", start=date(2026, 1, 31)),
    Calendar(days=1, start=utc(2026, 1, 31, 5)),
    At(utc(2026, 1, 1, 0, 0, 0)),
    AnyOf(Cron("@daily"), AllOf(Every(hours=2), Every(hours=3))),
    Excluding(Every(hours=2), date(2026, 1, 1), At(utc(2026, 1, 1)), tz="Asia/Tokyo"),
]


class TestPlainData:
    @pytest.mark.parametrize("trigger", TRIGGERS, ids=repr)
    def test_it_goes_through_json_and_msgpack(self, trigger) -> None:
        plain = trigger.to_plain()
        assert trigger_from_plain(json.loads(json.dumps(plain))) == trigger
        assert trigger_from_plain(msgpack.unpackb(msgpack.packb(plain))) == trigger

    def test_all_are_different(self) -> None:
        assert len(set(TRIGGERS)) == len(TRIGGERS)
        assert Every(hours=1) != "Every(hours=1)"

    @pytest.mark.parametrize(
        ("data", "error", "fault"),
        [
            ("0 3 * * *", TypeError, "plain data must be a dict"),
            ({}, ValueError, "unknown kind of trigger: None; there are cron"),
            ({"kind": "moon"}, ValueError, "unknown kind of trigger: 'moon'"),
            ({"kind": "cron"}, ValueError, "kind 'cron' needs its field expression"),
            ({"kind": "cron", "expression": "@daily", "jitter": 1}, ValueError, "has no field jitter"),
            ({"kind": "cron", "expression": "99 * * * *"}, ValueError, "minute '99'"),
            ({"kind": "every", "seconds": "5"}, TypeError, "seconds must be a number"),
            ({"kind": "every", "seconds": 5, "start": "soon"}, ValueError, "start must be ISO 8601"),
            ({"kind": "every", "seconds": 5, "start": "2026-01-01"}, ValueError, "start must have a time"),
            ({"kind": "at", "moment": None}, ValueError, "moment must be an ISO 8601"),
            ({"kind": "at", "moment": 5}, TypeError, "moment must be an ISO 8601 text"),
            ({"kind": "any_of", "triggers": "cron"}, TypeError, "triggers must be a list"),
            ({"kind": "any_of", "triggers": []}, ValueError, "AnyOf needs triggers"),
            (
                {"kind": "excluding", "trigger": {"kind": "every", "seconds": 5}, "dates": [None]},
                ValueError,
                "dates must be",
            ),
        ],
    )
    def test_a_fault_in_it_is_named(self, data, error, fault) -> None:
        with pytest.raises(error, match=fault):
            trigger_from_plain(data)

    def test_it_is_not_nested_without_end(self) -> None:
        data = Every(hours=1).to_plain()
        for _ in range(1000):
            data = {"kind": "any_of", "triggers": [data]}
        with pytest.raises(ValueError, match="nested deeper"):
            trigger_from_plain(data)


def test_years_of_missed_times_are_found_from_their_end() -> None:
    begin = utc(1970, 1, 1)
    assert Cron("* * * * * *").latest_fire_time(begin, utc(2026, 1, 1)) == utc(2026, 1, 1)
    assert Every(seconds=0.001).latest_fire_time(begin, utc(2026, 1, 1)) == utc(2026, 1, 1)
    assert Cron("@yearly").latest_fire_time(begin, utc(2026, 7, 1)) == utc(2026, 1, 1)
