"""The checks that every public call makes before it touches the store; each raises ``TypeError`` or ``ValueError``."""

from __future__ import annotations

import math
import os
import time
import unicodedata
import uuid as uuids
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from jobboard.text import shortened

#: The longest name, key or owner, in bytes of UTF-8: it must fit a znode's name and an index of every SQL server.
MAX_TEXT = 255

#: The longest expiry or delay, in seconds: a hundred years; later moments have no place in a calendar.
MAX_SECONDS = 100 * 365.25 * 86_400

#: The largest count: up to there every whole number is exact in every store and in JSON.
MAX_COUNT = 2**53 - 1

_FIRST_MOMENT, _LAST_MOMENT = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_FIRST, _LAST = _FIRST_MOMENT.timestamp(), datetime(9999, 12, 31, tzinfo=UTC).timestamp()

_60_BITS = (1 << 60) - 1

#: The longest reason or error, in bytes of UTF-8.
MAX_REASON = 400_000


def check_text(what: str, value: object) -> str:
    """Return ``value`` if it can be a name, a key or an owner in every store."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str, not {type(value).__name__}")
    if not value:
        raise ValueError(f"{what} must not be empty")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise ValueError(f"{what} holds a lone surrogate, which is not UTF-8") from None
    if size > MAX_TEXT:
        raise ValueError(f"{what} is {size} bytes of UTF-8; at most {MAX_TEXT} are allowed")
    if not value.isprintable() and any(unicodedata.category(character) == "Cc" for character in value):
        raise ValueError(f"{what} holds a control character: {value!r}")
    return value


def check_uuid(value: object) -> str:
    """Return the canonical text of a UUID given as text or as :class:`uuid.UUID`."""
    if isinstance(value, uuids.UUID):
        return str(value)
    if not isinstance(value, str):
        raise TypeError(f"uuid must be a str or a uuid.UUID, not {type(value).__name__}")
    try:
        return str(uuids.UUID(value))
    except ValueError:
        shown = value if len(value) <= 50 else f"{value[:50]}..."
        raise ValueError(f"not a uuid: {shown!r}; one looks like 01234567-89ab-7cde-8f01-23456789abcd") from None


def clock_digits() -> str:
    """Return what uuids begin with: 12 digits of milliseconds since 1970, and 3 of 4,096ths of the last one.

    Uuids that a process makes one after another so stand in this order. That is all the clock is for: if it steps or
    stands still, uuids are no less unique.
    """
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    return f"{(milliseconds << 12 | (rest << 12) // 1_000_000) & _60_BITS:015x}"


def new_uuid() -> str:
    """Return the text of a new UUID of version 7: the moment, to a quarter of a microsecond, and 62 random bits.

    Jobs that are posted together, and are then claimed together, so stand together in a store's index of uuids, and
    children of one parent start in the order in which they were posted.
    """
    since, bits = clock_digits(), os.urandom(8)
    digits = bits.hex()
    return f"{since[:8]}-{since[8:12]}-7{since[12:]}-{'89ab'[bits[-1] & 3]}{digits[:3]}-{digits[3:15]}"


def check_number(what: str, value: object, kind: str = "number") -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{what} must be a {kind}, not {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"{what} is too large a number") from None
    if math.isnan(number):
        raise ValueError(f"{what} must not be NaN")
    return number


def check_seconds(what: str, value: object) -> float:
    """Return a span of time in seconds, given as such or as a timedelta."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    return check_number(what, value, "number of seconds or a timedelta")


def option_in_seconds(value: Any) -> float:
    """Return the value of an option in seconds, which may be a text."""
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


def check_expiry(value: object) -> float:
    """Return seconds > 0; ``math.inf`` means that the claim never ends by time."""
    seconds = check_seconds("expiry", value)
    if seconds <= 0:
        raise ValueError(f"expiry must be more than 0 seconds, or math.inf for never; got {value!r}")
    if MAX_SECONDS < seconds < math.inf:
        raise ValueError(f"expiry must be at most a hundred years, or math.inf for never; got {value!r}")
    return seconds


def check_delay(value: object, what: str = "delay") -> float:
    seconds = check_seconds(what, value)
    if not 0 <= seconds <= MAX_SECONDS:
        raise ValueError(f"{what} must be from 0 seconds to a hundred years; got {value!r}")
    return seconds


def check_timeout(value: object) -> float | None:
    """Return seconds >= 0, or None to wait without end, as it is for a wait of more than a hundred years."""
    if value is None:
        return None
    seconds = check_seconds("timeout", value)
    if seconds < 0:
        raise ValueError(f"timeout must be 0 or more seconds, or None for no end; got {value!r}")
    return None if seconds > MAX_SECONDS else seconds


def check_moment(what: str, value: object) -> float:
    """Return an aware datetime as seconds since the epoch; a naive one is refused, since it names no moment."""
    if not isinstance(value, datetime):
        raise TypeError(f"{what} must be a datetime, not {type(value).__name__}")
    if value.utcoffset() is None:
        raise ValueError(f"{what} must be an aware datetime; add a tzinfo, such as datetime.timezone.utc")
    seconds = value.timestamp()
    if not is_moment(seconds):
        raise ValueError(f"{what} must be from the year 1 to 9999-12-31, both in UTC; got {value}")
    return seconds


def check_count(what: str, value: object, least: int = 1, most: int = MAX_COUNT) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} must be an int, not {type(value).__name__}")
    if value < least:
        raise ValueError(f"{what} must be {least} or more; got {value}")
    if value > most:
        raise ValueError(f"{what} must be at most {most}; got a number of {value.bit_length()} bits")
    return value


def check_names(value: object) -> frozenset[str] | None:
    """Return a filter by job names; None filters nothing, and no names at all match no job."""
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError("names must be a collection of str; for one name write [name]")
    return frozenset(check_text("a name of names", name) for name in value)


def check_reason(value: object, what: str = "reason") -> str | None:
    """Return any text; what is not UTF-8 in it is escaped, because reasons come from error messages.

    A text of more than :data:`MAX_REASON` bytes loses its middle.
    """
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str, not {type(value).__name__}")
    return shortened(value.encode("utf-8", "backslashreplace").decode(), MAX_REASON)


def check_operator(by: object, reason: object) -> tuple[str | None, str | None]:
    """Return who asks for something, and why, as a history gets them; None for what nobody says."""
    return None if by is None else check_text("by", by), check_reason(reason)


def is_moment(value: object) -> bool:
    """Whether it is a number of seconds since the epoch that a datetime can hold."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and _FIRST <= value <= _LAST


def moment(seconds: float) -> datetime:
    """Return the moment; a store's value that no calendar holds becomes the first or the last that it does hold."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return _LAST_MOMENT if seconds > 0 else _FIRST_MOMENT
