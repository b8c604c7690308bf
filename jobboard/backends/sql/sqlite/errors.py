"""SQLite's errors as ours, which say what to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from jobboard.errors import BoardUnavailable, ReplyLost

_BUSY = "is locked by another process for longer than the busy_timeout; try again, or raise busy_timeout"
_READ_ONLY = "can't be written to; check the permissions of the file and its directory"

#: The name of SQLite's code begins with this -> what to do.
_BY_CODE = {
    "SQLITE_NOTADB": "is not an SQLite database; name another file",
    "SQLITE_READONLY": _READ_ONLY,
    "SQLITE_PERM": _READ_ONLY,
    "SQLITE_CANTOPEN": "can't be opened; check that it is a file, and that you may write to it and its directory",
    "SQLITE_FULL": "can't grow, since the disk is full; make room",
    "SQLITE_BUSY": _BUSY,
    "SQLITE_LOCKED": _BUSY,
    "SQLITE_CORRUPT": "is damaged; restore it from a backup",
    "SQLITE_IOERR": "can't be read or written; check the disk",
    "SQLITE_NOMEM": "needs more memory than there is",
}
_NO_TABLE = "no such table"
#: What has no code of its own.
_BY_WORDS = {
    _NO_TABLE: "has lost a table; restore it from a backup",
    "no such column": "has lost a column; restore it from a backup",
    "closed": "is closed; call connect() first",
}


def explain(error: sqlite3.Error, path: Path) -> BoardUnavailable:
    """Return our error for SQLite's, of a transaction that has certainly changed nothing."""
    return BoardUnavailable(_explanation(error, path))


def explain_commit(error: sqlite3.Error, path: Path) -> BoardUnavailable:
    """Return our error for a failed COMMIT: after a failed write or sync it is unknown what the disk has."""
    if _code(error).startswith("SQLITE_IOERR"):
        return ReplyLost(_explanation(error, path))
    return explain(error, path)


def is_table_missing(error: sqlite3.Error) -> bool:
    return _NO_TABLE in str(error)


def is_busy(error: sqlite3.Error) -> bool:
    return _code(error).startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def locked(path: Path) -> str:
    """Return what is said when the threads of this process queue for too long."""
    return f"{path} {_BUSY}"


def replaced(path: str) -> BoardUnavailable:
    """Return what is said when a path does not name the file any more that was opened there."""
    return BoardUnavailable(
        f"{path} was moved, replaced or deleted while it was open, and what is changed now would be lost with the old; "
        "stop all that use it, put the right file there, and start them again"
    )


def _explanation(error: sqlite3.Error, path: Path) -> str:
    said, code = str(error), _code(error)
    for mark, explanation in _BY_CODE.items():
        if code.startswith(mark):
            return f"{path} {explanation} (SQLite: {said})"
    for words, explanation in _BY_WORDS.items():
        if words in said:
            return f"{path} {explanation} (SQLite: {said})"
    return f"{path}: SQLite failed: {said}"


def _code(error: sqlite3.Error) -> str:
    return getattr(error, "sqlite_errorname", None) or ""
