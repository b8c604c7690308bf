"""Posts jobs: new ones, and those that replace the job that has their key."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from jobboard.backends.errors import after_a_change
from jobboard.backends.etcd.batches import Batches, posted
from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.expiry import Expiry
from jobboard.backends.etcd.planning import Existing, Step, needs_look
from jobboard.backends.etcd.txn import MAX_BYTES
from jobboard.backends.kv.read_modify_write import CHANGE_TIMEOUT, Deadline
from jobboard.backends.rows import NewJob, Posted

#: How many postings one transaction holds at most, because of their comparisons.
MAX_POSTINGS = 50

#: The same for postings with lanes, since each may lead to comparisons of its lane and of the job that is admitted.
_MAX_TIED = 20

#: How many jobs and edges a part of a graph has.
LARGEST_GRAPH = 40


class Posting:
    """Posts without reading first; reads what is on the board only if that fails, or if there are parents."""

    def __init__(self, connection: Connection, batches: Batches, expiry: Expiry) -> None:
        self._connection = connection
        self._batches = batches
        self._expiry = expiry

    def post(self, rows: Sequence[NewJob]) -> list[Posted]:
        parts = _parts_of(rows)
        if len(parts) > 1:
            # Too large for one transaction: post nothing if a key is taken already.
            steps = self._batches.plan(rows, self.existing(rows), self._connection.now())
            if any(step.outcome.refuses_batch for step in steps):
                return posted(steps[: len(rows)])
        done = list[Posted]()
        with after_a_change(lambda: done):
            for part in parts:
                done += self._post(part)
        return done

    def _post(self, rows: Sequence[NewJob]) -> list[Posted]:
        existing = self.existing(rows) if needs_look(rows) else Existing()
        deadline = Deadline(CHANGE_TIMEOUT)
        tries = 0
        while True:
            now = self._connection.now()
            steps = self._batches.plan(rows, existing, now)
            if any(step.outcome.refuses_batch for step in steps):
                if existing.is_read:
                    return posted(steps[: len(rows)])
            elif self._write(steps, existing, now, tries):
                return posted(steps[: len(rows)])
            tries += 1
            existing = self.existing(rows)
            deadline.check("others post under the same keys")

    def _write(self, steps: Sequence[Step], existing: Existing, now: float, tries: int) -> bool:
        """Carry out the whole plan; False, and nothing is done, if the board is not as the plan assumed."""
        if not self._batches.flag_parents(existing, steps):
            return False
        txn = self._batches.txn_of(steps, existing, now, tries)
        if not txn.then:
            return True
        if not self._batches.send(txn).succeeded:
            return False
        self._batches.remember(steps)
        return True

    def existing(self, rows: Sequence[NewJob]) -> Existing:
        """Read what these postings may meet, after the claims and delays of those jobs that are over have ended."""
        return self._expiry.repeat_while_due(partial(self._batches.read, rows))[1]


def _parts_of(rows: Sequence[NewJob]) -> list[list[NewJob]]:
    """Cut a batch into parts, each small enough for one transaction."""
    parts: list[list[NewJob]] = []
    size = MAX_BYTES
    for new in rows:
        size += len(new.body) + 1000
        most = MAX_POSTINGS if new.ties is None or new.ties.lane is None or new.graph is not None else _MAX_TIED
        if size > MAX_BYTES or len(parts[-1]) >= most:
            parts.append([])
            size = len(new.body) + 1000
        parts[-1].append(new)
    return parts
