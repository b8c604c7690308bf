"""When a job has used up its attempts, and how stores say so."""

from __future__ import annotations

from jobboard.entry import Entry


def is_used_up(entry: Entry) -> bool:
    """Whether a counted return of this job goes to the trash."""
    return entry.max_attempts is not None and entry.attempts >= entry.max_attempts


def used_up(entry: Entry, reason: str | None) -> str:
    """Say why a job goes to the trash by itself."""
    said = f"all {entry.max_attempts} attempts are used up"
    return f"{said}; the last: {reason}" if reason else said
