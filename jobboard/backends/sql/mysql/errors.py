"""What MariaDB and MySQL say, in words that say what to do."""

from __future__ import annotations

from jobboard.backends.sql.server_errors import ServerErrors

NO_NULL, DUPLICATE, LOCK_TIMEOUT = 1048, 1062, 1205
UNKNOWN_PREPARED, TOO_MANY_PREPARED = 1243, 1461
PACKET_TOO_LARGE = 1153
NOT_READY = 1047
NO_TABLE, NO_DATABASE, NONE_CHOSEN = 1146, 1049, 1046

#: Deadlocks, rows that changed since the snapshot, and keys that somebody else inserted meanwhile.
_RETRYABLE = {1213, 1020, DUPLICATE}
#: The connection is gone: lost, killed, or the server was shut down; or it is of no use, since its node is not ready.
#: PyMySQL has 0 for one that it closed itself.
_CUT = {0, NOT_READY, 1053, 1080, 1152, 1158, 1159, 1160, 1161, 1927, 2006, 2013, 2055, 4031}

_READ_ONLY = "is read-only; is it a replica?"
_FULL = "can't write, since the disk is full; make room"
_AGAIN = "run the transaction again from its beginning"
_BY_CODE = {
    1213: f"undid a transaction that would have locked itself out with another one; {_AGAIN}",
    1020: f"undid a transaction, since a row had changed since it began; {_AGAIN}",
    DUPLICATE: f"has a row of this key, which another transaction inserted; {_AGAIN}",
    1040: "has too many connections; lower pool_size, or raise max_connections",
    1203: "has too many connections of this user; lower pool_size",
    1044: "refuses this user; check the name, the password and the grants",
    1045: "refuses this user; check the name, the password and the grants",
    1698: "refuses this user; check the name, the password and the grants",
    1142: "denies a right; see 'Rights' in the docs of the MySQL board",
    NO_DATABASE: "has no such database; create it first",
    NONE_CHOSEN: "needs the name of a database: mysql://HOST/DATABASE",
    NO_TABLE: "has lost a table; restore it from a backup",
    1054: "has lost a column; restore it from a backup",
    LOCK_TIMEOUT: "has a row locked by another transaction, which does not end; see information_schema.innodb_trx",
    1290: _READ_ONLY,
    1792: _READ_ONLY,
    1836: _READ_ONLY,
    NOT_READY: "is a node of a cluster that is not ready: it joins, or is cut off from most nodes; see wsrep_ready",
    1021: _FULL,
    1114: _FULL,
    PACKET_TOO_LARGE: "can't take a value this large; raise max_allowed_packet",
    1665: "logs statements, and can't at READ COMMITTED; set binlog_format to ROW or MIXED",
    1317: "ended a statement that somebody killed",
    1969: "ended a statement that took too long",
    3024: "ended a statement that took too long",
}


class MysqlErrors(ServerErrors):
    server = "MySQL"
    unverified = {
        "SSL is required": "has no TLS, which a server on another host needs; give it TLS, or say ssl_disabled=true",
        "CERTIFICATE_VERIFY_FAILED": "can't be verified; say ssl_ca=FILE with the certificate of its authority",
    }

    def is_retryable(self, error: Exception) -> bool:
        return code_of(error) in _RETRYABLE

    def is_key_taken(self, error: Exception) -> bool:
        return code_of(error) == DUPLICATE

    def is_locked(self, error: Exception) -> bool:
        return code_of(error) == LOCK_TIMEOUT

    def is_cut(self, error: Exception) -> bool:
        return code_of(error) in _CUT

    def is_table_missing(self, error: Exception) -> bool:
        return code_of(error) in {NO_TABLE, NO_DATABASE, NONE_CHOSEN}

    def is_too_large(self, error: Exception) -> bool:
        return code_of(error) == PACKET_TOO_LARGE

    def is_silent(self, error: Exception) -> bool:
        return self.is_cut(error) and isinstance(error.__context__, TimeoutError)

    def explanation(self, error: Exception) -> str | None:
        return _BY_CODE.get(code_of(error) or 0)

    def words(self, error: Exception) -> str:
        return str(error.args[1] if len(error.args) > 1 else error) or "the connection is closed"


def code_of(error: BaseException | None) -> int | None:
    code = error.args[0] if error is not None and error.args else None
    return code if isinstance(code, int) else None
