"""What a request has made of a job, as :mod:`~jobboard.backends.lifecycle` returns it to a store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from jobboard.events import EventKind

Answer = TypeVar("Answer")


class Note(NamedTuple):
    """What happened to a job: an event, and most often a line of its history."""

    kind: EventKind
    who: str | None
    at: float
    token: int | None = None
    reason: str | None = None


@dataclass(slots=True)
class Transition(Generic[Answer]):
    """What a request has made of a row: the answer to it, and what is told, in order; nothing if it was refused.

    ``history``: what of it the job's history gets. ``retention``: for how many seconds a row that is COMPLETE now is
    shown; 0.0: to nobody.
    """

    answer: Answer
    told: tuple[Note, ...] = ()
    history: tuple[Note, ...] = ()
    retention: float = 0.0
