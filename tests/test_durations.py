"""Spans of time as people write and read them."""

from __future__ import annotations

import pytest

from jobboard.operate.durations import seconds_of
from jobboard.text import duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("15m", 900),
        ("1h30m", 5400),
        ("7d", 604_800),
        ("1w", 604_800),
        ("1.5h", 5400),
        ("30", 30),
        (" 30 ", 30),
    ],
)
def test_spans_of_time(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds
    assert seconds_of(duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        *((text, "is no time span; write 90s") for text in ("", "1x", "h", "1h 30m", "1m30", "nan", "--1", "-x")),
        *((text, "is negative") for text in ("-1h", "-5", "-1e400", "-inf")),
        *((text, "is more than a hundred years") for text in ("99999999999d", "1e300", "5300w")),
    ],
)
def test_what_is_no_span_of_time(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{text!r} {why}"):
        seconds_of(text)


def test_spans_as_people_read_them() -> None:
    assert [duration(seconds) for seconds in (0, 0.4, 61, 3600, 90_061, 1e9)] == [
        "0s", "0s", "1m1s", "1h", "1d1h", "11574d1h",
    ]  # fmt: skip
