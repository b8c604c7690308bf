"""How fast a board, or a name, gets on: throughput, failures, waits, and when its backlog is done; no requests."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jobboard.console.charting import Span, buckets_of, figures_of
from jobboard.console.sparklines import Sparkline, Values, sparkline
from jobboard.operate.durations import short_duration
from jobboard.operate.sampling import Bucket, Figures, Sampler
from jobboard.operate.sampling.buckets import merged

#: How many points a sparkline has at most.
_POINTS = 60
#: A rate is told of a time of which so many seconds were heard.
_LEAST_HEARD = 20.0
#: From how many seconds the present rates are.
_PRESENT = 600.0


@dataclass(frozen=True, slots=True)
class Tile:
    """One number for people, None if it is not known, with a note and its course."""

    title: str
    value: str | None
    note: str
    course: Sparkline | None
    label: str


@dataclass(frozen=True, slots=True)
class _Part:
    """What is known of one name, or of all, in a part of the time."""

    figures: Figures
    heard: float

    def rate(self, count: str) -> float | None:
        """Return how many there were a minute; None if too little was heard."""
        return getattr(self.figures, count) * 60 / self.heard if self.heard >= _LEAST_HEARD else None

    @property
    def failures(self) -> float | None:
        """Return the share of attempts that failed; None if none has ended."""
        ended = self.figures.finished + self.figures.failed
        return self.figures.failed / ended if ended else None


def pace_of(sampler: Sampler, span: Span, name: str, waiting: int) -> list[Tile]:
    """Return the tiles of a span of time.

    :param name: the job name that they are about; "" for all. :param waiting: how many of its jobs wait now.
    """
    now = time.time()
    buckets = buckets_of(sampler, span, now)
    parts = _parts(buckets, span, name, now)
    whole = _part(buckets, name)
    recent = [bucket for bucket in sampler.minutes(now - _PRESENT) if bucket.at + 60 > now - _PRESENT]
    return [
        _throughput(whole, parts, span),
        _failures(whole, parts, span),
        _waits(whole, parts, span),
        _backlog(waiting, _part(recent, name), _change(recent, name), parts, span),
    ]


def _part(buckets: Sequence[Bucket], name: str) -> _Part:
    whole = merged(0, buckets)
    return _Part(figures_of(whole, name) or Figures(), whole.heard)


def _parts(buckets: Sequence[Bucket], span: Span, name: str, now: float) -> list[_Part | None]:
    """Return the parts of the span, the oldest first; None where nothing is known."""
    step = math.ceil(span.seconds / _POINTS / span.step) * span.step
    number = math.ceil(span.seconds / step)
    # The present step is the last part, though it is not over.
    begin = int(now) // span.step * span.step + span.step - number * step
    found: list[list[Bucket]] = [[] for _ in range(number)]
    for bucket in buckets:
        if 0 <= (index := (bucket.at - begin) // step) < number:
            found[index].append(bucket)
    return [_part(group, name) if group else None for group in found]


def _course(parts: Sequence[_Part | None], *values: Callable[[_Part], float | None]) -> tuple[Sparkline | None, float]:
    """Return the drawing, and the largest value in it."""
    lines: list[Values] = [[None if part is None else value(part) for part in parts] for value in values]
    most = max((value for line in lines for value in line if value is not None), default=0.0)
    return sparkline(lines, [part is not None and part.figures.paused > 0 for part in parts]), most


def _throughput(whole: _Part, parts: Sequence[_Part | None], span: Span) -> Tile:
    rate = whole.rate("finished")
    course, most = _course(parts, lambda part: part.rate("finished"))
    note = "not heard yet" if rate is None else f"{whole.figures.finished:,} finished"
    value = None if rate is None else f"{_number(rate)} a minute"
    return Tile("Throughput", value, note, course, f"{span.title}, at most {_number(most)} a minute")


def _failures(whole: _Part, parts: Sequence[_Part | None], span: Span) -> Tile:
    share, figures = whole.failures, whole.figures
    course, most = _course(parts, lambda part: part.failures)
    note = f"{figures.failed:,} of {figures.finished + figures.failed:,} attempts"
    if share is None:
        note = "not heard yet" if whole.heard < _LEAST_HEARD else "no attempt has ended"
    value = None if share is None else _percent(share)
    return Tile("Failure rate", value, note, course, f"{span.title}, at most {_percent(most)}")


def _waits(whole: _Part, parts: Sequence[_Part | None], span: Span) -> Tile:
    half, most_of = (whole.figures.wait.percentile(share) for share in (0.5, 0.95))
    course, most = _course(
        parts, lambda part: part.figures.wait.percentile(0.5), lambda part: part.figures.wait.percentile(0.95)
    )
    value = None if half is None or most_of is None else f"{short_duration(half)}, {short_duration(most_of)}"
    note = "p50, p95 until a claim" if value else "no claim heard yet"
    return Tile("Wait", value, note, course, f"{span.title}, p50 and p95, at most {short_duration(most)}")


def _backlog(waiting: int, recent: _Part, change: str, parts: Sequence[_Part | None], span: Span) -> Tile:
    """Say when those that wait now are done, at the rate of the last ten minutes."""
    course, most = _course(parts, lambda part: part.figures.waiting)
    label = f"{span.title}, at most {most:,.0f} waiting"
    if not waiting:
        return Tile("Backlog", "done", "nothing waits", course, label)
    rate = recent.rate("finished")
    note = f"{waiting:,} wait{change}"
    if not rate:
        return Tile("Backlog", None, f"{note}; nothing finishes" if rate == 0 else note, course, label)
    return Tile("Backlog", f"done in {short_duration(waiting / rate * 60)}", note, course, label)


def _change(minutes: Sequence[Bucket], name: str) -> str:
    """Say by how many the jobs that wait became more or fewer."""
    if len(minutes) < 2:
        return ""
    first, last = (_part([minutes[index]], name).figures.waiting for index in (0, -1))
    change = (last - first) * 60 / (minutes[-1].at - minutes[0].at)
    if abs(change) < 0.1:
        return ", as many as before"
    return f", {_number(abs(change))} {'more' if change > 0 else 'fewer'} a minute"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %" if share >= 0.1 or not share else f"{share * 100:.2g} %"
