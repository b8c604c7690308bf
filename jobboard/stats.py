"""How many jobs are in which state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields


@dataclass(frozen=True, slots=True)
class NameStats:
    """The numbers of the jobs of one name."""

    delayed: int = 0
    unclaimed: int = 0
    claimed: int = 0
    trashed: int = 0
    blocked: int = 0


#: The states whose jobs are counted, by the names of the numbers.
COUNTED = tuple(each.name for each in fields(NameStats))


@dataclass(frozen=True, slots=True)
class BoardStats:
    """The numbers of a whole board.

    ``oldest_unclaimed`` is for how many seconds the job that is due longest could be claimed; None if there is none.
    """

    delayed: int = 0
    unclaimed: int = 0
    claimed: int = 0
    trashed: int = 0
    blocked: int = 0
    names: dict[str, NameStats] = field(default_factory=dict)
    oldest_unclaimed: float | None = None

    @classmethod
    def of(cls, names: Mapping[str, NameStats], oldest_unclaimed: float | None) -> BoardStats:
        """Return the numbers of a board, which are the sums of those of its names; these are sorted."""
        totals = {state: sum(getattr(stats, state) for stats in names.values()) for state in COUNTED}
        # A damaged row may have bytes for a name, which don't compare with text.
        by_name = dict(sorted(names.items(), key=lambda item: str(item[0])))
        return cls(**totals, names=by_name, oldest_unclaimed=oldest_unclaimed)
