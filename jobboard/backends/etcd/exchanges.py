"""Exchanges: BLOCKED jobs that somebody asks for have the slots of claimable jobs which that somebody can't claim."""

from __future__ import annotations

from collections.abc import Sequence

from jobboard.backends.changes import BLOCKED
from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.job_writer import JobWriter
from jobboard.backends.etcd.keys import is_order
from jobboard.backends.etcd.lane_rules import LaneRules
from jobboard.backends.etcd.lanes import Lanes
from jobboard.backends.etcd.layout import member_at, member_of
from jobboard.backends.etcd.ready_queue import ReadyQueue
from jobboard.backends.etcd.restrictions import Grant
from jobboard.backends.etcd.stored import Hint, StoredJob
from jobboard.backends.etcd.txn import Found, Txn, after, delete, none_newer, scan
from jobboard.backends.lanes import MAX_EXCHANGES

#: How many names, and how many BLOCKED jobs of each, one call looks at; the next call goes on behind them.
_NAMES_AT_ONCE, _JOBS_AT_ONCE = 20, 200


class Exchanges:
    """Each call looks at some lanes, and the next one at those behind them, so that each has its turn."""

    def __init__(
        self, connection: Connection, queue: ReadyQueue, lanes: Lanes, rules: LaneRules, writer: JobWriter
    ) -> None:
        self._connection = connection
        self._keys = connection.keys
        self._queue, self._lanes, self._rules, self._writer = queue, lanes, rules, writer
        #: Where the look at the BLOCKED jobs of a name goes on, and the names and lanes looked at last.
        self._from: dict[str, bytes] = {}
        self._last_name = self._last_lane = ""

    def exchange(self, names: frozenset[str] | None, grant: Grant, most: int) -> bool:
        """Let up to ``most`` BLOCKED jobs of these names be claimable; return whether any is."""
        waiting = self._queue.waiting(names, grant)
        if not waiting or most <= 0:
            return False
        turn = _behind(waiting, self._last_name)[:_NAMES_AT_ONCE]
        self._last_name = turn[-1]
        by_lane = self._read(turn)
        known = self._rules.known()
        if not all(known.rules.of_lane(lane).may_block for lane in by_lane):
            # Nobody waits in such a lane: this client has not read the limits since that one was set.
            self._rules.doubt()
            known = self._rules.known()
        lanes = [
            lane
            for lane in _behind(sorted(by_lane), self._last_lane)
            if (limit := known.rules.of_lane(lane)).may_block and not limit.is_strict
        ][:MAX_EXCHANGES]
        if not lanes:
            return False
        self._last_lane = lanes[-1]
        asked = {lane: by_lane[lane] for lane in lanes}

        def can_claim(name: str) -> bool:
            return (names is None or name in names) and not grant.refuses(name)

        steps = self._lanes.exchange(known, asked, can_claim, grant.room, most, self._connection.now())
        return any(self._writer.write_lanes(known, steps).values())

    def _read(self, names: Sequence[str]) -> dict[str, list[StoredJob]]:
        """Read some of the BLOCKED jobs of these names, by their lanes; forget names of which no job is BLOCKED."""
        keys, by_lane = self._keys, dict[str, list[StoredJob]]()
        starts = [self._from.pop(name, keys.queue(name, BLOCKED)) for name in names]
        ops = [
            scan(start, after(keys.queue(name, BLOCKED)), _JOBS_AT_ONCE)
            for name, start in zip(names, starts, strict=True)
        ]
        for name, start, found in zip(names, starts, self._connection.read(ops), strict=True):
            if found.more:
                self._from[name] = found.kvs[-1].key + b"\0"
            members = _jobs_in(found)
            if not members and not found.more and start == keys.queue(name, BLOCKED):
                # Those that are BLOCKED, if any, wait for parents or signals.
                unchanged = none_newer(start, after(start), found.revision)
                self._connection.send(Txn([unchanged], [delete(keys.waits(name))]))
            for lane, row in members:
                by_lane.setdefault(lane, []).append(row)
        for rows in by_lane.values():
            rows.sort(key=lambda row: row.order)
        return by_lane


def _jobs_in(found: Found) -> list[tuple[str, StoredJob]]:
    jobs = []
    for kv in found.kvs:
        hint, order = Hint.of(kv.value), kv.last_part
        if hint is not None and hint.lane is not None and is_order(order):
            row = StoredJob(hint.uuid, hint.name, 0, 0, hint.created_on, b"")
            jobs.append((hint.lane, member_at(order, member_of(row))))
    return jobs


def _behind(texts: Sequence[str], last: str) -> list[str]:
    """Return sorted texts from the first behind another one on, and then the others."""
    return [*(text for text in texts if text > last), *(text for text in texts if text <= last)]
