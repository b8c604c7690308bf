"""The attempts of a job by its history: how long it waited and for what, how long it ran, and how that ended. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from jobboard.backends.reasons import goes_on_as, has_not_failed, is_wait, waits_for
from jobboard.events import EventKind, HistoryEntry
from jobboard.states import JobState

#: What a job does in a phase. ``asleep``: its handler has given it back, to go on later.
QUEUED, DELAYED, RETRY, ASLEEP, AWAITING, BLOCKED, RUNNING, IN_TRASH = (
    "queued", "delayed", "waiting for retry", "asleep", "waiting for signal", "blocked", "running", "in the trash"
)  # fmt: skip

_ENDS_RUN = frozenset(
    {
        EventKind.CONSUMED, EventKind.ABANDONED, EventKind.EXPIRED, EventKind.RELEASED, EventKind.TRASHED,
        EventKind.CANCELLED,
    }
)  # fmt: skip
#: What a job did until such a line; None: what depends on the line before.
_ENDS_WAIT = {
    EventKind.DUE: None,
    EventKind.BLOCKED: QUEUED,
    EventKind.ADMITTED: BLOCKED,
    EventKind.RESOLVED: BLOCKED,
    EventKind.TRASHED: QUEUED,
    EventKind.RESTORED: IN_TRASH,
    EventKind.CLAIMED: QUEUED,
}


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of a job's life; ``until`` is None if it goes on."""

    kind: str
    since: datetime
    until: datetime | None = None

    def seconds(self, now: datetime) -> float:
        """Return how long it took, or takes until now."""
        return max(0.0, ((self.until or now) - self.since).total_seconds())


@dataclass(slots=True)
class Attempt:
    """What a job waited for, and the run after that.

    :ivar run: None if it has not begun.
    :ivar who: who runs it.
    :ivar end: the line that ended it; None while it runs.
    """

    waits: list[Phase] = field(default_factory=list)
    run: Phase | None = None
    who: str | None = None
    end: HistoryEntry | None = None

    @property
    def phases(self) -> list[Phase]:
        return [*self.waits, *filter(None, [self.run])]

    @property
    def is_counted(self) -> bool:
        """Whether its run counts as an attempt: it has begun, and did not end to go on later."""
        return self.run is not None and not (self.end and _is_unfailed(self.end))

    @property
    def tone(self) -> str:
        """Return ``good`` or ``bad`` as the run ended; "" if it goes on, or goes on later."""
        if self.end is None or _is_unfailed(self.end):
            return ""
        return "good" if self.end.kind is EventKind.CONSUMED else "bad"

    @property
    def ended_as(self) -> str | None:
        """Return how the run ended, in a word or three, such as ``failed`` or ``sleeps``; None while it runs."""
        if self.end is None:
            return None
        if self.end.kind is EventKind.ABANDONED:
            return goes_on_as(self.end.reason) or "failed"
        return str(self.end.kind).lower()


def attempts_of(history: Iterable[HistoryEntry], state: JobState) -> list[Attempt]:
    """Return the attempts that a history tells of, the first one first; the last one may not have begun to run.

    :param state: what the job does now, after the last line.
    """
    attempts, opened = [Attempt()], None
    for line in history:
        if opened is None:
            # Of a longer history the first line that is kept tells nothing of the time before it.
            if line.kind is EventKind.CLAIMED:
                attempts[-1].run, attempts[-1].who = Phase(RUNNING, line.at), line.who
            opened = line
        elif (current := attempts[-1]).run is not None:
            if line.kind in _ENDS_RUN:
                current.run, current.end = Phase(RUNNING, current.run.since, line.at), line
                attempts.append(Attempt())
                opened = line
        elif (kind := _waited_as(opened, line)) is not None:
            if line.at > opened.at:
                current.waits.append(Phase(kind, opened.at, line.at))
            if line.kind is EventKind.CLAIMED:
                current.run, current.who = Phase(RUNNING, line.at), line.who
            opened = line
        elif line.kind in _ENDS_RUN:
            # The line that began this run is not kept.
            opened = line
    _add_present(attempts[-1], opened, state)
    return [attempt for attempt in attempts if attempt.phases]


def _waited_as(opened: HistoryEntry, line: HistoryEntry) -> str | None:
    """Return what the job did between two lines while it did not run; None if the second one did not end that."""
    if line.kind is EventKind.SIGNALLED:
        return AWAITING if opened.reason == waits_for(line.reason or "") else None
    if line.kind is EventKind.DUE:
        return _delayed_as(opened)
    if line.kind is EventKind.BLOCKED and opened.kind is EventKind.TRASHED:
        # A parent of it was restored, and it stays there.
        return IN_TRASH
    return _ENDS_WAIT.get(line.kind)


def _delayed_as(opened: HistoryEntry) -> str:
    if opened.kind is not EventKind.ABANDONED:
        return DELAYED
    if is_wait(opened.reason):
        return AWAITING
    return ASLEEP if _is_unfailed(opened) else RETRY


def _is_unfailed(line: HistoryEntry) -> bool:
    return line.kind is EventKind.ABANDONED and has_not_failed(line.reason)


def _add_present(last: Attempt, opened: HistoryEntry | None, state: JobState) -> None:
    if opened is None or last.run is not None:
        return
    kinds = {JobState.UNCLAIMED: QUEUED, JobState.BLOCKED: BLOCKED, JobState.TRASHED: IN_TRASH}
    if state is JobState.DELAYED or (state is JobState.BLOCKED and _is_unfailed(opened)):
        last.waits.append(Phase(_delayed_as(opened), opened.at))
    elif state in kinds:
        last.waits.append(Phase(kinds[state], opened.at))
