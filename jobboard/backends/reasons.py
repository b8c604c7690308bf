"""The reasons that a job's record, its history and its events give in words."""

from __future__ import annotations

from jobboard.states import JobPriority


def used_up(max_attempts: int | None, reason: str | None) -> str:
    """Say why a job goes to the trash by itself, and the reason of the last attempt."""
    said = f"all {max_attempts} attempts are used up"
    return f"{said}; the last: {reason}" if reason else said


def to_priority(priority: JobPriority, note: str | None) -> str:
    """Say in a job's history which priority somebody gave it, and why."""
    return f"to {priority}: {note}" if note else f"to {priority}"


def expired(owner: str | None) -> str:
    """Say why a claim ended by itself; the owner's name stands as it is, with any quotes in it."""
    return f"the claim of '{owner}' expired"
