"""What holds for every trigger in every zone, shown by random ones against a walk over real minutes."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from helpers.minute_walk import fire_times, local_dates, utc
from hypothesis import given, settings
from hypothesis import strategies as st

from jobboard import AllOf, AnyOf, Calendar, Cron, Every, Excluding
from jobboard.schedules.triggers import Trigger, trigger_from_plain

#: Zones that have done to their clocks what others never did, and some that most people live in.
ODD_ZONES = (
    "Africa/Cairo", "Africa/Casablanca", "Africa/El_Aaiun", "America/Asuncion", "America/Caracas", "America/Havana",
    "America/New_York", "America/Nuuk", "America/Santiago", "America/Sao_Paulo", "America/Scoresbysund",
    "America/St_Johns", "Antarctica/Troll", "Asia/Amman", "Asia/Beirut", "Asia/Gaza", "Asia/Kathmandu",
    "Asia/Pyongyang", "Asia/Tehran", "Atlantic/Azores", "Australia/Lord_Howe", "Europe/Berlin", "Europe/Dublin",
    "Europe/London", "Europe/Moscow", "Pacific/Apia", "Pacific/Chatham", "Pacific/Easter", "Pacific/Kiritimati",
    "Pacific/Kwajalein", "UTC",
)  # fmt: skip
ALL_ZONES = sorted(name for name in zoneinfo.available_timezones() if "/" in name and not name.startswith("Etc"))

zones = st.one_of(st.sampled_from(ODD_ZONES), st.sampled_from(ALL_ZONES))
minutes = st.sampled_from(["0", "30", "15", "59", "5,35", "*", "*/15", "*/7", "0-40/20"])
hours = st.sampled_from(["0", "1", "2", "3", "23", "0,2,23", "1-3", "12", "*", "*/2", "1-23/3"])
days = st.sampled_from(["*", "*", "*", "*", "1", "L", "*/2", "28-31"])
weeks = st.sampled_from(["*", "*", "*", "*", "mon-fri", "0", "6,7", "sun#1", "sun#2", "7L"])
crontabs = st.builds("{} {} {} * {}".format, minutes, hours, days, weeks)
gaps, folds = st.sampled_from(["shift", "skip"]), st.sampled_from(["first", "second", "both"])


@st.composite
def change_days(draw: st.DrawFn, zone: str) -> datetime:
    """Return a day on which the zone changed its clocks in a random year, or any day if it did not."""
    # From 1973 on all offsets are whole minutes, as are the steps of the walk.
    first = utc(draw(st.integers(1973, 2037)), 1, 1)
    offsets = [(first + timedelta(days=day)).astimezone(ZoneInfo(zone)).utcoffset() for day in range(367)]
    changes = [day for day in range(366) if offsets[day] != offsets[day + 1]]
    return first + timedelta(days=draw(st.sampled_from(changes) if changes else st.integers(0, 364)))


def chain(trigger: Trigger, start: datetime, end: datetime) -> list[datetime]:
    found, after = [], start - timedelta(microseconds=1)
    while (time := trigger.next_fire_time(after)) is not None and time < end:
        assert time > after, "fire times increase strictly"
        assert time.tzinfo is UTC
        found.append(time)
        after = time
    return found


@settings(max_examples=60)
@given(st.data(), zones, crontabs, gaps, folds)
def test_cron_agrees_with_a_walk_over_real_minutes(data, zone, expression, gap, fold) -> None:
    day = data.draw(change_days(zone))
    start, end = day - timedelta(hours=12), day + timedelta(hours=40)
    trigger = Cron(expression, zone, gap=gap, fold=fold)
    expected = fire_times(expression, zone, start, end, gap, fold)
    assert chain(trigger, start, end) == expected

    moment = min(start + (end - start) * data.draw(st.floats(0, 1)), end - timedelta(microseconds=1))
    later = [time for time in expected if time > moment]
    until = [time for time in expected if time <= moment]
    if later:
        assert trigger.next_fire_time(moment) == later[0]
    assert trigger.latest_fire_time(start - timedelta(microseconds=1), moment) == (until[-1] if until else None)


@settings(max_examples=60)
@given(st.data(), zones, st.integers(0, 23), st.integers(0, 59), gaps, folds)
def test_calendar_agrees_with_cron_day_by_day(data, zone, hour, minute, gap, fold) -> None:
    day = data.draw(change_days(zone))
    start, end = day - timedelta(days=3), day + timedelta(days=3)
    daily = Calendar(days=1, at=f"{hour:02}:{minute:02}", tz=zone, gap=gap, fold=fold)
    assert chain(daily, start, end) == chain(Cron(f"{minute} {hour} * * *", zone, gap=gap, fold=fold), start, end)


@settings(max_examples=20)
@given(zones, st.integers(1973, 2037), st.sampled_from([0, 1, 2, 3, 12, 23]), st.sampled_from([0, 15, 30, 59]))
def test_a_fixed_time_is_once_on_each_date(zone, year, hour, minute) -> None:
    start, end = utc(year, 1, 1), utc(year + 1, 1, 1)
    meant = [
        meant_date(moment, zone, time(hour, minute))
        for moment in chain(Cron(f"{minute} {hour} * * *", zone), start, end)
    ]
    assert len(meant) == len(set(meant)), "no date twice"
    there = local_dates(zone, start, end)
    # Of the first and the last date only a part lies within the year.
    assert there - set(meant) <= {min(there), max(there)}, "no date without it"


def meant_date(moment: datetime, zone: str, wall: time) -> date:
    """Return the date of which this is the fire time: the one before, if the end of that was skipped."""
    local = moment.astimezone(ZoneInfo(zone))
    before = (moment - timedelta(minutes=1)).astimezone(ZoneInfo(zone))
    skipped_its_end = local.time() != wall and before.date() != local.date() and wall > before.time()
    return before.date() if skipped_its_end else local.date()


dates = st.dates(date(2019, 1, 1), date(2027, 1, 1))
moments = st.datetimes(datetime(2020, 1, 1), datetime(2026, 1, 1), timezones=st.just(UTC))
simple = st.one_of(
    st.builds(Cron, crontabs, zones, gap=gaps, fold=folds),
    st.builds(Every, minutes=st.integers(1, 10_000), start=st.one_of(st.none(), moments)),
    st.builds(Every, seconds=st.floats(0.001, 100_000)),
    st.builds(Calendar, weeks=st.integers(1, 3), at=st.just("01:30"), tz=zones),
    st.builds(Calendar, months=st.integers(1, 7), tz=zones, start=st.one_of(dates, moments)),
)
triggers = st.one_of(
    simple,
    st.builds(AnyOf, simple, simple),
    st.builds(Excluding, simple, dates),
    st.builds(AllOf, st.builds(Every, hours=st.integers(1, 48)), st.just(Cron("0 */2 * * *"))),
)


@settings(max_examples=150)
@given(triggers, moments, st.floats(0, 1))
def test_the_next_one_is_the_same_from_every_moment_before_it(trigger, moment, part) -> None:
    first = trigger.next_fire_time(moment)
    if first is None:
        return
    second = trigger.next_fire_time(first)
    assert trigger.latest_fire_time(moment, first) == first
    assert trigger.next_fire_time(first - timedelta(microseconds=1)) == first, "each fire time is one"
    if second is not None:
        between = first + (second - first) * part
        if between < second:
            assert trigger.next_fire_time(between) == second
            assert trigger.latest_fire_time(moment, between) == first
        assert trigger.latest_fire_time(moment, second) == second
        assert trigger.latest_fire_time(second, second) is None


@settings(max_examples=80)
@given(triggers, moments)
def test_a_trigger_is_equal_to_what_its_plain_data_makes(trigger, moment) -> None:
    copy = trigger_from_plain(trigger.to_plain())
    assert copy == trigger
    assert hash(copy) == hash(trigger)
    assert repr(copy) == repr(trigger)
    assert copy.next_fire_time(moment) == trigger.next_fire_time(moment)


@pytest.mark.parametrize("zone", ["Africa/Monrovia", "Europe/Amsterdam", "America/Caracas"])
def test_offsets_of_odd_seconds(zone) -> None:
    """Clocks of old had offsets such as -0:44:30; a walk over seconds around their change."""
    change = {
        "Africa/Monrovia": utc(1972, 1, 7, 0, 44, 30),
        "Europe/Amsterdam": utc(1940, 5, 15, 23, 40),
        "America/Caracas": utc(1912, 2, 12, 4, 27, 40),
    }[zone]
    start, end = change - timedelta(minutes=90), change + timedelta(minutes=90)
    walk = [start + timedelta(seconds=second) for second in range(3 * 3600)]
    expected = [moment for moment in walk if moment.astimezone(ZoneInfo(zone)).strftime("%M:%S") in ("00:00", "30:00")]
    assert chain(Cron("0,30 * * * *", zone), start, end) == expected
