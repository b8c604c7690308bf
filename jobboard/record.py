"""A job's record: what has become of its posting so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from jobboard.arguments import moment
from jobboard.codec import decode
from jobboard.entry import Entry, JobState
from jobboard.events import HistoryEntry
from jobboard.shortening import in_one_line


@dataclass(frozen=True, slots=True)
class Undecodable:
    """Stands in a record for a checkpoint, a progress or a result that can't be decoded; ``raw`` is what is stored."""

    raw: bytes = field(repr=False)
    fault: str


@dataclass(frozen=True, slots=True)
class Record:
    """What one read saw. ``expires_at`` is None for no claim, or for one that never ends by time.

    A checkpoint, progress or result that can't be decoded is an :class:`Undecodable`, and the rest can be seen.
    """

    state: JobState
    attempts: int
    owner: str | None
    token: int
    expires_at: datetime | None
    run_at: datetime | None
    last_modified: datetime
    last_error: str | None
    reason: str | None
    checkpoint: Any
    progress: Any
    result: Any
    cancel_asked: bool
    history: tuple[HistoryEntry, ...]

    def __repr__(self) -> str:
        return f"<Record {self.state} attempts={self.attempts} owner={self.owner!r} token={self.token}>"


def record_of(entry: Entry) -> Record:
    """Decode an entry's record."""
    return Record(
        state=entry.state,
        attempts=entry.attempts,
        owner=entry.owner,
        token=entry.token,
        expires_at=_moment_or_none(entry.expires_at),
        run_at=_moment_or_none(entry.run_at),
        last_modified=moment(entry.last_modified),
        last_error=entry.last_error,
        reason=entry.reason,
        checkpoint=_decoded_or_none(entry.checkpoint),
        progress=_decoded_or_none(entry.progress),
        result=_decoded_or_none(entry.result),
        cancel_asked=entry.cancel_asked,
        history=entry.history,
    )


def _moment_or_none(seconds: float | None) -> datetime | None:
    return None if seconds is None else moment(seconds)


def _decoded_or_none(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return decode(data)
    except ValueError as error:
        return Undecodable(data, in_one_line(str(error)))
