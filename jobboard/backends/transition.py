"""What a request has made of a job, as :mod:`~jobboard.backends.lifecycle` returns it to a store."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from jobboard.backends.edge_rows import Outcome
from jobboard.backends.rows import NewJob, is_by
from jobboard.events import EventKind

Answer = TypeVar("Answer")


class Note(NamedTuple):
    """What happened to a job: an event, and most often a line of its history."""

    kind: EventKind
    who: str | None
    at: float
    token: int | None = None
    reason: str | None = None


def is_among(
    notes: Iterable[tuple[str, str | None, float, int | None, str | None]],
    kinds: Collection[EventKind],
    token: int | None,
    who: str | None,
) -> bool:
    """Whether one of these notes tells of such a change: under this token, if given, and by this owner, if given."""
    return any(kind in kinds and is_by(token, who, its_token, its_who) for kind, its_who, _, its_token, _ in notes)


@dataclass(frozen=True, slots=True)
class Admit:
    """What follows for a lane: it is looked at once all rows of the step are changed (``lanes.plan``)."""

    lane: str


@dataclass(frozen=True, slots=True)
class Resolve:
    """What follows for the children of a job that has ended, or is back: a mark of its own (``EdgeStore``)."""

    parent: str
    outcome: Outcome
    name: str = ""
    result: bytes | None = field(default=None, repr=False)
    is_cut: bool = False


@dataclass(slots=True)
class Transition(Generic[Answer]):
    """What a request has made of a row: the answer to it, and what is told, in order; nothing if it was refused.

    ``history``: what of it the job's history gets. ``retention``: for how many seconds a row that is COMPLETE now is
    shown; 0.0: to nobody.
    ``follow``: what follows for other jobs of its lane. ``resolve``: how it stands as a parent now, for its children.
    The store carries both out in the same atomic step, once the row is written; or it writes a mark in that step, which
    the next claim, wait or tidy works off.
    ``posts``: what is posted in the same atomic step. Those of the request may be refused (``Refused``), and then
    nothing happens at all; those of the record keep a live job that has their key.
    """

    answer: Answer
    told: tuple[Note, ...] = ()
    history: tuple[Note, ...] = ()
    retention: float = 0.0
    follow: tuple[Admit, ...] = ()
    resolve: Resolve | None = None
    posts: tuple[NewJob, ...] = ()
