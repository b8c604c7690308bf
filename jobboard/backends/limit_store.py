"""The seam's role for limits and lanes."""

from __future__ import annotations

import abc
from collections.abc import Sequence

from jobboard.backends.lane_rows import LaneDetail, LanePage, LaneRow, LimitRow
from jobboard.backends.rows import Verdict
from jobboard.errors import NotSupported


class LimitStore(abc.ABC):
    """The limits of a board, and the lanes that they hold for."""

    @abc.abstractmethod
    def all(self) -> list[LimitRow]:
        """Return all limits, in any order; one that can't be decoded is left out."""

    @abc.abstractmethod
    def put(self, row: LimitRow, after: str | None) -> Verdict:
        """Write a limit if the stored version is ``after`` (None: there must be none): DONE, REPEATED or LOST.

        Told as LIMITED. Of a name, it holds from then on, and wakes waiters; an empty one is deleted. Of a lane, every
        later change and look goes by it; the writer looks at its lanes, and calls :meth:`finish`. A repeat finds its
        own version, or for an empty limit of a name none: REPEATED.
        """

    @abc.abstractmethod
    def finish(self, row: LimitRow) -> None:
        """Note that all lanes of this version were looked at; an empty limit is deleted. Idempotent."""

    @abc.abstractmethod
    def look(self, lanes: Sequence[str]) -> list[str]:
        """Bring up to 100 lanes to what their limits allow, each atomically; return those that need another look now.

        A repeat finds less to do, or nothing.
        """

    @abc.abstractmethod
    def lanes(self, pattern: str, cursor: object | None, size: int) -> LanePage:
        """Return the next lanes of a pattern that have live jobs, in an order of the store's own; None is the head.

        A lane that has jobs throughout an iteration is seen, perhaps more than once.
        """

    @abc.abstractmethod
    def longest(self, count: int) -> list[LaneRow]:
        """Return the lanes that have live jobs and the most BLOCKED ones, these first; one consistent look at each."""

    @abc.abstractmethod
    def lane(self, lane: str, count: int) -> LaneDetail:
        """Return the numbers of a lane, and up to ``count`` of its jobs that are claimed, claimable or retrying."""


class NoLimits(LimitStore):
    """What a store has that keeps no ties: no limits, and no lanes."""

    def all(self) -> list[LimitRow]:
        return []

    def put(self, row: LimitRow, after: str | None) -> Verdict:
        raise NotSupported("this store keeps no limits")

    def finish(self, row: LimitRow) -> None:
        """There is nothing to finish."""

    def look(self, lanes: Sequence[str]) -> list[str]:
        return []

    def lanes(self, pattern: str, cursor: object | None, size: int) -> LanePage:
        return LanePage([], None)

    def longest(self, count: int) -> list[LaneRow]:
        return []

    def lane(self, lane: str, count: int) -> LaneDetail:
        return LaneDetail(LaneRow(lane), [], None)
