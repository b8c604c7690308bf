"""Limits in a file: every form, errors that name the table at fault, and what is written is read as the same."""

from __future__ import annotations

import pytest

from jobboard.limit import Limit, Rate
from jobboard.operate.limits_file import limits_as_toml, limits_in

EVERY_FORM = """
default = "orders"

[limits.lane."tenant:*"]
running = 2

[limits.lane.stripe]
rate = "30/60"

[limits.lane.paypal]
rate = {count = 5, per = 1.5, burst = 3}

[limits.lane."order:*"]
running = 1
order = "strict"
rate = "2/1m30s"
burst = 2

[limits.name.import]
running = 0
"""
LIMITS = [
    Limit(lane="tenant:*", running=2),
    Limit(lane="stripe", rate=Rate(30, 60)),
    Limit(lane="paypal", rate=Rate(5, 1.5, 3)),
    Limit(lane="order:*", running=1, order="strict", rate=Rate(2, 90, 2)),
    Limit(name="import", running=0),
]


def test_a_limit_has_several_forms() -> None:
    assert limits_in(EVERY_FORM, "limits.toml") == LIMITS
    assert limits_in("", "limits.toml") == []


def test_what_is_written_is_read_as_the_same() -> None:
    limits = [*LIMITS, Limit(lane='a"b\\c:*', running=1), Limit(name="\u00e4 ' b", running=3)]
    written = limits_in(limits_as_toml(limits), "written.toml")
    assert sorted(written, key=str) == sorted(limits, key=str)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[limits", "limits.toml is no TOML: "),
        ("limits = 3", "limits.toml: limits must be a table"),
        ("[limits.lanes.a]\nrunning = 1", "limits.toml: limits has an unknown key 'lanes'; there are: name, lane"),
        ("[limits.lane]\na = 3", 'limits.toml: limits.lane."a" must be a table'),
        ("[limits.lane.a]\nruning = 1", "limits.lane.\"a\" has an unknown key 'runing'; there are: running, rate"),
        ("[limits.lane.a]\nrunning = -1", 'limits.lane."a": running must be 0 or more'),
        ("[limits.lane.a]\nrunning = 1000000000", 'limits.lane."a": running must be'),
        ("[limits.lane.a]\nrunning = nan", 'limits.lane."a": running must be a whole number'),
        ("[limits.lane.a]\nrunning = true", 'limits.lane."a": running must be'),
        ("[limits.lane.a]", 'limits.lane."a": the limit says nothing'),
        ('[limits.lane."a*"]\nrunning = 1', 'limits.lane."a*": lane must be a lane, or a prefix'),
        ('[limits.lane."a:"]\nrunning = 1', 'limits.lane."a:": lane must be a lane, or a prefix'),
        ('[limits.lane."\\u0007"]\nrunning = 1', "lane holds a control character"),
        (f'[limits.lane."{"x" * 256}"]\nrunning = 1', "lane is 256 bytes of UTF-8"),
        ('[limits.lane.""]\nrunning = 1', 'limits.lane."": lane must not be empty'),
        ('[limits.lane.a]\norder = "any"', 'limits.lane."a": order must be "free" or "strict"'),
        ("[limits.lane.a]\nrate = 3", 'limits.lane."a": rate must be a text such as'),
        ('[limits.lane.a]\nrate = "often"', "limits.lane.\"a\": 'often' is no rate, such as 30/60s"),
        ('[limits.lane.a]\nrate = "0/60"', "limits.lane.\"a\": '0/60' is no rate"),
        ('[limits.lane.a]\nrate = "1/0"', "limits.lane.\"a\": '1/0' is no rate"),
        ("[limits.lane.a]\nrate = {count = 3}", 'limits.lane."a": rate has no per'),
        ("[limits.lane.a]\nrate = {count = 3, per = inf}", 'limits.lane."a": per must be more than 0'),
        ("[limits.lane.a]\nrate = {count = 3, per = 1, each = 1}", "rate has an unknown key 'each'"),
        ("[limits.lane.a]\nrunning = 1\nburst = 1", 'limits.lane."a": burst belongs to a rate'),
        ('[limits.name.a]\nrate = "1/60"', 'limits.name."a": a rate and a strict order are of lanes'),
        ('[limits.name.a]\nrunning = 1\norder = "strict"', 'limits.name."a": a rate and a strict order are of lanes'),
    ],
)
def test_what_is_wrong_is_refused_by_its_path(text: str, error: str) -> None:
    with pytest.raises(ValueError) as refusal:
        limits_in(text, "limits.toml")
    assert error in str(refusal.value)
