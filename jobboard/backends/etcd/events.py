"""Events as they are stored: each change overwrites a key, which every subscriber watches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jobboard.backends.etcd.keys import Keys
from jobboard.backends.etcd.stored import StoredJob
from jobboard.backends.etcd.txn import Op, put
from jobboard.backends.kv.codec import (
    BYTES_OR_NONE,
    LIST,
    MAX_HISTORY_REASON,
    NUMBER,
    NUMBER_OR_NONE,
    TEXT,
    TEXT_OR_NONE,
    WHOLE_OR_NONE,
    check_kinds,
    items_of,
    pack,
)
from jobboard.backends.transition import Note
from jobboard.events import EventKind, JobEvent
from jobboard.states import JobState
from jobboard.text import shortened
from jobboard.validation import moment

#: What each event has; some have the order of their job as well, its lane, and the moment at which all waiters wake.
_KINDS = (TEXT, *[TEXT_OR_NONE] * 3, WHOLE_OR_NONE, NUMBER, TEXT_OR_NONE, NUMBER_OR_NONE)
_PLACE_KINDS = (BYTES_OR_NONE, TEXT_OR_NONE, NUMBER_OR_NONE)


@dataclass(frozen=True, slots=True)
class Event:
    """An event, and for waiters the moment from which a job of this name may be claimable.

    If a CLAIMED event has no ``token``, that is the revision of the event. ``due`` None: there is nothing to wait for.
    ``order`` and ``lane`` are those of a new job that can be claimed. At ``wakes_at`` jobs of any name may
    become claimable, unless what is to be done for that was done before.
    """

    kind: EventKind
    uuid: str | None
    name: str | None
    who: str | None
    token: int | None
    at: float
    reason: str | None = None
    due: float | None = None
    order: bytes | None = None
    lane: str | None = None
    wakes_at: float | None = None

    def job_event(self, revision: int) -> JobEvent:
        token = revision if self.kind is EventKind.CLAIMED and self.token is None else self.token
        return JobEvent(self.kind, self.uuid, self.name, self.who, token, moment(self.at), self.reason)


def event_of(row: StoredJob, note: Note) -> Event:
    """Return the event of a change that has made the row what it is."""
    due = 0.0 if row.claim is None and row.state is JobState.UNCLAIMED else row.due
    event = Event(note.kind, row.uuid, row.name, note.who, note.token, note.at, note.reason, due)
    if note.kind is not EventKind.POSTED or due != 0.0 or row.due is not None:
        return event
    return replace(event, order=row.order, lane=row.lane)


def event_ops(keys: Keys, events: Sequence[Event], slot: int = 0) -> list[Op]:
    """Return the operation that tells subscribers of these events, if there are any."""
    return [put(keys.event(slot), pack_events(events))] if events else []


def pack_events(events: Sequence[Event]) -> bytes:
    return pack([_packable(event) for event in events])


def _packable(event: Event) -> list[Any]:
    reason = shortened(event.reason, MAX_HISTORY_REASON)
    items = [event.kind.value, event.uuid, event.name, event.who, event.token, event.at, reason, event.due]
    if event.wakes_at is not None:
        return [*items, event.order, event.lane, event.wakes_at]
    return [*items, *(part for part in (event.order, event.lane) if part is not None)]


def unpack_events(data: bytes) -> Iterator[Event]:
    """Read stored events; raises ``ValueError`` on garbage."""
    for part in items_of(data, ())[1]:
        check_kinds((part,), (LIST,))
        place = part[len(_KINDS) :][: len(_PLACE_KINDS)]
        check_kinds(part[: len(_KINDS) + len(place)], (*_KINDS, *_PLACE_KINDS[: len(place)]))
        kind, *rest = part[: len(_KINDS)]
        yield Event(EventKind(kind), *rest, *place)
