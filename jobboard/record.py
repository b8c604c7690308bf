"""What became of a job, as users see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from jobboard.backends.outcomes import reason_of
from jobboard.backends.rows import JobRow
from jobboard.codec import decode
from jobboard.converter import Converter
from jobboard.events import HistoryEntry
from jobboard.states import JobState
from jobboard.text import in_one_line
from jobboard.validation import moment


@dataclass(frozen=True, slots=True)
class Undecodable:
    """Stands in a record for a checkpoint, a progress or a result that can't be decoded; ``raw`` is what is stored."""

    raw: bytes = field(repr=False)
    fault: str


#: What is decoded when somebody asks for it: it may be large, and most who look at a record want its state.
_CARRIED = frozenset({"checkpoint", "progress", "result"})


class _Stored:
    """Where a record has what is not decoded yet."""

    __slots__ = ("_converter", "_row")
    _row: JobRow
    _converter: Converter | None


@dataclass(frozen=True, slots=True)
class Record(_Stored):
    """What one read saw. ``expires_at`` is None for no claim, or for one that never ends by time.

    ``progress`` is what the handler reported last: ``{"done": 5, "total": 10, "text": "..."}``, with what it gave of
    these; or None. ``reason`` says why its last run ended, or why it is in the trash; a job that was consumed has
    none. ``last_error`` is of the last attempt that failed, also of a job that is complete since. A checkpoint,
    progress or result that can't be decoded is an :class:`Undecodable`, and the rest can be seen.
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

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name not in _CARRIED:
                raise AttributeError(f"a Record has no attribute {name!r}")
            object.__setattr__(self, name, decoded_or_none(getattr(self._row, name), self._converter))
            return getattr(self, name)

    def __repr__(self) -> str:
        return f"<Record {self.state} attempts={self.attempts} owner={self.owner!r} token={self.token}>"


def record_of(row: JobRow, converter: Converter | None = None) -> Record:
    """Return a row's record; what it carries is decoded when somebody asks for it."""
    record = object.__new__(Record)
    known = {
        "state": row.state,
        "attempts": row.attempts,
        "owner": row.owner,
        "token": row.token,
        "expires_at": _moment_or_none(row.expires_at),
        "run_at": _moment_or_none(row.run_at),
        "last_modified": moment(row.last_modified),
        "last_error": row.last_error,
        "reason": reason_of(row),
        "cancel_asked": row.cancel_asked,
        "history": row.history,
        "_row": row,
        "_converter": converter,
    }
    for name, value in known.items():
        object.__setattr__(record, name, value)
    return record


def _moment_or_none(seconds: float | None) -> datetime | None:
    return None if seconds is None else moment(seconds)


def decoded_or_none(data: bytes | None, converter: Converter | None) -> Any:
    """Decode what a record has; an :class:`Undecodable` if that can't be done."""
    if data is None:
        return None
    try:
        return decode(data, converter=converter)
    except ValueError as error:
        return Undecodable(data, in_one_line(str(error)))
