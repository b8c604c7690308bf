"""Boards in SQL databases, by SQLAlchemy Core; SQLite is the embedded default."""

from jobboard.backends.sql.sqlite import SqliteBackend

__all__ = ["SqliteBackend"]
