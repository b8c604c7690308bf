"""What the store keeps of one job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from operator import attrgetter

from jobboard.backends.ordered import PriorityIndex, SortedKeys, first_of_each_span
from jobboard.backends.rows import JobRow, NewJob
from jobboard.backends.ties import ties_of
from jobboard.backends.transition import Note, is_among
from jobboard.events import EventKind, HistoryEntry
from jobboard.validation import moment

_all_fields = attrgetter(*(field.name for field in fields(JobRow)))

#: Above every sequence, and every moment in microseconds: a priority, a moment and a sequence make one number.
_SEQUENCES, _MOMENTS = 1 << 48, 1 << 52


class StoredJob(JobRow):
    """A row, and where it stands; callers get copies.

    ``index`` is None for what is only remembered, so that a repeated request is known: the job was cancelled, or its
    retention is over. ``position`` is its key in the index: a lower one is claimed earlier. ``due`` is the moment for
    which it is in the timers. ``aliases`` are the uuids of the postings that replaced its content.
    """

    __slots__ = ("aliases", "due", "index", "notes", "position")

    index: PriorityIndex[int] | None
    due: float | None
    position: int
    notes: list[Note]
    aliases: list[str]

    def rank(self) -> None:
        """Take the position that priority, place and sequence give."""
        self.position = (round(self.place * 1e6) - self.priority * _MOMENTS) * _SEQUENCES + self.sequence

    def copy(self) -> JobRow:
        """Return what callers may have."""
        return JobRow(*_all_fields(self))

    def twin(self) -> StoredJob:
        """Return a copy that stands nowhere, to try a change on."""
        twin = StoredJob(*_all_fields(self))
        twin.index, twin.due, twin.position, twin.notes, twin.aliases = None, None, 0, list(self.notes), []
        return twin

    def told(self) -> list[HistoryEntry]:
        """Return the lines of the history, oldest first."""
        return [HistoryEntry(kind, who, moment(at), token, reason) for kind, who, at, token, reason in self.notes]

    def has_note(self, kinds: tuple[EventKind, ...], token: int | None = None, who: str | None = None) -> bool:
        return is_among(self.notes, kinds, token, who)


def sequence_of(position: int) -> int:
    """Return the sequence of the row that has this position."""
    return position % _SEQUENCES


def first_of_each_priority(positions: SortedKeys[int]) -> Iterator[int]:
    """Iterate over the first position of each priority that is there."""
    return first_of_each_span(positions, _SEQUENCES * _MOMENTS)


def draft(new: NewJob, now: float) -> StoredJob:
    """Return the row of a new job, which stands nowhere yet."""
    row = StoredJob(new.uuid, new.name, new.priority, 0, now, new.body, new.key)
    row.ties = ties_of(new, now)
    row.index, row.due, row.notes, row.aliases = None, None, [], []
    return row
