"""Crontab files become triggers and jobs."""

from __future__ import annotations

import textwrap

import pytest
from helpers.minute_walk import utc

from jobboard import Cron
from jobboard.schedules.crontab import CrontabItem, parse_crontab


def parse(text: str, **options: object) -> list[CrontabItem]:
    return parse_crontab(textwrap.dedent(text), "shell", **options)


def test_a_users_crontab() -> None:
    items = parse(
        """\
        # m h dom mon dow command

        0 3 * * mon-fri\t/usr/bin/backup --all   # no comment
          */5  *  *  *  *  poll
        @hourly date
        """,
        tz="Europe/Berlin",
    )
    assert [(item.line, item.trigger, item.name, item.details) for item in items] == [
        (3, Cron("0 3 * * mon-fri", tz="Europe/Berlin"), "shell", {"command": "/usr/bin/backup --all   # no comment"}),
        (4, Cron("*/5 * * * *", tz="Europe/Berlin"), "shell", {"command": "poll"}),
        (5, Cron("@hourly", tz="Europe/Berlin"), "shell", {"command": "date"}),
    ]
    assert items[0].trigger.next_fire_time(utc(2026, 6, 6)) == utc(2026, 6, 8, 1)


def test_a_systems_crontab_has_users() -> None:
    items = parse(
        "17 *\t* * *\troot    cd / && run-parts --report /etc/cron.hourly\n@daily  www-data rotate", system=True
    )
    assert [item.details for item in items] == [
        {"user": "root", "command": "cd / && run-parts --report /etc/cron.hourly"},
        {"user": "www-data", "command": "rotate"},
    ]


def test_settings_hold_for_the_lines_below_them() -> None:
    items = parse(
        """\
        @daily first
        SHELL=/bin/bash
        MAILTO = "ops@example.com"
        'ODD NAME'=' kept '
        EMPTY=
        @daily second
        MAILTO=''
        @daily third
        """
    )
    assert "environment" not in items[0].details
    second = {"SHELL": "/bin/bash", "MAILTO": "ops@example.com", "ODD NAME": " kept ", "EMPTY": ""}
    assert items[1].details["environment"] == second
    assert items[2].details["environment"] == second | {"MAILTO": ""}


def test_cron_tz_is_the_zone_of_the_lines_below_it() -> None:
    items = parse("@daily a\nCRON_TZ=Asia/Tokyo\n@daily b\nCRON_TZ=\n@daily c", tz="Europe/Berlin")
    assert [item.trigger.tz for item in items] == ["Europe/Berlin", "Asia/Tokyo", "Europe/Berlin"]
    assert all("environment" not in item.details for item in items)


@pytest.mark.parametrize(
    ("line", "details"),
    [
        (r"date +\%Y-\%m", {"command": "date +%Y-%m"}),
        (r"mail boss%Dear boss,%100\% done%", {"command": "mail boss", "input": "Dear boss,\n100% done\n\n"}),
        (r"cat %one", {"command": "cat", "input": "one\n"}),
        (r"grep a\\b", {"command": r"grep a\\b"}),
    ],
)
def test_percent_signs(line, details) -> None:
    assert parse(f"@daily {line}")[0].details == details


def test_the_policy_is_given_to_all() -> None:
    trigger = parse("30 2 * * * x", gap="skip", fold="second")[0].trigger
    assert (trigger.gap, trigger.fold) == ("skip", "second")


def test_all_faults_are_told_with_their_lines() -> None:
    text = "0 3 * * * fine\n61 3 * * * x\n\n@reboot x\n0 3 * * *\nCRON_TZ=Mars\n* * * * foo bar\n"
    with pytest.raises(ValueError, match=r"line 2: .*minute '61'") as caught:
        parse(text)
    said = str(caught.value)
    assert "line 4: @reboot names no time" in said
    assert "line 5: there is no command; a line is five fields and a command: '0 3 * * *'" in said
    assert "line 6: CRON_TZ: there is no zone 'Mars'" in said
    assert "line 7: cron '* * * * foo', day of week 'foo'" in said
    assert "line 1:" not in said


def test_a_system_line_without_a_command() -> None:
    with pytest.raises(ValueError, match="line 1: there is no command; a line is a name such as @daily and a user and"):
        parse("@daily root", system=True)


def test_many_faults_are_counted() -> None:
    with pytest.raises(ValueError, match="and 90 more$"):
        parse("99 * * * * x\n" * 100)


@pytest.mark.parametrize(
    ("options", "fault"), [({"tz": "Mars"}, "^tz: there is no zone"), ({"gap": "no"}, "^gap must be")]
)
def test_a_bad_argument_is_no_fault_of_the_file(options, fault) -> None:
    with pytest.raises(ValueError, match=fault):
        parse("@daily x", **options)
    with pytest.raises(ValueError, match="job must not be empty"):
        parse_crontab("", "")


def test_a_fingerprint_is_of_what_a_line_says_not_of_where_it_stands() -> None:
    one, other = parse("@daily x\n@daily y")
    moved = parse("# moved\n\n@daily    x")[0]
    assert one.fingerprint == moved.fingerprint != other.fingerprint


def test_windows_line_ends() -> None:
    assert parse("@daily x\r\n@hourly y\r\n")[1].details == {"command": "y"}
