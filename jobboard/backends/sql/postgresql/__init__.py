"""Boards in PostgreSQL, by psycopg."""

from jobboard.backends.sql.postgresql.backend import PostgresqlBackend

__all__ = ["PostgresqlBackend"]
