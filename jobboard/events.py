"""What happened to a job, as an event on the stream and as an entry of its history."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime
from typing import NoReturn


class EventKind(str, enum.Enum):
    """The verbs of the board, in the past tense."""

    POSTED = "POSTED"
    REPLACED = "REPLACED"
    REPRIORITIZED = "REPRIORITIZED"
    DUE = "DUE"
    #: It waits for its lane, or had to give its slot back; or it waits again for a parent that was restored. Or it is
    #: claimed, and its owner lets it wait for jobs after that.
    BLOCKED = "BLOCKED"
    ADMITTED = "ADMITTED"
    #: The parents that it waited for have ended.
    RESOLVED = "RESOLVED"
    #: A signal was sent to it; ``reason`` is its name.
    SIGNALLED = "SIGNALLED"
    CLAIMED = "CLAIMED"
    EXTENDED = "EXTENDED"
    CHECKPOINTED = "CHECKPOINTED"
    ABANDONED = "ABANDONED"
    EXPIRED = "EXPIRED"
    RELEASED = "RELEASED"
    CONSUMED = "CONSUMED"
    TRASHED = "TRASHED"
    CANCEL_ASKED = "CANCEL_ASKED"
    CANCELLED = "CANCELLED"
    RESTORED = "RESTORED"
    PURGED = "PURGED"
    PAUSED = "PAUSED"
    RESUMED = "RESUMED"
    #: A limit was set, changed or removed; ``reason`` is what it says now.
    LIMITED = "LIMITED"
    #: A schedule was added, modified, paused or resumed; those who wait for the next due time look again.
    SCHEDULED = "SCHEDULED"
    UNSCHEDULED = "UNSCHEDULED"
    FIRED = "FIRED"
    MISSED = "MISSED"
    SKIPPED = "SKIPPED"
    FAILED = "FAILED"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise ValueError(f"there is no kind of event {value!r}; there are {', '.join(cls)}")

    def __str__(self) -> str:
        return self.value


#: Most of a healthy board's events, which would drive the others out: told only to those who ask for them.
FREQUENT = frozenset({EventKind.EXTENDED, EventKind.CHECKPOINTED})


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One change on the board; a hint, at most once and in order per job. The board is the truth.

    ``uuid`` is None for what concerns no single job (PAUSED, RESUMED, LIMITED); ``name`` is None when the whole board
    is meant, or a lane.
    Of a schedule's events (SCHEDULED, FIRED, MISSED, ...) ``who`` is the schedule's id, ``name`` its job's name,
    ``uuid`` the job that was posted, and ``reason`` says for which fire time, or why not.
    ``token`` is that of the claim that it is about: None of a job that nobody held, even if it was held before.
    """

    kind: EventKind
    uuid: str | None
    name: str | None
    who: str | None
    token: int | None
    at: datetime
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One line of a job's history; the last :data:`HISTORY_LENGTH` are kept.

    ``token`` is that of the claim that it is about: None if nobody held the job then.
    """

    kind: EventKind
    who: str | None
    at: datetime
    token: int | None
    reason: str | None = None


HISTORY_LENGTH = 20
