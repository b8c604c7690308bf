"""Which of PostgreSQL's sequences are behind the rows that they number; other databases count by the rows."""

from __future__ import annotations

from sqlalchemy import false, literal_column, select, text

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


def behind_their_rows(transaction: Transaction) -> list[str]:
    """Return a sentence about each sequence that is behind its rows."""
    return [
        f"the sequence {name} is behind its rows, the last of which is number {highest}; run `jobboard migrate`"
        for name, highest in transaction.rows(BEHIND)
    ]
