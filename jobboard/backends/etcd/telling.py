"""Events as they cross etcd: each change writes its own over a key that all who listen watch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jobboard.backends.etcd.rows import LONGEST_NOTE, Row
from jobboard.backends.etcd.values import (
    LIST,
    NUMBER,
    NUMBER_OR_NONE,
    TEXT,
    TEXT_OR_NONE,
    WHOLE_OR_NONE,
    check_kinds,
    items_of,
    pack,
)
from jobboard.backends.text import shortened
from jobboard.events import EventKind, JobEvent
from jobboard.states import JobState
from jobboard.validation import moment

_KINDS = (
    TEXT, TEXT_OR_NONE, TEXT_OR_NONE, TEXT_OR_NONE, WHOLE_OR_NONE, NUMBER, TEXT_OR_NONE, NUMBER_OR_NONE,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Told:
    """An event, and for those who wait: the moment from which a job of this name may be claimable.

    ``token`` None of a CLAIMED event is the revision in which it was told. ``due`` None: nothing to wait for.
    """

    kind: EventKind
    uuid: str | None
    name: str | None
    who: str | None
    token: int | None
    at: float
    reason: str | None = None
    due: float | None = None

    def event(self, revision: int) -> JobEvent:
        token = revision if self.kind is EventKind.CLAIMED and self.token is None else self.token
        return JobEvent(self.kind, self.uuid, self.name, self.who, token, moment(self.at), self.reason)


def told_of(
    row: Row,
    kind: EventKind,
    at: float,
    who: str | None = None,
    token: int | None = None,
    reason: str | None = None,
) -> Told:
    """Tell of a change that has made the row what it is."""
    due = 0.0 if row.grant is None and row.state is JobState.UNCLAIMED else row.due
    return Told(kind, row.uuid, row.name, who, token, at, reason, due)


def pack_told(events: Sequence[Told]) -> bytes:
    parts = [
        (e.kind.value, e.uuid, e.name, e.who, e.token, e.at, shortened(e.reason, LONGEST_NOTE), e.due) for e in events
    ]
    return pack(parts)


def unpack_told(data: bytes) -> Iterator[Told]:
    """Read what was told; raises ``ValueError`` on garbage."""
    for part in items_of(data, ())[1]:
        check_kinds((part,), (LIST,))
        check_kinds(part, _KINDS)
        kind, *rest = part
        yield Told(EventKind(kind), *rest)
