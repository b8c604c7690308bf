"""Transactions that change jobs: what they are made of, and what is learned of their results."""

from __future__ import annotations

import time
import uuid as uuids
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from jobboard.backends.edge_rows import EdgeRow
from jobboard.backends.kv.clock import ServerClock
from jobboard.backends.zookeeper.change_log import ChangeLogReader
from jobboard.backends.zookeeper.changes import Change
from jobboard.backends.zookeeper.codec import pack_posting
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.edge_codec import Mark, encode_edge
from jobboard.backends.zookeeper.errors import Conflict, refused
from jobboard.backends.zookeeper.job_record import encode
from jobboard.backends.zookeeper.kazoo_internals import Pending
from jobboard.backends.zookeeper.lanes import LaneStep
from jobboard.backends.zookeeper.layout import Layout, parent
from jobboard.backends.zookeeper.requests import BAD_VERSION, NO_NODE, NODE_EXISTS, NOT_EMPTY, Multi, Stat, fault_in
from jobboard.backends.zookeeper.stored_job import LONG_FIELDS, MAX_INLINE, StoredJob, size_of
from jobboard.backends.zookeeper.timers import ListedMark
from jobboard.states import JobState

#: A transaction is cut at this many bytes or jobs; the server takes 1 MB.
MAX_BYTES, MAX_JOBS = 700_000, 500
#: A record of at most this many bytes is shown in ``ready`` too, which every look reads.
MAX_SHOWN = 600
#: For how many seconds a mark is left to the client whose change has made it; any client goes on with it then.
RESOLVE_TIMEOUT = 0.5


@dataclass
class Transaction:
    """A transaction in the making: the parts, and what they mean."""

    request: Multi
    change: Change = field(default_factory=Change)
    paths: list[str] = field(default_factory=list)
    written: list[tuple[int, StoredJob, bool]] = field(default_factory=list)
    #: What the last of them is written as.
    record: bytes = b""
    #: The place of the part that counts jobs that became claimable.
    ready: int | None = None
    #: The places of what is set; each one's stat tells of the transaction.
    sets: list[int] = field(default_factory=list)
    #: What :meth:`check_once` has added.
    checked: set[tuple[str, int]] = field(default_factory=set)
    #: What was written ahead for this transaction.
    ahead: list[str] = field(default_factory=list)
    #: Keys, blobs and aliases that it deletes; and those of them that an earlier try found to be gone.
    removed: set[str] = field(default_factory=set)
    gone: Collection[str] = ()

    @property
    def jobs(self) -> int:
        """How many jobs it changes so far."""
        return len(self.written) + len(self.change.deleted)

    @property
    def size(self) -> int:
        """How many bytes it has so far, the line of the log included."""
        return self.request.size + self.change.size

    def check(self, path: str, version: int = -1) -> None:
        self.request.check(path, version)
        self.paths.append(path)

    def check_once(self, path: str, version: int) -> None:
        """Add that a znode has this version, unless that is checked already."""
        if (path, version) not in self.checked:
            self.checked.add((path, version))
            self.check(path, version)

    def set(self, path: str, data: bytes, version: int = -1) -> int:
        self.paths.append(path)
        self.sets.append(self.request.set(path, data, version))
        return self.sets[-1]

    def create(self, path: str, data: bytes) -> int:
        self.paths.append(path)
        return self.request.create(path, data)

    def delete(self, path: str, version: int = -1) -> None:
        self.request.delete(path, version)
        self.paths.append(path)

    def remove(self, path: str) -> None:
        """Delete what a job has beside its znode, unless it is known to be gone."""
        if path not in self.gone:
            self.delete(path)
            self.removed.add(path)


@dataclass
class SentTransaction:
    """A transaction whose answer is to come; ``log`` is the place of its line of the log."""

    transaction: Transaction
    log: int
    sent_at: float
    pending: Pending


class Transactions:
    """Every transaction that changes jobs or schedules goes through here."""

    def __init__(self, connection: Connection, layout: Layout, change_log: ChangeLogReader, clock: ServerClock) -> None:
        self._connection, self._layout, self._change_log, self._clock = connection, layout, change_log, clock
        #: Parent znodes that are known to exist.
        self._parents: set[str] = set()
        #: The kinds of which all buckets are known to exist.
        self._kinds: set[str] = set()

    def begin(self, gone: Collection[str] = ()) -> Transaction:
        return Transaction(self._connection.new_write(), gone=gone)

    # -- parts -----------------------------------------------------------------------------------------------------

    def check_not_deleted(self, transaction: Transaction, jobs: Sequence[StoredJob]) -> None:
        """Add that none of these jobs was deleted since it was read; the versions say the rest. Comes first."""
        transaction.check(self._layout.deleted, min(job.deletions for job in jobs))

    def write_job(self, transaction: Transaction, job: StoredJob, *, is_new: bool = False) -> None:
        """Add what writes a job, and what goes with it: its key, its long values, its aliases, its line of the log.

        Of a parent that has ended, or is back, its mark goes with it.
        """
        layout = self._layout
        path = layout.job(job.uuid)
        data = encode(job)
        place = transaction.create(path, data) if is_new else transaction.set(path, data, job.version)
        transaction.written.append((place, job, is_new))
        transaction.record = data
        if job.key is not None and job.has_key != job.had_key:
            key = layout.key(job.name, job.key)
            if job.had_key:
                transaction.remove(key)
            else:
                transaction.create(key, job.uuid.encode())
        self._write_mark_of(transaction, job)
        for blob in job.orphans:
            transaction.remove(layout.blob(blob))
        for blob, content in job.fresh:
            if content is None:
                self._check_blob(transaction, blob)
            else:
                transaction.create(layout.blob(blob), content)
        for alias in job.forgotten_aliases:
            transaction.delete(layout.job(alias))
        transaction.change.add_written(job)

    def _write_mark_of(self, transaction: Transaction, job: StoredJob) -> None:
        if job.mark is not None:
            self.write_mark(transaction, Mark(job.mark, self._clock.now() + RESOLVE_TIMEOUT))

    def write_mark(self, transaction: Transaction, mark: Mark, version: int = -1) -> None:
        """Add what the edges of a parent's children are to be told, in place of what they were to be told before."""
        parent = mark.step.parent
        transaction.set(self._layout.children_of(parent), mark.pack(), version)
        transaction.change.add_mark(ListedMark(parent, mark.due))

    def create_edge(self, transaction: Transaction, edge: EdgeRow) -> None:
        """Add what makes an edge, by its child and by its parent."""
        transaction.create(self._layout.edge(edge.child, edge.parent), encode_edge(edge))
        transaction.create(self._layout.child(edge.parent, edge.child), b"")

    def write_guards(self, transaction: Transaction, lanes: Iterable[LaneStep]) -> None:
        """Add that these lanes are changed, whose limits are as they were read."""
        for lane in lanes:
            transaction.check_once(self._layout.paused, lane.rules)
            if lane.is_guarded:
                transaction.check_once(self._layout.deleted, lane.deletions)
            guard = lane.guard
            if guard is None:
                # Nobody waits for such a lane, so there is nothing that two changes of it could both take.
                continue
            if lane.version is None:
                transaction.create(self._layout.lane(lane.text), guard.pack())
            else:
                transaction.set(self._layout.lane(lane.text), guard.pack(), lane.version)
            transaction.change.guards.append(guard.listed)

    def create_parents_of_guards(self, lanes: Iterable[LaneStep]) -> None:
        """Make sure that the guards of these lanes can be made."""
        self.create_buckets([self._layout.lane(lane.text) for lane in lanes if lane.guard and lane.version is None])

    def _check_blob(self, transaction: Transaction, blob: str) -> None:
        """Add that what was written ahead still exists, and count that it belongs to a job from now on.

        An audit deletes a blob that seems to belong to no job only if nothing was counted since it read the jobs.
        """
        transaction.check(self._layout.blob(blob))
        if not transaction.ahead:
            transaction.set(self._layout.blobs, b"")
        transaction.ahead.append(blob)

    def delete_job(self, transaction: Transaction, job: StoredJob) -> None:
        """Add what deletes a job without a trace; it must not be live."""
        layout = self._layout
        transaction.delete(layout.job(job.uuid), job.version)
        for alias in job.aliases:
            transaction.remove(layout.job(alias))
        for blob in (*job.blobs.values(), *job.orphans):
            transaction.remove(layout.blob(blob))
        if job.key is not None and job.had_key:
            transaction.remove(layout.key(job.name, job.key))
        self._write_mark_of(transaction, job)
        if not transaction.change.deleted:
            transaction.set(layout.deleted, b"")
        transaction.change.add_deleted(job)

    # -- carrying out ----------------------------------------------------------------------------------------------

    def commit(self, transaction: Transaction) -> None:
        """Carry a transaction out; raises :class:`Conflict` if something was not as expected."""
        self.finish(self.send(transaction))

    def is_committed(self, transaction: Transaction) -> bool:
        """Carry a transaction out; returns whether it happened, or another client was faster."""
        try:
            self.commit(transaction)
        except Conflict:
            return False
        return True

    def send(self, transaction: Transaction) -> SentTransaction:
        """Send a transaction, with its line of the log."""
        # Only the stat of something that is set tells of the transaction, so something must be set.
        if transaction.change.makes_claimable or not transaction.sets:
            transaction.ready = transaction.set(self._layout.ready, _only_posting(transaction))
        log = self._change_log.path
        transaction.paths.append(log)
        place = transaction.request.create(f"{log}/c-", transaction.change.pack(), sequential=True)
        return SentTransaction(transaction, place, time.monotonic(), self._connection.send(transaction.request))

    def finish(self, sent: SentTransaction) -> None:
        """Wait for the answer; raises :class:`Conflict` if something was not as expected."""
        transaction = sent.transaction
        answers = self._connection.answer(sent.pending)
        fault = fault_in(answers)
        if fault is not None:
            self._delete_written_ahead(transaction.ahead)
            raise self._refusal(transaction, transaction.paths[fault[0]], fault[1])
        stat: Stat = answers[transaction.sets[0]]
        self._clock.learn(stat.mtime / 1000, 0.001, sent.sent_at, time.monotonic())
        for place, job, is_new in transaction.written:
            job.learn_write(stat._replace(version=0) if is_new else answers[place], is_new=is_new)
        if transaction.ready is not None:
            self._change_log.learn_own_ready(answers[transaction.ready].version)
        self._change_log.add_own(transaction.change, int(answers[sent.log][-10:]), stat)

    def _refusal(self, transaction: Transaction, path: str, code: int) -> Exception:
        if code not in (NO_NODE, NODE_EXISTS, BAD_VERSION, NOT_EMPTY):
            return refused(self._connection.where, code)
        conflict = Conflict(path, code)
        if code == NO_NODE:
            self._parents.discard(parent(path))
            self._kinds.clear()
            conflict.is_gone = path in transaction.removed
        return conflict

    # -- what must exist before ------------------------------------------------------------------------------------

    def create_parents(self, paths: Sequence[str]) -> None:
        """Make sure that the parents of these paths exist."""
        missing = {parent(path) for path in paths} - self._parents
        pending = []
        for path in missing:
            request = self._connection.new_write()
            request.create(path, b"")
            pending.append((path, self._connection.send(request)))
        for path, answer in pending:
            fault = fault_in(self._connection.answer(answer))
            if fault is not None and fault[1] != NODE_EXISTS:
                raise refused(self._connection.where, fault[1])
            self._parents.add(path)

    def mend_parents(self, conflict: Conflict) -> None:
        """Make anew what a transaction has met to be gone: a bucket of jobs, or what holds the children of a parent."""
        path = conflict.path
        if conflict.code != NO_NODE:
            return
        if parent(parent(path)) == self._layout.jobs:
            self.create_parents([path])
        elif parent(parent(path)) == self._layout.children:
            self._parents.discard(path)
            self.create_all_buckets(self._layout.children)
            self.create_parents([f"{path}/child"])

    def create_all_buckets(self, *kinds: str) -> None:
        """Make sure that all buckets of these kinds exist; asks once for each kind."""
        unknown = [kind for kind in kinds if kind not in self._kinds]
        there = set(self._connection.children(unknown)) if unknown else set()
        paths = [path for kind in unknown for path in self._layout.buckets_of(kind) if path not in there]
        if paths:
            self.create_parents(paths)
            self.create_parents([f"{path}/child" for path in paths])
        self._kinds.update(unknown)

    def create_buckets(self, paths: Sequence[str]) -> None:
        """Make sure that the parents of these paths exist, and those of the parents, which a new board lacks."""
        self.create_parents(list(map(parent, paths)))
        self.create_parents(paths)

    def create_parents_of_keys(self, jobs: Sequence[StoredJob]) -> None:
        """Make sure that the keys of these jobs can be written."""
        new = [(job.name, job.key) for job in jobs if job.key is not None and job.has_key and not job.had_key]
        self.create_parents([self._layout.key(name, key) for name, key in new])

    def move_out_long_values(
        self, jobs: Sequence[StoredJob], max_inline: int = MAX_INLINE, max_bytes: int = MAX_BYTES
    ) -> None:
        """Give long values of these jobs znodes of their own, which the transaction makes that writes the jobs.

        What is too much for one transaction is written now; until the jobs are written, nothing refers to it.

        :param max_inline: how many bytes of a value may stand in the job's own znode.
        :param max_bytes: how many bytes the transaction can take.
        """
        for job in jobs:
            for name, data in _long_values(job, max_inline):
                job.blobs[name] = uuids.uuid4().hex
                job.fresh.append((job.blobs[name], data))
        self.create_parents([self._layout.blob(blob) for job in jobs for blob, _ in job.fresh])
        sizes = (size_of(job) + sum(len(data or b"") for _, data in job.fresh) for job in jobs)
        if sum(sizes) > max_bytes:
            self._write_ahead(jobs)

    def _write_ahead(self, jobs: Sequence[StoredJob]) -> None:
        pending = []
        for job in jobs:
            for blob, data in job.fresh:
                if data is not None:
                    request = self._connection.new_write()
                    request.create(self._layout.blob(blob), data)
                    pending.append(self._connection.send(request))
            job.fresh = [(blob, None) for blob, _ in job.fresh]
        for answer in pending:
            fault = fault_in(self._connection.answer(answer))
            if fault is not None:
                raise refused(self._connection.where, fault[1])

    def _delete_written_ahead(self, blobs: Sequence[str]) -> None:
        """Delete what was written ahead for nothing; waits for no answer."""
        for blob in blobs:
            request = self._connection.new_write()
            request.delete(self._layout.blob(blob))
            self._connection.send(request)


def _only_posting(transaction: Transaction) -> bytes:
    """Return what ``ready`` says: the job of a transaction that posts one; a waiter that it wakes claims it next."""
    if len(transaction.written) != 1 or len(transaction.record) > MAX_SHOWN:
        return b""
    [(_, job, is_new)] = transaction.written
    return pack_posting(job.uuid, transaction.record) if is_new and job.state is JobState.UNCLAIMED else b""


def _long_values(job: StoredJob, max_inline: int) -> list[tuple[str, bytes]]:
    """Return the fields of a job that need a znode of their own, and what is in them."""
    found = []
    for name in LONG_FIELDS:
        value = getattr(job, name)
        # A character takes up to four bytes.
        if value is None or name in job.blobs or len(value) <= max_inline // 4:
            continue
        data = value.encode() if isinstance(value, str) else value
        if len(data) > max_inline:
            found.append((name, data))
    return found
