"""Arrivals as files have them: every column, times of two kinds, and an error that names the line."""

from __future__ import annotations

import pytest

from jobboard.simulation.arrivals import Arrival, read_arrivals

HEADER = "at,name,lane,duration,priority\n"


def read(text: str) -> list[Arrival]:
    return read_arrivals(text.splitlines(keepends=True), "arrivals.csv")


def test_a_line_is_an_arrival() -> None:
    assert read(HEADER + "5,import,tenant:42,2.5,high\n7,mail,,1m30s,\n") == [
        Arrival(0.0, "import", "tenant:42", 2.5, 4),
        Arrival(2.0, "mail", None, 90.0, 3),
    ]


def test_columns_may_stand_in_any_order_and_two_may_be_left_out() -> None:
    assert read("\ufeffDuration, name ,at\n1,import,0\n\n2,mail,0\n") == [
        Arrival(0.0, "import", None, 1.0, 3),
        Arrival(0.0, "mail", None, 2.0, 3),
    ]


def test_arrivals_are_sorted_and_those_of_a_moment_stay_in_their_order() -> None:
    arrivals = read(HEADER + "3,c,,1,\n1,a,,1,\n3,d,,1,\n2,b,,1,\n3,e,,1,\n")
    assert [(arrival.at, arrival.name) for arrival in arrivals] == [(0, "a"), (1, "b"), (2, "c"), (2, "d"), (2, "e")]


def test_times_have_offsets_or_are_in_utc() -> None:
    text = "2030-01-31T09:00:00+01:00,a,,1,\n2030-01-31T08:00:30,b,,1,\n2030-01-31 08:01:00Z,c,,1,\n"
    assert [arrival.at for arrival in read(HEADER + text)] == [0.0, 30.0, 60.0]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "arrivals.csv, line 1: the first line must name the column 'at'"),
        (HEADER, "arrivals.csv, line 1: there is no arrival"),
        ("at,name\n", "line 1: the first line must name the column 'duration'"),
        ("at,name,duration,prioirty\n", "line 1: unknown column 'prioirty'; did you mean 'priority'?"),
        ("at,name,duration,at\n", "line 1: the column 'at' is there twice"),
        (HEADER + "0,a,,1,\n0,a,1\n", "line 3: it has 3 values, and the first line names 5 columns"),
        (HEADER + "0,a,,1,\nsoon,a,,1,\n", "line 3: at is no number of seconds, as it is in the lines before: 'soon'"),
        (HEADER + "soon,a,,1,\n", "line 2: at is no ISO 8601 time: 'soon'; it may also be a number of seconds"),
        (HEADER + "2030-01-31,a,,1,\n12,a,,1,\n", "line 3: at is no ISO 8601 time: '12'"),
        (HEADER + "inf,a,,1,\n", "line 2: at must be finite"),
        (HEADER + "nan,a,,1,\n", "line 2: at must be finite"),
        (HEADER + "0,,,1,\n", "line 2: name must not be empty"),
        (HEADER + "0,a,tenant:*,1,\n", "line 2: lane must have no *"),
        (HEADER + f"0,a,{'x' * 256},1,\n", "line 2: lane is 256 bytes of UTF-8"),
        (HEADER + "0,a,b,-1,\n", "line 2: duration must be from 0 seconds to 30 days; got '-1'"),
        (HEADER + "0,a,b,nan,\n", "line 2: duration must be from 0 seconds to 30 days; got 'nan'"),
        (HEADER + "0,a,b,,\n", "line 2: '' is no time span"),
        (HEADER + "0,a,b,1,urgent\n", "line 2: unknown priority 'urgent'"),
        (HEADER + '0,"a,b,1,\n', "line 2: unexpected end of data"),
        (HEADER + "0,a,,1,\n999999999,a,,1,\n", "arrivals.csv: there are more than ten years"),
    ],
)
def test_what_is_wrong_is_refused_with_its_line(text: str, error: str) -> None:
    with pytest.raises(ValueError) as refusal:
        read(text)
    assert error in str(refusal.value)


def test_a_file_that_is_not_utf_8_is_refused_by_name() -> None:
    def lines() -> object:
        yield HEADER
        b"\xff".decode()

    with pytest.raises(ValueError, match="arrivals.csv, line 1: 'utf-8' codec"):
        read_arrivals(lines(), "arrivals.csv")  # type: ignore[arg-type]
