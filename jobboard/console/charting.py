"""The history of a board as rows of numbers: for charts, and for the tables beside them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobboard.console.sparklines import Sparkline, sparkline
from jobboard.console.templating import visible
from jobboard.operate.sampling import Bucket, Figures, Sampler
from jobboard.operate.sampling.buckets import COUNTS, GAUGES, merged


@dataclass(frozen=True, slots=True)
class Span:
    """For how long a chart goes back.

    :ivar step: the seconds of each of its points.
    :ivar row: those of a row of the table beside it.
    """

    title: str
    seconds: int
    step: int
    row: int


#: By their names in URLs.
SPANS = {
    "1h": Span("1 hour", 3600, 60, 300),
    "6h": Span("6 hours", 6 * 3600, 60, 1800),
    "24h": Span("24 hours", 86_400, 600, 7200),
    "7d": Span("7 days", 7 * 86_400, 600, 43_200),
    "14d": Span("14 days", 14 * 86_400, 600, 86_400),
}


#: How many names have a line, and how many characters of each are shown.
_MAX_NAMES, _MAX_NAME = 4, 40
#: How many points a chart has at least.
_LEAST_POINTS = 10


def span_named(name: str) -> str:
    """Return the name if it is one, else that of an hour."""
    return name if name in SPANS else "1h"


def buckets_of(sampler: Sampler, span: Span, now: float) -> list[Bucket]:
    """Return what is known of this time, oldest first, with the present step last; no request."""
    since = now - span.seconds
    if span.step == 60:
        return sampler.minutes(since)
    over, present = sampler.ten_minutes(since), int(now) // span.step * span.step
    minutes = sampler.minutes(present)
    return [*over, merged(present, minutes)] if minutes else over


def chart(sampler: Sampler, span: Span, name: str) -> dict[str, list[Any]]:
    """Return a list of moments, and one for each gauge and for each count a minute; None where nothing is known.

    It begins with the first moment of the span of which anything is known.

    And ``starts``, the moments at which conductors began; and ``names``, of all jobs, the lines of the names of which
    most waited.

    :param name: the job name that it is about; "" for all.
    """
    now = time.time()
    buckets = {bucket.at: bucket for bucket in buckets_of(sampler, span, now)}
    last = max(buckets, default=int(now) // span.step * span.step)
    # Of a young board the time before its first look is left out, but for some, so that a line has room to grow.
    first = min(min(buckets, default=last), last - (_LEAST_POINTS - 1) * span.step)
    moments = range(max(first, last - span.seconds + span.step), last + 1, span.step)
    found = [figures_of(buckets.get(at), name) for at in moments]
    lines: dict[str, list[Any]] = {"at": list(moments)}
    for field in GAUGES:
        lines[field] = [figures and getattr(figures, field) for figures in found]
    # Of a minute that is not over the counts would look like a fall.
    has_counts = {at for at, bucket in buckets.items() if at + span.step <= now and bucket.has_counts}
    ended = [figures if at in has_counts else None for at, figures in zip(moments, found, strict=True)]
    for field in COUNTS:
        lines[field] = [figures and round(getattr(figures, field) * 60 / span.step, 2) for figures in ended]
    lines["starts"] = starts_of(sampler, lines["at"][0])
    lines["names"] = [] if name else _names(buckets, moments)
    return lines


def starts_of(sampler: Sampler, since: float) -> list[int]:
    """Return when conductors began that are registered; no request."""
    started = (sampler.newest or {}).get("conductors", {}).get("started", [])
    return [at for moment in started if (at := int(moment.timestamp())) >= since]


def _names(buckets: Mapping[int, Bucket], moments: Iterable[int]) -> list[dict[str, Any]]:
    """Return how many jobs of each name waited, of those of which most did."""
    most = Counter[str]()
    for bucket in buckets.values():
        for name, figures in bucket.names.items():
            most[name] = max(most[name], figures.waiting)
    largest = [name for name, number in most.most_common(_MAX_NAMES) if number]
    return [
        {
            "name": visible(name[:_MAX_NAME], ""),
            "waiting": [(found := figures_of(buckets.get(at), name)) and found.waiting for at in moments],
        }
        for name in (largest if len(most) > 1 else [])
    ]


def table(sampler: Sampler, span: Span, name: str) -> tuple[list[dict[str, Any]], int | None]:
    """Return the same in a dozen rows or so, the newest first: gauges at their largest, counts as sums or None.

    And the first moment of this time of which anything is known; None if nothing is.
    """
    buckets = buckets_of(sampler, span, time.time())
    groups: dict[int, list[Bucket]] = {}
    for bucket in buckets:
        groups.setdefault(bucket.at // span.row * span.row, []).append(bucket)
    rows, starts = [], starts_of(sampler, 0)
    for at in sorted(groups, reverse=True):
        figures = _sum(groups[at], name)
        has_counts = any(bucket.has_counts for bucket in groups[at])
        counts = {field: getattr(figures, field) if has_counts else None for field in COUNTS}
        began = sum(at <= start < at + span.row for start in starts)
        rows.append({"at": at, "starts": began} | {field: getattr(figures, field) for field in GAUGES} | counts)
    return rows, min((bucket.at for bucket in buckets), default=None)


def last_hour(sampler: Sampler) -> Bucket:
    """Return the figures of the last hour, of each name of which they are known."""
    return merged(0, sampler.minutes(time.time() - 3600))


def courses_of(sampler: Sampler) -> dict[str, Sparkline]:
    """Return what finished and what failed of each name in the minutes of the last hour, if anything did."""
    minutes = sampler.minutes(time.time() - 3600)
    names = {name for bucket in minutes for name in bucket.names}
    drawn = {}
    for name in names:
        found = [figures_of(bucket, name) if bucket.has_counts else None for bucket in minutes]
        lines = [
            [None if one is None else float(getattr(one, count)) for one in found] for count in ("finished", "failed")
        ]
        if course := sparkline(lines, [bool(figures and figures.paused) for figures in found]):
            drawn[name] = course
    return drawn


def figures_of(bucket: Bucket | None, name: str) -> Figures | None:
    """Return the figures of a name, or of all if it is ""; None if nothing is known."""
    if bucket is None:
        return None
    return bucket.names.get(name, Figures()) if name else bucket.total


def _sum(buckets: Sequence[Bucket], name: str) -> Figures:
    whole = Figures()
    parts: Iterable[Figures | None] = (figures_of(bucket, name) for bucket in buckets)
    for figures in filter(None, parts):
        whole.merge(figures)
    return whole
