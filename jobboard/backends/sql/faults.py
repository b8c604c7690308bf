"""What SQLite says, in words that say what to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from jobboard.errors import BoardUnavailable

_EXPLANATIONS = (
    ("not a database", "is not an SQLite database; name another file"),
    ("readonly", "can't be written to; check the permissions of the file and its directory"),
    ("unable to open", "can't be opened; check that its directory is there and that you may write to it"),
    ("disk is full", "can't grow, since the disk is full; make room"),
    ("database or disk is full", "can't grow, since the disk is full; make room"),
    ("locked", "is locked by another process for longer than the busy_timeout; try again, or raise busy_timeout"),
    ("busy", "is locked by another process for longer than the busy_timeout; try again, or raise busy_timeout"),
    ("malformed", "is damaged; restore it from a backup"),
    ("disk i/o", "can't be read or written; check the disk"),
    ("no such table", "has lost a table; restore it from a backup"),
    ("closed", "is closed; call connect() first"),
)


def explain(error: DBAPIError | sqlite3.Error, path: Path) -> BoardUnavailable:
    """Return our error for SQLite's. A transaction that failed has changed nothing."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    said = str(cause)
    for mark, explanation in _EXPLANATIONS:
        if mark in said.lower():
            return BoardUnavailable(f"{path} {explanation} (SQLite: {said})")
    return BoardUnavailable(f"{path}: SQLite failed: {said}")


def is_newer(found: str, ours: int) -> bool:
    """Whether a schema's version is beyond ours; one that is no number isn't ours either."""
    return not found.isdigit() or int(found) > ours
