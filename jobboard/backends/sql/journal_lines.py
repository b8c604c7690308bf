"""Lines that a transaction writes into the journal: about its jobs, and events that belong to none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobboard.backends.sql import journal_statements
from jobboard.backends.sql.transaction import Transaction
from jobboard.backends.transition import Note
from jobboard.events import EventKind


def journal_line(sequence: int, uuid: str, name: str, note: Note) -> dict[str, Any]:
    """Return a line of a job; not every database's lines have the uuid and the name."""
    job = {"job": sequence, "uuid": uuid, "name": name}
    return job | {"kind": note.kind.value, "who": note.who, "token": note.token, "reason": note.reason}


def journal_event(
    kind: EventKind, uuid: str | None, name: str | None, who: str | None = None, reason: str | None = None
) -> dict[str, Any]:
    """Return a line that belongs to no job (any more)."""
    return {"kind": kind.value, "uuid": uuid, "name": name, "who": who, "reason": reason}


def write_events(transaction: Transaction, events: Sequence[dict[str, Any]]) -> None:
    """Write lines that belong to no job, all at once."""
    transaction.notifies |= bool(events)
    transaction.run_many(journal_statements.WRITE_EVENT, events)
