"""From rows to entries and lines of history."""

from __future__ import annotations

import contextlib
from typing import Any

from jobboard.arguments import moment
from jobboard.backends.sql.schema import CLAIMED, STATES
from jobboard.entry import Entry, JobState
from jobboard.events import EventKind, HistoryEntry

Row = tuple[Any, ...]

#: Where what is looked at often stands in a row of ENTRY or RECORD.
ID, UUID, RANK, STATE, OWNER, TOKEN, DUE_AT, CANCEL_ASKED = 0, 1, 3, 9, 11, 12, 14, 21

#: The largest whole number that a row can hold.
LARGEST = 2**63 - 1


def entry_of(row: Row) -> Entry:
    """Return the entry of a row of ``statements.ENTRY``; a state that is none reads as TRASHED, for audits to mend."""
    (
        sequence, uuid, name, rank, created_on, body, key, run_at, max_attempts, state, attempts, owner, token,
        claim_id, due_at, last_modified, last_error, reason, checkpoint, progress, result, cancel_asked,
    ) = row  # fmt: skip
    return Entry(
        uuid, name, -rank, sequence, created_on, body, key, run_at, max_attempts, STATES.get(state, JobState.TRASHED),
        attempts, owner, token, claim_id, due_at if state == CLAIMED else None, last_modified, last_error, reason,
        checkpoint, progress, result, bool(cancel_asked),
    )  # fmt: skip


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
