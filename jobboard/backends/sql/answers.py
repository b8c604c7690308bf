"""Answers of a server that always have rows, and what it means if one has none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from jobboard.errors import ReplyLost

R = TypeVar("R")


def not_empty(rows: Sequence[R], where: str) -> Sequence[R]:
    """Return the rows, or the results, of an answer.

    :raises ReplyLost: there are none, so this is not the answer to what was asked.
    """
    if not rows:
        raise ReplyLost(f"{where} gave an empty answer, which may be that to another request; is a proxy before it?")
    return rows
