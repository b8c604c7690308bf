"""How jobs are posted: new ones, and in the place of those that have their keys."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from jobboard.backends import lifecycle
from jobboard.backends.etcd.connection import Connection, Deadline
from jobboard.backends.etcd.events import event_of, event_ops
from jobboard.backends.etcd.expiry import Expiry
from jobboard.backends.etcd.job_reader import JobReader
from jobboard.backends.etcd.layout import VersionedJob, content_of, steps_between
from jobboard.backends.etcd.read_modify_write import CHANGE_TIMEOUT
from jobboard.backends.etcd.stored import StoredJob
from jobboard.backends.etcd.txn import (
    MAX_BYTES,
    Compare,
    Found,
    KeyValue,
    Op,
    Txn,
    TxnResult,
    absent,
    get,
    less,
    many,
    modified_at,
    put,
)
from jobboard.backends.lifecycle import Note, PostingPlan
from jobboard.backends.rows import NewJob, Posted, PostOutcome
from jobboard.events import HISTORY_LENGTH

#: Postings in one transaction, so that all their comparisons fit into it.
MAX_POSTINGS = 50

#: No sequence is as large as this: it is a time in microseconds, or a little more.
_MAX_SEQUENCE = 10**18


@dataclass(slots=True)
class Existing:
    """What is on the board under the uuids and keys of a batch; ``is_read`` False: nothing is known yet."""

    is_read: bool = False
    by_uuid: dict[str, VersionedJob] = field(default_factory=dict)
    by_key: dict[tuple[str, str], VersionedJob] = field(default_factory=dict)
    #: Keys that lead to no live job any more, and their revisions.
    orphans: dict[tuple[str, str], KeyValue] = field(default_factory=dict)


@dataclass(slots=True)
class Step:
    """What is to become of one posting: ``row`` is the job that is the one; ``before`` what it was, if it changes."""

    outcome: PostOutcome
    row: StoredJob
    before: VersionedJob | None = None
    told: tuple[Note, ...] = ()


class Plan:
    """What would become of each posting of a batch, those before it counted in."""

    def __init__(self, existing: Existing, now: float, latest: float) -> None:
        self._now, self._slack = now, latest - now
        self._before = {job.order: job for job in [*existing.by_uuid.values(), *existing.by_key.values()]}
        seen = {order: job.row.seen() for order, job in self._before.items()}
        by_uuid = {uuid: seen[job.order] for uuid, job in existing.by_uuid.items()}
        by_key = {key: seen[job.order] for key, job in existing.by_key.items()}
        self._plan = PostingPlan(by_uuid.get, by_key.get, self._draft)

    def _draft(self, new: NewJob) -> StoredJob:
        return StoredJob(new.uuid, new.name, new.priority, 0, self._now, new.body, new.key)

    def step(self, new: NewJob) -> Step:
        """Plan the next posting; what it makes of a row shows in every step that leads to this row."""
        outcome, row = self._plan.step(new)
        if outcome is PostOutcome.REPLACED:
            if row.newer is not None:
                return Step(PostOutcome.TAKEN, row)
            before = self._before.pop(row.order, None)
            transition = lifecycle.replace(row, new, self._now, self._slack)
            row.aliases = (*row.aliases, new.uuid)[-HISTORY_LENGTH:]
        elif outcome is PostOutcome.POSTED:
            before, transition = None, lifecycle.post(row, new, self._now, self._slack)
        else:
            return Step(outcome, row)
        row.add_history(transition.history)
        return Step(outcome, row, before, transition.told)


class Posting:
    """Posts without a read first; only if that fails, what is on the board already is read."""

    def __init__(self, connection: Connection, reader: JobReader, expiry: Expiry) -> None:
        self._connection = connection
        self._keys = connection.keys
        self._reader = reader
        self._expiry = expiry
        self._last_sequence = 0
        self._sequence_lock = threading.Lock()

    def post(self, rows: Sequence[NewJob]) -> list[Posted]:
        parts = _parts_of(rows)
        if len(parts) > 1:
            # Too large for one transaction: post nothing if a key is known to be taken by now.
            steps = self.plan(rows, self.existing(rows), self._connection.now())
            if any(step.outcome is PostOutcome.TAKEN for step in steps):
                return _posted(steps)
        return [posted for part in parts for posted in self._post(part)]

    def _post(self, rows: Sequence[NewJob]) -> list[Posted]:
        existing = Existing()
        deadline = Deadline(CHANGE_TIMEOUT)
        tries = 0
        while True:
            now = self._connection.now()
            steps = self.plan(rows, existing, now)
            if any(step.outcome is PostOutcome.TAKEN for step in steps):
                if existing.is_read:
                    return _posted(steps)
            elif self._write(steps, existing, now, tries):
                return _posted(steps)
            tries += 1
            existing = self.existing(rows)
            deadline.check("others post under the same keys")

    def plan(self, rows: Sequence[NewJob], existing: Existing, now: float) -> list[Step]:
        """Return what would become of each posting of a batch."""
        plan = Plan(existing, now, self._connection.latest())
        return [plan.step(new) for new in rows]

    def _write(self, steps: Sequence[Step], existing: Existing, now: float, tries: int) -> bool:
        """Write a plan as a whole; False if the board is not as the plan assumed."""
        txn = self.txn_of(steps, existing, now, tries)
        if not txn.then:
            return True
        if not self.send(txn).succeeded:
            return False
        for step in steps:
            self._reader.orders.put(step.row.uuid, step.row.order)
        return True

    def send(self, txn: Txn) -> TxnResult:
        """Send a transaction of postings, however many operations it has."""
        txn.then = many(txn.then, len(txn.compares))
        result = self._connection.send(txn)
        self._learn_sequence(result)
        return result

    def txn_of(self, steps: Sequence[Step], existing: Existing, now: float, tries: int) -> Txn:
        """Return the transaction of a plan; it fails as a whole if the board is not as the plan assumed."""
        keys = self._keys
        self._number([step.row for step in steps if step.outcome is PostOutcome.POSTED], now, tries)
        txn = Txn(otherwise=[get(keys.sequence)])
        last = max((step.row.sequence for step in steps if step.outcome is PostOutcome.POSTED), default=None)
        if last is not None:
            number = b"%020d" % last
            txn.compares.append(less(keys.sequence, number))
            txn.then.append(put(keys.sequence, number))
        for step in steps:
            if step.outcome is PostOutcome.POSTED:
                txn.compares += self._compares_of(step.row, existing)
                txn.then += steps_between({}, content_of(keys, step.row))
            elif step.before is not None:
                txn.compares += step.before.unchanged(keys)
                txn.then += steps_between(content_of(keys, step.before.row), content_of(keys, step.row))
        txn.then += event_ops(keys, [event_of(step.row, note) for step in steps for note in step.told])
        return txn

    def _compares_of(self, row: StoredJob, existing: Existing) -> list[Compare]:
        new = absent(self._keys.job(row.uuid))
        if row.key is None:
            return [new]
        place = self._keys.key(row.name, row.key)
        orphan = existing.orphans.get((row.name, row.key))
        return [new, absent(place) if orphan is None else modified_at(place, orphan.modified)]

    # -- sequences -------------------------------------------------------------------------------------------------

    def _number(self, rows: Sequence[StoredJob], now: float, tries: int) -> None:
        """Give new rows their sequences: the server's time in microseconds, above all that were given before.

        The store takes them only if the last one that it has is smaller. So no counter has to be read first: clients
        whose clocks agree seldom collide, and a slow clock learns the last sequence from the refusal.
        """
        with self._sequence_lock:
            ahead = random.randint(0, 1000 << min(tries, 8)) if tries else 0
            first = max(round(now * 1_000_000), self._last_sequence + 1) + ahead
            for at, row in enumerate(rows):
                row.sequence = first + at
            if rows:
                self._last_sequence = first + len(rows) - 1

    def _learn_sequence(self, result: TxnResult) -> None:
        """Take in the last sequence; make the key if there is none yet."""
        if result.succeeded:
            return
        send, key, last = self._connection.send, self._keys.sequence, next(result.found()).first
        if last is None:
            send(Txn([absent(key)], [put(key, b"%020d" % 0)]))
        elif last.value.isdigit() and int(last.value) < _MAX_SEQUENCE:
            with self._sequence_lock:
                self._last_sequence = max(self._last_sequence, int(last.value))
        else:
            # The place of what can't be read is in the keys; the time is beyond all of them.
            number = max(self._last_sequence, round(self._connection.now() * 1_000_000))
            send(Txn([modified_at(key, last.modified)], [put(key, b"%020d" % number)]))

    # -- what is there ---------------------------------------------------------------------------------------------

    def existing(self, rows: Sequence[NewJob]) -> Existing:
        """Read what is on the board under these uuids and keys, while nothing of it is due."""
        keys = self._keys
        wanted = list(dict.fromkeys((new.name, new.key) for new in rows if new.key is not None))
        uuids = list(dict.fromkeys(new.uuid for new in rows))
        found, jobs = self._read_pointers(
            [*(get(keys.job(uuid)) for uuid in uuids), *(get(keys.key(name, key)) for name, key in wanted)]
        )
        by_uuid = {uuid: job for uuid, part in zip(uuids, found, strict=False) if (job := jobs.get(_order_in(part)))}
        existing = Existing(True, by_uuid)
        for place, part in zip(wanted, found[len(uuids) :], strict=True):
            job = jobs.get(_order_in(part))
            if job is not None and job.row.is_live:
                existing.by_key[place] = job
            elif part.first is not None:
                existing.orphans[place] = part.first
        return existing

    def _read_pointers(self, reads: Sequence[Op]) -> tuple[list[Found], dict[bytes | None, VersionedJob | None]]:
        """Read the places of jobs, and the jobs there."""
        deadline = Deadline(CHANGE_TIMEOUT)
        while True:
            found = self._connection.read(reads)
            orders = list(dict.fromkeys(part.first.value for part in found if part.first is not None))
            jobs = self._reader.read_at(orders)
            if not self._expiry.expire_and_promote(jobs):
                return found, dict(zip(orders, jobs, strict=True))
            deadline.check("jobs become due all the time")


def _order_in(pointer: Found) -> bytes | None:
    return None if pointer.first is None else pointer.first.value


def _posted(steps: Sequence[Step]) -> list[Posted]:
    return [Posted(step.outcome, step.row.view()) for step in steps]


def _parts_of(rows: Sequence[NewJob]) -> list[list[NewJob]]:
    """Cut a batch into parts of which each fits one transaction."""
    parts: list[list[NewJob]] = []
    size = MAX_BYTES
    for new in rows:
        size += len(new.body) + 1000
        if size > MAX_BYTES or len(parts[-1]) == MAX_POSTINGS:
            parts.append([])
            size = len(new.body) + 1000
        parts[-1].append(new)
    return parts
