"""Names whose jobs fail now: by the attempts that somebody counted, or else by the failed jobs that a look has read."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from jobboard.backends.reasons import has_not_failed
from jobboard.backends.rows import JobRow
from jobboard.operate.trash import kind_of_reason
from jobboard.states import JobState
from jobboard.text import in_one_line

#: For how many seconds a failure is news.
RECENT = 3600.0
#: From how many failures on, and from which share of the attempts that were counted, it is told.
LEAST, LEAST_SHARE = 3, 0.2
#: How much of an error is shown.
_MAX_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Failures:
    """Jobs of a name that failed within :data:`RECENT` seconds, of those that were read.

    :ivar jobs: how many.
    :ivar since: when the first of them did, in seconds of the epoch.
    :ivar error: one of the kind of error that most have; ``alike``: how many have that.
    :ivar trashed: the uuids of those in the trash.
    """

    name: str
    jobs: int
    since: float
    error: str
    alike: int
    trashed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Attempts:
    """How many attempts of a name have ended, and failed, since a moment in seconds of the epoch."""

    ended: int
    failed: int
    since: float


def failures_of(rows: Iterable[JobRow], now: float) -> tuple[Failures, ...]:
    """Return what has failed lately of some jobs that are in the trash or wait for a retry, most failures first."""
    names: dict[str, list[JobRow]] = {}
    for row in rows:
        if row.attempts and row.last_modified >= now - RECENT and not has_not_failed(row.reason):
            names.setdefault(row.name, []).append(row)
    found = [_failures(name, failed) for name, failed in names.items()]
    return tuple(sorted(found, key=lambda one: (-one.jobs, one.name)))


def _failures(name: str, rows: Sequence[JobRow]) -> Failures:
    kinds = Counter(kind_of_reason(row.reason) for row in rows)
    [(kind, alike)] = kinds.most_common(1)
    latest = max((row for row in rows if kind_of_reason(row.reason) == kind), key=lambda row: row.last_modified)
    trashed = frozenset(row.uuid for row in rows if row.state is JobState.TRASHED)
    return Failures(name, len(rows), min(row.last_modified for row in rows), latest.reason or kind, alike, trashed)


def told_failing(failures: Iterable[Failures], attempts: Mapping[str, Attempts]) -> Iterator[tuple[str, str, str]]:
    """Yield a name of which many fail, how many, or which share if they were counted, and what to do."""
    read = {one.name: one for one in failures}
    # Of fewer no share can be told.
    counted = {name: one for name, one in attempts.items() if one.failed >= LEAST}
    for name in dict.fromkeys([*counted, *read]):
        how_many = _share(counted[name]) if name in counted else _number(read[name])
        if how_many is not None:
            see = f"jobboard trashed --newest --job-name {shlex.quote(name)}"
            yield name, f"Jobs named {name!r} fail: {how_many}{_error(read.get(name))}.", f"See: {see}"


def _share(counted: Attempts) -> str | None:
    if counted.failed < LEAST_SHARE * counted.ended:
        return None
    share = round(100 * counted.failed / counted.ended)
    return f"{share} % of {counted.ended} attempts since {_clock(counted.since)}"


def _number(one: Failures) -> str | None:
    return f"{one.jobs} of those that were read since {_clock(one.since)}" if one.jobs >= LEAST else None


def _error(one: Failures | None) -> str:
    return "" if one is None else f"; most often ({one.alike} of {one.jobs}): {in_one_line(one.error)[:_MAX_SHOWN]}"


def _clock(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S} UTC"
