"""Boards in SQL databases, by SQLAlchemy Core; SQLite is the embedded default.

The backends of servers are imported by their entry points only, since each needs a library of its own.
"""

from jobboard.backends.sql.sqlite.backend import SqliteBackend

__all__ = ["SqliteBackend"]
