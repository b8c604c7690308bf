"""Sequences that are behind the rows that they number.

A restore of single tables leaves them so, and logical replication does not carry them. They would give numbers again.
"""

from __future__ import annotations

import re
from typing import Any

from jobboard.backends.sql.dialect import Dialect
from jobboard.backends.sql.sequences import BEHIND
from jobboard.backends.sql.transaction import Transaction

#: The keys of numbers that a sequence gave: who sees one of them broken is told how to mend the sequence.
_KEYS = re.compile(r"(boards|jobs|journal)_pkey\b")


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
