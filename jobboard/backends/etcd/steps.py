"""Steps of durable handlers, and signals."""

from __future__ import annotations

from jobboard.backends import waiting
from jobboard.backends.claim_answers import done, lost
from jobboard.backends.edge_rows import SignalOutcome, SignalRow, StepRow
from jobboard.backends.etcd.changes import change_of
from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.expiry import Expiry
from jobboard.backends.etcd.job_writer import JobWriter
from jobboard.backends.etcd.keys import decoded, is_order, parts_of_order
from jobboard.backends.etcd.read_modify_write import ReadModifyWrite
from jobboard.backends.etcd.stored import is_of_job, readable_claim
from jobboard.backends.etcd.txn import KeyValue, Op, Txn, after, created_at, get, modified_at, put, scan, scan_prefix
from jobboard.backends.kv.codec import BYTES, NUMBER, TEXT, TEXT_OR_NONE, items_of, pack
from jobboard.backends.kv.read_modify_write import CHANGE_TIMEOUT, Deadline
from jobboard.backends.rows import ClaimAnswer, Fence
from jobboard.backends.step_store import StepStore
from jobboard.errors import BoardUnavailable


class Steps(StepStore):
    """Each step, and each signal, has a key of its own; the sequence in it says of which job of its uuid it is."""

    def __init__(self, connection: Connection, expiry: Expiry, writer: JobWriter, jobs: ReadModifyWrite) -> None:
        self._connection = connection
        self._keys = connection.keys
        self._expiry, self._writer, self._jobs = expiry, writer, jobs

    def save(self, fence: Fence, step: StepRow) -> ClaimAnswer:
        deadline, keys = Deadline(CHANGE_TIMEOUT), self._keys
        while True:
            job = self._jobs.under_fence(fence)
            if job is None:
                return self._lost(fence)
            place = keys.claim(job.order)
            # The claim is rewritten while it is extended, but it is the same since it was made.
            compares = [created_at(place, fence.token), *job.still_held(keys)]
            value = pack([step.name, step.result, self._connection.now(), job.row.sequence])
            ops = [put(keys.step(fence.uuid, step.number), value)]
            if step.number == 0:
                ops.append(put(keys.kept_of(fence.uuid), b""))
            result = self._connection.send(Txn(compares, [get(place), *ops]))
            if result.succeeded:
                found = next(result.found()).first
                claim = None if found is None else readable_claim(found.value)
                return done(claim is not None and claim.cancel_asked)
            self._jobs.forget_claim(fence.uuid)
            deadline.check(f"job {fence.uuid} changes all the time")

    def _lost(self, fence: Fence) -> ClaimAnswer:
        (job,) = self._expiry.read([fence.uuid])
        return lost(None if job is None else job.row.seen(), fence.uuid)

    def load(self, uuid: str, first: int, size: int) -> list[StepRow]:
        keys = self._keys
        found = self._of_job(uuid, scan(keys.step(uuid, first), after(keys.steps_of(uuid)), size))
        steps = [step_in(kv) for kv in found]
        if None in steps:
            raise BoardUnavailable(f"a step of job {uuid} can't be decoded")
        # What follows a gap is no result of the step before it.
        return [step for number, step in enumerate(steps, first) if step is not None and step.number == number]

    def _of_job(self, uuid: str, op: Op) -> list[KeyValue]:
        """Read something of a job; a sweep may not have deleted yet what one left that is forgotten."""
        job, found = self._connection.read([get(self._keys.job(uuid)), op])
        if job.first is None:
            return []
        if not is_order(job.first.value):
            return found.kvs
        _, _, sequence = parts_of_order(job.first.value)
        return [kv for kv in found.kvs if is_of_job(kv, sequence)]

    def signal(self, uuid: str, name: str, value: bytes, by: str | None = None) -> SignalOutcome:
        deadline, place = Deadline(CHANGE_TIMEOUT), self._keys.signal(uuid, name)
        while True:
            (job,) = self._expiry.read([uuid])
            now = self._connection.now()
            row = None if job is None or job.row.uuid != uuid else job.row.seen()
            change = waiting.signal(row, name, by, now)
            if job is None or row is None or not change.told:
                return change.answer
            (found,) = self._connection.read([get(place)])
            if found.first is not None and is_of_job(found.first, job.row.sequence):
                return SignalOutcome.REPEATED
            write = change_of(job, row, change)
            write.compares = (modified_at(place, found.modified),)
            write.ops = (put(place, pack([value, now, by, job.row.sequence])), put(self._keys.kept_of(uuid), b""))
            if self._writer.apply([write]) == [True]:
                return change.answer
            deadline.check(f"job {uuid} changes all the time")

    def signals(self, uuid: str) -> list[SignalRow]:
        found = self._of_job(uuid, scan_prefix(self._keys.signals_of(uuid)))
        signals = [signal_in(kv) for kv in found]
        if None in signals:
            raise BoardUnavailable(f"a signal of job {uuid} can't be decoded")
        return [signal for signal in signals if signal is not None]


def step_in(kv: KeyValue) -> StepRow | None:
    """Return a stored step; None if it can't be read."""
    try:
        (name, result, at), _ = items_of(kv.value, (TEXT, BYTES, NUMBER))
        return StepRow(int(kv.last_part), name, result, at)
    except ValueError:
        return None


def signal_in(kv: KeyValue) -> SignalRow | None:
    """Return a stored signal; None if it can't be read."""
    try:
        (value, at, _), _ = items_of(kv.value, (BYTES, NUMBER, TEXT_OR_NONE))
    except ValueError:
        return None
    return SignalRow(decoded(kv.last_part), value, at)
