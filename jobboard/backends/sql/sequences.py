"""PostgreSQL's sequences that are behind the rows that they number; other databases count by the rows.

A restore of single tables leaves them so, and logical replication does not carry them. They would give numbers again.
"""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import false, literal_column, select, text

from jobboard.backends.sql.dialect import Dialect
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.transaction import Transaction

_LAST = {
    "boards": "SELECT max(id) FROM jobboard_boards",
    "jobs": "SELECT max(id) FROM jobboard_jobs",
    "journal": "SELECT max(id) FROM jobboard_journal",
}
_EACH = " UNION ALL ".join(
    f"SELECT pg_get_serial_sequence('jobboard_{table}', 'id') AS name, ({last}) AS highest"  # nosec B608 # constants
    for table, last in _LAST.items()
)
#: The name of each, and the highest number of a row. A sequence that was set and gave no number yet says nothing to
#: logins that may only take numbers, and counts as one that is at its beginning.
BEHIND = Statement(
    select(literal_column("NULL"), literal_column("NULL")).where(false()),
    postgresql=text(f"""
        SELECT name, highest FROM ({_EACH}) AS sequences
        WHERE name IS NOT NULL AND highest > coalesce(pg_sequence_last_value(CAST(name AS regclass)), 0)
    """),  # nosec B608 # constants
)
#: The keys of numbers that a sequence gave; an error about one of them says how to mend the sequence.
_KEYS = re.compile(r"(boards|jobs|journal)_pkey\b")


def behind_their_rows(transaction: Transaction) -> list[str]:
    """Return a sentence about each sequence that is behind its rows."""
    return [
        f"the sequence {name} is behind its rows, the last of which is number {highest}; run `jobboard migrate`"
        for name, highest in transaction.rows(BEHIND)
    ]


def is_number_taken(words: str) -> bool:
    """Whether a server's words about a key that is there are about a number that a sequence gave."""
    return _KEYS.search(words) is not None


def mend(cursor: Any, dialect: Dialect) -> list[str]:
    """Set those that are behind to go on after the rows, in a transaction; return their names. None goes back.

    Raises the driver's own errors.
    """
    transaction = Transaction(cursor, dialect, 0, 0.0)
    if not transaction.rows(BEHIND):
        return []
    # Nobody takes a number meanwhile.
    tables = ", ".join(dialect.table_names.table(name) for name in ("boards", "jobs", "journal"))
    cursor.execute(f"LOCK TABLE {tables} IN SHARE ROW EXCLUSIVE MODE".encode())
    behind = transaction.rows(BEHIND)
    for name, highest in behind:
        cursor.execute(f"SELECT setval('{name}', greatest({highest}, (SELECT last_value FROM {name})))".encode())  # nosec B608 # names of ours
    return [str(name) for name, _ in behind]
