"""How far a schedule has come: what its last step left for the next one."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from itertools import takewhile
from typing import Any

from jobboard.events import EventKind
from jobboard.validation import check_count, check_reason, check_uuid, is_moment, moment

#: How many lines of a schedule's history are kept.
HISTORY_LENGTH = 20
#: How the line begins that keeps of which source a schedule is: a field of its own would be a new format.
_APPLIED_FROM = "applied from "


@dataclass(frozen=True, slots=True)
class FireRecord:
    """One line of a schedule's history: what became of a fire time.

    ``kind``: FIRED (``uuid`` is the job), MISSED, SKIPPED, FAILED; ``count``: how many fire times the line stands for,
    of which ``fire_time`` is the last one. SCHEDULED: somebody changed the schedule, as ``reason`` says.
    """

    kind: EventKind
    at: datetime
    fire_time: datetime | None
    uuid: str | None = None
    reason: str | None = None
    count: int = 1

    @property
    def source(self) -> str | None:
        """Of which source the schedule is, if this line is the one that keeps it."""
        is_source = self.kind is EventKind.SCHEDULED and (self.reason or "").startswith(_APPLIED_FROM)
        return (self.reason or "").removeprefix(_APPLIED_FROM) if is_source else None

    def to_plain(self) -> list[Any]:
        """Return what :meth:`from_plain` makes an equal one of."""
        fire_time = self.fire_time and self.fire_time.timestamp()
        return [self.kind.value, self.at.timestamp(), fire_time, self.uuid, self.reason, self.count]

    @classmethod
    def from_plain(cls, kind: Any, at: Any, fire: Any, uuid: Any, reason: Any, count: Any) -> FireRecord:
        """Return what :meth:`to_plain` was called on; ``TypeError`` or ``ValueError`` on anything else."""
        if not is_moment(at) or not (fire is None or is_moment(fire)):
            raise ValueError("a time of its history is no moment")
        for text in (uuid, reason):
            check_reason(text, "a text of its history")
        fire_time = None if fire is None else moment(fire)
        return cls(EventKind(kind), moment(at), fire_time, uuid, reason, check_count("a count of its history", count))


@dataclass(slots=True)
class Progress:
    """Times are seconds since the epoch.

    ``settled``: what became of every fire time up to here is decided. ``upcoming``: the fire time after it, without its
    jitter. ``live``: jobs that were posted and not seen to have ended yet. ``buffered``: the fire time that waits for
    room. ``fault``: why the schedule was set aside.
    """

    settled: float
    upcoming: float | None = None
    runs: int = 0
    missed: int = 0
    skipped: int = 0
    failed: int = 0
    live: list[str] = field(default_factory=list)
    buffered: float | None = None
    note: str | None = None
    fault: str | None = None
    history: list[FireRecord] = field(default_factory=list)

    def note_down(self, record: FireRecord) -> None:
        """Add a line to the history; the oldest one goes, but never the one that keeps the source."""
        self.history.append(record)
        if len(self.history) > HISTORY_LENGTH:
            del self.history[0 if self.history[0].source is None else 1]

    @property
    def source(self) -> str | None:
        """Of which source an apply has put the schedule on the board; None if somebody added it otherwise."""
        return next((line.source for line in self.history if line.source is not None), None)

    def set_source(self, source: str | None, at: datetime) -> None:
        """Keep from now on that the schedule is of this source."""
        if source != self.source:
            self.history = [line for line in self.history if line.source is None]
            if source is not None:
                self.note_down(FireRecord(EventKind.SCHEDULED, at, None, reason=f"{_APPLIED_FROM}{source}"))

    @property
    def fires(self) -> list[FireRecord]:
        """The lines of the history but those of changes."""
        return [line for line in self.history if line.kind is not EventKind.SCHEDULED]

    @property
    def last_skipped(self) -> int:
        """How many fire times were skipped since the last one that was posted, as far as the history goes back."""
        since = takewhile(lambda line: line.kind is not EventKind.FIRED, reversed(self.history))
        return sum(line.count for line in since if line.kind is EventKind.SKIPPED)

    @property
    def last_missed(self) -> tuple[int, FireRecord] | None:
        """How many fire times were missed since the last one that became a job, and the last line that tells of them.

        None if the last fire time was not missed, or another one of the same step was posted in its place.
        """
        fires = self.fires
        last = fires[-1] if fires else None
        if last is None or last.kind is not EventKind.MISSED:
            return None
        if any(line.kind is EventKind.FIRED and line.at == last.at for line in fires):
            return None
        missed = takewhile(lambda line: line.kind is EventKind.MISSED, reversed(fires))
        return sum(line.count for line in missed), last

    def copy(self) -> Progress:
        """Return one that can be changed without changing this."""
        return replace(self, live=list(self.live), history=list(self.history))

    def to_plain(self) -> list[Any]:
        """Return what :meth:`from_plain` makes an equal one of."""
        *values, history = (getattr(self, field.name) for field in fields(self))
        return [*values, [line.to_plain() for line in history]]

    @classmethod
    def from_plain(cls, plain: list[Any]) -> Progress:
        """Return what :meth:`to_plain` was called on; ``TypeError`` or ``ValueError`` on anything else."""
        settled, upcoming, runs, missed, skipped, failed, live, buffered, note, fault, history = plain
        for time in (settled, *(time for time in (upcoming, buffered) if time is not None)):
            if not is_moment(time):
                raise ValueError("a time of its progress is no moment")
        for count in (runs, missed, skipped, failed):
            check_count("a count of its progress", count, least=0)
        for text in (note, fault):
            check_reason(text, "a text of its progress")
        live = [check_uuid(uuid) for uuid in live]
        lines = [FireRecord.from_plain(*line) for line in history]
        return cls(settled, upcoming, runs, missed, skipped, failed, live, buffered, note, fault, lines)
