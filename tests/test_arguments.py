"""The checks of arguments."""

from __future__ import annotations

import math
import uuid as uuids
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobboard.validation import (
    MAX_SECONDS,
    MAX_TEXT,
    check_count,
    check_delay,
    check_expiry,
    check_moment,
    check_names,
    check_reason,
    check_seconds,
    check_text,
    check_timeout,
    check_uuid,
    moment,
    new_uuid,
)


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=300))
def test_printable_text_of_up_to_255_bytes_is_taken_as_it_is(text: str) -> None:
    if len(text.encode()) <= MAX_TEXT:
        assert check_text("name", text) == text
    else:
        with pytest.raises(ValueError, match="name is .* bytes of UTF-8; at most 255"):
            check_text("name", text)


@given(st.text(max_size=5), st.characters(categories=["Cc"]), st.text(max_size=5))
def test_a_control_character_anywhere_is_refused(before: str, control: str, after: str) -> None:
    with pytest.raises(ValueError, match="name holds a"):
        check_text("name", before + control + after)


def test_the_longest_text_is_counted_in_bytes() -> None:
    assert check_text("name", "ß" * 127 + "x") == "ß" * 127 + "x"
    with pytest.raises(ValueError, match="256 bytes"):
        check_text("name", "ß" * 128)


@pytest.mark.parametrize("value", [None, 7, b"bytes", ["a"], object()])
def test_what_is_no_text_is_a_type_error(value: Any) -> None:
    with pytest.raises(TypeError, match="owner must be a str, not"):
        check_text("owner", value)


def test_empty_text_and_lone_surrogates_are_refused() -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        check_text("key", "")
    with pytest.raises(ValueError, match="lone surrogate"):
        check_text("key", "a\udcff")


def test_new_uuids_follow_the_clock_and_differ_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for milliseconds in (-1, 0, 1_700_000_000_000):
        monkeypatch.setattr("time.time_ns", lambda at=milliseconds: at * 1_000_000)
        made = {new_uuid() for _ in range(1000)}
        assert len(made) == 1000
        for text in made:
            uuid = uuids.UUID(text)
            assert (str(uuid), uuid.version, uuid.variant) == (text, 7, uuids.RFC_4122)
            assert uuid.int >> 80 == milliseconds % 2**48


@given(st.uuids())
def test_a_uuid_is_the_same_in_every_form(uuid: uuids.UUID) -> None:
    assert {check_uuid(form) for form in (uuid, str(uuid), uuid.hex, str(uuid).upper(), uuid.urn)} == {str(uuid)}


@pytest.mark.parametrize(
    ("value", "error"), [("", ValueError), ("x" * 36, ValueError), (7, TypeError), (None, TypeError)]
)
def test_what_is_no_uuid_is_refused(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        check_uuid(value)


@given(st.floats(min_value=1e-9, max_value=MAX_SECONDS) | st.just(math.inf))
def test_every_positive_number_is_an_expiry_also_infinity(seconds: float) -> None:
    assert check_expiry(seconds) == seconds


@given(st.floats(min_value=MAX_SECONDS * 1.001, allow_infinity=False))
def test_more_than_a_hundred_years_has_no_place_in_a_calendar(seconds: float) -> None:
    with pytest.raises(ValueError, match=r"a hundred years, or math\.inf"):
        check_expiry(seconds)
    with pytest.raises(ValueError, match="a hundred years"):
        check_delay(seconds)


Check = Callable[[Any], Any]
NUMBERS: list[Check] = [check_expiry, check_delay, check_timeout, lambda value: check_seconds("x", value)]


@pytest.mark.parametrize("check", NUMBERS)
@pytest.mark.parametrize("value", ["5", True, [1], 1j])
def test_what_is_no_number_is_a_type_error(check: Check, value: Any) -> None:
    with pytest.raises(TypeError, match="must be a number of seconds"):
        check(value)


@pytest.mark.parametrize("check", NUMBERS)
def test_nan_is_refused(check: Check) -> None:
    with pytest.raises(ValueError, match="NaN"):
        check(math.nan)


@pytest.mark.parametrize("value", [0, -1, -math.inf])
def test_an_expiry_of_nothing_or_less_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match=r"expiry must be more than 0 seconds, or math\.inf"):
        check_expiry(value)


@pytest.mark.parametrize("value", [-1e-9, math.inf, -math.inf])
def test_a_delay_is_finite_and_not_negative(value: float) -> None:
    with pytest.raises(ValueError, match="retention must be from 0 seconds"):
        check_delay(value, "retention")
    assert check_delay(0) == 0.0


def test_a_timeout_may_be_endless() -> None:
    assert (check_timeout(None), check_timeout(math.inf), check_timeout(0), check_timeout(2)) == (None, None, 0.0, 2.0)
    with pytest.raises(ValueError, match="timeout must be 0 or more"):
        check_timeout(-1)


@given(
    st.datetimes(
        datetime(1971, 1, 1),
        datetime(2200, 1, 1),
        timezones=st.integers(-23, 23).map(lambda h: timezone(timedelta(hours=h))),
    )
)
def test_a_moment_survives_the_way_to_seconds_and_back(value: datetime) -> None:
    assert abs(moment(check_moment("run_at", value)) - value) <= timedelta(microseconds=1)


class _NoOffset(tzinfo):
    def utcoffset(self, when: datetime | None) -> None:
        return None


@pytest.mark.parametrize("value", [datetime(2030, 1, 1), datetime(2030, 1, 1, tzinfo=_NoOffset())])
def test_a_naive_datetime_is_refused(value: datetime) -> None:
    with pytest.raises(ValueError, match="run_at must be an aware datetime; add a tzinfo"):
        check_moment("run_at", value)


@pytest.mark.parametrize("value", ["2030-01-01", 0, datetime(2030, 1, 1, tzinfo=UTC).date()])
def test_what_is_no_datetime_is_a_type_error(value: Any) -> None:
    with pytest.raises(TypeError, match="must be a datetime"):
        check_moment("run_at", value)


@pytest.mark.parametrize("value", [1.0, "1", True, None])
def test_a_count_is_an_int(value: Any) -> None:
    with pytest.raises(TypeError, match="limit must be an int"):
        check_count("limit", value)


def test_a_count_has_a_least_value() -> None:
    assert (check_count("limit", 1), check_count("limit", 0, least=0)) == (1, 0)
    with pytest.raises(ValueError, match="limit must be 1 or more; got 0"):
        check_count("limit", 0)


def test_names_are_a_filter() -> None:
    assert check_names(None) is None
    assert check_names([]) == frozenset()
    assert check_names(iter(["a", "b", "a"])) == {"a", "b"}
    with pytest.raises(TypeError, match="for one name write"):
        check_names("resize")
    with pytest.raises(TypeError, match="names"):
        check_names(7)
    with pytest.raises(ValueError, match="names"):
        check_names(["a", ""])


@given(st.text(max_size=20))
def test_a_reason_may_be_any_text_and_is_utf8_afterwards(text: str) -> None:
    reason = check_reason(text)
    assert reason is not None
    assert reason.encode().decode() == reason
    if text.isascii():
        assert reason == text


def test_a_reason_may_be_missing_but_must_be_text() -> None:
    assert check_reason(None) is None
    with pytest.raises(TypeError, match="error must be a str"):
        check_reason(b"bytes", "error")
