"""What a transaction changes, as it stands in the log: for those who keep a listing, and for those who hear events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jobboard.backends.zookeeper.checks import COUNT, MOMENT, TEXT, check_moments, check_types
from jobboard.backends.zookeeper.record import THIS, Note, Record, sequence_of
from jobboard.backends.zookeeper.wire import pack, unpack
from jobboard.events import EventKind, JobEvent
from jobboard.states import JobState
from jobboard.validation import moment

_STATES = {state.value: state for state in JobState}
_KINDS = {kind.value: kind for kind in EventKind}
_INDEX_BITS = (1 << 10) - 1


class Listed(NamedTuple):
    """What a listing knows of a job.

    ``due`` is the moment at which it must be looked at: a delay is over, a claim ends, a completed record is hidden.
    """

    uuid: str
    name: str
    priority: int
    sequence: int
    state: JobState
    due: float | None
    presence: str | None


def listed(record: Record) -> Listed:
    return Listed(
        record.uuid, record.name, record.priority, record.sequence, record.state, due_of(record), record.presence
    )


def due_of(record: Record) -> float | None:
    if record.state is JobState.CLAIMED:
        return record.expires_at
    if record.state is JobState.DELAYED:
        return record.run_at
    return record.until if record.state is JobState.COMPLETE else None


#: Kind, uuid, name, who, token, reason.
_Told = tuple[EventKind, str | None, str | None, str | None, int | None, str | None]

_Scheduled = tuple[str, bool, float | None]


@dataclass
class Change:
    """What one transaction does; ``gone`` are the jobs that it deletes without a trace."""

    items: list[Listed] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    told: list[_Told] = field(default_factory=list)
    #: Schedules: id, whether it is there, and when it is due next.
    schedules: list[_Scheduled] = field(default_factory=list)
    #: About how many bytes it will be.
    size: int = 0

    def wrote(self, record: Record) -> None:
        """Take in a record that is about to be written; one that is new has no sequence but its place in the batch."""
        item = listed(record)
        self.size += 150 + len(record.name.encode())
        self.items.append(item if record.sequence else item._replace(sequence=record.index))
        self._tell(record)

    def dropped(self, record: Record) -> None:
        self.gone.append(record.uuid)
        self.size += 40
        self._tell(record)

    def _tell(self, record: Record) -> None:
        for note in record.told:
            told = _told_of(record, note)
            self.told.append(told)
            self.size += 80 + sum(len(text.encode()) for text in (told[2], told[3], told[5]) if text)

    def tell(self, kind: EventKind, name: str | None) -> None:
        """Tell of what concerns no single job."""
        self.told.append((kind, None, name, None, None, None))

    @property
    def makes_claimable(self) -> bool:
        """Whether somebody who knows nothing of it could claim a job that is not the best any more."""
        return any(item.state is JobState.UNCLAIMED for item in self.items)

    def pack(self) -> bytes:
        return pack(
            [
                [
                    (uuid, name, priority, _parts_of(sequence), state.value, due, presence)
                    for uuid, name, priority, sequence, state, due, presence in self.items
                ],
                self.gone,
                [(kind.value, *rest) for kind, *rest in self.told],
                self.schedules,
            ]
        )


def _told_of(record: Record, note: Note) -> _Told:
    kind, who, _, token, reason = note
    return (kind, record.uuid, record.name, who, token, reason)


def _parts_of(sequence: int) -> Any:
    """A sequence that is only a place in the batch stands for itself."""
    return sequence if sequence <= _INDEX_BITS else [sequence >> 10, sequence & _INDEX_BITS]


class Logged(NamedTuple):
    """A change that was made: its number in the log, its transaction, and the server's moment."""

    number: int
    zxid: int
    milliseconds: int
    items: list[Listed]
    gone: list[str]
    told: list[_Told]
    schedules: list[_Scheduled]

    def events(self) -> Iterable[JobEvent]:
        at = moment(self.milliseconds / 1000)
        for kind, uuid, name, who, token, reason in self.told:
            yield JobEvent(kind, uuid, name, who, self.zxid if token == THIS else token, at, reason)


def made(change: Change, number: int, zxid: int, milliseconds: int) -> Logged:
    """Return a change of this client's own as it stands in the log now."""
    items = [
        item if item.sequence > _INDEX_BITS else item._replace(sequence=sequence_of(zxid, item.sequence))
        for item in change.items
    ]
    return Logged(number, zxid, milliseconds, items, change.gone, change.told, change.schedules)


_ITEM: list[tuple[type, ...]] = [(str,), (str,), COUNT, (int, list), (str,), MOMENT, TEXT]
_EVENT: list[tuple[type, ...]] = [(str,), TEXT, TEXT, TEXT, (int, type(None)), TEXT]
_SCHEDULED: list[tuple[type, ...]] = [(str,), (bool,), MOMENT]


def read_change(data: bytes, number: int, zxid: int, milliseconds: int) -> Logged:
    """Return what stands in the log; raises ``ValueError`` if it is nothing of the kind."""
    try:
        items, gone, told, schedules = unpack(data)
        check_types(gone, [(str,)] * len(gone))
        for item in items:
            check_types(item, _ITEM)
            check_moments(item[5])
        for event in told:
            check_types(event, _EVENT)
        for scheduled in schedules:
            check_types(scheduled, _SCHEDULED)
            check_moments(scheduled[2])
        return Logged(
            number,
            zxid,
            milliseconds,
            [
                Listed(
                    uuid, name, priority, sequence_of(*(parts if isinstance(parts, list) else (zxid, parts))),
                    _STATES[state], due, presence,
                )
                for uuid, name, priority, parts, state, due, presence in items
            ],
            gone,
            [(_KINDS[kind], *rest) for kind, *rest in told],
            [tuple(scheduled) for scheduled in schedules],
        )  # fmt: skip
    except (TypeError, IndexError, KeyError) as error:
        raise ValueError(f"not a change: {error}") from None
