"""How many jobs are in which state."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class NameStats:
    """The numbers of the jobs of one name."""

    delayed: int = 0
    unclaimed: int = 0
    claimed: int = 0
    trashed: int = 0


@dataclass(frozen=True, slots=True)
class BoardStats:
    """The numbers of a whole board; ``oldest_unclaimed`` is in seconds since that job was posted, or None."""

    delayed: int = 0
    unclaimed: int = 0
    claimed: int = 0
    trashed: int = 0
    names: dict[str, NameStats] = field(default_factory=dict)
    oldest_unclaimed: float | None = None
