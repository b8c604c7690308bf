"""Tokens: the number of a job's row above, the number of its claim below.

No row's number is used twice, so that a job that was purged or forgotten, and is posted again under the same uuid,
goes on above the tokens of the first one; and no claim has to ask for a counter. Rows of an older version go on from
the token that they have.
"""

from __future__ import annotations

#: A job would have to be claimed so often to meet the tokens of a later row. It leaves room for 2**39 rows.
_CLAIMS = 1 << 24

#: What a claim sets the token to.
NEXT_TOKEN = f"CASE WHEN jobboard_jobs.token = 0 THEN jobboard_jobs.id * {_CLAIMS} ELSE jobboard_jobs.token END + 1"


def next_token(row: int, token: int) -> int:
    """Return what ``NEXT_TOKEN`` is for a row."""
    return (token or row * _CLAIMS) + 1


def row_of(token: int) -> int:
    """Return the row that has a token; rows of an older version may have others."""
    return token // _CLAIMS


def number_of_claims(token: int) -> int:
    """Return how often a job was claimed, by its last token."""
    # An SQLite file may hold anything anywhere.
    return token % _CLAIMS if isinstance(token, int) else 0
