"""How a statement finds the rows again that a part of it has found: by their places, or by their keys.

A place (``ctid``) leaves the planner no choice, but only PostgreSQL itself has it. A key is looked up in a join, where
the board is the other table's too, and in a list: then no index can begin with it, and a plan for few jobs does not
begin with all of the board.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import text

from jobboard.backends.sql.schema import CLAIMED
from jobboard.backends.sql.statement import Statement

_BOARD = "CAST(:board AS int)"
# In this order the index of what is due has them, and no other.
_OF_CLAIMED = f"FROM jobboard_jobs WHERE board = {_BOARD} AND state = {CLAIMED} ORDER BY due_at"


@dataclass(frozen=True, slots=True)
class RowIdentity:
    """
    :ivar columns: what a row is found by.
    :ivar from_heads: follows ``UPDATE jobboard_jobs AS job SET ...``: the jobs whose columns ``heads`` has.
    :ivar ends: the table of ``ends`` that is made of a list, ``{0}``, with columns, ``{1}``.
    :ivar is_of_end: whether a ``job`` is the one that ``ends`` names.
    :ivar claimed: the claimed jobs, as the index of what is due says.
    """

    columns: str
    from_heads: str
    ends: str
    is_of_end: str
    claimed: str


BY_PLACE = RowIdentity(
    columns="ctid",
    from_heads="WHERE job.ctid = ANY (ARRAY(SELECT ctid FROM heads))",
    ends="{0} AS ends {1}",
    is_of_end=f"job.ctid = (SELECT ctid FROM jobboard_jobs WHERE board = {_BOARD} AND uuid = ends.uuid)",  # nosec B608 # constants
    claimed=f"(SELECT * FROM jobboard_jobs WHERE ctid = ANY (ARRAY(SELECT ctid {_OF_CLAIMED})) OFFSET 0)",  # nosec B608 # constants
)
BY_KEY = RowIdentity(
    columns="board, uuid",
    from_heads="FROM heads WHERE job.board = ANY (ARRAY[heads.board]) AND job.uuid = heads.uuid",
    ends=f"(SELECT {_BOARD} AS board, listed.* FROM {{0}} AS listed {{1}} OFFSET 0) AS ends",  # nosec B608 # constants
    is_of_end="job.board = ANY (ARRAY[ends.board]) AND job.uuid = ends.uuid",
    claimed=f"(SELECT * {_OF_CLAIMED} OFFSET 0)",  # nosec B608 # constants
)


def by_identity(words: Callable[[RowIdentity], str]) -> Statement:
    """Return a statement in the words for each way to find rows again."""
    return Statement(text(words(BY_PLACE)), distributed=text(words(BY_KEY)))
