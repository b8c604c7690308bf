"""Looks at a board of which a part may be away: what that leaves unknown is told, and the rest all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from jobboard.backends.partial import PartialReads
from jobboard.errors import BoardUnavailable

T = TypeVar("T")


class PartlyKnown:
    """The looks of one answer.

    :ivar reads: what they read by.
    :ivar unknown: what they could not find out.
    """

    def __init__(self) -> None:
        self.reads = PartialReads()
        self.unknown: list[str] = []

    def look(self, read: Callable[[], T], unknown: str) -> T | None:
        """Return what is there, as far as it is told; None if nothing of it is.

        :param unknown: what nobody knows if a part of the board is away, as a part of a sentence.
        :raises BoardUnavailable: the store can't be reached, and the board has no parts.
        """
        self.reads.is_partial = False
        try:
            with self.reads:
                return read()
        except BoardUnavailable:
            if not self.reads.is_partial:
                raise
            return None
        finally:
            if self.reads.is_partial:
                self.unknown.append(unknown)

    def __str__(self) -> str:
        """Say which parts are away, and what is unknown therefore."""
        away = " ".join(f"Shard {number} does not answer: {why}." for number, why in sorted(self.reads.away.items()))
        return f"{away} Unknown meanwhile: {'; '.join(self.unknown)}. See the shards with: jobboard shards"
