"""Texts for people: cut, put into one line, or made of an exception or a span of time; users' may be of any length."""

from __future__ import annotations

import traceback
import unicodedata
from datetime import UTC, datetime
from itertools import islice
from types import TracebackType

#: How many characters of a text stand in one line.
MAX_LINE = 500


def shortened(text: str | None, most: int) -> str | None:
    """Return a text of at most ``most`` bytes; a longer one loses its middle, since errors say most at their ends."""
    if text is None or len(text) * 4 <= most:
        return text
    data = text.encode()
    if len(data) <= most:
        return text
    half = (most - 5) // 2
    return f"{data[:half].decode(errors='ignore')} ... {data[-half:].decode(errors='ignore')}"


def in_one_line(text: str) -> str:
    """Return the text for a line of a log or a table: what would break or steer that line is escaped, the rest cut."""
    kept = text[:MAX_LINE]
    if not kept.isprintable():
        kept = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in kept)
    return kept if len(text) <= MAX_LINE else f"{kept}..."


def steers(character: str) -> bool:
    """Whether a character does something to a line, or to a terminal, instead of being seen."""
    return unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}


def last_line_of(error: str | None) -> str | None:
    """Return the line of a traceback that says what was raised; None if there is none."""
    lines = (error or "").strip().splitlines()
    return lines[-1] if lines else None


def utc(at: datetime) -> str:
    """Return an aware moment for people: ``2030-01-31 09:00:00 UTC``."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def until_text(end: datetime | None) -> str:
    """Return what is said after "paused": `` until 2030-01-31 09:00:00 UTC``; nothing of a pause without an end."""
    return "" if end is None else f" until {utc(end)}"


def exact_utc(at: datetime) -> str:
    """Return it with its milliseconds, for histories: several changes of a fast job are of one second."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03} UTC"


_UNITS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}


def duration(seconds: float) -> str:
    """Return a span of time in its two largest units: ``1h30m``."""
    rest, parts = round(seconds), list[str]()
    for unit, size in _UNITS.items():
        number, rest = divmod(rest, size)
        if number or parts:
            parts.append(f"{number}{unit}")
        if len(parts) == 2:
            break
    return "".join(part for part in parts if not part.startswith("0")) or "0s"


def short_duration(seconds: float) -> str:
    """Return a span as :func:`duration` does, in milliseconds below a second."""
    return f"{seconds * 1000:.0f}ms" if abs(seconds) < 1 else duration(abs(seconds))


#: Characters that are kept of each text of an exception, and of the whole traceback: its end, which says most.
_MAX_TEXT, _MAX_TRACEBACK = 4_000, 16_384
#: How many innermost calls are looked at: as many as Python's own recursion limit allows, and more.
_MAX_FRAMES = 2_000
_MAX_NOTES = 50


def name_of(error: BaseException) -> str:
    """Return the name of an exception's type."""
    # Not type(error).__name__, which a metaclass can answer.
    return _exact(type.__dict__["__name__"].__get__(type(error)))[:MAX_LINE]


def text_of(error: BaseException) -> str:
    """Return an exception's text; one of more than 4,000 characters loses its end."""
    return _cut(_exact(str(error)))


def line_of(error: BaseException) -> str:
    """Return an exception's name and the first line of its text; never raises."""
    name = name_of(error)
    try:
        # Cut first: the lines of a text may be millions.
        first = (text_of(error)[:MAX_LINE].splitlines() or [""])[0]
    except BaseException:
        return f"{name}, which can't be shown"
    return f"{name}: {first}"[:MAX_LINE] if first else name


def traceback_of(error: BaseException, trace: TracebackType | None) -> str:
    """Return what Python prints of an exception, of which the end is kept; each text in it loses its end first.

    :param trace: the frames to show.
    """
    summary = traceback.TracebackException(type(error), error, trace, limit=-_MAX_FRAMES, compact=True)
    _cut_texts(summary)
    return "".join(summary.format())[-_MAX_TRACEBACK:]


def _cut_texts(summary: traceback.TracebackException) -> None:
    """Cut the texts and notes of an exception and of those that belong to it: Python would split them into lines."""
    left = [summary]
    while left:
        one = left.pop()
        for name, value in vars(one).items():
            if isinstance(value, str):
                vars(one)[name] = _cut(value)
        if isinstance(notes := vars(one).get("__notes__"), (list, tuple)):
            vars(one)["__notes__"] = [_cut(_exact(str(note))) for note in islice(notes, _MAX_NOTES)]
        left += filter(None, (one.__cause__, one.__context__, *(one.exceptions or ())))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."


def _exact(text: str) -> str:
    """Return a plain str, since an exception's text may be of a subclass with methods of its own."""
    return "".join((text,))
