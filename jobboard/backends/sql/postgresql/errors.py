"""What PostgreSQL says, in words that say what to do."""

from __future__ import annotations

import psycopg

from jobboard.backends.sql.sequences import is_number_taken
from jobboard.backends.sql.server_errors import ServerErrors

#: A key that is there, and a table that is not.
_TAKEN, _NO_TABLE = "23505", "42P01"
#: Deadlocks, serialization failures, and keys that somebody else inserted meanwhile.
_RETRYABLE = {"40P01", "40001", _TAKEN}
_LOCK_TIMEOUT = "55P03"
#: The server ended the connection: an operator's command, a crash, a shutdown, nothing sent for too long.
_ENDED = {"57P01", "57P02", "57P03", "57P05", "25P03", "08000", "08003", "08006"}

_REFUSED = "refuses this user; check the name, the password and pg_hba.conf"
_REFUSALS = ("authentication failed", "no pg_hba.conf entry", "pg_hba.conf rejects", "no password supplied", 'role "')

_NO_DATABASE = "has no such database; create it first"
_SHARED = "has given this session to others; is a pooler before it? Say mode=distributed"

#: The code begins with this -> what to do.
_AGAIN = "run the transaction again from its beginning"
_BY_CODE = {
    "40P01": f"undid a transaction that would have locked itself out with another one; {_AGAIN}",
    "40001": f"undid a transaction, since a row had changed since it began; {_AGAIN}",
    _TAKEN: f"has a row of this key, which another transaction inserted; {_AGAIN}",
    "28": _REFUSED,
    "3D000": _NO_DATABASE,
    "3F000": "has no such schema; name the one for the tables by schema=",
    "26000": _SHARED,
    "42P05": _SHARED,
    "42501": "denies a right; see 'Rights' in the docs of the PostgreSQL board",
    _NO_TABLE: "has lost a table; restore it from a backup",
    "42703": "has lost a column; restore it from a backup",
    "25006": "is read-only; is it a replica?",
    "53100": "can't write, since the disk is full; make room",
    "53300": "has too many connections; lower pool_size, or raise max_connections",
    _LOCK_TIMEOUT: "has a row locked by another transaction, which does not end; see pg_stat_activity",
    "57014": "ended a statement that took longer than statement_timeout",
    "57P03": "is starting up or shutting down",
    "25P02": "has undone this transaction after an error in it",
    "54": "can't take a value this large",
}


class PostgresqlErrors(ServerErrors):
    server = "PostgreSQL"
    unverified = {
        "does not support SSL": "has no TLS, which a server on another host needs; give it TLS, or say sslmode=disable",
        "root certificate": "can't be verified; say sslrootcert=FILE with its authority's, or sslrootcert=system",
        "certificate verify failed": "shows a certificate that none of the authorities of sslrootcert has signed",
    }

    def is_retryable(self, error: Exception) -> bool:
        return _code(error) in _RETRYABLE and not is_number_taken(str(error))

    def is_key_taken(self, error: Exception) -> bool:
        return _code(error) == _TAKEN

    def is_locked(self, error: Exception) -> bool:
        return _code(error) == _LOCK_TIMEOUT

    def is_table_missing(self, error: Exception) -> bool:
        return _code(error) == _NO_TABLE

    def is_too_large(self, error: Exception) -> bool:
        return _code(error).startswith("54")

    def is_cut(self, error: Exception) -> bool:
        if not isinstance(error, psycopg.Error):
            return False
        is_of_connection = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        return error.sqlstate in _ENDED or (error.sqlstate is None and is_of_connection)

    def is_silent(self, error: Exception) -> bool:
        # The class is psycopg's own, and may change; then it is taken for a cut.
        return type(error).__name__ == "_WaitTimeout"

    def explanation(self, error: Exception) -> str | None:
        code = _code(error)
        if code == _TAKEN and is_number_taken(str(error)):
            return "has a sequence that is behind its rows; run `jobboard migrate` with the login that owns the tables"
        return next((explanation for mark, explanation in _BY_CODE.items() if code.startswith(mark)), None)

    def words(self, error: Exception) -> str:
        return " ".join(str(error).split()) or type(error).__name__

    def refusal(self, error: Exception) -> str | None:
        # libpq hands on no code, only what the server said; in English unless told else.
        text = str(error)
        if 'database "' in text and text.rstrip().endswith('" does not exist'):
            return _NO_DATABASE
        return super().refusal(error) or (_REFUSED if any(mark in text for mark in _REFUSALS) else None)


def is_for_the_long_way(error: BaseException | None) -> bool:
    """Whether a key is there, or a table is not: then the long way says what that means."""
    return _code(error) in (_TAKEN, _NO_TABLE)


def _code(error: BaseException | None) -> str:
    # A user's connection may be psycopg2's, or SQLAlchemy's of asyncpg: their errors have the same code.
    return getattr(error, "sqlstate", None) or getattr(error, "pgcode", None) or ""
