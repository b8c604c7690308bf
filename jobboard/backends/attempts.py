"""What is said of an attempt that ended, and when a job has used them up."""

from __future__ import annotations

from jobboard.backends.rows import JobRow


def is_used_up(row: JobRow) -> bool:
    """Whether a counted return of this job goes to the trash."""
    return row.max_attempts is not None and row.attempts >= row.max_attempts


def used_up(row: JobRow, reason: str | None) -> str:
    """Say why a job goes to the trash by itself."""
    said = f"all {row.max_attempts} attempts are used up"
    return f"{said}; the last: {reason}" if reason else said


def expired(owner: str | None) -> str:
    """Say why a claim ended by itself; the owner's name stands as it is, whatever it has of quotes."""
    return f"the claim of '{owner}' expired"


def last_error_after(row: JobRow, reason: str | None, error: str | None, *, failed: bool) -> str | None:
    """Return the last error of a job whose attempt ended: of one that failed, a reason is the error if there is none.

    None says nothing, so that the error before stays; an empty text is what somebody said.
    """
    if error is not None:
        return error
    return reason if failed and reason is not None else row.last_error
