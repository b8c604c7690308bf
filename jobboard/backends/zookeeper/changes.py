"""What a transaction changes, as it stands in the log: clients keep their listings by it, and hear of events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jobboard.backends.kv.codec import (
    FLAG,
    LIST,
    NUMBER,
    NUMBER_OR_NONE,
    TEXT,
    TEXT_OR_NONE,
    WHOLE,
    WHOLE_OR_NONE,
    Kind,
    check_kinds,
    pack,
    unpack,
)
from jobboard.backends.lifecycle import due_at
from jobboard.backends.zookeeper.codec import check_moments
from jobboard.backends.zookeeper.stored_job import PLACE_BITS, THIS, StoredJob, sequence_of
from jobboard.backends.zookeeper.timers import ListedGuard, ListedMark
from jobboard.events import EventKind, JobEvent
from jobboard.states import JobState
from jobboard.validation import moment

_STATES = {state.value: state for state in JobState}
_KINDS = {kind.value: kind for kind in EventKind}
MAX_INDEX = (1 << PLACE_BITS) - 1


class Listed(NamedTuple):
    """What a listing knows of a job.

    ``place`` is the moment at which the job became due: :data:`THIS` stands for that of the transaction.
    ``due`` is the moment at which it must be looked at: time changes it then, or a completed record is hidden.
    ``lane`` is that which a live job has joined, or will; ``was_claimed`` says that it was claimed before, or is.
    """

    uuid: str
    name: str
    priority: int
    sequence: int
    state: JobState
    due: float | None
    presence: str | None
    place: float
    lane: str | None = None
    was_claimed: bool = False


def listed(job: StoredJob) -> Listed:
    item = Listed(job.uuid, job.name, job.priority, job.sequence, job.state, _due_of(job), job.presence, job.place)
    if job.joined_lane is None or not job.is_live:
        return item
    return item._replace(lane=job.joined_lane, was_claimed=job.token != 0)


def _due_of(job: StoredJob) -> float | None:
    return job.until if job.state is JobState.COMPLETE else due_at(job)


#: Kind, uuid, name, who, token, reason.
Event = tuple[EventKind, str | None, str | None, str | None, int | None, str | None]

#: A schedule's id, whether it exists, and when it is due next.
ListedSchedule = tuple[str, bool, float | None]


@dataclass
class Change:
    """What one transaction does; ``deleted`` are the jobs that it deletes without a trace."""

    items: list[Listed] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    told: list[Event] = field(default_factory=list)
    schedules: list[ListedSchedule] = field(default_factory=list)
    guards: list[ListedGuard] = field(default_factory=list)
    marks: list[ListedMark] = field(default_factory=list)
    #: About how many bytes it will be.
    size: int = 0

    def add_written(self, job: StoredJob) -> None:
        """Add a job that is about to be written; a new one has no sequence yet but its place in the batch."""
        item = listed(job)
        self.size += 150 + len(job.name.encode())
        self.items.append(item if job.sequence else item._replace(sequence=job.index))
        self._add_events(job)

    def add_deleted(self, job: StoredJob) -> None:
        self.deleted.append(job.uuid)
        self.size += 40
        self._add_events(job)

    def _add_events(self, job: StoredJob) -> None:
        for kind, who, _, token, reason in job.told:
            self.told.append((kind, job.uuid, job.name, who, token, reason))
            self.size += 80 + sum(len(text.encode()) for text in (job.name, who, reason) if text)

    def add_mark(self, mark: ListedMark) -> None:
        """Add what the mark of a parent says now."""
        self.marks.append(mark)
        self.size += 20 + len(mark.parent)

    def add_event(self, kind: EventKind, name: str | None, who: str | None = None, reason: str | None = None) -> None:
        """Add an event that concerns no single job."""
        self.told.append((kind, None, name, who, None, reason))

    @property
    def makes_claimable(self) -> bool:
        """Whether the best job may be another one after it."""
        return any(item.state is JobState.UNCLAIMED for item in self.items)

    def pack(self) -> bytes:
        return pack(
            [
                [
                    (
                        *(item.uuid, item.name, item.priority, _parts_of(item.sequence), item.state.value),
                        *(item.due, item.presence, item.place),
                        *([] if item.lane is None else [item.lane, item.was_claimed]),
                    )
                    for item in self.items
                ],
                self.deleted,
                [(kind.value, *rest) for kind, *rest in self.told],
                self.schedules,
                *([self.guards] if self.guards or self.marks else []),
                *([self.marks] if self.marks else []),
            ]
        )


def _parts_of(sequence: int) -> Any:
    """Return a sequence as the log has it; one that is only a place in the batch stands as it is."""
    return sequence if sequence <= MAX_INDEX else [sequence >> PLACE_BITS, sequence & MAX_INDEX]


class LoggedChange(NamedTuple):
    """A change that was made: its number in the log, its transaction, and the server's moment."""

    number: int
    zxid: int
    milliseconds: int
    items: list[Listed]
    deleted: list[str]
    told: list[Event]
    schedules: list[ListedSchedule]
    guards: list[ListedGuard]
    marks: list[ListedMark]

    def events(self) -> Iterable[JobEvent]:
        at = moment(self.milliseconds / 1000)
        for kind, uuid, name, who, token, reason in self.told:
            yield JobEvent(kind, uuid, name, who, self.zxid if token == THIS else token, at, reason)


def logged(change: Change, number: int, zxid: int, milliseconds: int) -> LoggedChange:
    """Return a change of this client's own as it stands in the log now."""
    items = [
        item._replace(
            sequence=item.sequence if item.sequence > MAX_INDEX else sequence_of(zxid, item.sequence),
            place=milliseconds / 1000 if item.place == THIS else item.place,
        )
        for item in change.items
    ]
    rest = change.deleted, change.told, change.schedules, change.guards, change.marks
    return LoggedChange(number, zxid, milliseconds, items, *rest)


_ITEM: list[Kind] = [TEXT, TEXT, WHOLE, WHOLE | LIST, TEXT, NUMBER_OR_NONE, TEXT_OR_NONE, NUMBER]
_EVENT: list[Kind] = [TEXT, TEXT_OR_NONE, TEXT_OR_NONE, TEXT_OR_NONE, WHOLE_OR_NONE, TEXT_OR_NONE]
_SCHEDULE: list[Kind] = [TEXT, FLAG, NUMBER_OR_NONE]
_GUARD = _SCHEDULE
_MARK: list[Kind] = [TEXT, NUMBER_OR_NONE]


def decode_change(data: bytes, number: int, zxid: int, milliseconds: int) -> LoggedChange:
    """Return what stands in the log; raises ``ValueError`` if it is damaged."""
    try:
        items, deleted, told, schedules, *more = unpack(data)
        guards = [ListedGuard(*guard) for guard in more[0]] if more else []
        marks = [ListedMark(*mark) for mark in more[1]] if more[1:] else []
        check_kinds(deleted, [TEXT] * len(deleted))
        for event in told:
            check_kinds(event, _EVENT)
        for schedule in schedules:
            check_kinds(schedule, _SCHEDULE)
            check_moments(schedule[2])
        for guard in guards:
            check_kinds(guard, _GUARD)
            check_moments(guard.look_at)
        for mark in marks:
            check_kinds(mark, _MARK)
            check_moments(mark.due)
        return LoggedChange(
            number,
            zxid,
            milliseconds,
            [_decoded_item(item, zxid, milliseconds / 1000) for item in items],
            deleted,
            [(_KINDS[kind], *rest) for kind, *rest in told],
            [tuple(schedule) for schedule in schedules],
            guards,
            marks,
        )
    except (TypeError, IndexError, KeyError) as error:
        raise ValueError(f"not a change: {error}") from None


def _decoded_item(item: list[Any], zxid: int, at: float) -> Listed:
    if len(item) == len(_ITEM) - 1:
        # Of layout 1.
        item = [*item, THIS]
    check_kinds(item, _ITEM if len(item) == len(_ITEM) else [*_ITEM, TEXT, FLAG])
    uuid, name, priority, parts, state, due, presence, place, *lane = item
    check_moments(due, place)
    sequence = sequence_of(*(parts if isinstance(parts, list) else (zxid, parts)))
    return Listed(uuid, name, priority, sequence, _STATES[state], due, presence, at if place == THIS else place, *lane)
