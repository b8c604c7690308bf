"""Looks at a board. The listing answers what it can; jobs are read, many in one request."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import attrgetter

from jobboard.backends.kv.clock import ServerClock
from jobboard.backends.ordered import numbers_by_name
from jobboard.backends.rows import JobRow, Page
from jobboard.backends.zookeeper.change_log import ChangeLogReader
from jobboard.backends.zookeeper.codec import uuid_in
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.job_reader import JobReader
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.listing import Listing
from jobboard.backends.zookeeper.read_modify_write import ReadModifyWrite
from jobboard.backends.zookeeper.stored_job import StoredJob
from jobboard.backends.zookeeper.upkeep import Upkeep
from jobboard.events import HistoryEntry
from jobboard.states import JobState
from jobboard.stats import BoardStats, NameStats

#: A page of at most this many jobs is read in the request that catches up with the board.
MAX_READ_WITH_LOOK = 32

#: As the numbers of :class:`NameStats` are sorted.
_COUNTED = (JobState.DELAYED, JobState.UNCLAIMED, JobState.CLAIMED, JobState.TRASHED, JobState.BLOCKED)


class BoardReader:
    """Reads what callers ask about a board. A page begins after the place of the last job of the page before.

    :param seen: is filled with the jobs of the last page of what can be claimed, most of which are claimed next.
    """

    def __init__(
        self,
        connection: Connection,
        layout: Layout,
        clock: ServerClock,
        listing: Listing,
        change_log: ChangeLogReader,
        reader: JobReader,
        jobs: ReadModifyWrite,
        upkeep: Upkeep,
        seen: dict[str, StoredJob],
    ) -> None:
        self._connection, self._layout, self._clock, self._listing = connection, layout, clock, listing
        self._change_log, self._reader, self._jobs, self._upkeep = change_log, reader, jobs, upkeep
        self._seen = seen

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
        return self._page(states, names, cursor, size, frozenset(), {})

    def claimable(self, names: frozenset[str] | None, cursor: object | None, size: int) -> Page:
        """The listing knows what is paused as of its last look."""
        read = self._catch_up_and_read(names, cursor, size)
        with self._listing.lock:
            paused = self._listing.closed
        return Page([], None) if None in paused else self._page({JobState.UNCLAIMED}, names, cursor, size, paused, read)

    def outlook(self, names: frozenset[str] | None) -> JobState | None:
        self._upkeep.catch_up()
        with self._listing.lock:
            return self._listing.outlook(names)

    def _catch_up_and_read(
        self, names: frozenset[str] | None, cursor: object | None, size: int
    ) -> dict[str, StoredJob]:
        """Catch up with the board, and read in the same request what will probably be on a small page."""
        uuids: list[str] = []
        if size <= MAX_READ_WITH_LOOK:
            with self._listing.lock:
                uuids += self._listing.page({JobState.UNCLAIMED}, names, _place(cursor), size).values()
        deleted, *found = self._change_log.refresh([self._layout.deleted, *map(self._layout.job, uuids)])
        self._upkeep.expire_and_promote()
        return {job.uuid: job for job in self._reader.decoded(uuids, deleted, found)}

    def _page(
        self,
        states: Collection[JobState],
        names: frozenset[str] | None,
        cursor: object | None,
        size: int,
        paused: frozenset[str | None],
        read: dict[str, StoredJob],
    ) -> Page:
        """Return a page of what is listed.

        :param read: jobs that were read already.
        """
        with self._listing.lock:
            listed = self._listing.page(states, names, _place(cursor), size, paused)
            items = [self._listing.items[uuid] for uuid in listed.values()]
        ahead = [read.get(item.uuid) for item in items]
        jobs: list[StoredJob | None]
        if all(job is not None and job.zxid == item.zxid for job, item in zip(ahead, items, strict=True)):
            jobs = self._jobs.with_long_values(ahead)
        else:
            jobs = self._jobs.current(list(listed.values()))
        for uuid, job in zip(listed.values(), jobs, strict=True):
            if job is None:
                # It was deleted by hand, or is of a newer format, and would be listed as ready for ever.
                self._change_log.correct(uuid, None)
        shown = [job for job in self._shown(jobs) if job is not None and job.state in states]
        # A job that was admitted to its lane since it was listed has another place now.
        shown.sort(key=attrgetter("claim_order"))
        self._seen.clear()
        self._seen.update((job.uuid, job) for job in shown if job.state is JobState.UNCLAIMED)
        return Page([job.copy() for job in shown], list(listed)[-1] if len(listed) == size else None)

    def stats(self) -> BoardStats:
        now = self._upkeep.catch_up()
        with self._listing.lock:
            numbers = numbers_by_name([self._listing.indexes[state] for state in _COUNTED])
            due = min((item.became_due for item in self._listing.heads()), default=None)
        age = None if due is None else max(0.0, now - due)
        return BoardStats.of({name: NameStats(*each) for name, each in numbers.items()}, age)

    def count(self) -> int:
        self._upkeep.catch_up()
        with self._listing.lock:
            return self._listing.count()


def _place(cursor: object | None) -> int | None:
    """Return the place after which a page begins."""
    if cursor is not None and not isinstance(cursor, int):
        raise TypeError(f"not a cursor of this backend: {cursor!r}")
    return cursor
