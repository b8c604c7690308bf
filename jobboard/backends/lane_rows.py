"""The plain data about limits and lanes that crosses the seam. Times are seconds since the epoch."""

from __future__ import annotations

from dataclasses import dataclass

from jobboard.backends.rows import JobRow, Verdict
from jobboard.limit import Limit


@dataclass(frozen=True, slots=True)
class LimitRow:
    """A limit as stored; the writer makes ``version`` anew, and it fences the next change.

    ``is_pending``: lanes may not be as the limit says until each was looked at. One that limits nothing stands for
    one that is removed, until then.
    """

    limit: Limit
    version: str
    is_pending: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """What there is one limit of: ``"name"`` and a name, or ``"lane"`` and a pattern."""
        limit = self.limit
        return ("name", str(limit.name)) if limit.lane is None else ("lane", limit.lane)

    def verdict(self, stored: str | None, after: str | None) -> Verdict:
        """Return what becomes of it if this is the stored version (None: none); DONE: it can be written."""
        is_gone = stored is None and after is not None and self.limit.is_empty and not self.is_pending
        if stored == self.version or is_gone:
            return Verdict.REPEATED
        return Verdict.DONE if stored == after else Verdict.LOST


@dataclass(frozen=True, slots=True)
class LaneRow:
    """How many live jobs a lane has: claimed, claimable, DELAYED after a claim, and BLOCKED.

    ``oldest`` is the place of its first BLOCKED job; None if there is none.
    """

    lane: str
    claimed: int = 0
    claimable: int = 0
    retrying: int = 0
    blocked: int = 0
    oldest: float | None = None


@dataclass(frozen=True, slots=True)
class LanePage:
    """Some lanes, and where the next page begins; ``cursor`` None is the end."""

    lanes: list[str]
    cursor: object | None


@dataclass(frozen=True, slots=True)
class LaneDetail:
    """A lane, some of the jobs that hold its slots, and the seconds until its rate admits another (None: no rate).

    ``holders``: claimed ones, then claimable ones, then those that are retrying, which hold slots of strict lanes only.
    """

    row: LaneRow
    holders: list[JobRow]
    next_in: float | None


@dataclass(frozen=True, slots=True)
class NameShare:
    """How many jobs of a limited name a shard may run, how many run there (None: it does not say), and some of these.

    ``moves``: shards take turns with what they may run; otherwise it is divided among them for good.
    """

    shard: int
    moves: bool
    running: int
    claimed: int | None
    holders: list[JobRow]
