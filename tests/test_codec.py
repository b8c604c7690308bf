"""The codec and the body of a posting: what travels arrives, and what can't says where it is."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobboard.codec import decode, encode
from jobboard.errors import InvalidPosting
from jobboard.payload import Payload, pack_payload, unpack_payload

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
moments = st.datetimes(
    min_value=datetime(1, 1, 2),
    max_value=datetime(9999, 12, 30),
    timezones=st.integers(-23, 23).map(lambda hours: timezone(timedelta(hours=hours))),
)
leaves = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | texts
    | st.binary(max_size=20) | moments
)  # fmt: skip
plain = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=20
)
detail_dicts = st.dictionaries(texts, plain, max_size=5)


@given(plain)
def test_plain_data_arrives_as_it_was_sent(value: Any) -> None:
    assert decode(encode("value", value).data) == value == encode("value", value).value


@given(moments)
def test_moments_arrive_as_utc(moment: datetime) -> None:
    arrived = decode(encode("value", moment).data)
    assert arrived == moment
    assert arrived.utcoffset() == timedelta(0)


@given(
    detail_dicts, st.none() | st.uuids().map(str), st.none() | texts, st.none() | texts, st.none() | st.floats(0, 1e10)
)
def test_a_body_arrives_as_it_was_sent(
    details: dict[str, Any], book: str | None, book_name: str | None, schedule: str | None, fire_time: float | None
) -> None:
    body = Payload(details, book, book_name, schedule, fire_time)
    data, arrived = pack_payload(body)
    assert unpack_payload(data) == body
    assert arrived == body.details


@given(st.binary(max_size=60))
def test_garbage_is_refused_and_never_anything_else(data: bytes) -> None:
    try:
        body = unpack_payload(data)
    except ValueError:
        return
    assert isinstance(body.details, dict)


@given(detail_dicts, st.data())
def test_a_body_cut_short_or_with_something_behind_it_is_refused(details: dict[str, Any], data: Any) -> None:
    packed, _ = pack_payload(Payload(details))
    cut = data.draw(st.integers(0, len(packed) - 1))
    for wrong in (packed[:cut], packed + b"\xc0"):
        with pytest.raises(ValueError, match="posting"):
            unpack_payload(wrong)


def test_a_body_of_a_later_format_says_so() -> None:
    packed = msgpack.packb([99, None, None, None, None]) + msgpack.packb({})
    with pytest.raises(ValueError, match="format 99"):
        unpack_payload(packed)


def test_pickled_bytes_are_not_read() -> None:
    with pytest.raises(ValueError):
        unpack_payload(pickle.dumps(Payload({"a": 1})))


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def _containing_itself() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"user": {"id": object()}}, "details.user.id"),
        ({"list": [1, [2, {3}]]}, "details.list[1][1]"),
        ({"tuple": (1, {"x": 2j})}, "details.tuple[1].x"),
        ({1: 2}, "details"),
        ({"a": {None: 2}}, "details.a"),
        ({b"bytes": 1}, "details"),
        ({"naive": datetime(2030, 1, 1)}, "details.naive"),
        ({"big": 2**64}, "details.big"),
        ({"small": -(2**63) - 1}, "details.small"),
        ({"text": "a\udcffb"}, "details.text"),
        ({"\ud800": 1}, "details"),
        ({"type": int}, "details.type"),
        ({"deep": _nested(5_000)}, "details"),
        (_containing_itself(), "details"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_travel_is_named_by_its_path(value: Any, path: str) -> None:
    with pytest.raises(InvalidPosting) as caught:
        encode("details", value)
    assert caught.value.path == path
    assert str(caught.value).startswith(f"{path} can't be stored: ")


def test_values_are_never_shown_in_errors() -> None:
    with pytest.raises(InvalidPosting) as caught:
        encode("details", {"password": "hunter2", "call": print})
    assert "hunter2" not in str(caught.value)


def test_the_limit_is_in_encoded_bytes() -> None:
    data, _ = encode("result", "x" * 90, largest=92)
    assert len(data) == 92
    with pytest.raises(InvalidPosting, match="result is 93 bytes once encoded; at most 92"):
        encode("result", "x" * 91, largest=92)


@pytest.mark.parametrize("details", [None, [], "text", 7])
def test_details_that_are_no_dict_are_refused(details: Any) -> None:
    with pytest.raises(InvalidPosting, match="must be a dict"):
        pack_payload(Payload(details))


@pytest.mark.parametrize("value", [{"a": (1, 2)}, {"a": [1, 2]}])
def test_tuples_arrive_as_lists(value: Any) -> None:
    assert decode(encode("details", value).data) == {"a": [1, 2]}


def test_a_timestamp_keeps_its_microseconds() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    assert decode(encode("value", moment).data) == moment


def test_a_body_does_not_show_its_details() -> None:
    assert "hunter2" not in repr(Payload({"password": "hunter2"}))
