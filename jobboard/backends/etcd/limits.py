"""Limits, and what there is to know of lanes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.events import Event, event_ops
from jobboard.backends.etcd.expiry import Expiry
from jobboard.backends.etcd.job_reader import JobReader
from jobboard.backends.etcd.job_writer import JobWriter
from jobboard.backends.etcd.keys import LanePart, behind, decoded, encoded, is_order, parts_of_order, reversed_order
from jobboard.backends.etcd.lane_rules import LaneRules, limits_in
from jobboard.backends.etcd.lanes import guard_of
from jobboard.backends.etcd.restrictions import limit_key
from jobboard.backends.etcd.stored import claims_in
from jobboard.backends.etcd.txn import (
    Found,
    Op,
    Txn,
    after,
    count_prefix,
    delete,
    delete_range,
    get,
    modified_at,
    nested,
    none_in,
    put,
    scan,
    scan_prefix,
)
from jobboard.backends.kv.read_modify_write import CHANGE_TIMEOUT, Deadline
from jobboard.backends.lane_rows import LaneDetail, LanePage, LaneRow, LimitRow
from jobboard.backends.lanes import starts_in
from jobboard.backends.limit_store import LimitStore
from jobboard.backends.limits import Rules, pack_limit
from jobboard.backends.rows import Verdict
from jobboard.events import EventKind
from jobboard.limit import ANY_LANE, is_lane_of

#: How many keys of lanes are read at once to find out which lanes there are, and lanes of which the jobs are counted.
_KEYS_AT_ONCE, _LANES_AT_ONCE = 500, 100

#: How many claims one transaction lets be counted.
_CLAIMS_AT_ONCE = 50


class Limits(LimitStore):
    """Each limit has a key. One of a name has another one where claims look for pauses, with its number."""

    def __init__(
        self, connection: Connection, reader: JobReader, expiry: Expiry, writer: JobWriter, rules: LaneRules
    ) -> None:
        self._connection = connection
        self._keys = connection.keys
        self._reader, self._expiry, self._writer, self._rules = reader, expiry, writer, rules

    def all(self) -> list[LimitRow]:
        (found,) = self._connection.read([scan_prefix(self._keys.limits)])
        return limits_in(self._keys, found.kvs)

    # -- changes -------------------------------------------------------------------------------------------------------

    def put(self, row: LimitRow, after: str | None) -> Verdict:
        deadline = Deadline(CHANGE_TIMEOUT)
        while True:
            stored, revision = self._stored(row)
            verdict = row.verdict(None if stored is None else stored.version, after)
            if verdict is not Verdict.DONE or self._write(row, revision):
                return verdict
            deadline.check(f"the limit of {row.key[1]!r} changes all the time")

    def _stored(self, row: LimitRow) -> tuple[LimitRow | None, int]:
        kv = self._connection.read([get(self._keys.limit(*row.key))])[0].first
        if kv is None:
            return None, 0
        # One that can't be decoded counts as none, and is written over.
        return next(iter(limits_in(self._keys, [kv])), None), kv.modified

    def _write(self, row: LimitRow, revision: int) -> bool:
        """Write a limit if the stored one is that of a revision."""
        keys, limit = self._keys, row.limit
        key = keys.limit(*row.key)
        ops: list[Op] = [put(keys.lane_limits, row.version.encode())] if limit.lane is not None else []
        if limit.name is not None:
            ops = self._ops_of_name(limit.name, limit.running)
        now = self._connection.now()
        event = Event(EventKind.LIMITED, None, limit.name, limit.by, None, now, str(limit), 0.0)
        if limit.is_empty and not row.is_pending:
            ops.append(delete(key))
        else:
            ops.append(put(key, pack_limit(row)))
        ops += event_ops(keys, [event])
        return self._connection.send(Txn([modified_at(key, revision)], ops)).succeeded

    def _ops_of_name(self, name: str, running: int | None) -> list[Op]:
        """Let claims know the limit of a name; before that, the claims that there are must be counted."""
        keys, prefix = self._keys, self._keys.limited_name(name)
        if running is None:
            return [delete_range(prefix, after(prefix))]
        self._count_claims(name)
        new = limit_key(keys, name, running)
        return [delete_range(prefix, new), delete_range(new + b"\0", after(prefix)), put(new, b"")]

    def _count_claims(self, name: str) -> None:
        """Let each claim of a name be counted: from now on new ones are, and then those that there are already.

        What a killed client leaves of this limits nothing, and the next one goes on.
        """
        keys, prefix = self._keys, self._keys.limited_name(name)
        # Unless claims are counted already.
        begin = Txn([none_in(prefix)], [put(limit_key(keys, name, None), b"")])
        self._connection.send(begin)
        deadline = Deadline(CHANGE_TIMEOUT)
        while rest := self._uncounted(name):
            for start in range(0, len(rest), _CLAIMS_AT_ONCE):
                self._connection.send(Txn(then=[nested(txn) for txn in rest[start : start + _CLAIMS_AT_ONCE]]))
            deadline.check(f"claims of {name!r} change all the time")

    def _uncounted(self, name: str) -> list[Txn]:
        """Return transactions of which each lets a claim of a name be counted that is not."""
        keys, txns = self._keys, list[Txn]()
        (found,) = self._connection.read([scan_prefix(keys.claims)])
        at = {kv.last_part: kv for kv in found.kvs}
        for order, claim in claims_in(found.kvs):
            if claim.name == name and not claim.is_counted:
                kv = at[order]
                steps = [put(kv.key, replace(claim, is_counted=True).packed()), put(keys.running_of(name) + order, b"")]
                txns.append(Txn([modified_at(kv.key, kv.modified)], steps))
        return txns

    def finish(self, row: LimitRow) -> None:
        stored, revision = self._stored(row)
        if stored is None or stored.version != row.version or not stored.is_pending:
            return
        if row.limit.lane is not None:
            self._look_at_guards(row.limit.lane)
        key = self._keys.limit(*row.key)
        op = delete(key) if stored.limit.is_empty else put(key, pack_limit(replace(stored, is_pending=False)))
        self._connection.send(Txn([modified_at(key, revision)], [op]))

    def _look_at_guards(self, pattern: str) -> None:
        """Look at the lanes of a pattern that have a guard, but no jobs.

        The last job of a lane may have ended while the lane had no limit, so that nobody knew of the guard.
        """
        start = self._keys.guard(pattern.removesuffix("*"))
        end = after(start) if pattern.endswith(ANY_LANE) else start + b"\0"
        (guards,) = self._connection.read([scan(start, end, _KEYS_AT_ONCE, keys_only=True)])
        for _ in range(guards.total // _KEYS_AT_ONCE + 1):
            lanes = [lane for kv in guards.kvs if is_lane_of(lane := decoded(kv.last_part), pattern)]
            if lanes:
                counts = self._connection.read([count_prefix(self._keys.lane(lane)) for lane in lanes])
                self.look([lane for lane, jobs in zip(lanes, counts, strict=True) if not jobs.total])
            if not guards.more:
                return
            start = guards.kvs[-1].key + b"\0"
            (guards,) = self._connection.read([scan(start, end, _KEYS_AT_ONCE, keys_only=True)])

    # -- lanes ---------------------------------------------------------------------------------------------------------

    def look(self, lanes: Sequence[str]) -> list[str]:
        # A look that finds nothing to do writes nothing that would make sure of the limits.
        self._rules.doubt()
        return self._writer.look(lanes)

    def lanes(self, pattern: str, cursor: object | None, size: int) -> LanePage:
        keys = self._keys
        if not pattern.endswith(ANY_LANE):
            (found,) = self._expiry.read_board([scan_prefix(keys.lane(pattern), 1, keys_only=True)])
            return LanePage([pattern] if found.kvs else [], None)
        start = keys.lanes + encoded(pattern.removesuffix("*"))
        self._expiry.read_board([])
        lanes, end = self._names(behind(cursor, start), after(start), size)
        return LanePage([lane for lane in lanes if is_lane_of(lane, pattern)], end)

    def _names(self, start: bytes, end: bytes, size: int) -> tuple[list[str], bytes | None]:
        """Return up to ``size`` lanes from a key on, and the key at which the next ones begin; None: there are none."""
        lanes = list[str]()
        for _ in range(size):
            (found,) = self._connection.read([scan(start, end, _KEYS_AT_ONCE, keys_only=True)])
            lanes = list(dict.fromkeys([*lanes, *(self._keys.lane_of(kv.key) for kv in found.kvs)]))
            if len(lanes) > size or (len(lanes) == size and found.more):
                return lanes[:size], after(self._keys.lane(lanes[size - 1]))
            if not found.more:
                return lanes, None
            # A lane may have many more jobs than were read.
            start = after(self._keys.lane(lanes[-1]))
        return lanes, start

    def longest(self, count: int) -> list[LaneRow]:
        keys, rows = self._keys, list[LaneRow]()
        self._expiry.read_board([])
        start: bytes | None = keys.lanes
        while start is not None:
            lanes, start = self._names(start, after(keys.lanes), _LANES_AT_ONCE)
            rows += self._rows(lanes)
            rows = sorted(filter(_has_jobs, rows), key=lambda row: (-row.blocked, row.lane))[:count]
        return rows

    def _rows(self, lanes: Iterable[str]) -> list[LaneRow]:
        """Count the jobs of lanes, all at one moment."""
        names = list(lanes)
        found = self._connection.read([op for lane in names for op in self._reads_of(lane)])
        size = len(_PARTS)
        return [_row_of(lane, found[at * size : (at + 1) * size]) for at, lane in enumerate(names)]

    def _reads_of(self, lane: str) -> list[Op]:
        keys = self._keys
        *counted, waiting = (keys.in_lane(lane, part) for part in _PARTS)
        return [*map(count_prefix, counted), scan_prefix(waiting, 1, keys_only=True)]

    def lane(self, lane: str, count: int) -> LaneDetail:
        keys = self._keys
        ops = [
            *self._reads_of(lane),
            scan_prefix(keys.in_lane(lane, LanePart.CLAIMED), count, keys_only=True),
            scan_prefix(keys.in_lane(lane, LanePart.CLAIMABLE), keys_only=True),
            scan_prefix(keys.in_lane(lane, LanePart.RETRYING), count, keys_only=True),
            get(keys.guard(lane)),
            scan_prefix(keys.limits),
        ]
        *found, claimed, claimable, retrying, guard, limits = self._expiry.read_board(ops)
        # The claimable ones stand there in reverse.
        places = [
            *(kv.last_part for kv in claimed.kvs),
            *(reversed_order(kv.last_part) for kv in reversed(claimable.kvs)),
            *(kv.last_part for kv in retrying.kvs),
        ]
        orders = list(filter(is_order, places))[:count]
        holders = [job.row.view() for job in self._reader.read_at(orders) if job is not None]
        rate = Rules(limits_in(keys, limits.kvs)).of_lane(lane).rate
        next_in = None
        if rate is not None:
            next_in = starts_in(guard_of(guard.first).next_at, rate, self._connection.now())
        return LaneDetail(_row_of(lane, found), holders, next_in)


#: What is counted of a lane; the first of those that are BLOCKED is read.
_PARTS = (LanePart.CLAIMED, LanePart.CLAIMABLE, LanePart.RETRYING, LanePart.BLOCKED)


def _row_of(lane: str, found: Sequence[Found]) -> LaneRow:
    claimed, claimable, retrying, blocked = found
    oldest = next((parts_of_order(kv.last_part)[1] for kv in blocked.kvs if is_order(kv.last_part)), None)
    return LaneRow(lane, claimed.total, claimable.total, retrying.total, blocked.total, oldest)


def _has_jobs(row: LaneRow) -> bool:
    return row.claimed + row.claimable + row.retrying + row.blocked > 0
