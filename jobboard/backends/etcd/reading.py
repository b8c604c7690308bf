"""The lookers' primitives."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Sequence

from jobboard.backends.etcd.changing import SETTLING, Changing
from jobboard.backends.etcd.claiming import is_hidden
from jobboard.backends.etcd.keys import decoded, is_order
from jobboard.backends.etcd.layout import Stored
from jobboard.backends.etcd.rows import Grant, Hint
from jobboard.backends.etcd.txn import Found, KeyValue, Op, after, count_prefix, get, scan, scan_prefix
from jobboard.backends.rows import JobRow, Page
from jobboard.events import HistoryEntry
from jobboard.states import LIVE, JobState
from jobboard.stats import BoardStats, NameStats

#: The states that have lines by name, by the letter that stands in the key.
_LETTERS = {"d": "delayed", "u": "unclaimed", "t": "trashed"}


class Reading(Changing):
    """Pages are ranges of keys that sort in the order of claims."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self._names: frozenset[bytes] = frozenset()

    def read(self, uuids: Sequence[str]) -> list[JobRow | None]:
        return [None if job is None else job.row.view() for job in self._shown(uuids)]

    def _shown(self, uuids: Sequence[str]) -> list[Stored | None]:
        self._check_open()
        jobs, now = self._read_settled(uuids), self.now()
        return [
            None if job is None or job.row.uuid != uuid or is_hidden(job, now) else job
            for uuid, job in zip(uuids, jobs, strict=True)
        ]

    def history(self, uuid: str) -> list[HistoryEntry]:
        (job,) = self._shown([uuid])
        return [] if job is None else job.row.told()

    def find(self, name: str, key: str) -> JobRow | None:
        self._check_open()
        deadline = time.monotonic() + SETTLING
        while True:
            (pointer,) = self._ask([get(self.keys.key(name, key))])
            if pointer.first is None:
                return None
            (job,) = jobs = self._fetch_at([pointer.first.value])
            if not self._settle(jobs):
                is_it = job is not None and job.row.is_live and (job.row.name, job.row.key) == (name, key)
                return job.row.view() if job is not None and is_it else None
            self._until(deadline, f"the job {name!r} with the key {key!r} is due all the time")

    # -- pages -----------------------------------------------------------------------------------------------------

    def page(
        self, states: Collection[JobState], names: frozenset[str] | None, cursor: object | None, size: int
    ) -> Page:
        if cursor is not None and not isinstance(cursor, bytes):
            raise TypeError(f"not a cursor of this backend: {cursor!r}")
        start = b"" if cursor is None else cursor + b"\0"
        self._check_open()
        by_name = names is not None and JobState.COMPLETE not in states
        deadline = time.monotonic() + SETTLING
        while True:
            if by_name:
                jobs, end = self._page_of_lines(states, names or frozenset(), start, size)
            else:
                jobs, end = self._page_of_all(states, start, size)
            if not self._settle(jobs):
                break
            self._until(deadline, "jobs become due all the time")
        now = self.now()
        entries = [job.row.view() for job in jobs if not is_hidden(job, now)]
        shown = [entry for entry in entries if entry.state in states and (names is None or entry.name in names)]
        return Page(shown, end)

    def _page_of_all(self, states: Collection[JobState], start: bytes, size: int) -> tuple[list[Stored], bytes | None]:
        """Read records in their order, and the claims beside those that are live."""
        keys = self.keys
        wanted = ((LIVE, keys.live), ({JobState.COMPLETE}, keys.done), ({JobState.TRASHED}, keys.trashed))
        places = [prefix for those, prefix in wanted if not those.isdisjoint(states)]
        ops: list[Op] = [_part_of(prefix, start, size) for prefix in places]
        ops += [_part_of(keys.claims, start, size), scan_prefix(keys.sessions, keys_only=True)]
        *found, claims, sessions = self._look(ops)
        claim_at = {kv.key[len(keys.claims) :]: kv for kv in claims.kvs}
        leases = self._leases_of(sessions)
        kvs = {kv.key[len(prefix) :]: kv for prefix, part in zip(places, found, strict=True) for kv in part.kvs}
        orders, end = _cut(kvs, [(prefix, part) for prefix, part in zip(places, found, strict=True)], size)
        jobs = []
        for order in filter(is_order, orders):
            kv = kvs[order]
            if kv.key.startswith(keys.live):
                jobs.append(self._live_from(order, kv, claim_at.get(order), leases))
            else:
                row = self._row_from(order, kv, None)
                row.state = JobState.COMPLETE if kv.key.startswith(keys.done) else JobState.TRASHED
                jobs.append(Stored(row, order, kv.key, kv.modified))
        return jobs, end

    def _page_of_lines(
        self, states: Collection[JobState], names: frozenset[str], start: bytes, size: int
    ) -> tuple[list[Stored], bytes | None]:
        """Read the places of the jobs of some names, and then the jobs."""
        keys = self.keys
        places = [keys.line(name, state) for name in sorted(names) for state in states if state is not JobState.CLAIMED]
        ops = [_part_of(place, start, size, keys_only=True) for place in places]
        if names and JobState.CLAIMED in states:
            # There are no more of them than conductors can hold, and the pages are cut to the names in the end.
            places.append(keys.claims)
            ops.append(_part_of(keys.claims, start, size, keys_only=True))
        if not places:
            return [], None
        found = self._look(ops)
        kvs = {kv.key[len(place) :]: kv for place, part in zip(places, found, strict=True) for kv in part.kvs}
        orders, end = _cut(kvs, list(zip(places, found, strict=True)), size)
        return [job for job in self._fetch_at(orders) if job is not None], end

    # -- numbers ---------------------------------------------------------------------------------------------------

    def stats(self) -> BoardStats:
        keys = self.keys
        heads = [scan_prefix(keys.ready_jobs + b"%02d" % (99 - priority), 1) for priority in range(1, 6)]
        counts = [count_prefix(keys.lines + name + b"/" + letter.encode() + b"/") for name, letter in self._places()]
        claims, total, *found = self._look([scan_prefix(keys.claims), count_prefix(keys.lines), *counts, *heads])
        by_place = {place: part.total for place, part in zip(self._places(), found, strict=False)}
        if sum(by_place.values()) != total.total:
            # There are names that this client has not met.
            return self._stats_by_listing(heads)
        return self._stats_of(by_place, claims, found[len(counts) :])

    def _places(self) -> list[tuple[bytes, str]]:
        return [(name, letter) for name in sorted(self._names) for letter in _LETTERS]

    def _stats_by_listing(self, heads: Sequence[Op]) -> BoardStats:
        claims, lines, *found = self._look(
            [scan_prefix(self.keys.claims), scan_prefix(self.keys.lines, keys_only=True), *heads]
        )
        parts = [kv.key[len(self.keys.lines) :].split(b"/") for kv in lines.kvs]
        known = {letter.encode(): letter for letter in _LETTERS}
        count = Counter((part[0], known[part[1]]) for part in parts if len(part) == 3 and part[1] in known)
        self._names = frozenset(name for name, _ in count)
        return self._stats_of(count, claims, found)

    def _stats_of(self, count: dict[tuple[bytes, str], int], claims: Found, heads: Sequence[Found]) -> BoardStats:
        numbers: dict[str, dict[str, int]] = {}
        for (name, letter), number in count.items():
            if number:
                numbers.setdefault(decoded(name), {})[_LETTERS[letter]] = number
        for held, number in Counter(map(_name_of, claims.kvs)).items():
            numbers.setdefault(held, {})["claimed"] = number
        names = {name: NameStats(**numbers[name]) for name in sorted(numbers)}
        first = [Hint.of(part.first.value) for part in heads if part.first is not None]
        created = [hint.created_on for hint in first if hint is not None]
        return BoardStats(
            sum(name.delayed for name in names.values()),
            sum(name.unclaimed for name in names.values()),
            sum(name.claimed for name in names.values()),
            sum(name.trashed for name in names.values()),
            names=names,
            oldest_unclaimed=max(0.0, self.now() - min(created)) if created else None,
        )

    def count(self) -> int:
        return self._look([count_prefix(self.keys.live)])[0].total


def _name_of(claim: KeyValue) -> str:
    try:
        return Grant.of(claim.value).name
    except ValueError:
        return "unknown"


def _part_of(prefix: bytes, start: bytes, size: int, *, keys_only: bool = False) -> Op:
    return scan(prefix + start, after(prefix), size, keys_only=keys_only)


def _cut(kvs: Collection[bytes], parts: Sequence[tuple[bytes, Found]], size: int) -> tuple[list[bytes], bytes | None]:
    """Return the orders of a page in their order, and where the next one begins.

    A range that was cut off says nothing about what is behind its end.
    """
    ends = [part.kvs[-1].key[len(prefix) :] for prefix, part in parts if part.more]
    end = min(ends) if ends else None
    orders = sorted(order for order in kvs if end is None or order <= end)
    if len(orders) > size:
        orders = orders[:size]
        end = orders[-1]
    return orders, end
