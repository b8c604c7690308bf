"""What a producer says about a job: its posting, and its priority."""

from __future__ import annotations

import enum
import uuid as uuids
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from jobboard.book import LogBook


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


@dataclass(frozen=True, slots=True)
class Posting:
    """One job for :meth:`JobBoard.post_many`; the fields are the arguments of :meth:`JobBoard.post`."""

    name: str
    book: LogBook | None = None
    details: dict[str, Any] | None = None
    priority: JobPriority | str = JobPriority.NORMAL
    key: str | None = None
    if_exists: Literal["raise", "keep", "replace"] = "raise"
    run_at: datetime | None = None
    delay: float | None = None
    uuid: str | uuids.UUID | None = None
    max_attempts: int | None = None

    def __repr__(self) -> str:
        return f"<Posting {self.name!r}{f' key={self.key!r}' if self.key else ''}>"
