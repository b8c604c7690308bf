"""Reads which jobs arrive when: CSV with the columns at, name, lane, duration, priority."""

from __future__ import annotations

import csv
import difflib
import math
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from operator import attrgetter
from typing import NamedTuple, TypeVar

from jobboard.limit import check_lane
from jobboard.operate.durations import seconds_of
from jobboard.states import JobPriority
from jobboard.validation import check_text

Text = TypeVar("Text")

_NEEDED, _OPTIONAL = ("at", "name", "duration"), ("lane", "priority")
#: In seconds: of one job, and from the first arrival to the last.
MAX_DURATION, MAX_SPAN = 30 * 86_400.0, 3660 * 86_400.0


class Arrival(NamedTuple):
    """One job: its posting, and for how many seconds it runs.

    ``at``: seconds after the first arrival.
    """

    at: float
    name: str
    lane: str | None
    duration: float
    priority: int


def read_arrivals(lines: Iterable[str], where: str) -> list[Arrival]:
    """Read arrivals, and return them by their moments; those of one moment stay in the order of the file.

    The first line names the columns, in any order; ``lane`` and ``priority`` may be left out, or empty. ``at`` is a
    number of seconds or an ISO 8601 time, which is in UTC unless it says its offset; ``duration`` is a number of
    seconds, or a span such as ``1m30s``.

    :param lines: of the file, which may begin with a byte order mark.
    :param where: what errors call the file.
    :raises ValueError: a line is wrong, or there is none; names the line.
    """
    reader = csv.reader(lines, strict=True)
    try:
        arrivals = list(_rows_of(reader))
        if not arrivals:
            raise ValueError("there is no arrival after the line that names the columns")
    except (ValueError, TypeError, csv.Error) as error:
        raise ValueError(f"{where}, line {max(1, reader.line_num)}: {error}") from None
    arrivals.sort(key=attrgetter("at"))
    first = arrivals[0].at
    if arrivals[-1].at - first > MAX_SPAN:
        raise ValueError(f"{where}: there are more than ten years between the first arrival and the last")
    if first:
        arrivals = [
            Arrival(at - first, name, lane, duration, priority) for at, name, lane, duration, priority in arrivals
        ]
    return arrivals


def _rows_of(reader: Iterator[list[str]]) -> Iterator[Arrival]:
    header = [column.strip().lower() for column in next(reader, [])]
    if header:
        header[0] = header[0].removeprefix("\ufeff")
    _check_header(header)
    places = [header.index(column) if column in header else None for column in (*_NEEDED, *_OPTIONAL)]
    second_of = _Moments()
    names = _Checked(lambda text: check_text("name", text))
    lanes, priorities = _Checked(_lane_of), _Checked(_priority_of)
    for row in reader:
        if not row:
            continue
        if len(row) != len(header):
            raise ValueError(f"it has {len(row)} values, and the first line names {len(header)} columns")
        at, name, duration, lane, priority = ("" if place is None else row[place].strip() for place in places)
        yield Arrival(second_of(at), names[name], lanes[lane], _duration_of(duration), priorities[priority])


def _check_header(header: list[str]) -> None:
    known = (*_NEEDED, *_OPTIONAL)
    for column in header:
        if column not in known:
            near = difflib.get_close_matches(column, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"unknown column {column!r}{hint}; there are: {', '.join(known)}")
        if header.count(column) > 1:
            raise ValueError(f"the column {column!r} is there twice")
    missing = [column for column in _NEEDED if column not in header]
    if missing:
        raise ValueError(f"the first line must name the column {missing[0]!r}; needed are: {', '.join(_NEEDED)}")


class _Moments:
    """Reads moments: those of a file are all numbers of seconds, or all times."""

    def __init__(self) -> None:
        self._read: Callable[[str], float] | None = None

    def __call__(self, text: str) -> float:
        if self._read is None:
            self._read = _number_of if _is_number(text) else _timestamp_of
        return self._read(text)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _number_of(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"at is no number of seconds, as it is in the lines before: {text!r}") from None
    if not math.isfinite(number):
        raise ValueError(f"at must be finite; got {text!r}")
    return number


def _timestamp_of(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"at is no ISO 8601 time: {text!r}; it may also be a number of seconds") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


class _Checked(dict[str, Text]):
    """Texts as they were read: each that is new is checked."""

    def __init__(self, check: Callable[[str], Text]) -> None:
        self._check = check

    def __missing__(self, text: str) -> Text:
        self[text] = checked = self._check(text)
        return checked


def _lane_of(text: str) -> str | None:
    return check_lane(text) if text else None


def _duration_of(text: str) -> float:
    try:
        duration = float(text)
    except ValueError:
        duration = seconds_of(text)
    if not 0 <= duration <= MAX_DURATION:
        raise ValueError(f"duration must be from 0 seconds to 30 days; got {text!r}")
    return duration


def _priority_of(text: str) -> int:
    return _NORMAL if text == "" else JobPriority.convert(text).value


_NORMAL = JobPriority.NORMAL.value
