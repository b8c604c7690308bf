"""The steps of durable handlers, and signals: a znode for each, below one for each job."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from jobboard.backends import lifecycle, waiting
from jobboard.backends.claim_answers import done, lost
from jobboard.backends.edge_rows import SignalOutcome, SignalRow, StepRow
from jobboard.backends.rows import ClaimAnswer, Fence
from jobboard.backends.step_store import StepStore
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.edge_codec import decode_named, encode_named
from jobboard.backends.zookeeper.errors import refused
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.read_modify_write import ReadModifyWrite
from jobboard.backends.zookeeper.requests import BAD_VERSION, NO_NODE, NODE_EXISTS, Data, Multi, fault_in
from jobboard.backends.zookeeper.stored_job import StoredJob
from jobboard.backends.zookeeper.transactions import Transaction, Transactions
from jobboard.backends.zookeeper.units import Write
from jobboard.errors import BoardUnavailable

#: Steps that one request reads.
_MAX_READ = 100


class Steps(StepStore):
    """A step is a transaction that checks the job of its claim; only the first one of a job writes the job too.

    So a job that has steps says so, and whoever forgets it knows what to delete.
    """

    def __init__(
        self, connection: Connection, layout: Layout, transactions: Transactions, jobs: ReadModifyWrite
    ) -> None:
        self._connection, self._layout, self._transactions, self._jobs = connection, layout, transactions, jobs

    # -- steps -----------------------------------------------------------------------------------------------------

    def save(self, fence: Fence, step: StepRow) -> ClaimAnswer:
        job = self._jobs.under_fence(fence)
        if job is None:
            (job,) = self._jobs.current([fence.uuid])
            return lost(job, fence.uuid)
        if job.has_folders:
            answer = self._save_next(job, step)
            if answer is not None:
                return answer
            self._jobs.forget_claim(fence.uuid)
        return self._save_with_job(fence, step, is_first=not job.has_folders)

    def _save_next(self, job: StoredJob, step: StepRow) -> ClaimAnswer | None:
        """Save a step of a job that has some; None if it has none, or is not as this client remembers it."""
        path, data = self._layout.step(job.uuid, step.number), encode_named(step.name, step.result)
        request = self._checked(job)
        request.create(path, data)
        fault = fault_in(self._connection.write(request))
        if fault is not None and fault[1] == NODE_EXISTS:
            # A repeat.
            request = self._checked(job)
            request.set(path, data)
            fault = fault_in(self._connection.write(request))
        if fault is None:
            return done(job.cancel_asked)
        if fault[1] not in (NO_NODE, BAD_VERSION):
            raise refused(self._connection.where, fault[1])
        return None

    def _checked(self, job: StoredJob) -> Multi:
        """Begin a transaction that is carried out only if a job is as it was read."""
        request = self._connection.new_write()
        request.check(self._layout.deleted, job.deletions)
        request.check(self._layout.job(job.uuid), job.version)
        return request

    def _save_with_job(self, fence: Fence, step: StepRow, *, is_first: bool) -> ClaimAnswer:
        """Save a step of a job that has none, or of one that another client has changed."""
        layout, uuid = self._layout, fence.uuid
        self._transactions.create_all_buckets(layout.steps)
        must_look = not is_first
        there = list[Data | None]([None, None])

        def decide(job: StoredJob | None, _now: float) -> tuple[ClaimAnswer, Write]:
            nonlocal must_look
            answer = lifecycle.save_step(job, fence)
            if job is None or not lifecycle.holds(job, fence):
                return answer, Write.NOTHING
            if must_look:
                there[:] = self._connection.read_many([layout.steps_of(uuid), layout.step(uuid, step.number)])
            must_look, job.has_folders = True, True
            return answer, Write.UPDATE

        def also(transaction: Transaction) -> None:
            if there[0] is None:
                transaction.create(layout.steps_of(uuid), b"")
            write = transaction.create if there[1] is None else transaction.set
            write(layout.step(uuid, step.number), encode_named(step.name, step.result))

        return self._jobs.edit([(uuid, decide)], use_held=True, also=also)[0]

    def load(self, uuid: str, first: int, size: int) -> list[StepRow]:
        rows: list[StepRow] = []
        for start in range(first, first + size, _MAX_READ):
            numbers = range(start, min(start + _MAX_READ, first + size))
            found = self._connection.read_many(self._layout.step(uuid, number) for number in numbers)
            for number, data in zip(numbers, found, strict=True):
                if data is None:
                    return rows
                rows.append(StepRow(number, *_decoded(uuid, data), data.stat.ctime / 1000))
        return rows

    # -- signals ---------------------------------------------------------------------------------------------------

    def signal(self, uuid: str, name: str, value: bytes, by: str | None = None) -> SignalOutcome:
        layout = self._layout
        self._transactions.create_all_buckets(layout.signals)
        folder: Data | None = None

        def decide(job: StoredJob | None, now: float) -> tuple[SignalOutcome, Write]:
            nonlocal folder
            if job is None or not job.is_live:
                return SignalOutcome.MISSING, Write.NOTHING
            folder, found = self._connection.read_many([layout.signals_of(uuid), layout.signal(uuid, name)])
            if found is not None:
                return SignalOutcome.REPEATED, Write.NOTHING
            answer = job.apply(partial(waiting.signal, job, name, by, now), now).answer
            job.has_folders = True
            return answer, Write.UPDATE

        def also(transaction: Transaction) -> None:
            if folder is None:
                transaction.create(layout.signals_of(uuid), b"")
            transaction.create(layout.signal(uuid, name), encode_named(name, value))

        return self._jobs.edit([(uuid, decide)], also=also)[0]

    def signals(self, uuid: str) -> list[SignalRow]:
        paths: Sequence[str] = self._connection.children([self._layout.signals_of(uuid)])
        found = self._connection.existing(paths)
        return [SignalRow(*_decoded(uuid, data), data.stat.ctime / 1000) for _, data in found]


def _decoded(uuid: str, data: Data) -> tuple[str, bytes]:
    try:
        return decode_named(data.data)
    except ValueError:
        raise BoardUnavailable(f"a step or a signal of job {uuid} can't be decoded") from None
