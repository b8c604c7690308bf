"""From rows to entries and lines of history."""

from __future__ import annotations

import contextlib
from typing import Any

from jobboard.backends.rows import JobRow
from jobboard.backends.sql.schema import CLAIMED, STATES
from jobboard.events import EventKind, HistoryEntry
from jobboard.states import JobState
from jobboard.validation import moment

Row = tuple[Any, ...]

#: Where what is looked at often stands in a row of ENTRY or RECORD.
ID, UUID, RANK, STATE, OWNER, TOKEN, DUE_AT, CANCEL_ASKED = 0, 1, 3, 9, 11, 12, 14, 21

#: The largest whole number that a row can hold.
LARGEST = 2**63 - 1


_TEXT, _NUMBER, _BYTES = (str, type(None)), (int, float, type(None)), (bytes, type(None))
#: What the columns of ENTRY hold. An SQLite file may hold anything anywhere.
_TYPES: tuple[tuple[type, ...], ...] = (
    (int,), (str,), (str,), (int,), (int, float), (bytes,), _TEXT, _NUMBER, (int, type(None)), (object,), (int,), _TEXT,
    (int,), _TEXT, _NUMBER, (int, float), _TEXT, _TEXT, _BYTES, _BYTES, _BYTES, (object,),
)  # fmt: skip


def entry_of(row: Row) -> JobRow:
    """Return the entry of a row of ``statements.ENTRY``; a state that is none reads as TRASHED, for audits to mend."""
    if not all(map(isinstance, row, _TYPES)):
        row = tuple(_bent(value, types) for value, types in zip(row, _TYPES, strict=True))
    (
        sequence, uuid, name, rank, created_on, body, key, run_at, max_attempts, state, attempts, owner, token,
        claim_id, due_at, last_modified, last_error, reason, checkpoint, progress, result, cancel_asked,
    ) = row  # fmt: skip
    return JobRow(
        uuid, name, -rank, sequence, created_on, body, key, run_at, max_attempts, STATES.get(state, JobState.TRASHED),
        attempts, owner, token, claim_id, due_at if state == CLAIMED else None, last_modified, last_error, reason,
        checkpoint, progress, result, bool(cancel_asked),
    )  # fmt: skip


def _bent(value: Any, types: tuple[type, ...]) -> Any:
    """Return a value that a column can have: bytes that nobody can decode, a text, nothing, or 0."""
    if isinstance(value, types):
        return value
    if bytes in types:
        return repr(value).encode()
    if str in types:
        return repr(value)
    return None if type(None) in types else 0


def place_of(row: Row) -> tuple[int, int]:
    """Return where a row stands in the claim order."""
    return row[RANK], row[ID]


def history_of(rows: list[Row]) -> list[HistoryEntry]:
    """Return lines that were read newest first, oldest first, without those that nobody can read."""
    history = []
    for kind, who, at, token, reason in reversed(rows):
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            history.append(HistoryEntry(EventKind(kind), who, moment(at), token, reason))
    return history
