"""Ends claims and delays whose time is over, and claims whose lease is gone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from jobboard.backends import lifecycle
from jobboard.backends.etcd.changes import Change, change_of
from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.edge_records import mark_of
from jobboard.backends.etcd.job_reader import JobReader
from jobboard.backends.etcd.job_writer import MAX_JOBS, JobWriter
from jobboard.backends.etcd.lane_rules import LaneRules
from jobboard.backends.etcd.lanes import guard_of
from jobboard.backends.etcd.layout import VersionedJob, content_of
from jobboard.backends.etcd.leases import Leases
from jobboard.backends.etcd.resolving import Resolver
from jobboard.backends.etcd.stored import StoredJob, claims_in
from jobboard.backends.etcd.txn import (
    Found,
    KeyValue,
    Op,
    Txn,
    absent,
    delete,
    get,
    modified_at,
    put,
    scan,
    scan_prefix,
)
from jobboard.backends.etcd.worker import Worker
from jobboard.backends.kv.read_modify_write import Deadline
from jobboard.errors import BoardUnavailable

logger = logging.getLogger("jobboard.etcd")

Jobs = TypeVar("Jobs", bound=Sequence[VersionedJob | None])
Rest = TypeVar("Rest")

#: For how many seconds a read is repeated while more jobs become due.
EXPIRE_TIMEOUT = 60.0


class Expiry:
    """Reads jobs, or the whole board, after it has ended all claims and delays that are over."""

    def __init__(
        self,
        connection: Connection,
        reader: JobReader,
        writer: JobWriter,
        rules: LaneRules,
        resolver: Resolver,
    ) -> None:
        self._connection = connection
        self._keys = connection.keys
        self._reader = reader
        self._writer = writer
        self._rules = rules
        self._resolver = resolver

    def read(self, uuids: Sequence[str]) -> list[VersionedJob | None]:
        """Read jobs while no claim or delay of them is over."""
        return self.repeat_while_due(lambda: (self._reader.read(uuids), None))[0]

    def repeat_while_due(self, read: Callable[[], tuple[Jobs, Rest]]) -> tuple[Jobs, Rest]:
        """Repeat a read until no claim or delay of the jobs that it returns is over."""
        deadline = Deadline(EXPIRE_TIMEOUT)
        while True:
            jobs, rest = read()
            if not self.expire_and_promote(jobs):
                return jobs, rest
            deadline.check("jobs become due all the time")

    def read_board(self, ops: Sequence[Op]) -> list[Found]:
        """Read ranges of keys at one moment, at which no claim or delay of the board is over."""
        deadline = Deadline(EXPIRE_TIMEOUT)
        start = self._keys.timers
        while True:
            due = scan(start, self._keys.until(self._connection.now()), MAX_JOBS)
            *found, timers = self._connection.read([*ops, due])
            if not timers.kvs:
                return found
            if not self._handle_timers(timers.kvs):
                # These jobs are left to later versions.
                if not timers.more:
                    return found
                start = timers.kvs[-1].key + b"\0"
            deadline.check("more jobs become due than the client can expire and promote")

    def expire_and_promote(self, jobs: Sequence[VersionedJob | None]) -> bool:
        """End the claims and the delays that are over; False if there were none."""
        now = self._connection.now()
        over = [job for job in jobs if job is not None and is_over(job, now)]
        for start in range(0, len(over), MAX_JOBS):
            self._resolver.carry_out([self._after(job, now) for job in over[start : start + MAX_JOBS]])
        return bool(over)

    def expire_at(self, orders: Sequence[bytes]) -> None:
        """Expire the claims of these jobs if they are over."""
        for start in range(0, len(orders), MAX_JOBS):
            self.expire_and_promote(self._reader.read_at(orders[start : start + MAX_JOBS]))

    def rewrite_places(self, orders: Sequence[bytes]) -> None:
        """Write the places of these jobs in the queues anew, since they can't be read."""
        keys, send = self._keys, self._connection.send
        for order, job in zip(orders, self._reader.read_at(orders), strict=True):
            if job is not None and job.row.newer is not None:
                continue
            if job is None or not job.row.is_live:
                send(Txn([absent(keys.live + order)], [delete(keys.ready(order))]))
                continue
            content = content_of(keys, job.row)
            steps = [put(key, *content[key]) for key in content if key not in (job.record, keys.claim(order))]
            if keys.ready(order) not in content:
                steps.append(delete(keys.ready(order)))
            send(Txn(job.unchanged(keys), steps))

    def _handle_timers(self, timers: Sequence[KeyValue]) -> bool:
        """Expire and promote the jobs of these timers, look at lanes, and work off marks; False: nothing was to do."""
        lanes = {timer.key: lane for timer in timers if (lane := self._keys.looked_at(timer.key)) is not None}
        if lanes:
            self._look(lanes)
        parents = {timer.key: parent for timer in timers if (parent := self._keys.marked_at(timer.key)) is not None}
        if parents:
            self._resolve(parents)
        timers = [timer for timer in timers if timer.key not in lanes and timer.key not in parents]
        orders = [timer.last_part for timer in timers]
        jobs = self._reader.read_at(orders)
        is_changed = self.expire_and_promote(jobs) or bool(lanes) or bool(parents)
        orphans = [
            timer
            for timer, job in zip(timers, jobs, strict=True)
            if job is None or (job.row.newer is None and not self._is_timer_of(job.row, timer.key))
        ]
        for timer in orphans:
            self._connection.delete(timer)
        return is_changed or bool(orphans)

    def _look(self, lanes: Mapping[bytes, str]) -> None:
        """Look at the lanes of these timers; delete timers that their guards do not know."""
        keys = self._keys
        self._writer.look(list(dict.fromkeys(lanes.values())))
        reads = [get(key) for timer, lane in lanes.items() for key in (timer, keys.guard(lane))]
        found = self._connection.read(reads)
        for (timer, lane), left, guard in zip(lanes.items(), found[::2], found[1::2], strict=True):
            look_at = guard_of(guard.first).look_at
            if left.first is not None and (look_at is None or keys.look(look_at, lane) != timer):
                self._connection.send(Txn([modified_at(keys.guard(lane), guard.modified)], [delete(timer)]))

    def _resolve(self, parents: Mapping[bytes, str]) -> None:
        """Work off a part of the marks of these timers; delete timers that no mark is due at."""
        keys = self._keys
        self._resolver.resolve(list(dict.fromkeys(parents.values())))
        reads = [get(key) for timer, parent in parents.items() for key in (timer, keys.mark(parent))]
        found = self._connection.read(reads)
        for (timer, parent), left, stored in zip(parents.items(), found[::2], found[1::2], strict=True):
            mark = mark_of(parent, stored.first)
            if left.first is not None and (mark is None or keys.due_mark(mark.due, parent) != timer):
                self._connection.send(Txn([modified_at(keys.mark(parent), stored.modified)], [delete(timer)]))

    def _after(self, job: VersionedJob, now: float) -> Change:
        row = job.row.seen()
        limit = self._rules.limit_of(row)
        if job.is_held:
            return change_of(job, row, lifecycle.expire_or_promote(row, now, limit))
        return change_of(job, row, lifecycle.expire(row, now, f"the claim of '{row.owner}' lost its lease", limit))

    def _is_timer_of(self, row: StoredJob, key: bytes) -> bool:
        return row.due is not None and self._keys.timer(row.due, row.order) == key


def is_over(job: VersionedJob, now: float) -> bool:
    """Whether a claim or a delay is over; jobs that only later versions can read are left to those."""
    row = job.row
    if not row.is_live or row.newer is not None:
        return False
    return not job.is_held or lifecycle.is_due(row if row.claim is None else row.seen(), now)


class LostLeases:
    """Ends the claims under leases that are gone; reads all claims to find them, since a lease does not name them."""

    def __init__(
        self, connection: Connection, leases: Leases, writer: JobWriter, expiry: Expiry, worker: Worker
    ) -> None:
        self._connection = connection
        self._keys = connection.keys
        self._leases = leases
        self._writer = writer
        self._expiry = expiry
        self._worker = worker

    def handle(self, lease: int) -> None:
        """End the claims under a lease that is gone, so that waiters learn of it at once."""
        self._leases.forget(lease)
        self._writer.forget_claims(lease)
        self._worker.soon(lambda: self._expiry.expire_at(self._claims_under(lease)))

    def check(self) -> None:
        """After a lost race, find out whether the session of this client is gone."""
        try:
            (sessions,) = self._connection.read([scan_prefix(self._keys.sessions, keys_only=True)])
        except BoardUnavailable as error:
            # Those who ask may have written other things by now, and try again anyway.
            logger.debug("whether a session is gone is not known: %s", error)
            return
        self._leases.forget_but(self._keys.leases_of(sessions))

    def is_needed(self, lease: int) -> bool:
        """Whether any claim is under this lease."""
        return self._writer.has_claims(lease) or bool(self._claims_under(lease))

    def _claims_under(self, lease: int) -> list[bytes]:
        """Return the places of the jobs that are claimed under a lease."""
        (found,) = self._connection.read([scan_prefix(self._keys.claims)])
        return [order for order, claim in claims_in(found.kvs) if claim.lease == lease]
