"""The converter, beside APScheduler 3 itself."""

from __future__ import annotations

import subprocess
import sys
import zoneinfo
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger
from helpers.minute_walk import utc
from hypothesis import given, settings
from hypothesis import strategies as st

from jobboard import AllOf, At, Calendar, Cron, Every
from jobboard.apscheduler import Converted, convert_job, convert_trigger
from jobboard.schedules.triggers import Trigger

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")


def theirs(trigger: Any, now: datetime, count: int) -> list[datetime]:
    found: list[datetime] = []
    previous = None
    while len(found) < count:
        previous = trigger.get_next_fire_time(previous, previous or now)
        if previous is None:
            break
        # A time of an hour that comes twice equals no time of another zone.
        found.append(previous.astimezone(UTC))
    return found


def ours(converted: dict[str, Any], now: datetime, count: int) -> list[datetime]:
    trigger: Trigger = converted["trigger"]
    found: list[datetime] = []
    after = max(now, converted.get("start", now)) - timedelta(microseconds=1)
    while len(found) < count:
        time = trigger.next_fire_time(after)
        if time is None or time > converted.get("end", time):
            break
        found.append(time)
        after = time
    return found


def choose(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


crons = st.fixed_dictionaries(
    {},
    optional={
        "month": choose("*", 3, "jan-mar", "jun", "2,6", "*/4", "MAY-JUL,12"),
        "day": choose("*", 1, "last", "1-7", "1st mon", "last fri", "3rd wed,15", "*/10", "10-20/3", "*/9,2nd tue"),
        "day_of_week": choose("*", 0, "mon-fri", "sat,sun", "6", "0-4/2", "fri-sun", "*/3", "2/2", "TUE"),
        "hour": choose("*", 0, "3", "9-17", "*/6", "1,5", "5/7"),
        "minute": choose("*", 0, 30, "*/15", "7,9"),
        "second": choose("*", 0, "*/30", 5),
    },
).filter(bool)  # fmt: skip


#: Without a change of the clocks in the zones below: around one APScheduler loses runs.
seasons = choose((utc(2025, 11, 5), utc(2026, 3, 25)), (utc(2026, 4, 1), utc(2026, 10, 20)))


@settings(max_examples=100)
@given(crons, choose("UTC", "Europe/Berlin", "Asia/Kathmandu"), seasons, st.floats(0, 0.9))
def test_cron_fires_when_theirs_does(fields, zone, season, part) -> None:
    start, end = season
    now = (start + (end - start) * part).replace(microsecond=0)
    options = {**fields, "timezone": zone, "end_date": end}
    expected = theirs(CronTrigger(**options), now, 8)
    try:
        found = ours(convert_trigger("cron", **options), now, 8)
    except ValueError as error:
        # The first Monday of a month that is a Sunday: they search for it until the end.
        found = [] if "never on the same date" in str(error) else [now]
    assert found == expected


@settings(max_examples=60)
@given(
    st.dictionaries(choose("weeks", "days", "hours", "minutes", "seconds"), st.integers(1, 9), min_size=1),
    st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 1)),
    st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 1)),
)  # fmt: skip
def test_interval_fires_when_theirs_does(units, start, now) -> None:
    start, moment = start.replace(microsecond=0), now.replace(tzinfo=UTC, microsecond=0)
    options = {**units, "start_date": start, "timezone": "Europe/Berlin"}
    expected = theirs(IntervalTrigger(**options), moment, 5)
    assert ours(convert_trigger("interval", **options), moment, 5) == expected


@pytest.mark.parametrize(
    "options",
    [
        {"months": 1, "hour": 9, "start_date": date(2026, 1, 28)},
        {"weeks": 2, "hour": 12, "minute": 30, "second": 5, "start_date": "2026-01-07"},
        {"days": 3, "start_date": date(2026, 1, 7), "end_date": date(2026, 1, 16)},
        {"years": 1, "start_date": date(2026, 2, 28)},
    ],
)
def test_calendarinterval_fires_when_theirs_does(options) -> None:
    expected = theirs(CalendarIntervalTrigger(**options, timezone="Europe/Berlin"), utc(2026, 1, 1), 12)
    assert (
        ours(convert_trigger("calendarinterval", timezone="Europe/Berlin", **options), utc(2026, 1, 1), 12) == expected
    )


@pytest.mark.parametrize(
    ("fields", "expression"),
    [
        ({"hour": 3}, "0 3 * * *"),
        ({"day_of_week": "mon-fri", "hour": 3, "minute": 30}, "30 3 * * mon-fri"),
        ({"day_of_week": 0}, "0 0 * * mon"),
        ({"day_of_week": "6"}, "0 0 * * sun"),
        ({"day_of_week": "5-6"}, "0 0 * * sat,sun"),
        ({"day_of_week": "0-6"}, "0 0 * * *"),
        ({"day": "last"}, "0 0 L * *"),
        ({"day": "3rd fri"}, "0 0 * * fri#3"),
        ({"day": "last sun"}, "0 0 * * 0L"),
        ({"month": "jan,7"}, "0 0 1 jan,7 *"),
        ({"year": "*"}, "0 0 1 1 *"),
        ({"second": "*/10"}, "*/10 * * * * *"),
        ({"minute": "*"}, "* * * * *"),
        ({"hour": "*/2", "minute": None}, "0 */2 * * *"),
    ],
)
def test_cron_becomes_a_crontab_string(fields, expression) -> None:
    assert convert_trigger("cron", timezone="Europe/Berlin", **fields) == {
        "trigger": Cron(expression, tz="Europe/Berlin")
    }


def test_day_and_day_of_week_are_wanted_both() -> None:
    found = convert_trigger("cron", day="13", day_of_week="fri", hour=9, timezone="UTC")["trigger"]
    assert found == AllOf(Cron("0 9 13 * *"), Cron("0 9 * * fri"))
    assert found.next_fire_time(utc(2026, 4, 1)) == utc(2026, 11, 13, 9)


def test_years_become_start_and_end() -> None:
    found = convert_trigger("cron", year="2027-2028", hour=3, timezone="Europe/Berlin", end_date="2028-06-01")
    assert found["start"] == datetime(2027, 1, 1, tzinfo=BERLIN)
    assert found["end"] == datetime(2028, 6, 1, tzinfo=BERLIN)
    once = convert_trigger("cron", year=2027, month=5, timezone="UTC")
    assert ours(once, utc(2020, 1, 1), 5) == [utc(2027, 5, 1)]


def test_the_zone_is_found_where_apscheduler_finds_it() -> None:
    aware = datetime(2026, 1, 1, tzinfo=BERLIN)
    assert convert_trigger("cron", hour=3, start_date=aware)["trigger"].tz == "Europe/Berlin"
    assert convert_trigger("cron", hour=3, start_date=aware, timezone="Asia/Tokyo")["trigger"].tz == "Asia/Tokyo"
    assert convert_trigger("cron", hour=3, scheduler_timezone=BERLIN)["trigger"].tz == "Europe/Berlin"
    assert convert_trigger("cron", hour=3, timezone=UTC)["trigger"].tz == "UTC"
    with pytest.raises(ValueError, match="timezone must be given"):
        convert_trigger("cron", hour=3)
    with pytest.raises(ValueError, match="an offset"):
        convert_trigger("cron", hour=3, timezone=timezone(timedelta(hours=2)))


def test_a_whole_call_of_add_job() -> None:
    found = convert_job(
        "cron", id="nightly", kwargs={"full": True}, hour=3, timezone="Europe/Berlin", jitter=30, coalesce=False,
        misfire_grace_time=60, max_instances=3, replace_existing=True, next_run_time=None, args=[],
    )  # fmt: skip
    assert found == Converted(
        {
            "id": "nightly",
            "details": {"full": True},
            "trigger": Cron("0 3 * * *", tz="Europe/Berlin"),
            "jitter": 30.0,
            "coalesce": "all",
            "misfire_grace": 60.0,
            "max_instances": 3,
            "paused": True,
        },
        "replace",
    )
    assert convert_job("interval", minutes=5) == Converted({"trigger": Every(minutes=5)}, "raise")
    first = convert_job("interval", minutes=5, next_run_time=datetime(2026, 12, 1, 9, tzinfo=BERLIN))
    assert first == ({"trigger": Every(minutes=5)}, "raise", utc(2026, 12, 1, 8))
    at_once = convert_job("date").schedule["trigger"]
    assert abs(at_once.moment - datetime.now(UTC)) < timedelta(minutes=1)
    assert convert_job("interval", minutes=5, coalesce=True, misfire_grace_time=None).schedule == {
        "trigger": Every(minutes=5),
        "coalesce": "latest",
        "misfire_grace": None,
    }
    assert convert_job("date", run_date="2026-12-01 09:00", timezone="Europe/Berlin").schedule == {
        "trigger": At(datetime(2026, 12, 1, 9, tzinfo=BERLIN))
    }
    assert convert_job("date", run_date=date(2026, 12, 1), timezone="UTC").schedule == {"trigger": At(utc(2026, 12, 1))}
    assert convert_job("calendarinterval", months=2, hour=9, timezone="UTC").schedule == {
        "trigger": Calendar(months=2, at="09:00")
    }


@pytest.mark.parametrize(
    ("kind", "keywords", "error", "fault"),
    [
        ("and", {}, ValueError, "trigger 'and' has no equivalent.*AllOf or AnyOf"),
        ("cron", {}, ValueError, "every second"),
        ("cron", {"week": "*/2"}, ValueError, "week has no equivalent.*Calendar"),
        ("cron", {"year": "2026,2028"}, ValueError, "year '2026,2028' has no equivalent"),
        ("cron", {"year": "2028-2026"}, ValueError, "year '2028-2026'"),
        ("cron", {"day_of_week": "7"}, ValueError, "day_of_week '7': values are 0-6"),
        ("cron", {"day_of_week": "fri-mon"}, ValueError, "day_of_week 'fri-mon'"),
        ("cron", {"day_of_week": "mon#1"}, ValueError, "day_of_week: there is no equivalent of 'mon#1'"),
        ("cron", {"day": "1st lun"}, ValueError, "no weekday 'lun'"),
        ("cron", {"day": "32"}, ValueError, "day of month '32'"),
        ("cron", {"month": "jan-mar/2"}, ValueError, "month: there is no equivalent of 'jan-mar/2'"),
        ("cron", {"hour": 25}, ValueError, "hour '25'"),
        ("cron", {"minutes": 5}, ValueError, "trigger 'cron' has no keyword 'minutes'; there are year"),
        ("cron", {"hour": 3, "start_date": "soon"}, ValueError, "start_date must be like"),
        ("cron", {"hour": 3, "start_date": 5}, TypeError, "start_date must be a datetime"),
        ("interval", {}, ValueError, "needs a time span"),
        ("calendarinterval", {"months": 1, "start_date": date(2026, 1, 31)}, ValueError, "leaves out months"),
        ("calendarinterval", {"months": 1, "days": 1}, ValueError, "one of years, months"),
        ("calendarinterval", {"months": 1, "start_date": "soon"}, ValueError, "start_date must be like '2026-12-01'"),
        ("cron", {"hour": 3, "args": [1]}, ValueError, "args has no equivalent.*kwargs"),
        ("cron", {"hour": 3, "executor": "pool"}, ValueError, "executor has no equivalent"),
        ("cron", {"hour": 3, "jobstore": "db"}, ValueError, "jobstore has no equivalent"),
        ("cron", {"hour": 3, "name": "x"}, ValueError, "name has no equivalent"),
        ("cron", {"hour": 3, "next_run_time": datetime(2026, 1, 1)}, ValueError, "next_run_time must be an aware"),
    ],
)
def test_what_has_no_equivalent_is_refused(kind, keywords, error, fault) -> None:
    with pytest.raises(error, match=fault):
        convert_job(kind, timezone="UTC", **keywords)


def test_without_its_extra_the_converter_says_which_one_to_install() -> None:
    code = (
        "import sys; sys.modules['cronsim'] = None\nfrom jobboard import MissingExtra\n"
        "try:\n    import jobboard.apscheduler\nexcept MissingExtra as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.endswith("pip install 'jobboard[apscheduler]'\n")


@pytest.mark.parametrize(
    ("zone", "noon", "fields", "theirs_at", "ours_at"),
    [
        ("Europe/Berlin", utc(2026, 3, 28, 12), {"hour": 2, "minute": 30}, "29. 03:30 +0200", "29. 03:00 +0200"),
        ("Asia/Beirut", utc(2026, 3, 28, 12), {"hour": 0}, "30. 00:00 +0300", "29. 01:00 +0300"),
        ("Europe/Berlin", utc(2026, 3, 29, 12), {"hour": 0, "minute": 30}, "31. 00:30 +0200", "30. 00:30 +0200"),
    ],
)
def test_what_the_guide_says_about_changes_of_clocks(zone, noon, fields, theirs_at, ours_at) -> None:
    def shown(moment: datetime) -> str:
        return f"{moment.astimezone(UTC).astimezone(zoneinfo.ZoneInfo(zone)):%d. %H:%M %z}"

    # Their fire times after noon of the day before: they go on from the last one.
    before = CronTrigger(**fields, timezone=zone).get_next_fire_time(None, noon - timedelta(days=1))
    found = CronTrigger(**fields, timezone=zone).get_next_fire_time(before, before)
    assert shown(found) == theirs_at
    assert shown(ours(convert_trigger("cron", timezone=zone, **fields), noon, 1)[0]) == ours_at
