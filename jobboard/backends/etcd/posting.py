"""Posts jobs: new ones, and those that replace the job that has their key."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from jobboard.backends import lifecycle
from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.events import event_of, event_ops
from jobboard.backends.etcd.expiry import Expiry
from jobboard.backends.etcd.job_reader import JobReader
from jobboard.backends.etcd.job_writer import waits_ops
from jobboard.backends.etcd.keys import MAX_SEQUENCE
from jobboard.backends.etcd.lane_rules import LaneRules
from jobboard.backends.etcd.lanes import Lanes, LaneStep, Member, size_of_row
from jobboard.backends.etcd.layout import VersionedJob, content_of, steps_between
from jobboard.backends.etcd.stored import StoredJob
from jobboard.backends.etcd.txn import (
    MAX_BYTES,
    Compare,
    KeyValue,
    Txn,
    TxnResult,
    absent,
    get,
    kvs_of,
    less,
    many,
    modified_at,
    put,
)
from jobboard.backends.kv.read_modify_write import CHANGE_TIMEOUT, Deadline
from jobboard.backends.posting_plan import PostingPlan
from jobboard.backends.rows import NewJob, Posted, PostOutcome
from jobboard.backends.transition import Note
from jobboard.events import HISTORY_LENGTH
from jobboard.states import JobState

#: How many postings one transaction holds at most, because of their comparisons.
MAX_POSTINGS = 50

#: The same for postings with ties, since each may lead to comparisons of its lane and of the job that is admitted.
_MAX_TIED = 20


@dataclass(slots=True)
class Existing:
    """The jobs on the board that have the uuids and keys of a batch; ``is_read`` False: nothing is known yet."""

    is_read: bool = False
    by_uuid: dict[str, VersionedJob] = field(default_factory=dict)
    by_key: dict[tuple[str, str], VersionedJob] = field(default_factory=dict)
    #: Keys that name no live job any more, as they are stored.
    orphans: dict[tuple[str, str], KeyValue] = field(default_factory=dict)


@dataclass(slots=True)
class Step:
    """What to do for one posting: ``row`` is the job that it leads to, ``before`` that job as read, if it changes."""

    outcome: PostOutcome
    row: StoredJob
    before: VersionedJob | None = None
    told: list[Note] = field(default_factory=list)


class Plan:
    """Plans the postings of a batch, each as if those before it were written."""

    def __init__(self, existing: Existing, now: float, latest: float) -> None:
        self._now, self._slack = now, latest - now
        self._before = {job.row.uuid: job for job in [*existing.by_uuid.values(), *existing.by_key.values()]}
        seen = {uuid: job.row.seen() for uuid, job in self._before.items()}
        by_uuid = {uuid: seen[job.row.uuid] for uuid, job in existing.by_uuid.items()}
        by_key = {key: seen[job.row.uuid] for key, job in existing.by_key.items()}
        self._plan = PostingPlan(by_uuid.get, by_key.get, self._draft)

    def _draft(self, new: NewJob) -> StoredJob:
        return StoredJob(new.uuid, new.name, new.priority, 0, self._now, new.body, new.key, ties=new.ties)

    def step(self, new: NewJob) -> Step:
        """Plan the next posting; if it changes a row, all steps that lead to this row have it as changed."""
        outcome, row = self._plan.step(new)
        if outcome is PostOutcome.REPLACED:
            if row.newer is not None:
                return Step(PostOutcome.TAKEN, row)
            before = self._before.pop(row.uuid, None)
            transition = lifecycle.replace(row, new, self._now, self._slack)
            row.aliases = (*row.aliases, new.uuid)[-HISTORY_LENGTH:]
        elif outcome is PostOutcome.POSTED:
            before, transition = None, lifecycle.post(row, new, self._now, self._slack)
        else:
            return Step(outcome, row)
        row.add_history(transition.history)
        return Step(outcome, row, before, list(transition.told))


class Posting:
    """Posts without reading first; reads what is on the board only if that fails."""

    def __init__(
        self, connection: Connection, reader: JobReader, expiry: Expiry, lanes: Lanes, rules: LaneRules
    ) -> None:
        self._connection = connection
        self._keys = connection.keys
        self._reader = reader
        self._expiry = expiry
        self._lanes = lanes
        self._rules = rules
        self._last_sequence = 0
        self._sequence_lock = threading.Lock()

    def post(self, rows: Sequence[NewJob]) -> list[Posted]:
        parts = _parts_of(rows)
        if len(parts) > 1:
            # Too large for one transaction: post nothing if a key is taken already.
            steps = self.plan(rows, self.existing(rows), self._connection.now())
            if any(step.outcome.refuses_batch for step in steps):
                return _posted(steps)
        return [posted for part in parts for posted in self._post(part)]

    def _post(self, rows: Sequence[NewJob]) -> list[Posted]:
        existing = Existing()
        deadline = Deadline(CHANGE_TIMEOUT)
        tries = 0
        while True:
            now = self._connection.now()
            steps = self.plan(rows, existing, now)
            if any(step.outcome.refuses_batch for step in steps):
                if existing.is_read:
                    return _posted(steps)
            elif self._write(steps, existing, now, tries):
                return _posted(steps)
            tries += 1
            existing = self.existing(rows)
            deadline.check("others post under the same keys")

    def plan(self, rows: Sequence[NewJob], existing: Existing, now: float) -> list[Step]:
        """Plan each posting of a batch."""
        plan = Plan(existing, now, self._connection.latest())
        return [plan.step(new) for new in rows]

    def _write(self, steps: Sequence[Step], existing: Existing, now: float, tries: int) -> bool:
        """Carry out the whole plan; False, and nothing is done, if the board is not as the plan assumed."""
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
        txn.then = many(txn.then, len(txn.compares), len(txn.apart))
        result = self._connection.send(txn)
        self._learn_sequence(result)
        if not result.succeeded:
            self._rules.note_failure(txn.compares)
        return result

    def txn_of(self, steps: Sequence[Step], existing: Existing, now: float, tries: int) -> Txn:
        """Return the transaction of a plan; it changes nothing if the board is not as the plan assumed."""
        keys = self._keys
        txn = Txn(otherwise=[get(keys.sequence)])
        new = [step.row for step in steps if step.outcome is PostOutcome.POSTED]
        if new:
            self._number(new, now, tries)
            number = b"%020d" % new[-1].sequence
            txn.compares.append(less(keys.sequence, number))
            txn.then.append(put(keys.sequence, number))
        old, after = dict[bytes, tuple[bytes, int]](), dict[bytes, tuple[bytes, int]]()
        lanes = self._follow(txn, steps, now)
        for step in steps:
            if step.outcome is PostOutcome.POSTED:
                txn.compares += self._compares_of(step.row, existing)
            elif step.before is not None:
                txn.compares += step.before.unchanged(keys)
                old |= content_of(keys, step.before.row)
            else:
                continue
            after |= content_of(keys, step.row)
        moved = [member for lane in lanes for member in lane.moved]
        for member in moved:
            if member.job is not None:
                txn.compares += member.job.unchanged(keys)
                old |= content_of(keys, member.job.row)
                after |= content_of(keys, member.row)
        txn.then += steps_between(old, after)
        txn.then += [op for lane in lanes for op in lane.ops(keys)]
        changed = [(step.row, step.told) for step in steps] + [(member.row, member.told) for member in moved]
        txn.apart += waits_ops(keys, {row.name for row, told in changed if told and row.state is JobState.BLOCKED})
        txn.then += event_ops(keys, [event_of(row, note) for row, told in changed for note in told])
        return txn

    def _follow(self, txn: Txn, steps: Sequence[Step], now: float) -> list[LaneStep]:
        """Look at the lanes of a batch, once all of its jobs are changed; the transaction holds only if they are so."""
        tied = dict[str, dict[str, Member]]()
        for step in steps:
            if step.told and step.row.ties is not None:
                of_lane, row = tied.setdefault(step.row.ties.lane, {}), step.row
                earlier = of_lane.get(row.uuid)
                before = step.before if earlier is None else earlier.job
                waited = before is not None and before.row.state is JobState.BLOCKED
                of_lane[row.uuid] = Member(before, row, step.told, row.state is JobState.BLOCKED and not waited)
        if not tied:
            return []
        known = self._rules.known()
        room = MAX_BYTES - sum(size_of_row(step.row) for step in steps)
        members = {lane: list(each.values()) for lane, each in tied.items()}
        lanes = self._lanes.follow(known, members, now, room)
        txn.compares.append(known.condition)
        txn.compares += [compare for lane in lanes for compare in lane.compares(self._keys)]
        return lanes

    def _compares_of(self, row: StoredJob, existing: Existing) -> list[Compare]:
        new = absent(self._keys.job(row.uuid))
        if row.key is None:
            return [new]
        place = self._keys.key(row.name, row.key)
        orphan = existing.orphans.get((row.name, row.key))
        return [new, absent(place) if orphan is None else modified_at(place, orphan.modified)]

    # -- sequences -------------------------------------------------------------------------------------------------

    def _number(self, rows: Sequence[StoredJob], now: float, tries: int) -> None:
        """Number new rows: from the server's time in microseconds, or behind the last number if that is larger.

        The transaction holds only if the last number in the store is smaller, so no counter is read first. Clients
        whose clocks agree seldom collide, and one whose clock is behind learns the last number when it is refused.
        """
        with self._sequence_lock:
            ahead = random.randint(0, 1000 << min(tries, 8)) if tries else 0
            first = max(round(now * 1_000_000), self._last_sequence + 1) + ahead
            for at, row in enumerate(rows):
                row.sequence = self._last_sequence = first + at

    def _learn_sequence(self, result: TxnResult) -> None:
        """Learn the last number of the store from a refusal; create its key if there is none."""
        if result.succeeded:
            return
        send, key, last = self._connection.send, self._keys.sequence, next(result.found()).first
        if last is None:
            send(Txn([absent(key)], [put(key, b"%020d" % 0)]))
        elif last.value.isdigit() and int(last.value) < MAX_SEQUENCE:
            with self._sequence_lock:
                self._last_sequence = max(self._last_sequence, int(last.value))
        else:
            # The stored number can't be read. The present time is larger than all that were given.
            number = max(self._last_sequence, round(self._connection.now() * 1_000_000))
            send(Txn([modified_at(key, last.modified)], [put(key, b"%020d" % number)]))

    # -- what is on the board --------------------------------------------------------------------------------------

    def existing(self, rows: Sequence[NewJob]) -> Existing:
        """Read the jobs that have these uuids and keys, after their claims and delays that are over have ended."""
        uuids = {self._keys.job(new.uuid): new.uuid for new in rows}
        names = {self._keys.key(new.name, new.key): (new.name, new.key) for new in rows if new.key is not None}
        existing = Existing(True)
        for pointer, job in self._read_pointers([*uuids, *names]):
            if pointer.key in uuids:
                if job is not None:
                    existing.by_uuid[uuids[pointer.key]] = job
            elif job is not None and job.row.is_live:
                existing.by_key[names[pointer.key]] = job
            else:
                existing.orphans[names[pointer.key]] = pointer
        return existing

    def _read_pointers(self, keys: Sequence[bytes]) -> list[tuple[KeyValue, VersionedJob | None]]:
        """Read those of these keys that exist, each with the job whose place it holds."""
        deadline = Deadline(CHANGE_TIMEOUT)
        while True:
            pointers = kvs_of(self._connection.read([get(key) for key in keys]))
            orders = list(dict.fromkeys(pointer.value for pointer in pointers))
            jobs = self._reader.read_at(orders)
            if not self._expiry.expire_and_promote(jobs):
                job_at = dict(zip(orders, jobs, strict=True))
                return [(pointer, job_at[pointer.value]) for pointer in pointers]
            deadline.check("jobs become due all the time")


def _posted(steps: Sequence[Step]) -> list[Posted]:
    return [Posted(step.outcome, step.row.view()) for step in steps]


def _parts_of(rows: Sequence[NewJob]) -> list[list[NewJob]]:
    """Cut a batch into parts, each small enough for one transaction."""
    parts: list[list[NewJob]] = []
    size = MAX_BYTES
    for new in rows:
        size += len(new.body) + 1000
        most = MAX_POSTINGS if new.ties is None else _MAX_TIED
        if size > MAX_BYTES or len(parts[-1]) >= most:
            parts.append([])
            size = len(new.body) + 1000
        parts[-1].append(new)
    return parts
