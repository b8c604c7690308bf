"""The lookers' primitives. What can be told from the listing is; bodies and records are read, many in one request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import islice

from jobboard.backends.ordered import walk
from jobboard.backends.rows import JobRow, Page
from jobboard.backends.zookeeper.checks import uuid_in
from jobboard.backends.zookeeper.client import Client
from jobboard.backends.zookeeper.moves import is_hidden
from jobboard.backends.zookeeper.record import Record
from jobboard.backends.zookeeper.requests import MultiRead
from jobboard.events import HistoryEntry
from jobboard.states import JobState
from jobboard.stats import BoardStats, NameStats

_COUNTED = (JobState.DELAYED, JobState.UNCLAIMED, JobState.CLAIMED, JobState.TRASHED)


class Reading(Client):
    """Pages begin above the place of the last entry of the page before."""

    def read(self, uuids: Sequence[str]) -> list[JobRow | None]:
        self._begin()
        return [None if record is None else record.copy() for record in self._visible(uuids)]

    def history(self, uuid: str) -> list[HistoryEntry]:
        self._begin()
        (record,) = self._visible([uuid])
        return [] if record is None else record.lines()

    def _visible(self, uuids: Sequence[str]) -> list[Record | None]:
        return self._shown(self._editor.records(uuids)) if uuids else []

    def _shown(self, records: list[Record | None]) -> list[Record | None]:
        now = self._clock.now()
        return [None if record is None or is_hidden(record, now) else record for record in records]

    def find(self, name: str, key: str) -> JobRow | None:
        self._begin()
        request = MultiRead()
        request.get(self._line.chroot + self._layout.key(name, key))
        (holder,) = self._line.read(request)
        if holder is None:
            return None
        (record,) = self._editor.records([uuid_in(holder)])
        return record.copy() if record is not None and record.is_live else None

    def page(
        self, states: Collection[JobState], names: frozenset[str] | None, cursor: object | None, size: int
    ) -> Page:
        if cursor is not None and not isinstance(cursor, int):
            raise TypeError(f"not a cursor of this backend: {cursor!r}")
        self._look_around()
        with self._listing.lock:
            orders = [order for state in states for order in self._listing.lines[state].orders(names)]
            places = list(islice(walk(orders, cursor), size))
            uuids = [self._listing.by_place[place].uuid for place in places]
        records = self._editor.records(uuids)
        for uuid, record in zip(uuids, records, strict=True):
            if record is None:
                # It was deleted by hand, or is of a newer format, and would be listed as ready for ever.
                self._tracker.correct(uuid, None)
        rows = [record.copy() for record in self._shown(records) if record is not None and record.state in states]
        return Page(rows, places[-1] if len(places) == size else None)

    def stats(self) -> BoardStats:
        now = self._look_around()
        with self._listing.lock:
            delayed, unclaimed, claimed, trashed = (len(self._listing.lines[state]) for state in _COUNTED)
            names = self._stats_by_name()
            oldest = min(self._listing.heads(), key=lambda item: item.sequence, default=None)
        # Only the job's znode knows when it was posted.
        (record,) = [None] if oldest is None else self._editor.records([oldest.uuid])
        age = None if record is None else max(0.0, now - record.created_on)
        return BoardStats(delayed, unclaimed, claimed, trashed, names, age)

    def _stats_by_name(self) -> dict[str, NameStats]:
        counts = [
            Counter({name: len(order) for name, order in self._listing.lines[state].by_name.items()})
            for state in _COUNTED
        ]
        return {name: NameStats(*(count[name] for count in counts)) for name in sorted(set().union(*counts))}

    def count(self) -> int:
        self._look_around()
        with self._listing.lock:
            return self._listing.count()
