"""Reads of a whole board that go without the parts of it that are away, and say which those are.

Such a read fails if a part is away, or somebody would take a part of an answer for all of it. Who can say what is
missing reads within :class:`PartialReads`.
"""

from __future__ import annotations

from collections.abc import Collection
from contextvars import ContextVar, Token
from typing import Self


class PartialReads:
    """The reads of a ``with`` block go without what is away; it may be entered again, by one thread at a time.

    :ivar away: why each part that is away does not answer, by its number; it is not asked again.
    :ivar is_partial: whether a read has gone without one of them, or has failed because of it.
    """

    def __init__(self) -> None:
        self.away: dict[int, str] = {}
        self.is_partial = False

    def __enter__(self) -> Self:
        self._before: Token[PartialReads | None] = _reads.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _reads.reset(self._before)

    def leave_out(self, number: int, why: str) -> None:
        """Learn that a part is away."""
        self.away[number] = why
        self.is_partial = True

    def among(self, numbers: Collection[int]) -> list[int]:
        """Return those of these parts that are not known to be away."""
        found = [number for number in numbers if number not in self.away]
        self.is_partial = self.is_partial or len(found) < len(numbers)
        return found


_reads: ContextVar[PartialReads | None] = ContextVar("jobboard_partial_reads", default=None)


def partial_reads() -> PartialReads | None:
    """Return the block in which this thread reads; None: what it reads must be whole."""
    return _reads.get()
