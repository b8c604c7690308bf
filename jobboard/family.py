"""What a job waits for, and what waits for it, as users see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from jobboard.states import JobState


@dataclass(frozen=True, slots=True)
class Parent:
    """A job that another one waits for, or has waited for.

    :ivar state: COMPLETE, TRASHED, or the state of one that has not ended; None for one that was cancelled or purged.
    :ivar result: what its handler returned, whatever has become of its record.
    :ivar is_result_cut: whether that was longer than 64 KiB and the record is gone, so that it can't be read.
    """

    uuid: str
    name: str
    state: JobState | None
    result: Any = field(default=None, repr=False)
    is_result_cut: bool = False


@dataclass(frozen=True, slots=True)
class Child:
    """A job that waits for another one, or has waited for it; ``state`` None: it is gone."""

    uuid: str
    name: str
    state: JobState | None


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a durable handler that is done; ``number`` counts the steps of the job from 0."""

    number: int
    name: str
    at: datetime
    result: Any = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal that was sent to a job."""

    name: str
    at: datetime
    value: Any = field(default=None, repr=False)
