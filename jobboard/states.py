"""The states of a job, and its priorities."""

from __future__ import annotations

import enum
from typing import NoReturn


class JobState(str, enum.Enum):
    """Where a job is in its life; there are no other states."""

    DELAYED = "DELAYED"
    BLOCKED = "BLOCKED"
    UNCLAIMED = "UNCLAIMED"
    CLAIMED = "CLAIMED"
    COMPLETE = "COMPLETE"
    TRASHED = "TRASHED"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise ValueError(f"there is no state {value!r}; there are {', '.join(cls)}")

    def __str__(self) -> str:
        return self.value


#: The states in which a job is on the board, and its key is taken.
LIVE = frozenset({JobState.DELAYED, JobState.BLOCKED, JobState.UNCLAIMED, JobState.CLAIMED})


class JobPriority(enum.IntEnum):
    """The larger is claimed first; within one priority the oldest is."""

    VERY_LOW = 1
    LOW = 2
    NORMAL = 3
    HIGH = 4
    VERY_HIGH = 5

    @classmethod
    def convert(cls, value: object) -> JobPriority:
        """Return a priority given as such, or as its name in any case."""
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            try:
                return cls[value.upper()]
            except KeyError:
                known = ", ".join(priority.name for priority in reversed(cls))
                raise ValueError(f"unknown priority {value!r}; there are {known}") from None
        raise TypeError(f"priority must be a JobPriority or its name, not {type(value).__name__}")

    def __str__(self) -> str:
        return self.name


#: The priorities by their numbers: to look one up takes a tenth of the time of ``JobPriority(number)``.
PRIORITIES = {priority.value: priority for priority in JobPriority}
