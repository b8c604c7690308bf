"""The attempts of a job as bars on one axis of time. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate

from jobboard.operate.attempts import IN_TRASH, RUNNING, Attempt, Phase
from jobboard.text import short_duration

#: The units of the axis, and the fewest that a phase has, so that it can be seen.
WIDTH, _LEAST = 1000.0, 6.0


@dataclass(frozen=True, slots=True)
class Bar:
    """A phase on the axis. ``look`` is its class, ``title`` what it says."""

    x: float
    width: float
    look: str
    title: str


@dataclass(frozen=True, slots=True)
class Row:
    """An attempt; ``number`` is None for what is not counted as one, and where earlier attempts are forgotten."""

    number: int | None
    attempt: Attempt
    bars: tuple[Bar, ...]
    waited: str
    ran: str | None


def rows_of(attempts: Sequence[Attempt], is_whole: bool, now: datetime) -> list[Row]:
    """Place the attempts; what is in the trash by now has no bar, which would be far longer than all others.

    :param is_whole: whether no earlier attempt is forgotten.
    """
    drawn = [_drawn(attempt) for attempt in attempts]
    ends = [phase.until or now for phases in drawn for phase in phases]
    if not ends:
        return []
    first = min(phase.since for phases in drawn for phase in phases)
    scale = WIDTH / max(1e-6, (max(ends) - first).total_seconds())
    numbers = accumulate(int(attempt.is_counted) for attempt in attempts)
    return [
        Row(
            number if is_whole and attempt.is_counted else None,
            attempt,
            tuple(_bar(phase, attempt, first, scale, now) for phase in phases),
            ", ".join(_said(phase, now) for phase in attempt.waits),
            None if attempt.run is None else short_duration(attempt.run.seconds(now)),
        )
        for number, attempt, phases in zip(numbers, attempts, drawn, strict=True)
    ]


def _drawn(attempt: Attempt) -> list[Phase]:
    return [phase for phase in attempt.phases if phase.kind != IN_TRASH or phase.until]


def _bar(phase: Phase, attempt: Attempt, first: datetime, scale: float, now: datetime) -> Bar:
    width = max(_LEAST, phase.seconds(now) * scale)
    x = min((phase.since - first).total_seconds() * scale, WIDTH - width)
    look = f"running {attempt.tone}".strip() if phase.kind == RUNNING else phase.kind.split()[-1]
    return Bar(round(max(0.0, x), 1), round(width, 1), look, _said(phase, now))


def _said(phase: Phase, now: datetime) -> str:
    return f"{phase.kind} {short_duration(phase.seconds(now))}{'' if phase.until else ' so far'}"
