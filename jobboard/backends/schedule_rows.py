"""The plain data about schedules that crosses the seam. Times are seconds since the epoch."""

from __future__ import annotations

from dataclasses import dataclass, field

from jobboard.backends.rows import NewJob, Verdict
from jobboard.events import EventKind


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A schedule as stored: its body is opaque to stores.

    The writer makes ``version`` anew, and it fences the next step. ``next_at`` is the moment at which it is
    due next; None if it is not (paused, finished, set aside).
    """

    id: str
    version: str
    next_at: float | None
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ScheduleEvent:
    """An event that a schedule's step tells; ``who`` is the schedule's id, ``uuid`` and ``name`` are its job's."""

    kind: EventKind
    uuid: str | None
    name: str | None
    who: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ScheduleStep:
    """One schedule's step from one stored version to the next, with all that must happen in that same moment.

    ``after``: the stored version that it steps on from; None: there must be no schedule of this id. ``row`` None
    deletes the schedule. ``postings`` are posted, in their order, by the rules of ``post``; none of them may be
    ``IfExists.RAISE``, so that nothing about a posting can hold up the step.
    """

    id: str
    after: str | None
    row: ScheduleRow | None
    postings: tuple[NewJob, ...] = ()
    events: tuple[ScheduleEvent, ...] = ()

    def verdict(self, stored: str | None) -> Verdict:
        """Return what becomes of it if this is the stored version (None: no schedule); DONE: it can be taken."""
        if stored == (None if self.row is None else self.row.version):
            return Verdict.REPEATED
        return Verdict.DONE if stored == self.after else Verdict.LOST


@dataclass(frozen=True, slots=True)
class DueSchedules:
    """What is due, earliest first (then by id), and the seconds until what is due next after them (None: nothing).

    ``next_in`` is 0.0 or less if more is due than was asked for. ``now`` is the moment that judged it.
    """

    rows: list[ScheduleRow]
    next_in: float | None
    now: float


@dataclass(frozen=True, slots=True)
class SchedulePage:
    """Some schedules by next due time, then id; those without one come last. ``cursor`` None is the end."""

    rows: list[ScheduleRow]
    cursor: object | None
