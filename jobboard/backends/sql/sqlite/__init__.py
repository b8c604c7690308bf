"""Boards in SQLite: a file, with no server."""

from jobboard.backends.sql.sqlite.backend import SqliteBackend

__all__ = ["SqliteBackend"]
