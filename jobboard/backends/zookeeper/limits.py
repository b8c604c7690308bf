"""The limits of a board: a znode for each. Those of names stand in ``paused`` too, which every claim asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from jobboard.backends.kv.clock import ServerClock
from jobboard.backends.kv.read_modify_write import CHANGE_TIMEOUT, Deadline
from jobboard.backends.lane_rows import LaneDetail, LanePage, LaneRow, LimitRow
from jobboard.backends.lanes import starts_in
from jobboard.backends.limit_store import LimitStore
from jobboard.backends.limits import LaneLimit
from jobboard.backends.rows import Verdict
from jobboard.backends.sweep import tidy_limits
from jobboard.backends.zookeeper.codec import NameRules, decode_guard, decode_limit, encode_limit
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.lane_index import Part
from jobboard.backends.zookeeper.lane_limits import LaneLimits
from jobboard.backends.zookeeper.lane_looks import LaneLooks
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.listing import Listing
from jobboard.backends.zookeeper.pauses import Pauses, StoredRules
from jobboard.backends.zookeeper.read_modify_write import ReadModifyWrite
from jobboard.backends.zookeeper.requests import Data
from jobboard.backends.zookeeper.timers import ListedGuard
from jobboard.backends.zookeeper.transactions import MAX_JOBS, Transaction, Transactions
from jobboard.backends.zookeeper.upkeep import Upkeep
from jobboard.events import EventKind

#: For how many seconds a guard is left that nobody has set: a lane that is empty now and then keeps its own.
MIN_GUARD_AGE = 60.0


class _Stored(NamedTuple):
    """A limit as it was read, with what else a change of it sets."""

    rules: StoredRules
    data: Data | None
    guard: Data | None

    @property
    def version(self) -> str | None:
        """Return the limit's own version; what can't be decoded counts as none."""
        row = None if self.data is None else decode_limit(self.data.data)
        return None if row is None else row.version


class Limits(LimitStore):
    """Every change of a limit sets ``paused``: by its version all that goes by limits is checked."""

    def __init__(
        self,
        connection: Connection,
        layout: Layout,
        clock: ServerClock,
        listing: Listing,
        transactions: Transactions,
        jobs: ReadModifyWrite,
        upkeep: Upkeep,
        pauses: Pauses,
        limits: LaneLimits,
        looks: LaneLooks,
    ) -> None:
        self._connection, self._layout, self._clock, self._listing = connection, layout, clock, listing
        self._transactions, self._jobs, self._upkeep, self._pauses = transactions, jobs, upkeep, pauses
        self._limits, self._looks = limits, looks

    # -- limits ----------------------------------------------------------------------------------------------------

    def all(self) -> list[LimitRow]:
        return self._limits.all()

    def put(self, row: LimitRow, after: str | None) -> Verdict:
        deadline = Deadline(CHANGE_TIMEOUT)
        while (verdict := self._put(row, after)) is None:
            deadline.check("limits change all the time")
        return verdict

    def _put(self, row: LimitRow, after: str | None) -> Verdict | None:
        """Write a limit; None if another client has changed limits or pauses meanwhile."""
        stored = self._read(row)
        verdict = row.verdict(stored.version, after)
        if verdict is not Verdict.DONE:
            return verdict
        if not self._transactions.is_committed(self._written(row, stored)):
            return None
        self._limits.doubt()
        return verdict

    def _read(self, row: LimitRow) -> _Stored:
        paths = [self._layout.limit(*row.key), self._layout.name(row.key[1])]
        rules, (data, guard) = self._pauses.read_with(paths)
        return _Stored(rules, data, guard)

    def _written(self, row: LimitRow, stored: _Stored) -> Transaction:
        """Return what writes a limit; an empty one of a name goes."""
        limit, path = row.limit, self._layout.limit(*row.key)
        transaction = self._transactions.begin()
        self._pauses.write(transaction, stored.rules, _with_limit(stored.rules.rules, row), stored.rules.known)
        version = None if stored.data is None else stored.data.stat.version
        if limit.lane is None and limit.is_empty:
            if version is not None:
                transaction.delete(path, version)
        elif version is None:
            self._transactions.create_buckets([path])
            transaction.create(path, encode_limit(row))
        else:
            transaction.set(path, encode_limit(row), version)
        if limit.name is not None and stored.guard is None:
            self._transactions.create_buckets([self._layout.name(limit.name)])
            transaction.create(self._layout.name(limit.name), b"")
        transaction.change.add_event(EventKind.LIMITED, limit.name, limit.by, str(limit))
        return transaction

    def finish(self, row: LimitRow) -> None:
        path = self._layout.limit(*row.key)
        found = self._connection.read_one(path)
        stored = None if found is None else decode_limit(found.data)
        if found is None or stored is None or stored.version != row.version:
            return
        request = self._connection.new_write()
        if stored.limit.is_empty:
            request.delete(path, found.stat.version)
        else:
            request.set(path, encode_limit(replace(stored, is_pending=False)), found.stat.version)
        # If another client was faster, it has finished this version, or set another one.
        self._connection.is_written(request)

    def tidy(self) -> int:
        """Go on with what killed clients have begun, and delete guards of lanes without jobs; return how many."""
        with self._listing.lock:
            has_lanes = self._listing.rules.has_lanes
            unused = self._listing.unused_guards(MAX_JOBS)
        if not has_lanes:
            return 0
        tidy_limits(self, self.all(), self._clock.now())
        return self._delete_guards(unused)

    def _delete_guards(self, lanes: Sequence[str]) -> int:
        now, paths = self._clock.now(), {self._layout.lane(lane): lane for lane in lanes}
        transaction = self._transactions.begin()
        for path, data in self._connection.existing(list(paths), is_fresh=False):
            guard = decode_guard(data.data)
            is_kept = guard is None or (guard.next_at or 0.0) > now or data.stat.mtime / 1000 + MIN_GUARD_AGE > now
            if not is_kept:
                transaction.delete(path, data.stat.version)
                transaction.change.guards.append(ListedGuard(paths[path], False, None))
        deleted = len(transaction.change.guards)
        if deleted:
            # A guard that is made again has the same versions: whoever has read this one must begin anew.
            transaction.set(self._layout.deleted, b"")
            if not self._transactions.is_committed(transaction):
                return 0
        return deleted

    # -- lanes -----------------------------------------------------------------------------------------------------

    def look(self, lanes: Sequence[str]) -> list[str]:
        self._upkeep.catch_up()
        return self._looks.look(lanes)

    def lanes(self, pattern: str, cursor: object | None, size: int) -> LanePage:
        if cursor is not None and not isinstance(cursor, str):
            raise TypeError(f"not a cursor of this backend: {cursor!r}")
        self._upkeep.catch_up()
        with self._listing.lock:
            lanes = self._listing.lanes.page(pattern, cursor, size)
        return LanePage(lanes, lanes[-1] if len(lanes) == size else None)

    def longest(self, count: int) -> list[LaneRow]:
        self._upkeep.catch_up()
        with self._listing.lock:
            return [self._listing.lane_row(lane) for lane in self._listing.lanes.longest(count)]

    def lane(self, lane: str, count: int) -> LaneDetail:
        now = self._upkeep.catch_up()
        limit = self._limits.of([lane]).by_lane[lane]
        with self._listing.lock:
            row = self._listing.lane_row(lane)
            parts = (self._listing.lanes.places(lane, part) for part in (Part.CLAIMED, Part.CLAIMABLE, Part.RETRYING))
            uuids = [self._listing.by_place[place].uuid for places in parts for place in places][:count]
        holders = [job.copy() for job in self._jobs.current(uuids) if job is not None]
        return LaneDetail(row, holders, self._next_in(lane, limit, now))

    def _next_in(self, lane: str, limit: LaneLimit, now: float) -> float | None:
        """Return the seconds until the rate of a lane admits another job; None if it has no rate."""
        if limit.rate is None:
            return None
        found = self._connection.read_one(self._layout.lane(lane))
        guard = None if found is None else decode_guard(found.data)
        next_at = 0.0 if guard is None else guard.next_at or 0.0
        return starts_in(next_at, limit.rate, now)


def _with_limit(rules: NameRules, row: LimitRow) -> NameRules:
    """Return what claims ask for once this limit is set."""
    limit = row.limit
    if limit.name is None:
        return rules._replace(has_lanes=True)
    running = {name: most for name, most in rules.running.items() if name != limit.name}
    if limit.running is not None:
        running[limit.name] = limit.running
    return rules._replace(running=running)
