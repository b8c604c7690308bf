"""Tokens: the moment of the claim above, the number of the job's claims below.

So a token grows with each claim of a job, also where the database went back to a copy that knows nothing of the claims
before, and where a job was purged or forgotten and is posted again under its uuid. No claim has to ask for a counter.
Where the clock went back, or an older version made a larger token, the next one is one more. Until the year 2059 they
stay below 2**53, so that every reader of JSON gets them whole.
"""

from __future__ import annotations

import math

#: Less time than this part of a second is never between two claims of a uuid with a purge in between.
_PER_SECOND = 100_000
#: The number of claims begins again after this many.
_CLAIMS = 32


def least_token(moment: float) -> int:
    """Return what the token of each claim made at this moment is larger than."""
    return math.floor(moment * _PER_SECOND) * _CLAIMS


def least_token_in_sql(moment: str, integer: str) -> str:
    """Return the same in SQL.

    :param moment: an expression of a float of 64 bits.
    :param integer: the type that a number of 64 bits is cast to.
    """
    return f"CAST(floor({moment} * {_PER_SECOND}) AS {integer}) * {_CLAIMS}"


def next_token(token: int, least: int) -> int:
    """Return the token of the next claim of a job.

    :param token: that of its last claim; 0 if there was none.
    :param least: of the moment of the claim.
    """
    return max(token, least + token % _CLAIMS) + 1


def next_token_in_sql(least: str, token: str = "jobboard_jobs.token") -> str:  # nosec B107 # a column
    """Return the same in SQL."""
    return f"CASE WHEN {token} < {least} THEN {least} + ({token} & {_CLAIMS - 1}) ELSE {token} END + 1"


def was_claimed_often(token: int) -> bool:
    """Whether a job may have a history that needs trimming, by its last token; of each 32 claims, some say no."""
    # An SQLite file may hold anything anywhere.
    return isinstance(token, int) and token % _CLAIMS > 5
