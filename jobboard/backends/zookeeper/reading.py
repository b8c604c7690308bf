"""Looks at a board. The listing answers what it can; jobs are read, many in one request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from jobboard.backends.rows import JobRow, Page
from jobboard.backends.zookeeper.change_log import ChangeLogReader
from jobboard.backends.zookeeper.clock import Clock
from jobboard.backends.zookeeper.codec import uuid_in
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.listing import Listing
from jobboard.backends.zookeeper.read_modify_write import ReadModifyWrite
from jobboard.backends.zookeeper.stored_job import StoredJob
from jobboard.backends.zookeeper.upkeep import Upkeep
from jobboard.events import HistoryEntry
from jobboard.states import JobState
from jobboard.stats import BoardStats, NameStats

_COUNTED = (JobState.DELAYED, JobState.UNCLAIMED, JobState.CLAIMED, JobState.TRASHED)


class BoardReader:
    """Reads what callers ask about a board. A page begins after the place of the last job of the page before."""

    def __init__(
        self,
        connection: Connection,
        layout: Layout,
        clock: Clock,
        listing: Listing,
        change_log: ChangeLogReader,
        jobs: ReadModifyWrite,
        upkeep: Upkeep,
    ) -> None:
        self._connection, self._layout, self._clock, self._listing = connection, layout, clock, listing
        self._change_log, self._jobs, self._upkeep = change_log, jobs, upkeep

    def read(self, uuids: Sequence[str]) -> list[JobRow | None]:
        return [None if job is None else job.copy() for job in self._read_shown(uuids)]

    def history(self, uuid: str) -> list[HistoryEntry]:
        (job,) = self._read_shown([uuid])
        return [] if job is None else job.history_entries()

    def _read_shown(self, uuids: Sequence[str]) -> list[StoredJob | None]:
        return self._shown(self._jobs.current(uuids)) if uuids else []

    def _shown(self, jobs: list[StoredJob | None]) -> list[StoredJob | None]:
        now = self._clock.now()
        return [None if job is None or job.is_hidden(now) else job for job in jobs]

    def find(self, name: str, key: str) -> JobRow | None:
        holder = self._connection.read_one(self._layout.key(name, key))
        if holder is None:
            return None
        (job,) = self._jobs.current([uuid_in(holder)])
        return job.copy() if job is not None and job.is_live else None

    def claimed_under(self, claim_id: str) -> list[JobRow]:
        self._upkeep.catch_up()
        with self._listing.lock:
            places = list(self._listing.indexes[JobState.CLAIMED].whole)
            uuids = [self._listing.by_place[place].uuid for place in places]
        return [
            job.copy()
            for job in self._jobs.current(uuids)
            if job is not None and job.state is JobState.CLAIMED and job.claim_id == claim_id
        ]

    def page(
        self, states: Collection[JobState], names: frozenset[str] | None, cursor: object | None, size: int
    ) -> Page:
        self._upkeep.catch_up()
        return self._page(states, names, cursor, size, frozenset())

    def claimable(self, names: frozenset[str] | None, cursor: object | None, size: int) -> Page:
        """The listing knows what is paused as of its last look."""
        self._upkeep.catch_up()
        paused = self._listing.paused
        return Page([], None) if None in paused else self._page({JobState.UNCLAIMED}, names, cursor, size, paused)

    def _page(
        self,
        states: Collection[JobState],
        names: frozenset[str] | None,
        cursor: object | None,
        size: int,
        paused: frozenset[str | None],
    ) -> Page:
        if cursor is not None and not isinstance(cursor, int):
            raise TypeError(f"not a cursor of this backend: {cursor!r}")
        with self._listing.lock:
            listed = self._listing.page(states, names, cursor, size, paused)
        jobs = self._jobs.current(list(listed.values()))
        for uuid, job in zip(listed.values(), jobs, strict=True):
            if job is None:
                # It was deleted by hand, or is of a newer format, and would be listed as ready for ever.
                self._change_log.correct(uuid, None)
        rows = [job.copy() for job in self._shown(jobs) if job is not None and job.state in states]
        return Page(rows, list(listed)[-1] if len(listed) == size else None)

    def stats(self) -> BoardStats:
        now = self._upkeep.catch_up()
        with self._listing.lock:
            delayed, unclaimed, claimed, trashed = (len(self._listing.indexes[state]) for state in _COUNTED)
            names = self._stats_by_name()
            oldest = min(self._listing.heads(), key=lambda item: item.sequence, default=None)
        # Only the job's znode knows when it was posted.
        (job,) = [None] if oldest is None else self._jobs.current([oldest.uuid])
        age = None if job is None else max(0.0, now - job.created_on)
        return BoardStats(delayed, unclaimed, claimed, trashed, names, age)

    def _stats_by_name(self) -> dict[str, NameStats]:
        counts = [
            Counter({name: len(order) for name, order in self._listing.indexes[state].by_name.items()})
            for state in _COUNTED
        ]
        return {name: NameStats(*(count[name] for count in counts)) for name in sorted(set().union(*counts))}

    def count(self) -> int:
        self._upkeep.catch_up()
        with self._listing.lock:
            return self._listing.count()
