"""What jobs leave that are forgotten: their edges to parents, their steps and their signals."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.keys import decoded
from jobboard.backends.etcd.txn import Found, Op, Txn, absent, after, delete, delete_range, get, scan, scan_prefix
from jobboard.backends.kv.read_modify_write import CHANGE_TIMEOUT, Deadline
from jobboard.errors import BoardUnavailable

logger = logging.getLogger("jobboard.etcd")

#: How many jobs one sweep looks at, and how many edges one transaction deletes.
_JOBS_AT_ONCE, _EDGES_AT_ONCE = 500, 50


class Leftovers:
    """A job that has any of these has a key that says so; the leases by which records go know nothing of them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._keys = connection.keys
        #: Where the next sweep begins.
        self._start = connection.keys.kept

    def tidy(self, limit: int) -> int:
        """Look at the next jobs that have any, and delete what forgotten ones have left; return how many jobs it were.

        One request if there are none.
        """
        kept = self._keys.kept
        (found,) = self._connection.read([scan(self._start, after(kept), _JOBS_AT_ONCE, keys_only=True)])
        self._start = found.kvs[-1].key + b"\0" if found.more else kept
        uuids = [decoded(kv.last_part) for kv in found.kvs]
        if not uuids:
            return 0
        jobs = self._connection.read([get(self._keys.job(uuid), keys_only=True) for uuid in uuids])
        gone = [uuid for uuid, job in zip(uuids, jobs, strict=True) if job.first is None][:limit]
        return self._forget(gone, limit)

    def after_purge(self, uuids: Sequence[str]) -> None:
        """Delete a first part of what these jobs have left, and leave the rest to a sweep."""
        try:
            self._forget(uuids, len(uuids))
        except BoardUnavailable as error:
            logger.debug("what purged jobs left is left to a sweep: %s", error)

    def before_post(self, uuids: Sequence[str]) -> None:
        """Delete all that these jobs have left, since jobs of the same uuids are about to be posted."""
        deadline, rest = Deadline(CHANGE_TIMEOUT), list(uuids)
        while rest:
            deadline.check(f"what job {rest[0]} has left is not deleted yet")
            if self._forget_part(rest[0]):
                rest.pop(0)

    def _forget(self, uuids: Sequence[str], limit: int) -> int:
        """Delete what some jobs have left, in up to ``limit`` transactions; return how many jobs are done."""
        rest, done = list(uuids), 0
        for _ in range(limit):
            if not rest:
                break
            if self._forget_part(rest[0]):
                rest.pop(0)
                done += 1
        return done

    def _forget_part(self, uuid: str) -> bool:
        """Delete a part of what a job has left, if there is no such job; return whether nothing is left."""
        keys = self._keys
        (edges,) = self._connection.read([scan_prefix(keys.edges_of(uuid), _EDGES_AT_ONCE, keys_only=True)])
        ops = self._deletions(uuid, edges)
        if not edges.more:
            # All edges, since one of them may say something else by now, in another key.
            ranges = (keys.edges_of(uuid), keys.steps_of(uuid), keys.signals_of(uuid))
            ops += [delete(keys.kept_of(uuid)), *(delete_range(prefix, after(prefix)) for prefix in ranges)]
        is_gone = self._connection.send(Txn([absent(keys.job(uuid))], ops)).succeeded
        return not edges.more or not is_gone

    def _deletions(self, uuid: str, edges: Found) -> list[Op]:
        keys = self._keys
        pairs = [(kv.key, keys.child(decoded(kv.last_part), uuid)) for kv in edges.kvs]
        return [delete(key) for pair in pairs for key in pair]
