"""How fast a board, or a name, gets on: throughput, failures, waits, and when its backlog is done; no requests."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from jobboard.console.charting import Span, buckets_of, figures_of
from jobboard.console.sparklines import Sparkline, Values, sparkline
from jobboard.console.templating import percent_of
from jobboard.operate.sampling import Bucket, Figures, Sampler
from jobboard.operate.sampling.buckets import merged
from jobboard.text import short_duration

#: How many points a sparkline has at most.
_POINTS = 60
#: A rate is told of a time of which so many seconds were heard.
_LEAST_HEARD = 20.0
#: From how many seconds the present rates are: the throughput, and that at which a backlog is done.
_LATELY, PRESENT = 300.0, 600.0
#: From how many jobs a minute on a backlog grows.
_LEAST_GROWTH = 0.1
#: It is said to grow from this share of what is finished on; less is chance.
_GROWS = 0.1
#: How many parts of a span a course has at least, of a console that is younger.
_LEAST_PARTS = 10


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


@dataclass(frozen=True, slots=True)
class Backlog:
    """How many jobs wait now.

    :ivar paused: how many of them nobody claims, as their name or the board is paused.
    :ivar unserved: how many others nobody claims, as no conductor that is alive has their name.
    :ivar limited: how many others wait for their name's limit, of whose jobs none has ended lately.
    :ivar blocked: how many jobs beside these are blocked.
    :ivar claimable_of: how many can be claimed, by name.
    """

    waiting: int
    paused: int = 0
    unserved: int = 0
    limited: int = 0
    blocked: int = 0
    claimable_of: Mapping[str, int] = field(default_factory=dict)

    @property
    def claimable(self) -> int:
        return max(0, self.waiting - self.paused - self.unserved - self.limited)

    @property
    def held(self) -> list[str]:
        """Say which of them nobody claims."""
        numbers = {"paused": self.paused, "without a conductor": self.unserved, "behind a limit": self.limited}
        return [f"{number:,} {why}" for why, number in numbers.items() if number]


def pace_of(sampler: Sampler, span: Span, name: str, backlog: Backlog) -> list[Tile]:
    """Return the tiles of a span of time.

    :param name: the job name that they are about; "" for all.
    :param backlog: its jobs that wait.
    """
    now = time.time()
    buckets = buckets_of(sampler, span, now)
    parts = _parts(buckets, span, name, now)
    whole = _part(buckets, name)
    recent, lately = (_minutes(sampler, now - seconds) for seconds in (PRESENT, _LATELY))
    return [
        _throughput(whole, _part(lately, name), parts, span),
        _failures(whole, parts, span),
        _waits(whole, parts, span),
        _backlog(backlog, recent, name, parts, span),
    ]


def _minutes(sampler: Sampler, since: float) -> list[Bucket]:
    return [bucket for bucket in sampler.minutes(since) if bucket.at + 60 > since]


def _part(buckets: Sequence[Bucket], name: str) -> _Part:
    whole = merged(0, buckets)
    return _Part(figures_of(whole, name) or Figures(), whole.heard)


def _parts(buckets: Sequence[Bucket], span: Span, name: str, now: float) -> list[_Part | None]:
    """Return the parts of the span from the first one of which anything is known; None where nothing is."""
    step = math.ceil(span.seconds / _POINTS / span.step) * span.step
    number = math.ceil(span.seconds / step)
    # The present step is the last part, though it is not over.
    begin = int(now) // span.step * span.step + span.step - number * step
    found: list[list[Bucket]] = [[] for _ in range(number)]
    for bucket in buckets:
        if 0 <= (index := (bucket.at - begin) // step) < number:
            found[index].append(bucket)
    known = next((index for index, group in enumerate(found) if group), number)
    return [_part(group, name) if group else None for group in found[min(known, number - _LEAST_PARTS) :]]


def _course(parts: Sequence[_Part | None], *values: Callable[[_Part], float | None]) -> tuple[Sparkline | None, float]:
    """Return the drawing, and the largest value in it."""
    lines: list[Values] = [[None if part is None else value(part) for part in parts] for value in values]
    most = max((value for line in lines for value in line if value is not None), default=0.0)
    return sparkline(lines, [part is not None and part.figures.paused > 0 for part in parts]), most


def _throughput(whole: _Part, lately: _Part, parts: Sequence[_Part | None], span: Span) -> Tile:
    rate = lately.rate("finished")
    course, most = _course(parts, lambda part: part.rate("finished"))
    now = "not heard lately" if rate is None else f"in the last {short_duration(_LATELY)}"
    note = "not heard yet" if whole.heard < _LEAST_HEARD else f"{now}; {whole.figures.finished:,} in {span.title}"
    value = None if rate is None else f"{_number(rate)} a minute"
    return Tile("Throughput", value, note, course, f"{span.title}, at most {_number(most)} a minute")


def _failures(whole: _Part, parts: Sequence[_Part | None], span: Span) -> Tile:
    share, figures = whole.failures, whole.figures
    course, most = _course(parts, lambda part: part.failures)
    note = f"{figures.failed:,} of {figures.finished + figures.failed:,} attempts"
    if share is None:
        note = "not heard yet" if whole.heard < _LEAST_HEARD else "no attempt has ended"
    value = None if share is None else percent_of(share)
    return Tile("Failure rate", value, note, course, f"{span.title}, at most {percent_of(most)}")


def _waits(whole: _Part, parts: Sequence[_Part | None], span: Span) -> Tile:
    half, most_of = (whole.figures.wait.percentile(share) for share in (0.5, 0.95))
    course, most = _course(
        parts, lambda part: part.figures.wait.percentile(0.5), lambda part: part.figures.wait.percentile(0.95)
    )
    if half is None or most_of is None:
        value, note = None, "no claim heard yet"
    else:
        value, note = short_duration(half), f"median until a claim; p95 {short_duration(most_of)}"
    return Tile("Wait", value, note, course, f"{span.title}, p50 and p95, at most {short_duration(most)}")


def _backlog(backlog: Backlog, recent: Sequence[Bucket], name: str, parts: Sequence[_Part | None], span: Span) -> Tile:
    """Say when those that can be claimed now are done, at the rate of these minutes, if they ever are."""
    course, most = _course(parts, lambda part: part.figures.waiting)
    rate, growth = _part(recent, name).rate("finished"), _growth(recent, name)
    note = ", ".join([f"{backlog.waiting:,} wait", *backlog.held]) + _told(growth)
    if not backlog.waiting:
        value, note = ("blocked", "nothing else waits") if backlog.blocked else ("done", "nothing waits")
    elif not backlog.claimable:
        value, note = _held(backlog)
    elif growth is not None and growth >= max(_LEAST_GROWTH, (rate or 0.0) * _GROWS):
        value = "growing"
    elif rate:
        number, total, seconds = backlog.claimable, backlog.waiting + backlog.blocked, _left(backlog, rate, recent)
        which = "" if number == total else f"{number:,} of {total:,} "
        value = f"{which}done in {'under 1s' if seconds < 1 else short_duration(seconds)}"
    else:
        value, note = None, f"{note}; nothing finishes" if rate == 0 else note
    blocked = f"; {backlog.blocked:,} blocked" if backlog.blocked else ""
    return Tile("Backlog", value, f"{note}{blocked}", course, f"{span.title}, at most {most:,.0f} unclaimed")


def _left(backlog: Backlog, rate: float, minutes: Sequence[Bucket]) -> float:
    """Return the seconds until all names are done, each at its own rate too, as far as it has one."""
    whole = merged(0, minutes)
    rates = {name: _Part(figures, whole.heard).rate("finished") for name, figures in whole.names.items()}
    own = [number / known for name, number in backlog.claimable_of.items() if (known := rates.get(name))]
    return max(backlog.claimable / rate, *own, 0.0) * 60


def _held(backlog: Backlog) -> tuple[str, str]:
    """Return the value and the note of jobs that nobody claims."""
    wait = f"{backlog.waiting:,} wait"
    match backlog:
        case Backlog(unserved=0, limited=0):
            return "paused", f"{wait} until a resume"
        case Backlog(paused=0, limited=0):
            return "no conductor", f"{wait}, and nobody claims them"
        case Backlog(paused=0, unserved=0):
            return "limit full", f"{wait} for a slot of their name's limit, and none ends"
    return "not claimed", ", ".join([wait, *backlog.held])


def _growth(minutes: Sequence[Bucket], name: str) -> float | None:
    """Return by how many the jobs that wait became more a minute; negative if fewer, None if too little is known."""
    if len(minutes) < 2:
        return None
    first, last = (_part([minutes[index]], name).figures.waiting for index in (0, -1))
    return (last - first) * 60 / (minutes[-1].at - minutes[0].at)


def _told(growth: float | None) -> str:
    if growth is None:
        return ""
    if abs(growth) < _LEAST_GROWTH:
        return ", as many as before"
    return f", {_number(abs(growth))} {'more' if growth > 0 else 'fewer'} a minute"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"
