"""Instants: whole microseconds since the epoch, in which triggers count, and the datetimes that users see."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from jobboard.validation import check_moment

SECOND = 1_000_000

#: How often a search looks, and how far from where it has looked first, before it gives up after about a second.
MAX_STEPS = 20_000
MAX_SEARCH = 100 * 365 * 86_400 * SECOND

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

#: Where calendars end for us: short of Python's by more than is ever looked at around an instant.
EARLIEST = (datetime(4, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND
LATEST = (datetime(9997, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND


def instant_of(what: str, value: object) -> int:
    """Return the instant of an aware datetime; a naive one is refused, since it names no instant."""
    check_moment(what, value)
    assert isinstance(value, datetime)
    return (value - _EPOCH) // _MICROSECOND


def datetime_of(instant: int) -> datetime:
    return _EPOCH + timedelta(microseconds=instant)


def within_calendar(instant: int | None) -> int | None:
    """Return the instant if a datetime can tell it in every zone."""
    return instant if instant is not None and EARLIEST <= instant <= LATEST else None


def text_of(instant: int) -> str:
    return datetime_of(instant).isoformat()
