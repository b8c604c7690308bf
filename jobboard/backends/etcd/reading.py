"""Shows jobs without changing them: reads, pages and numbers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from functools import partial

from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.expiry import Expiry
from jobboard.backends.etcd.job_reader import JobReader
from jobboard.backends.etcd.keys import behind, decoded, is_order, parts_of_order
from jobboard.backends.etcd.layout import VersionedJob, is_hidden
from jobboard.backends.etcd.ready_queue import ReadyQueue, merged
from jobboard.backends.etcd.stored import readable_claim
from jobboard.backends.etcd.txn import Found, KeyValue, Op, after, count_prefix, get, kvs_of, scan, scan_prefix
from jobboard.backends.rows import JobRow, Page
from jobboard.events import HistoryEntry
from jobboard.states import LIVE, JobState
from jobboard.stats import BoardStats, NameStats

#: How many places of a page are read at once behind those that held no job of the wanted states.
_PASSED_AT_ONCE = 500

#: The states that have queues by name, by the letter in the key.
_LETTERS = {"d": "delayed", "b": "blocked", "u": "unclaimed", "t": "trashed"}


class Reading:
    """Pages are ranges of keys, which sort as jobs are claimed."""

    def __init__(self, connection: Connection, reader: JobReader, expiry: Expiry, queue: ReadyQueue) -> None:
        self._connection = connection
        self._keys = connection.keys
        self._reader = reader
        self._expiry = expiry
        self._queue = queue
        #: The names that this client knows.
        self._names: frozenset[bytes] = frozenset()

    def read(self, uuids: Sequence[str]) -> list[JobRow | None]:
        return [None if job is None else job.row.view() for job in self._shown(uuids)]

    def _shown(self, uuids: Sequence[str]) -> list[VersionedJob | None]:
        jobs, now = self._expiry.read(uuids), self._connection.now()
        return [
            None if job is None or job.row.uuid != uuid or is_hidden(job, now) else job
            for uuid, job in zip(uuids, jobs, strict=True)
        ]

    def history(self, uuid: str) -> list[HistoryEntry]:
        (job,) = self._shown([uuid])
        return [] if job is None else job.row.history_entries()

    def find(self, name: str, key: str) -> JobRow | None:
        def read() -> tuple[list[VersionedJob | None], None]:
            pointers = self._connection.read([get(self._keys.key(name, key))])
            return self._reader.read_at([pointer.value for pointer in kvs_of(pointers)]), None

        for job in self._expiry.repeat_while_due(read)[0]:
            if job is not None and job.row.is_live and (job.row.name, job.row.key) == (name, key):
                return job.row.view()
        return None

    # -- pages -----------------------------------------------------------------------------------------------------

    def page(
        self, states: Collection[JobState], names: frozenset[str] | None, cursor: object | None, size: int
    ) -> Page:
        if names is None or JobState.COMPLETE in states:
            read = partial(self._page_of_all, states)
        else:
            read = partial(self._page_of_names, states, names)
        jobs, end = self._expiry.repeat_while_due(partial(read, behind(cursor, b""), size))
        rows = self._rows_of(jobs, states, names)
        if not rows and end is not None:
            # Jobs in other states stand first, such as those that are claimed.
            jobs, end = self._expiry.repeat_while_due(partial(read, behind(end, b""), max(size, _PASSED_AT_ONCE)))
            rows = self._rows_of(jobs, states, names)
        return Page(rows, end)

    def _rows_of(
        self, jobs: Sequence[VersionedJob | None], states: Collection[JobState], names: frozenset[str] | None
    ) -> list[JobRow]:
        now = self._connection.now()
        rows = [job.row.view() for job in jobs if job is not None and not is_hidden(job, now)]
        return [row for row in rows if row.state in states and (names is None or row.name in names)]

    def claimable(self, names: frozenset[str] | None, cursor: object | None, size: int) -> Page:
        """Read the queues as far as the page goes, and then the jobs."""
        start = behind(cursor, b"")

        def read() -> tuple[list[VersionedJob | None], bytes | None]:
            orders, end = self._queue.orders(names, start, size)
            return self._reader.read_live(orders), end

        jobs, end = self._expiry.repeat_while_due(read)
        return Page(self._rows_of(jobs, {JobState.UNCLAIMED}, names), end)

    def outlook(self, names: frozenset[str] | None) -> JobState | None:
        found = self._queue.next_ready(names)
        if found.due == 0.0:
            return JobState.UNCLAIMED
        return JobState.BLOCKED if found.may_exchange else None

    def _page_of_all(
        self, states: Collection[JobState], start: bytes, size: int
    ) -> tuple[list[VersionedJob], bytes | None]:
        """Read records in their order, and the claims of those that are live."""
        keys = self._keys
        wanted = ((LIVE, keys.live), ({JobState.COMPLETE}, keys.done), ({JobState.TRASHED}, keys.trashed))
        places = [prefix for those, prefix in wanted if not those.isdisjoint(states)]
        ops: list[Op] = [_part_of(prefix, start, size) for prefix in places]
        ops += [_part_of(keys.claims, start, size), scan_prefix(keys.sessions, keys_only=True)]
        *found, claims, sessions = self._expiry.read_board(ops)
        claim_at = {kv.key[len(keys.claims) :]: kv for kv in claims.kvs}
        leases = self._keys.leases_of(sessions)
        kvs, end = merged(places, found, size)
        return [self._reader.job_from(kv, claim_at.get(at), leases) for at, kv in kvs.items() if is_order(at)], end

    def _page_of_names(
        self, states: Collection[JobState], names: frozenset[str], start: bytes, size: int
    ) -> tuple[list[VersionedJob], bytes | None]:
        """Read the places of the jobs of some names, and then the jobs."""
        keys = self._keys
        places = [
            keys.queue(name, state) for name in sorted(names) for state in states if state is not JobState.CLAIMED
        ]
        ops = [_part_of(place, start, size, keys_only=True) for place in places]
        if names and JobState.CLAIMED in states:
            # Claims have no queue by name. There are only as many as conductors hold; ``page`` drops the other names.
            places.append(keys.claims)
            ops.append(_part_of(keys.claims, start, size, keys_only=True))
        if not places:
            return [], None
        found = self._expiry.read_board(ops)
        kvs, end = merged(places, found, size)
        return [job for job in self._reader.read_at(list(kvs)) if job is not None], end

    # -- numbers ---------------------------------------------------------------------------------------------------

    def stats(self) -> BoardStats:
        keys = self._keys
        priorities = [keys.ready_jobs + b"%02d" % (99 - priority) for priority in range(1, 6)]
        heads = [scan_prefix(priority, 1, keys_only=True) for priority in priorities]
        # Another thread may learn of more names meanwhile.
        places = [(name, letter) for name in sorted(self._names) for letter in _LETTERS]
        counts = [count_prefix(keys.queues + name + b"/" + letter.encode() + b"/") for name, letter in places]
        claims, total, *found = self._expiry.read_board(
            [scan_prefix(keys.claims), count_prefix(keys.queues), *counts, *heads]
        )
        by_place = {place: part.total for place, part in zip(places, found, strict=False)}
        if sum(by_place.values()) != total.total:
            # There are names that this client does not know yet.
            return self._stats_by_listing(heads)
        return self._stats_of(by_place, claims, found[len(counts) :])

    def _stats_by_listing(self, heads: Sequence[Op]) -> BoardStats:
        claims, queues, *found = self._expiry.read_board(
            [scan_prefix(self._keys.claims), scan_prefix(self._keys.queues, keys_only=True), *heads]
        )
        parts = [kv.key[len(self._keys.queues) :].split(b"/") for kv in queues.kvs]
        known = {letter.encode(): letter for letter in _LETTERS}
        count = Counter((part[0], known[part[1]]) for part in parts if len(part) == 3 and part[1] in known)
        self._names = frozenset(name for name, _ in count)
        return self._stats_of(count, claims, found)

    def _stats_of(self, count: dict[tuple[bytes, str], int], claims: Found, heads: Sequence[Found]) -> BoardStats:
        counted = [(decoded(name), _LETTERS[letter], number) for (name, letter), number in count.items() if number]
        counted += [(_name_of(kv), "claimed", 1) for kv in claims.kvs]
        by_name = defaultdict[str, Counter[str]](Counter)
        for name, state, number in counted:
            by_name[name][state] += number
        names = {name: NameStats(**numbers) for name, numbers in by_name.items()}
        return BoardStats.of(names, self._oldest_age(heads))

    def _oldest_age(self, heads: Sequence[Found]) -> float | None:
        orders = [kv.key[len(self._keys.ready_jobs) :] for kv in kvs_of(heads)]
        due = [parts_of_order(order)[1] for order in orders if is_order(order)]
        return max(0.0, self._connection.now() - min(due)) if due else None

    def count(self) -> int:
        return self._expiry.read_board([count_prefix(self._keys.live)])[0].total


def _name_of(claim: KeyValue) -> str:
    found = readable_claim(claim.value)
    return "unknown" if found is None else found.name


def _part_of(prefix: bytes, start: bytes, size: int, *, keys_only: bool = False) -> Op:
    return scan(prefix + start, after(prefix), size, keys_only=keys_only)
